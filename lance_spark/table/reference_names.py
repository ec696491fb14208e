"""Names of the reference library that this one has no counterpart for, or another one: what to write instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lance_spark.errors import UnsupportedFeatureError

MISSING_VERBS = {
    "base_paths": "initial_bases of write, and add_bases",
    "checkout_latest": "newest() is the newest version; a dataset never changes",
    "commit": "write, append and the other verbs commit by themselves",
    "commit_batch": "each write is a version of its own",
    "commit_existing_index_segments": "commit_index_segments commits what build_index_segment has built",
    "create_index_uncommitted": "build_index_segment builds, commit_index_segments commits",
    "merge_existing_index_segments": "optimize_indices merges segments",
    "merge_index_metadata": "build_index_segment builds, commit_index_segments commits",
    "data_storage_version": "file_version",
    "deep_clone": "write(table.scanner(), uri) copies the rows, shallow_clone refers to them",
    "delete_config_keys": "update_config({'key': None})",
    "delta": "changes(from_version), or plan_changes",
    "describe_indices": "list_indices(), and index_statistics(name)",
    "explain_cleanup_old_versions": "cleanup(dry_run=True)",
    "fragment_ids": "[fragment.fragment_id for fragment in get_fragments()]",
    "get_version": "checkout_version, or tags()",
    "has_index": "bool(table.list_indices())",
    "drop": "remove the directory",
    "filter": "scanner(filter=...)",
    "slice": "to_table(offset=..., limit=...)",
    "sort_by": "to_table(order_by=...)",
    "sql": "to_arrow_dataset() for DuckDB or DataFusion, or Spark",
    "join": "to_arrow_dataset() for DuckDB or DataFusion, or Spark",
    "replace_schema_metadata": "update_schema_metadata",
    "replace_field_metadata": "update_field_metadata",
    "get_transactions": "versions()",
    "read_transaction": "versions()",
    "truncate_table": "delete('true')",
    "schema_metadata": "schema.metadata",
    "validate": "python -m lance_spark verify",
    "session": "caches are shared by all tables of a process",
}
"""Methods and attributes of `lance.LanceDataset` by name."""

_WRITE_OPTIONS = {
    "data_storage_version": "write file_format_version",
    "max_rows_per_group": "leave it out: files have no groups of rows since version 2.0",
    "enable_v2_manifest_paths": "leave it out: new tables have them",
    "use_legacy_format": "write file_format_version",
    "auto_cleanup_options": "set the entries lance.auto_cleanup.* by update_config",
    "progress": "call lance_spark.set_progress",
    "target_all_bases": "write target_bases with all names",
    "commit_lock": "leave it out: commits need no lock",
    "session": "leave it out: caches are shared by all tables of a process",
    "base_store_params": "give base_<id>.<key> in storage_options",
    **dict.fromkeys(("data_cache_bytes", "max_page_bytes"), "leave it out: there is nothing to tune"),
    **dict.fromkeys(
        ("external_blob_mode", "allow_external_blob_outside_bases", "blob_pack_file_size_threshold"),
        "leave it out: blobs that are references stay references, others are stored",
    ),
    **dict.fromkeys(("namespace_client", "table_id"), "give the URI of the table"),
}


def refuse_write_options(options: Mapping[str, Any]) -> None:
    """Refuses keyword arguments of `lance.write_dataset` that are set, for None and what is done anyway excepted.

    Raises:
        UnsupportedFeatureError: an argument that has another name here.
        TypeError: an unknown argument.
    """
    for name, value in options.items():
        if name in _WRITE_OPTIONS:
            if value is not None and (name, value) != ("enable_v2_manifest_paths", True):
                raise UnsupportedFeatureError(f"{name} is not an option here; {_WRITE_OPTIONS[name]}", feature=name)
        else:
            raise TypeError(f"a write has no keyword argument {name!r}")
