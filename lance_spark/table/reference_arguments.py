"""Names of the reference library, of verbs and of arguments, that have another name here, or none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from inspect import getdoc
from typing import Any, TypeVar

from lance_spark.errors import InvalidInputError, UnsupportedFeatureError

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

_Class = TypeVar("_Class", bound=type)
_Function = TypeVar("_Function", bound=Callable[..., Any])

_RENAMED = {
    "add_bases": {"new_bases": "bases"},
    "add_columns": {"transforms": "columns", "reader_schema": "schema"},
    "create_branch": {"branch": "name"},
    "delete": {"predicate": "filter"},
    "index_statistics": {"index_name": "name"},
    "open": {"asof": "timestamp"},
    "shallow_clone": {"target_path": "uri"},
    "update_config": {"values": "entries"},
    "update_field_metadata": {"field_updates": "entries"},
    "update_metadata": {"values": "entries"},
    "update_schema_metadata": {"values": "entries"},
}

_RETRIED = "leave it out: commits that meet others are tried again by themselves"
_TUNED = "leave it out: there is nothing to tune"
_REFERENCE = "give version, its number on this branch"
_ROWS = "merge is a MERGE of rows by keys, source and on; add_columns adds columns"
_ENTRIES = "give None for each entry to remove"
_CATALOG = "open the table by its URI"
_REFUSED = {
    "add_bases": {"transaction_properties": "leave it out"},
    "cleanup_old_versions": {
        "versions": "choose them by older_than or retain_versions",
        **dict.fromkeys(("delete_rate_limit", "delete_concurrency"), _TUNED),
    },
    "compact_files": {
        **dict.fromkeys(
            ("num_threads", "max_rows_per_group", "compaction_mode", "binary_copy_read_batch_bytes"), _TUNED
        ),
        **dict.fromkeys(
            ("max_source_fragments", "max_source_rows", "max_source_bytes", "excluded_fragment_ids"),
            "plan_compaction gives the tasks, run_compaction_task and commit_compaction do the ones that you choose",
        ),
        "data_storage_version": "upgrade_files writes files of another version",
    },
    "create_branch": {
        "reference": "give version, its number on this branch, or tag",
        "storage_options": "leave it out: a branch has those of its table",
    },
    "delete": dict.fromkeys(("conflict_retries", "retry_timeout"), _RETRIED),
    "get_fragments": {"filter": "give it to the reads of each fragment"},
    "merge": dict.fromkeys(("data_obj", "left_on", "right_on"), _ROWS),
    "open": {
        **dict.fromkeys(
            ("block_size", "read_params", "index_cache_size", "index_cache_size_bytes", "metadata_cache_size_bytes"),
            "leave it out, or set the environment variable LANCE_SPARK_CACHE_BYTES",
        ),
        "commit_lock": "leave it out: commits need no lock",
        "session": "leave it out: caches are shared by all tables of a process",
        "default_scan_options": "give the options to each read",
        "base_store_params": "give base_<id>.<key> in storage_options",
        **dict.fromkeys(("namespace_client", "table_id"), _CATALOG),
    },
    "read_blobs": dict.fromkeys(("io_buffer_size", "preserve_order"), _TUNED),
    "sample": {"randomize_order": "give in_order, which is the opposite"},
    "shallow_clone": {"reference": _REFERENCE},
    "update": {
        **dict.fromkeys(("conflict_retries", "retry_timeout"), _RETRIED),
        "data_storage_version": "upgrade_files writes files of another version",
    },
    "update_config": {"replace": _ENTRIES},
    "update_metadata": {"replace": _ENTRIES},
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


def takes_reference_arguments(name: str) -> Callable[[_Function], _Function]:
    """Lets a function take the arguments of the reference library's function `name` by keyword.

    Those with another name here are passed under it. Those that have no counterpart are refused with what to write
    instead, unless they are None.
    """
    return lambda function: _translating(function, name)


def with_reference_arguments(verbs: _Class) -> _Class:
    """A class whose methods take the reference library's arguments, as `takes_reference_arguments` says."""
    for name in sorted(_RENAMED.keys() | _REFUSED.keys()):
        method = getattr(verbs, name, None)
        if method is not None:
            setattr(verbs, name, _translating(method, name))
    return verbs


def _translating(function: _Function, name: str) -> _Function:
    renamed, refused = _RENAMED.get(name, {}), _REFUSED.get(name, {})

    @wraps(function)
    def call(*args: Any, **arguments: Any) -> Any:
        if not (arguments.keys() & renamed.keys() or arguments.keys() & refused.keys()):
            return function(*args, **arguments)
        return function(*args, **_translated(name, arguments, renamed, refused))

    call.__doc__ = getdoc(function)  # A method that overrides another one has that one's.
    return call  # type: ignore[return-value]


def _translated(
    verb: str, arguments: Mapping[str, Any], renamed: Mapping[str, str], refused: Mapping[str, str]
) -> dict[str, Any]:
    """The arguments as they are called here.

    Raises:
        UnsupportedFeatureError: one has no counterpart.
        InvalidInputError: one comes under both of its names.
    """
    translated: dict[str, Any] = {}
    for name, value in arguments.items():
        if name in refused:
            if value is not None and (name, value) != ("replace", False):
                raise UnsupportedFeatureError(
                    f"{name} is not an argument of {verb} here; {refused[name]}", feature=name
                )
            continue
        own = renamed.get(name, name)
        if own in translated:
            raise InvalidInputError(f"{verb} gets {own} twice: {own} and {name} are the same")
        translated[own] = value
    return translated
