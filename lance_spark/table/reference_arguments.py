"""Arguments of the reference library's verbs that have another name here, or none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypeVar

from lance_spark.errors import InvalidInputError, UnsupportedFeatureError

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

    return call  # type: ignore[return-value]


def _translated(
    verb: str, arguments: Mapping[str, Any], renamed: Mapping[str, str], refused: Mapping[str, str]
) -> dict[str, Any]:
    """The arguments as they are called here.

    Raises:
        UnsupportedFeatureError: one has no counterpart.
        InvalidInputError: one comes under both of its names.
    """
    found: dict[str, Any] = {}
    for name, value in arguments.items():
        if name in refused:
            if value is not None and (name, value) != ("replace", False):
                raise UnsupportedFeatureError(
                    f"{name} is not an argument of {verb} here; {refused[name]}", feature=name
                )
            continue
        own = renamed.get(name, name)
        if own in found:
            raise InvalidInputError(f"{verb} gets {own} twice: {own} and {name} are the same")
        found[own] = value
    return found
