"""Selects rows of decoded slots, for pages that are read partially."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_spark.encodings.blocks import Int64Array
from lance_spark.errors import CorruptFileError
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.layouts import levels as kernels
from lance_spark.layouts.arrow_take import filter_array, take
from lance_spark.layouts.base import RowRanges
from lance_spark.layouts.leaf.arrays import Leaf, check_count
from lance_spark.layouts.path import LeafPath
from lance_spark.layouts.read_spans import gathered
from lance_spark.layouts.repdef import LevelScheme
from lance_spark.layouts.unravel import LevelArray, SlotLevels, unravel, visible_validity

LONG_RANGE = 1024
"""Ranges of this many rows, on average, are copied one by one: numbers of their rows cost more than the rows."""


_FEW_OF = 4
"""A mask costs less than numbers of rows if at least one row in this many is wanted."""


def take_ranges(array: pa.Array, ranges: RowRanges) -> pa.Array:
    """The values of `array` in ascending ranges: a view if they are consecutive, else a copy.

    Raises:
        CorruptFileError: a range is out of bounds.
    """
    if len(ranges.starts) == 0:
        return array.slice(0, 0)
    first, stop = int(ranges.starts[0]), int(ranges.stops[-1])
    if first < 0 or stop > len(array):
        raise CorruptFileError(f"value {stop - 1} of a page that holds {len(array)}")
    if stop - first == ranges.num_rows:
        return array.slice(first, ranges.num_rows)
    if ranges.num_rows < LONG_RANGE * len(ranges.starts):
        if ranges.num_rows * _FEW_OF >= stop - first:
            return filter_array(array.slice(first, stop - first), ranges.mask())
        return take(array, ranges.indices())
    pieces = zip(ranges.starts.tolist(), ranges.stops.tolist(), strict=True)
    return pa.concat_arrays([array.slice(start, stop - start) for start, stop in pieces])


def pick_rows(
    path: LeafPath, num_rows: int, scheme: LevelScheme, levels: SlotLevels, leaf: Leaf, rows: RowRanges
) -> pa.Array:
    """The path array of `rows`, selected from all slots of pages of `num_rows` rows with lists.

    Raises:
        CorruptFileError: the slots do not contain all of these rows, or violate the scheme.
    """
    if num_rows > levels.num_slots:
        raise CorruptFileError(f"a page of {num_rows} rows has {levels.num_slots} slots")
    validity, num_visible = visible_validity(scheme, levels)
    first_slots, first_values = np.array([[0, levels.num_slots], [0, num_visible]], np.int64)
    bounds = np.stack([rows.starts, rows.stops], axis=1).reshape(-1)
    found = FoundRows.find(scheme, levels, first_slots, first_values, np.zeros_like(bounds), bounds)
    return found.array(path, scheme, levels, leaf(validity, num_visible))


@dataclass(frozen=True, slots=True)
class FoundRows:
    """Slots and values of ranges of rows, counted from the first that was decoded."""

    slots: RowRanges
    values: RowRanges

    @classmethod
    def find(
        cls,
        scheme: LevelScheme,
        levels: SlotLevels,
        first_slots: Int64Array,
        first_values: Int64Array,
        chunks: Int64Array,
        ordinals: Int64Array,
    ) -> FoundRows:
        """Finds rows in chunks of slots; see `kernels.find_rows`. The chunks have all of the slots.

        Raises:
            CorruptFileError: a row is not in its chunk, or there are no repetition levels.
        """
        if levels.repetition is None:
            raise CorruptFileError("a page of lists has no repetition levels")
        tables = [np.ascontiguousarray(table) for table in (first_slots, first_values, chunks, ordinals)]
        bounds = np.empty((2, len(chunks)), np.int64)
        definition = levels.definition
        status = kernels.find_rows(
            address_of(levels.repetition),
            0 if definition is None else address_of(definition),
            scheme.max_rep,
            scheme.max_visible_def,
            *map(address_of, tables),
            len(chunks),
            *map(address_of, bounds),
        )
        if status < 0:
            raise CorruptFileError("the repetition index of a page contradicts its levels")
        return cls(*(RowRanges(places[0::2], places[1::2]) for places in bounds))

    def picked(self, levels: SlotLevels) -> SlotLevels:
        """The levels of these rows."""
        repetition, definition = (_pick_levels(each, self.slots) for each in (levels.repetition, levels.definition))
        return SlotLevels(repetition, definition, self.slots.num_rows)

    def array(self, path: LeafPath, scheme: LevelScheme, levels: SlotLevels, everything: pa.Array) -> pa.Array:
        """The path array, from all levels and values that were decoded.

        Raises:
            CorruptFileError: the slots violate the scheme.
        """

        def chosen(_: pa.Buffer | None, num_values: int) -> pa.Array:
            check_count(self.values.num_rows, num_values)
            return take_ranges(everything, self.values)

        return unravel(path, scheme, self.picked(levels), chosen)


def _pick_levels(levels: LevelArray | None, slots: RowRanges) -> LevelArray | None:
    """The levels of ranges of slots: a view if the ranges are adjacent, else a copy."""
    if levels is None or len(slots.starts) == 0:
        return levels if levels is None else levels[:0]
    first, last = int(slots.starts[0]), int(slots.stops[-1])
    if last - first == slots.num_rows:
        return levels[first:last]
    data = gathered(pa.py_buffer(levels), slots.starts * 2, (slots.stops - slots.starts) * 2)
    return np.frombuffer(data, np.uint16)
