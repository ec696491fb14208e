"""Names of table properties: recognizes known ones and misspellings of them.

`known_properties` has those under `lance.`, `column_properties` those of columns. Any other property is user-defined
and is kept. A misspelt one that is silently kept would have no effect.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Container, Iterable, Mapping

from lance_spark.errors import InvalidInputError
from lance_spark.spark.options.foreign_properties import refuse_foreign_properties
from lance_spark.spark.options.hadoop_names import refuse_hadoop_names
from lance_spark.spark.options.names import WRITE
from lance_spark.spark.types.column_properties import SUFFIXES, split_name
from lance_spark.table.row_level.isolation import ISOLATION_LEVEL
from lance_spark.table.versions.known_properties import KNOWN_PROPERTIES, check_known, unknown_property

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
_OTHERS = frozenset({*KNOWN_PROPERTIES, ISOLATION_LEVEL})
_NEAR = 0.9
"""The minimum similarity of a misspelling; free names such as `distributor` are below."""


def check_properties(properties: Mapping[str, str], present: Container[str] = ()) -> None:
    """Checks that no property is a misspelling of a known one, and that known ones have valid values.

    Args:
        present: the names that the table has already; other writers may know more.

    Raises:
        InvalidInputError: a property is misspelt, is unknown under `lance.` or for a column, has an invalid value, or
            is an option of a single write, of Hadoop or of another table format.
    """
    refuse_hadoop_names(properties)
    refuse_foreign_properties(name for name in properties if name not in present and split_name(name.lower()) is None)
    for name, value in properties.items():
        folded = name.lower()
        if folded in OF_ONE_WRITE:
            instead = f"set lance.{folded}" if f"lance.{folded}" in _OTHERS else "leave it out"
            raise InvalidInputError(f"property {name} is an option of one write, not of the table; {instead}")
        near = None if name in present else nearest_property(name)
        if near is not None:
            raise unknown_property(name, near)
        check_known({name: value}, present)


def check_set_properties(properties: Mapping[str, str], present: Container[str] = ()) -> None:
    """Checks properties that are set on an existing table, as `check_properties` does for a new one.

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
    check_properties(properties, present)


def nearest_property(name: str) -> str | None:
    """The known property of which `name` is a misspelling; None if it is known itself, or is the user's own.

    >>> nearest_property("isolation-levl"), nearest_property("name.lance.compresion")
    ('isolation-level', 'name.lance.compression')
    >>> nearest_property("auto_compact"), nearest_property("id.lance.shrink")
    ('lance.auto_compact', 'id.lance.json')
    >>> nearest_property("lance.file_format_version"), nearest_property("max_row_per_fiel")
    ('file_format_version', 'max_row_per_file')
    >>> nearest_property("merge_schema"), nearest_property("txn_app_ids")
    ('mergeSchema', 'txnAppId')
    >>> nearest_property("isolation-level"), nearest_property("owner.team")
    (None, None)
    """
    folded = name.lower()
    plain = TABLE_OPTIONS | OF_ONE_WRITE | _OTHERS
    if name in _OTHERS or split_name(folded) is not None:
        return None
    if folded in plain:
        return folded if folded in KNOWN_PROPERTIES else None
    for suffix in SUFFIXES:
        column = _column(folded, suffix)
        if column is not None:
            return f"{column}.{suffix}"
    with_prefix, without = f"lance.{folded}", folded.removeprefix("lance.")
    if without in TABLE_OPTIONS:
        return without
    near = with_prefix if with_prefix in plain else _nearest(folded, plain)
    column, infix, rest = folded.partition(".lance.")
    if near is None and infix:
        return f"{column}.{_most_like(f'lance.{rest}')}"
    return WRITE[near].name if near in WRITE else near


def _most_like(suffix: str) -> str:
    """The property of columns whose name is most like `suffix`."""
    return difflib.get_close_matches(suffix, SUFFIXES, n=1, cutoff=0.0)[0]


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
