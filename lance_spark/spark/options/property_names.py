"""Names of table properties: recognizes known ones and misspellings of them.

Any other property is user-defined and is kept. A misspelt one that is silently kept would have no effect.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping

from lance_spark.errors import InvalidInputError
from lance_spark.spark.blobs.columns import BLOB_HANDLING, parse_blob_handling
from lance_spark.spark.options.hadoop_names import refuse_hadoop_names
from lance_spark.spark.types.column_properties import SUFFIXES, split_name
from lance_spark.spark.types.json_columns import JSON_AS, parse_json_as
from lance_spark.spark.types.uuids import UUID_AS, parse_uuid_as
from lance_spark.table.cleanup.auto_cleanup import INTERVAL, OLDER_THAN, RETAIN_VERSIONS, policy_after
from lance_spark.table.indexes.zone_columns import AUTO_ZONEMAP, column_names
from lance_spark.table.maintenance.auto_compaction import AUTO_COMPACT, MIN_FRAGMENTS, AutoCompaction
from lance_spark.table.row_level.isolation import ISOLATION_LEVEL, IsolationLevel

TABLE_OPTIONS = frozenset(
    {
        "max_row_per_file",
        "max_rows_per_file",
        "max_bytes_per_file",
        "distribution",
        "use_large_var_types",
        "file_format_version",
        "data_storage_version",
        "enable_stable_row_ids",
    }
)
"""Write options that are also table properties."""

_AT_CREATION = frozenset(
    {"file_format_version", "data_storage_version", "enable_stable_row_ids", "use_large_var_types"}
)
OF_ONE_WRITE = frozenset(
    {
        *("commit_message", "mergeschema", "partitionoverwritemode", "branch", "auto_zonemap"),
        *("txnappid", "txnversion", "txnignoreold"),
    }
)
_AUTO_CLEANUP = frozenset({INTERVAL, OLDER_THAN, RETAIN_VERSIONS})
_AUTO_COMPACT = frozenset({AUTO_COMPACT, MIN_FRAGMENTS})
_OTHERS = _AUTO_CLEANUP | _AUTO_COMPACT | {ISOLATION_LEVEL, AUTO_ZONEMAP, BLOB_HANDLING, JSON_AS, UUID_AS}
_NEAR = 0.9
"""The minimum similarity of a misspelling; free names such as `distributor` are below."""


def check_properties(properties: Mapping[str, str]) -> None:
    """Checks that no property is a misspelling of a known one, and that known ones have valid values.

    Raises:
        InvalidInputError: a property is misspelt, has an invalid value, or is an option of a single write or of Hadoop.
    """
    refuse_hadoop_names(properties)
    for name, value in properties.items():
        folded = name.lower()
        if folded in OF_ONE_WRITE:
            instead = f"set lance.{folded}" if f"lance.{folded}" in _OTHERS else "leave it out"
            raise InvalidInputError(f"property {name} is an option of one write, not of the table; {instead}")
        if folded == ISOLATION_LEVEL:
            IsolationLevel.of({ISOLATION_LEVEL: value})
        if name == BLOB_HANDLING:
            parse_blob_handling(value)
        if name == JSON_AS:
            parse_json_as(value)
        if name == UUID_AS:
            parse_uuid_as(value)
        if name == AUTO_ZONEMAP and value.strip():
            column_names(value)
        if folded in _AUTO_CLEANUP | _AUTO_COMPACT:
            _check_maintenance(name, value)
        known = nearest_property(name)
        if known is not None:
            raise InvalidInputError(f"unknown property {name}; did you mean {known}?")


def _check_maintenance(name: str, value: str) -> None:
    """Passes if writers understand the property.

    Raises:
        InvalidInputError: its value is invalid, or its name is in other case than the format has it.
    """
    if name != name.lower():
        raise InvalidInputError(f"unknown property {name}; did you mean {name.lower()}?")
    policy_after(1, {INTERVAL: "1", name: value})
    AutoCompaction.of({name: value})


def check_set_properties(properties: Mapping[str, str]) -> None:
    """As `check_properties`, for an existing table.

    Raises:
        InvalidInputError: also for a property that can only be set when a table is created.
    """
    for name in properties:
        if name.lower() in _AT_CREATION:
            raise InvalidInputError(
                f"property {name} is decided when a table is made; copy the rows into a new table to change it"
            )
        if name.lower().startswith("storage."):
            raise InvalidInputError(
                f"property {name} has no effect, because a table is opened before its properties are read; set "
                f"spark.sql.catalog.<name>.{name} of the catalog"
            )
    check_properties(properties)


def nearest_property(name: str) -> str | None:
    """The known property of which `name` is a misspelling; None if it is known itself, or resembles none.

    >>> nearest_property("isolation-levl"), nearest_property("name.lance.compresion")
    ('isolation-level', 'name.lance.compression')
    >>> nearest_property("auto_compact")
    'lance.auto_compact'
    >>> nearest_property("isolation-level"), nearest_property("owner.team")
    (None, None)
    """
    folded = name.lower()
    plain = TABLE_OPTIONS | OF_ONE_WRITE | _OTHERS
    if folded in plain or split_name(folded) is not None:
        return None
    for suffix in SUFFIXES:
        column = _column(folded, suffix)
        if column is not None:
            return f"{column}.{suffix}"
    with_prefix = f"lance.{folded}"
    return with_prefix if with_prefix in plain else _nearest(folded, plain)


def _column(folded: str, suffix: str) -> str | None:
    """The column before a misspelt `suffix`; a placeholder if the name has none."""
    parts = folded.split(".")
    size = suffix.count(".") + 1
    if len(parts) < size or _nearest(".".join(parts[-size:]), SUFFIXES) != suffix:
        return None
    return ".".join(parts[:-size]) or "<column>"


def _nearest(folded: str, known: Iterable[str]) -> str | None:
    letters = {_letters(name): name for name in known}
    if _letters(folded) in letters:
        return letters[_letters(folded)]
    near = difflib.get_close_matches(_letters(folded), letters, n=1, cutoff=_NEAR)
    return letters[near[0]] if near else None


def _letters(name: str) -> str:
    return re.sub(r"[-_.]", "", name)
