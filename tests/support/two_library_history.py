"""A table with an index that two libraries change by turns, and what its rows must hold."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, TypeVar

import lance
import numpy as np
import pyarrow as pa

import lance_spark

Value = TypeVar("Value")


class TwoLibraryHistory(ABC, Generic[Value]):
    """Random changes by the reference library or by this one. The table has the columns `id`, `n` and an indexed one.

    Attributes:
        rows: by id, the value of the indexed column.
        steps: what was done so far.
    """

    appended: ClassVar[int]
    merged: ClassVar[int]
    target_rows: ClassVar[int]
    indices_to_merge: ClassVar[tuple[int, ...]]

    def __init__(self, uri: str, seed: int, *, stable: bool) -> None:
        self.uri, self._stable = uri, stable
        self.random = np.random.default_rng(seed)
        self.rows: dict[int, Value] = {}
        self.steps: list[str] = []
        self._next_id = 0
        self._known: dict[int, dict[int, Value]] = {}

    def begin(self, num_rows: int, rows_per_file: int) -> None:
        """Writes the first rows, and an index over them."""
        table = self.new(num_rows)
        lance.write_dataset(table, self.uri, max_rows_per_file=rows_per_file, enable_stable_row_ids=self._stable)
        self.rebuild(self.theirs)
        self._remember()

    @property
    def ours(self) -> Any:
        """The newest version, in this library."""
        return lance_spark.open(self.uri)

    @property
    def theirs(self) -> Any:
        """The newest version, in the reference library."""
        return lance.dataset(self.uri)

    @abstractmethod
    def values(self, count: int) -> tuple[list[Value], pa.Array, str]:
        """New values, as an array too, and the name of their column."""

    @abstractmethod
    def rebuild(self, table: Any) -> None:
        """Builds the index."""

    def new(self, count: int, ids: list[int] | None = None) -> pa.Table:
        """Rows that count as rows of the table from now on."""
        if ids is None:
            ids = list(range(self._next_id, self._next_id + count))
            self._next_id += count
        values, array, name = self.values(count)
        self.rows.update(zip(ids, values, strict=True))
        return pa.table({"id": pa.array(ids, pa.int64()), name: array, "n": pa.array([0] * count)})

    def step(self, name: str) -> None:
        """Makes one change, by a library that is chosen at random."""
        table = self.ours if self.random.random() < 0.5 else self.theirs
        self.steps.append(f"{name} by {type(table).__name__}")
        getattr(self, name)(table)
        self._remember()

    def _remember(self) -> None:
        self._known[self.ours.version] = dict(self.rows)

    def some(self, count: int) -> list[int]:
        """Ids of rows."""
        chosen: list[int] = self.random.choice(list(self.rows), min(count, len(self.rows)), replace=False).tolist()
        return chosen

    def mode(self) -> str:
        """The update mode of ours."""
        chosen = str(self.random.choice(["auto", "columns", "rows"]))
        self.steps[-1] += f", {chosen}"
        return chosen

    def append(self, table: Any) -> None:
        write = lance.write_dataset if isinstance(table, lance.LanceDataset) else lance_spark.write
        write(self.new(self.appended), self.uri, mode="append")

    def delete(self, table: Any) -> None:
        rest = int(self.random.integers(9))
        table.delete(f"id % 9 = {rest}")
        self.rows = {id_: value for id_, value in self.rows.items() if id_ % 9 != rest}

    def other_column(self, table: Any) -> None:
        where = f"id % 7 = {self.random.integers(7)}"
        if isinstance(table, lance.LanceDataset):
            table.update({"n": "n + 1"}, where)
        else:
            table.update({"n": "n + 1"}, where, mode=self.mode())

    def merge(self, table: Any) -> None:
        ids = self.some(self.merged)
        new = self.new(len(ids), ids)
        if isinstance(table, lance.LanceDataset):
            table.merge_insert("id").when_matched_update_all().execute(new)
        else:
            table.merge(new, "id", when_not_matched=None, mode=self.mode())

    def restore(self, table: Any) -> None:
        version = int(self.random.choice(list(self._known)[-3:]))
        if isinstance(table, lance.LanceDataset):
            lance.dataset(self.uri, version=version).restore()  # type: ignore[no-untyped-call]
        else:
            table.restore(version)
        self.rows = dict(self._known[version])

    def compact(self, table: Any) -> None:
        defer = not self._stable and bool(self.random.random() < 0.5)
        self.steps[-1] += ", deferred" if defer else ""
        table.optimize.compact_files(target_rows_per_fragment=self.target_rows, defer_index_remap=defer)

    def optimize(self, table: Any) -> None:
        table.optimize.optimize_indices(num_indices_to_merge=int(self.random.choice(self.indices_to_merge)))
