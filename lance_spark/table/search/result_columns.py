"""Columns that a search adds to the columns of a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from lance_spark.errors import InvalidInputError
from lance_spark.schema.projection import parse_path
from lance_spark.table.reading.named_columns import NamedPaths, check_distinct, picked_table

SCORE = "_score"
ITEM = "_doc_index"
ADDED_BY_TEXT_SEARCH = (SCORE, ITEM)


def check_added_columns(schema: pa.Schema, added: Iterable[str]) -> None:
    """Passes if no column of the table that a search reads has the name of a column that the search adds.

    Raises:
        InvalidInputError: one has.
    """
    for name in added:
        if name in schema.names:
            raise InvalidInputError(f"the result of a search has a column {name}, and so has the table: rename its own")


def read_columns(
    columns: Sequence[str] | None, schema: pa.Schema, added: Iterable[str], last: Iterable[str]
) -> list[str] | None:
    """The columns that are read of the table for those of a result; None for all.

    Args:
        schema: the columns of the table.
        added: columns that the search adds; the table's own columns of these names are read.
        last: columns that come at the end, which a reader is asked for by flags.

    Raises:
        InvalidInputError: a column is named twice.
    """
    if columns is None:
        return None
    check_distinct(columns)
    others = {*added, *last}.difference(schema.names)
    return [name for name in columns if name not in others]


def arranged(rows: pa.Table, paths: NamedPaths | None, added: Iterable[str], last: Iterable[str]) -> pa.Table:
    """The result of a search with its columns in their order.

    Args:
        rows: the columns that were read, behind them those that the search adds.
        paths: the columns that the caller names; None for all.
        added: columns that the search adds: they are where they are named, else behind the named ones.
        last: columns that are at the end, named or not.

    Raises:
        InvalidInputError: the result has no column of those that searches add.
    """
    names, added, last = rows.column_names, tuple(added), tuple(last)
    if paths is None:
        paths = {name: (name,) for name in names}
    for name in added:
        if name in paths and name not in names:
            why = (
                "with_score is False" if name == SCORE else "the documents of this search are rows, not items of lists"
            )
            raise InvalidInputError(f"the result has no column {name}: {why}")
    order = {name: path for name, path in paths.items() if name not in last}
    order |= {name: (name,) for name in names if name in added and name not in order}
    order |= {name: (name,) for name in last}
    return picked_table(rows, order)


def place_of(name: str, columns: Sequence[str], result: Sequence[str]) -> int:
    """Index in `result` of a column that a search adds: behind the last of these that `columns` names before it.

    >>> place_of("_score", ["a", "`b c`", "_score", "d"], ["a", "b c", "d"])
    2
    """
    before = [each if each in result else parse_path(each)[0] for each in columns[: list(columns).index(name)]]
    places = [list(result).index(each) for each in before if each in result]
    return max(places, default=-1) + 1
