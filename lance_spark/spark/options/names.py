"""The names of all options, and parsing by them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lance_spark.errors import InvalidInputError, UnsupportedFeatureError
from lance_spark.expr.sql.parse import parse as parse_filter
from lance_spark.spark.blobs.columns import parse_blob_handling
from lance_spark.spark.option_values import (
    Option,
    boolean_value,
    by_folded_name,
    columns_value,
    distribution_value,
    file_version_value,
    integer_value,
    nearest_option,
    overwrite_mode_value,
    text_value,
    timestamp_value,
)
from lance_spark.spark.options.foreign_names import CHANGES, refuse_foreign_name
from lance_spark.spark.options.hadoop_names import refuse_hadoop_names
from lance_spark.spark.options.stream_names import SINK, SOURCE
from lance_spark.spark.types.column_properties import split_name
from lance_spark.spark.types.json_columns import parse_json_as
from lance_spark.spark.types.uuids import parse_uuid_as

STORAGE_PREFIX = "storage."
_COMMON: Mapping[str, Option] = {
    "path": Option("path", text_value),
    "branch": Option("branch", text_value),
}
# Handled by Spark itself.
OF_SPARK = by_folded_name({"versionAsOf": Option(None, text_value), "timestampAsOf": Option(None, text_value)})
READ = OF_SPARK | by_folded_name(
    {
        **_COMMON,
        "version": Option("version", integer_value(1)),
        "tag": Option("tag", text_value),
        "timestamp": Option("timestamp", timestamp_value),
        "batch_size": Option("batch_size", integer_value(1)),
        "max_batch_bytes": Option("max_batch_bytes", integer_value(1)),
        "columns": Option("columns", columns_value),
        "filter": Option("filter", parse_filter),
        "limit": Option("limit", integer_value(0)),
        "with_row_id": Option("with_row_id", boolean_value),
        "with_row_address": Option("with_row_address", boolean_value),
        "blob_handling": Option("blob_handling", parse_blob_handling),
        "json_as": Option("json_as", parse_json_as),
        "uuid_as": Option("uuid_as", parse_uuid_as),
        "pushDownFilters": Option("push_down_filters", boolean_value),
        "topN_push_down": Option("push_down_top_n", boolean_value),
        "use_scalar_index": Option("use_scalar_index", boolean_value),
        "target_partition_bytes": Option("target_partition_bytes", integer_value(1)),
    }
)
WRITE = by_folded_name(
    {
        **_COMMON,
        "max_row_per_file": Option("max_rows_per_file", integer_value(1)),
        "max_rows_per_file": Option("max_rows_per_file", integer_value(1)),
        "max_bytes_per_file": Option("max_bytes_per_file", integer_value(1)),
        "file_format_version": Option("file_format_version", file_version_value),
        "data_storage_version": Option("file_format_version", file_version_value),
        "enable_stable_row_ids": Option("enable_stable_row_ids", boolean_value),
        "use_large_var_types": Option("use_large_var_types", boolean_value),
        "auto_zonemap": Option("auto_zonemap", text_value),
        "commit_message": Option("commit_message", text_value),
        "mergeSchema": Option("merge_schema", boolean_value),
        "txnAppId": Option("txn_app_id", text_value),
        "txnVersion": Option("txn_version", integer_value(0)),
        "txnPlanned": Option("txn_planned", integer_value(0)),
        "txnIgnoreOld": Option("txn_ignore_old", boolean_value),
        "distribution": Option("distribution", distribution_value),
        "partitionOverwriteMode": Option("partition_overwrite_mode", overwrite_mode_value),
        "max_rows_per_group": Option(None, integer_value(1)),
        "use_queued_write_buffer": Option(None, boolean_value),
        "queue_depth": Option(None, integer_value(1)),
        "batch_size": Option(None, integer_value(1)),
    }
)
OPTIONS_OF_CHANGES = by_folded_name(
    dict.fromkeys(
        (
            *("startingVersion", "endingVersion", "startingTimestamp", "endingTimestamp"),
            *("startingBoundInclusive", "endingBoundInclusive", "deduplicationMode", "computeUpdates"),
        ),
        Option(None, text_value),
    )
)
"""Options of changes(), which Spark reads by itself."""

WITHOUT_EFFECT_IN_CONNECTOR = {"pushdownfilters": "the connector always pushes filters down"}
_WHOLE_BATCHES = "writes take whole batches as Spark makes them"
WITHOUT_EFFECT = {
    "max_rows_per_group": "only legacy files have row groups, and those are not written",
    "use_queued_write_buffer": _WHOLE_BATCHES,
    "queue_depth": _WHOLE_BATCHES,
    "batch_size": _WHOLE_BATCHES,
}
"""Write options that are accepted because users of the other connector set them, and why they have no effect."""

TABLE_DEFAULTS = frozenset({"max_row_per_file", "max_rows_per_file", "max_bytes_per_file", "distribution"})
# Spark adds these when it creates a table of its session catalog.
_OF_CATALOG = frozenset({"owner", "provider", "external", "is_managed_location"})
_NO_CATALOG = (
    "Spark does not tell Python data sources where the tables of its session catalog lie. "
    "Use load(path), save(path), or a temporary view USING lance OPTIONS (path '...')"
)
_OF_CHANGE_FEEDS = {"readchangefeed", "readchangedata", "startingversion", "startingtimestamp"}
OF_STREAMS = (SOURCE.keys() | SINK.keys() | {"ignorechanges"}) - WRITE.keys()
"""Options that only streams have, in lower case."""


def split_options(options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """The options of the table and those of its columns."""
    plain: dict[str, str] = {}
    properties: dict[str, dict[str, str]] = {}
    for name, value in options.items():
        of_column = None if name.lower().startswith(STORAGE_PREFIX) else split_name(name.lower())
        if of_column is None:
            plain[name] = value
        else:
            properties.setdefault(of_column[0], {})[of_column[1]] = value.strip()
    return plain, properties


def parse_options(
    options: Mapping[str, str], known: Mapping[str, Option], *, needs_path: bool = True
) -> dict[str, Any]:
    """The values of options by attribute, and `storage_options`.

    Raises:
        InvalidInputError: an unknown name, an invalid value, an option twice, or no path.
        UnsupportedFeatureError: an option that only the connector supports.
    """
    parsed: dict[str, Any] = {}
    named: dict[str, str] = {}
    storage: dict[str, str] = {}
    refuse_hadoop_names(options)
    if any(name.lower() in _OF_CATALOG for name in options):
        raise InvalidInputError(f"a table of the session catalog cannot be made here; {_NO_CATALOG}")
    for name, value in options.items():
        folded = name.lower()
        if folded.startswith(STORAGE_PREFIX):
            storage[name[len(STORAGE_PREFIX) :]] = value
            continue
        option = known_option(name, folded, known)
        if option.attribute is None:
            option_value(name, value, option)  # Rejects invalid values.
            continue
        if option.attribute in parsed:
            raise InvalidInputError(f"options {named[option.attribute]} and {name} are the same; keep one")
        parsed[option.attribute] = option_value(name, value, option)
        named[option.attribute] = name
    if needs_path and "path" not in parsed:
        raise InvalidInputError(f"no path is given; {_NO_CATALOG}")
    return {**parsed, "storage_options": storage}


def known_option(name: str, folded: str, known: Mapping[str, Option]) -> Option:
    """The option `name`, `folded` in lower case; an error names the nearest known one. Raises as `parse_options`."""
    if folded in known:
        return known[folded]
    if folded in READ or folded in WRITE:
        purpose = "reads" if folded in READ else "writes"
        raise InvalidInputError(f"option {name} is one of {purpose}; leave it out")
    if folded == "paths":
        raise InvalidInputError("several paths are given; a table has one")
    if folded in OF_STREAMS:
        purpose = "writes" if folded in SINK else "reads"
        instead = CHANGES if folded in _OF_CHANGE_FEEDS else "leave it out"
        raise UnsupportedFeatureError(
            f"option {name} is not supported here: it is one of streaming {purpose}; {instead}", feature=name
        )
    refuse_foreign_name(name)
    near = nearest_option(folded, {**known, STORAGE_PREFIX: Option(None, text_value, STORAGE_PREFIX)}, cutoff=0.5)
    spelled = ", ".join(sorted(item.name for item in known.values()))
    hint = f"did you mean {near}?" if near else f"known are {spelled} and {STORAGE_PREFIX}*"
    raise InvalidInputError(f"unknown option {name}; {hint}")


def option_value(name: str, value: str, option: Option) -> Any:
    """The value of an option.

    Raises:
        InvalidInputError: it is invalid.
    """
    try:
        return option.parse(value)
    except InvalidInputError as error:
        raise InvalidInputError(f"option {name}: {error}") from error
    except ValueError as error:
        raise InvalidInputError(f"option {name} is {value!r}, which is not {error}") from error


def storage_options_of(options: Mapping[str, str]) -> dict[str, str]:
    """The storage options among Spark's `options`, without their prefix.

    >>> storage_options_of({"storage.aws_region": "eu-west-1", "limit": "3"})
    {'aws_region': 'eu-west-1'}
    """
    return {
        name[len(STORAGE_PREFIX) :]: value for name, value in options.items() if name.lower().startswith(STORAGE_PREFIX)
    }
