"""The groups of a window of rows, with their aggregates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lance_spark.expr.decimal_expr import (
    MAX_INT64,
    MAX_PRECISION,
    Number,
    Numbers,
    evaluate,
    of_decimals,
    to_decimals,
)

_FEWEST_ROWS = 8
"""Adding up fewer rows than this saves nothing."""

_MEANINGFUL_ROWS = 1 << 12
"""Fewer rows do not show how large the groups are."""

_PROBED_ROWS = 1 << 18
"""Rows from which the number of groups of the others is estimated."""

_ROWS_OF_GROUP = 8
"""With fewer rows a group Spark is faster: its hash map is compiled for the keys, and rows of one key are near."""

_MAX_WIDE = 10**MAX_PRECISION - 1
_PART = "part"


@dataclass(frozen=True, slots=True)
class Slot:
    """One aggregate as tasks make it.

    Attributes:
        kind: "count_star", "count", "min", "max" or "sum".
        dtype: of the values that are returned.
        column: what of; or
        number: the expression.
    """

    kind: str
    dtype: pa.DataType
    column: str | None = None
    number: Number | None = None

    @property
    def is_count(self) -> bool:
        """Whether it is 0 where there is nothing."""
        return self.kind in ("count_star", "count")

    def columns(self) -> Iterator[str]:
        """Names of what has to be read."""
        if self.column is not None:
            yield self.column
        if self.number is not None:
            yield from self.number.columns()

    def __str__(self) -> str:
        return "count(*)" if self.kind == "count_star" else f"{self.kind}({self.column or self.number})"


class Grouping:
    """Groups one window of rows after the other.

    Args:
        group_by: names of the columns.
        slots: the aggregates.
    """

    def __init__(self, group_by: Sequence[str], slots: Sequence[Slot]) -> None:
        self._group_by = group_by
        self._slots = slots
        self._one_by_one: bool | None = None

    def of(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """The columns of the groups of `batch` (at least one row), then their aggregates; a group can be there twice.

        Raises:
            InvalidInputError: a value has more digits than Spark's decimals.
        """
        window = _Window(batch, self._group_by, self._slots)
        if self._one_by_one is None:
            self._one_by_one = self._has_many_groups(batch)
        return window.rows() if self._one_by_one else window.groups()

    def _has_many_groups(self, batch: pa.RecordBatch) -> bool:
        if not self._group_by or batch.num_rows < _MEANINGFUL_ROWS:
            return False
        keys = pa.table(batch.slice(0, _PROBED_ROWS).select(list(self._group_by)))
        num_groups = keys.group_by(list(self._group_by), use_threads=False).aggregate([]).num_rows
        return bool(_ROWS_OF_GROUP * num_groups > keys.num_rows)


class _Window:
    def __init__(self, batch: pa.RecordBatch, group_by: Sequence[str], slots: Sequence[Slot]) -> None:
        self._batch = batch
        self._keys = [batch.column(name) for name in group_by]
        self._slots = slots
        known: dict[Number, Numbers] = {}
        self._numbers = {slot.number: evaluate(slot.number, batch, known) for slot in slots if slot.number is not None}
        self._summed = [slot.number for slot in slots if slot.kind == "sum" and slot.number is not None]

    def rows(self) -> list[pa.Array]:
        """Every row as a group."""
        return [*self._keys, *map(self._of_rows, self._slots)]

    def _of_rows(self, slot: Slot) -> pa.Array:
        if slot.kind == "count_star":
            return pa.array(np.ones(self._batch.num_rows, np.int64))
        if slot.is_count:
            return self._is_valid(slot).cast(pa.int64())
        if slot.number is None:
            return self._batch.column(slot.column)
        numbers = self._numbers[slot.number]
        return _typed(numbers.to_arrow(slot.number.scale), slot)

    def _is_valid(self, slot: Slot) -> pa.Array:
        if slot.number is None:
            return self._batch.column(slot.column).is_valid()
        valid = self._numbers[slot.number].valid
        return pa.array(np.ones(self._batch.num_rows, np.bool_) if valid is None else valid)

    def groups(self) -> list[pa.Array]:
        """Rows of the same keys as one, as far as the sums allow it."""
        # First as many rows as can be added up; if a sum turns out to be too large, as many as never have a larger one.
        computed = [MAX_INT64 if self._numbers[number].is_long else _MAX_WIDE for number in self._summed]
        for limits in (computed, [number.limit for number in self._summed]):
            part_rows = self._rows_within(limits)
            if part_rows < min(_FEWEST_ROWS, self._batch.num_rows):
                break
            found = self._grouped(part_rows)
            if found is not None:
                return found
        return self.rows()

    def _rows_within(self, limits: list[int]) -> int:
        """Number of rows whose values certainly add up to no more than the limit of any sum."""
        found: int = self._batch.num_rows
        for number, limit in zip(self._summed, limits, strict=True):
            found = min(found, limit // max(1, self._numbers[number].largest))
        return found

    def _grouped(self, part_rows: int) -> list[pa.Array] | None:
        """The groups of every `part_rows` rows; None if one of their sums is too large."""
        is_whole = part_rows >= self._batch.num_rows
        arrays = self._single() if is_whole and not self._keys else self._many(None if is_whole else part_rows)
        sums = arrays[len(self._keys) :]
        for place, slot in enumerate(self._slots):
            if slot.kind == "sum" and slot.number is not None:
                if not _all_within(sums[place], slot.number.limit):
                    return None
                arrays[len(self._keys) + place] = _typed(sums[place], slot)
        return arrays

    def _single(self) -> list[pa.Array]:
        """All rows as one group."""
        return [self._of_all(slot) for slot in self._slots]

    def _of_all(self, slot: Slot) -> pa.Array:
        if slot.kind == "count_star":
            return pa.array([self._batch.num_rows], pa.int64())
        if slot.is_count:
            return pa.array([pc.sum(self._is_valid(slot)).as_py()], pa.int64())
        if slot.number is None:
            column = self._batch.column(slot.column)
            return pa.array([pc.min_max(column)[slot.kind]], column.type)
        total = self._numbers[slot.number].total()
        if total is None:
            return pa.nulls(1, slot.dtype)
        if abs(total) <= MAX_INT64:
            return pa.array([total], pa.int64())
        return to_decimals(np.array([total], np.object_), None, pa.decimal128(MAX_PRECISION, slot.number.scale))

    def _many(self, part_rows: int | None) -> list[pa.Array]:
        """Each group of all rows, or of every `part_rows`."""
        columns = {f"key {place}": key for place, key in enumerate(self._keys)}
        if part_rows is not None:
            columns[_PART] = pa.array(np.arange(self._batch.num_rows) // part_rows)
        keys = list(columns)
        wanted = [self._function(slot) for slot in self._slots]
        for slot, (name, function) in zip(self._slots, wanted, strict=True):
            if function != "count_all" and name not in columns:
                columns[name] = self._values(slot)
        asked = [([] if function == "count_all" else name, function) for name, function in dict.fromkeys(wanted)]
        found = pa.table(columns).group_by(keys, use_threads=False).aggregate(asked)
        arrays = [_whole(found.column(f"key {place}")) for place in range(len(self._keys))]
        for name, function in wanted:
            result = function if function == "count_all" else f"{name}_{function}"
            arrays.append(_whole(found.column(result)))
        return arrays

    def _function(self, slot: Slot) -> tuple[str, str]:
        """The column and the function that Arrow is asked for."""
        if slot.kind == "count_star" or (slot.is_count and not self._has_nulls(slot)):
            return "", "count_all"
        if slot.number is None:
            return f"column {slot.column}", slot.kind
        return f"number {list(self._numbers).index(slot.number)}", slot.kind

    def _has_nulls(self, slot: Slot) -> bool:
        if slot.number is None:
            return bool(self._batch.column(slot.column).null_count)
        return self._numbers[slot.number].valid is not None

    def _values(self, slot: Slot) -> pa.Array:
        if slot.number is None:
            return self._batch.column(slot.column)
        return self._numbers[slot.number].to_arrow(slot.number.scale)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)


def _all_within(sums: pa.Array, limit: int) -> bool:
    if limit == MAX_INT64:
        return True
    if pt.is_decimal(sums.type):
        return all(abs(value) <= limit for value in of_decimals(sums.drop_null()))
    bounds = pc.min_max(sums)
    return all(value is None or abs(value) <= limit for value in (bounds["min"].as_py(), bounds["max"].as_py()))


def _typed(numbers: pa.Array, slot: Slot) -> pa.Array:
    """Numbers without points (int64), or decimals of any length, in the type of the slot, in which they fit."""
    if slot.number is None or not slot.number.precision:
        return numbers
    valid = numbers.is_valid().to_numpy(zero_copy_only=False) if numbers.null_count else None
    values = of_decimals(numbers) if pt.is_decimal(numbers.type) else numbers.fill_null(0).to_numpy()
    if valid is not None:
        values = np.where(valid, values, 0)
    return to_decimals(values, valid, slot.dtype)
