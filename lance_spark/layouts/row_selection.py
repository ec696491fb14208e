"""Selects rows of decoded slots, for pages that are read partially."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_spark.encodings.blocks import Int64Array
from lance_spark.errors import CorruptFileError
from lance_spark.kernels import levels as kernels
from lance_spark.kernels.jit import address_of
from lance_spark.layouts.arrow_take import take
from lance_spark.layouts.base import RowRanges
from lance_spark.layouts.leaf_arrays import Leaf, check_count
from lance_spark.layouts.path import LeafPath
from lance_spark.layouts.read_spans import gathered
from lance_spark.layouts.repdef import LevelScheme
from lance_spark.layouts.unravel import LevelArray, SlotLevels, unravel, visible_validity


@dataclass(frozen=True, slots=True)
class RowRuns:
    """Runs of slots that were read: run k begins with slot `slot_starts[k]` of the decoded ones, and the first row that
    begins in it is row `first_rows[k]` of the page (int64). A run may begin within the preceding row."""

    slot_starts: Int64Array
    first_rows: Int64Array
    is_page: bool = False

    @classmethod
    def page(cls) -> RowRuns:
        """All slots of a page."""
        return cls(np.zeros(1, np.int64), np.zeros(1, np.int64), True)


def take_values(array: pa.Array, places: Int64Array) -> pa.Array:
    """The values of `array` at the indices `places` (ascending): a view if they are consecutive, else a copy.

    Raises:
        CorruptFileError: an index out of bounds.
    """
    if len(places) == 0:
        return array.slice(0, 0)
    first, last = int(places[0]), int(places[-1])
    if first < 0 or last >= len(array):
        raise CorruptFileError(f"value {last} of a page that holds {len(array)}")
    if last - first + 1 == len(places):
        return array.slice(first, len(places))
    return take(array, places)


def pick_rows(
    path: LeafPath,
    num_rows: int,
    scheme: LevelScheme,
    levels: SlotLevels,
    leaf: Leaf,
    runs: RowRuns,
    rows: RowRanges,
) -> pa.Array:
    """The path array of `rows`, selected from slots with lists; `num_rows` is the total number of rows.

    Raises:
        CorruptFileError: the slots do not contain all of these rows, or violate the scheme.
    """
    if levels.repetition is None:
        raise CorruptFileError("a page of lists has no repetition levels")
    if runs.is_page and num_rows > levels.num_slots:
        raise CorruptFileError(f"a page of {num_rows} rows has {levels.num_slots} slots")
    places = _RowPlaces.find(scheme, levels, runs)
    entries = places.entries(runs, rows)
    slots = RowRanges(places.slots[entries], places.slots[entries + 1])
    values = RowRanges(places.values[entries], places.values[entries + 1])
    picked = SlotLevels(
        _pick_levels(levels.repetition, slots), _pick_levels(levels.definition, slots), slots.num_rows
    )  # fmt: skip
    validity, num_visible = visible_validity(scheme, levels)
    everything = leaf(validity, num_visible)

    def chosen(_: pa.Buffer | None, num_values: int) -> pa.Array:
        check_count(values.num_rows, num_values)
        return take_values(everything, values.indices())

    return unravel(path, scheme, picked, chosen)


@dataclass(frozen=True, slots=True)
class _RowPlaces:
    """The starts of rows: one entry per row, and one after each run for its end (see `kernels.row_places`)."""

    slots: Int64Array
    values: Int64Array
    run_rows: Int64Array

    @classmethod
    def find(cls, scheme: LevelScheme, levels: SlotLevels, runs: RowRuns) -> _RowPlaces:
        assert levels.repetition is not None
        repetition = address_of(levels.repetition)
        num_runs = len(runs.slot_starts)
        num_rows = levels.num_slots - kernels.count_visible(repetition, levels.num_slots, scheme.max_rep - 1)
        room = num_rows + num_runs + 1
        slots, values, run_rows = (np.empty(count, np.int64) for count in (room, room, num_runs))
        kernels.row_places(
            repetition,
            0 if levels.definition is None else address_of(levels.definition),
            levels.num_slots,
            scheme.max_rep,
            scheme.max_visible_def,
            address_of(runs.slot_starts),
            num_runs,
            address_of(run_rows),
            address_of(slots),
            address_of(values),
        )
        return cls(slots, values, run_rows)

    def entries(self, runs: RowRuns, rows: RowRanges) -> Int64Array:
        """The entry of each of `rows`.

        Raises:
            CorruptFileError: one of them does not begin at the expected position.
        """
        wanted = rows.indices()
        run = np.searchsorted(runs.first_rows, wanted, "right") - 1
        place = wanted - runs.first_rows[run]
        if bool((run < 0).any() or (place >= self.run_rows[run]).any()):
            raise CorruptFileError("the repetition index of a page contradicts its levels")
        first_entries = np.cumsum(self.run_rows + 1) - (self.run_rows + 1)
        entries: Int64Array = first_entries[run] + place
        return entries


def _pick_levels(levels: LevelArray | None, slots: RowRanges) -> LevelArray | None:
    """The levels of ranges of slots: a view if the ranges are adjacent, else a copy."""
    if levels is None or len(slots.starts) == 0:
        return levels if levels is None else levels[:0]
    first, last = int(slots.starts[0]), int(slots.stops[-1])
    if last - first == slots.num_rows:
        return levels[first:last]
    data = gathered(pa.py_buffer(levels), slots.starts * 2, (slots.stops - slots.starts) * 2)
    return np.frombuffer(data, np.uint16)
