"""A table as what it means: columns and a dictionary of rows by their `id`, and what operations may make of it.

A column is told by a key that it keeps when it is renamed. A writer that has read an older version than the newest may
be rebased, or may run its operation again on the newest version. Both are right for a table with snapshot isolation, so
an operation has a list of outcomes that are allowed; everything else is a lost, doubled or invented row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

Row = Mapping[str, Any]
Shown = tuple[frozenset[str], Mapping[int, Mapping[str, Any]]]
"""What a reader sees: the names of the columns, and rows by `id`."""


@dataclass(frozen=True)
class State:
    """The content of a version.

    Attributes:
        names: of each column, by its key. The key of the column `id` is "id".
        rows: by `id`, the values by the keys of the columns; one that is missing is null.
    """

    names: Mapping[str, str]
    rows: Mapping[int, Row]

    def shown(self) -> Shown:
        """What a reader sees, whatever the order of columns and rows."""
        return frozenset(self.names.values()), {
            number: {name: row.get(key) for key, name in self.names.items()} for number, row in self.rows.items()
        }

    def name(self, key: str) -> str | None:
        """The name of a column, None if it is not there."""
        return self.names.get(key)

    def with_rows(self, rows: Iterable[Row]) -> State:
        """With new rows, or other ones of the same `id`."""
        return replace(self, rows={**self.rows, **{row["id"]: row for row in rows}})

    def without(self, ids: Iterable[int]) -> State:
        deleted = set(ids)
        return replace(self, rows={number: row for number, row in self.rows.items() if number not in deleted})

    def changed(self, ids: Iterable[int], change: Callable[[Row], Row]) -> State:
        """The rows `ids`, as far as they are there, with what `change` says of each."""
        chosen = set(ids)
        return replace(
            self,
            rows={number: {**row, **change(row)} if number in chosen else row for number, row in self.rows.items()},
        )

    def matching(self, condition: Callable[[Row], bool | None]) -> set[int]:
        """The rows for which `condition` is true, neither false nor null."""
        return {number for number, row in self.rows.items() if condition(row)}

    def renamed(self, key: str, name: str) -> State:
        return replace(self, names={k: name if k == key else old for k, old in self.names.items()})

    def without_column(self, key: str) -> State:
        return State(
            {k: name for k, name in self.names.items() if k != key},
            {number: {k: value for k, value in row.items() if k != key} for number, row in self.rows.items()},
        )

    def with_column(self, key: str, name: str, value: Callable[[Row], Any]) -> State:
        return State({**self.names, key: name}, {number: {**row, key: value(row)} for number, row in self.rows.items()})


def shown_table(table: pa.Table) -> Shown:
    """What a reader of `table` sees; each `id` must be there once."""
    listed = table.to_pylist()
    rows = {row["id"]: row for row in listed}
    assert len(rows) == len(listed), f"rows are doubled: {sorted(row['id'] for row in listed)}"
    return frozenset(table.column_names), rows
