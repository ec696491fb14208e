"""Columns that a search adds to the columns of a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from lance_spark.errors import InvalidInputError

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


def split_columns(columns: Sequence[str] | None, known: Iterable[str]) -> tuple[Sequence[str] | None, tuple[str, ...]]:
    """(the columns that are read, the names of columns that a text search adds), of the columns of a result.

    Args:
        known: the columns of the table.
    """
    if columns is None or isinstance(columns, (str, Mapping)):
        return columns, ()
    added = tuple(name for name in ADDED_BY_TEXT_SEARCH if name in columns and name not in known)
    return [name for name in columns if name not in added], added


def placed(result: pa.Table, columns: Sequence[str], added: Sequence[str]) -> pa.Table:
    """`result` with the `added` columns at their places in `columns`.

    Raises:
        InvalidInputError: it has no such column.
    """
    order = [name for name in result.column_names if name not in added]
    for name in sorted(added, key=list(columns).index):
        if name not in result.column_names:
            why = (
                "with_score is False" if name == SCORE else "the documents of this search are rows, not items of lists"
            )
            raise InvalidInputError(f"the result has no column {name}: {why}")
        order.insert(place_of(name, columns, order), name)
    return result.select(order)


def place_of(name: str, columns: Sequence[str], result: Sequence[str]) -> int:
    """Where a column that a search adds comes in `result`: behind the last of these that `columns` names before it.

    >>> place_of("_score", ["a", "b", "_score", "c"], ["a", "b", "c"])
    2
    """
    before = [other for other in columns[: list(columns).index(name)] if other in result]
    return list(result).index(before[-1]) + 1 if before else 0
