"""Picks rows out of decoded slots, for pages that are read in part."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_spark.encodings.blocks import Int64Array
from lance_spark.errors import CorruptFileError
from lance_spark.kernels import levels as kernels
from lance_spark.kernels.addresses import address_of
from lance_spark.layouts.arrow_take import take
from lance_spark.layouts.base import RowRanges
from lance_spark.layouts.leaf_arrays import Leaf, check_count
from lance_spark.layouts.path import LeafPath
from lance_spark.layouts.repdef import LevelScheme
from lance_spark.layouts.unravel import SlotLevels, unravel, visible_validity


@dataclass(frozen=True, slots=True)
class RowRuns:
    """Runs of slots that were read: run k begins with slot `slot_starts[k]` of those that were decoded, and the first
    row that begins in it is row `first_rows[k]` of the page (int64). A run may begin inside of the row before."""

    slot_starts: Int64Array
    first_rows: Int64Array
    is_page: bool = False

    @classmethod
    def page(cls) -> RowRuns:
        """All slots of a page."""
        return cls(np.zeros(1, np.int64), np.zeros(1, np.int64), True)


def take_values(array: pa.Array, places: Int64Array) -> pa.Array:
    """The values of `array` at `places` (ascending): a view if they follow each other, else a copy.

    Raises:
        CorruptFileError: a place outside of the array.
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
    """The path array of `rows`, out of slots with lists, of `num_rows` rows in all.

    Raises:
        CorruptFileError: the slots do not hold all of these rows, or contradict the scheme.
    """
    if levels.repetition is None:
        raise CorruptFileError("a page of lists has no repetition levels")
    if runs.is_page and num_rows > levels.num_slots:
        raise CorruptFileError(f"a page of {num_rows} rows has {levels.num_slots} slots")
    picked, values = _pick_slots(num_rows, scheme, levels, runs, rows)
    validity, num_visible = visible_validity(scheme, levels)
    everything = leaf(validity, num_visible)

    def chosen(_: pa.Buffer | None, num_values: int) -> pa.Array:
        check_count(len(values), num_values)
        return take_values(everything, values)

    return unravel(path, scheme, picked, chosen)


def _pick_slots(
    num_rows: int, scheme: LevelScheme, levels: SlotLevels, runs: RowRuns, rows: RowRanges
) -> tuple[SlotLevels, Int64Array]:
    """The levels of the slots of `rows`, and the places of their values among the visible ones."""
    assert levels.repetition is not None
    wanted = np.zeros(num_rows, np.uint8)
    wanted[rows.indices()] = 1
    repetition = np.empty(levels.num_slots, np.uint16)
    definition = None if levels.definition is None else np.empty(levels.num_slots, np.uint16)
    values = np.empty(levels.num_slots, np.int64)
    counts = np.zeros(3, np.int64)
    status = kernels.select_slots(
        address_of(levels.repetition),
        0 if levels.definition is None else address_of(levels.definition),
        levels.num_slots,
        scheme.max_rep,
        scheme.max_visible_def,
        address_of(runs.slot_starts),
        address_of(runs.first_rows),
        len(runs.slot_starts),
        address_of(wanted),
        num_rows,
        address_of(repetition),
        0 if definition is None else address_of(definition),
        address_of(values),
        address_of(counts),
    )
    num_slots, num_values, num_picked = (int(count) for count in counts)
    if status < 0 or num_picked != rows.num_rows:
        raise CorruptFileError("the repetition index of a page contradicts its levels")
    picked = SlotLevels(repetition[:num_slots], None if definition is None else definition[:num_slots], num_slots)
    return picked, values[:num_values]
