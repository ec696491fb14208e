"""A table as what it means: columns and a dictionary of rows by their `id`, and what operations may make of it.

A writer that has read an older version than the newest may be rebased, or may run its operation again on the newest
version. Both are right for a table with snapshot isolation, so an operation has a list of outcomes that are allowed;
everything else is a lost, doubled or invented row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

Row = Mapping[str, Any]


@dataclass(frozen=True)
class State:
    """The content of a version: names of the columns, and rows by `id`; columns that a row lacks are null."""

    columns: tuple[str, ...]
    rows: Mapping[int, Row]

    @classmethod
    def of_table(cls, table: pa.Table) -> State:
        """The content of `table`; each `id` must be there once."""
        listed = table.to_pylist()
        rows = {row["id"]: row for row in listed}
        assert len(rows) == len(listed), f"rows are doubled: {sorted(row['id'] for row in listed)}"
        return cls(tuple(table.column_names), rows)

    def shown(self) -> tuple[frozenset[str], dict[int, dict[str, Any]]]:
        """What is compared: every row with every column, whatever the order of columns."""
        return frozenset(self.columns), {
            key: {column: row.get(column) for column in self.columns} for key, row in self.rows.items()
        }

    def with_rows(self, rows: Iterable[Row]) -> State:
        return replace(self, rows={**self.rows, **{row["id"]: row for row in rows}})

    def without(self, keys: Iterable[int]) -> State:
        gone = set(keys)
        return replace(self, rows={key: row for key, row in self.rows.items() if key not in gone})

    def changed(self, keys: Iterable[int], change: Callable[[Row], Mapping[str, Any]]) -> State:
        """The rows `keys`, as far as they are there, with what `change` says of each."""
        chosen = set(keys)
        return replace(
            self,
            rows={key: {**row, **change(row)} if key in chosen else row for key, row in self.rows.items()},
        )

    def matching(self, condition: Callable[[Row], bool | None]) -> set[int]:
        """The rows for which `condition` is true, neither false nor null."""
        return {key for key, row in self.rows.items() if condition(row)}

    def renamed(self, old: str, new: str) -> State:
        def of(row: Row) -> Row:
            return {new if name == old else name: value for name, value in row.items()}

        columns = tuple(new if name == old else name for name in self.columns)
        return State(columns, {key: of(row) for key, row in self.rows.items()})

    def without_column(self, name: str) -> State:
        return State(
            tuple(column for column in self.columns if column != name),
            {key: {column: v for column, v in row.items() if column != name} for key, row in self.rows.items()},
        )

    def with_column(self, name: str, value: Callable[[Row], Any]) -> State:
        return State((*self.columns, name), {key: {**row, name: value(row)} for key, row in self.rows.items()})
