"""Kernels on levels, against plain Python, with memory that ends where the arrays do."""

from __future__ import annotations

import numpy as np
import pytest

from lance_spark.kernels.layouts.levels import (
    count_visible,
    find_rows,
    list_starts,
    validity_bitmap,
    visible_levels,
)
from lance_spark.kernels.utf8 import has_only_ascii
from tests.support.guarded_memory import allocate_guarded, guarded


@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 63, 64, 65, 1000])
@pytest.mark.parametrize("limit", [0, 1, 2, 32766])
def test_validity_bitmap(n: int, limit: int) -> None:
    levels = np.random.default_rng(n).choice([0, 1, 2, 3, 32766], n).astype("<u2")
    bitmap = allocate_guarded((n + 7) // 8)
    assert validity_bitmap(guarded(levels.tobytes()).address, n, limit, 32766, bitmap.address) == 0
    bits = np.unpackbits(np.frombuffer(bitmap, np.uint8), bitorder="little")[:n]
    assert bits.tolist() == (levels <= limit).astype(int).tolist()


@pytest.mark.parametrize("position", [0, 5, 8, 15, 16, 18])
@pytest.mark.parametrize("level", [3, 4, 32767, 32768, 65535])
def test_levels_out_of_bounds_are_found(position: int, level: int) -> None:
    levels = np.zeros(19, "<u2")
    levels[position] = level
    bitmap = allocate_guarded(3)
    assert validity_bitmap(guarded(levels.tobytes()).address, 19, 0, 2, bitmap.address) == -1


def test_visible_levels() -> None:
    levels = np.array([0, 3, 1, 2, 4, 0], "<u2")
    out = allocate_guarded(12)
    assert visible_levels(guarded(levels.tobytes()).address, 6, 2, out.address) == 4
    assert np.frombuffer(out, "<u2", 4).tolist() == [0, 1, 2, 0]


@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 32768, 70_000])
def test_count_visible(n: int) -> None:
    levels = np.random.default_rng(n).integers(0, 5, n).astype("<u2")
    assert count_visible(guarded(levels.tobytes()).address, n, 2) == int((levels <= 2).sum())


def _lists(num_slots: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Valid levels of lists of lists: slots within a list have a value, those that begin one may have none."""
    rng = np.random.default_rng(seed)
    rep = rng.choice([0, 1, 2], num_slots, p=[0.6, 0.2, 0.2]).astype("<u2")
    rep[:1] = 2
    definition = np.where(rep == 0, rng.integers(0, 2, num_slots), rng.integers(0, 5, num_slots)).astype("<u2")
    return rep, definition


def _list_starts(rep: np.ndarray, definition: np.ndarray | None) -> tuple[int, list[int], list[int], list[int]]:
    """(result, offsets, definition and repetition levels of the lists) for values up to level 1."""
    num_lists = int((rep > 0).sum())
    offsets, defs, reps = (allocate_guarded(size) for size in (4 * num_lists + 4, 2 * num_lists, 2 * num_lists))
    inputs = [guarded(levels.tobytes()) for levels in (rep, rep if definition is None else definition)]
    addresses = inputs[0].address, 0 if definition is None else inputs[1].address
    outputs = offsets.address, 0 if definition is None else defs.address, reps.address
    result = list_starts(*addresses, len(rep), 2, 4, 1, *outputs)
    return result, *(
        np.frombuffer(data, kind).tolist() for data, kind in ((offsets, "<i4"), (defs, "<u2"), (reps, "<u2"))
    )


@pytest.mark.parametrize("n", [0, 1, 2, 63, 64, 65, 127, 128, 129, 1000])
@pytest.mark.parametrize("with_levels", [True, False])
def test_list_starts(n: int, with_levels: bool) -> None:
    rep, definition = _lists(n, n)
    has_value = definition <= 1 if with_levels else np.ones(n, bool)
    starts = np.flatnonzero(rep)
    offsets = [int(has_value[:start].sum()) for start in (*starts.tolist(), n)]
    result, *found = _list_starts(rep, definition if with_levels else None)
    assert result == int(has_value.sum())
    assert found[0] == offsets
    assert not with_levels or found[1] == definition[starts].tolist()
    assert found[2] == (rep[starts] - 1).tolist()


@pytest.mark.parametrize("place", [0, 63, 64, 130, 199])
def test_levels_that_contradict_lists(place: int) -> None:
    rep, definition = _lists(200, 0)
    for levels, level in ((rep, 3), (rep, 65535), (definition, 5), (definition, 65535)):
        before = int(levels[place])
        levels[place] = level
        assert _list_starts(rep, definition)[0] == -1
        levels[place] = before
    assert _list_starts(rep, definition)[0] >= 0
    rep[place], definition[place] = 0, 2
    assert _list_starts(rep, definition)[0] == -1
    rep[0], definition[place] = 0, 0
    assert _list_starts(rep, definition)[0] == -1


class _Chunks:
    """Two chunks of random slots of lists of lists; the second may begin within a row."""

    def __init__(self, num_slots: int, max_def: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.rep = rng.choice([0, 1, 2], num_slots, p=[0.5, 0.2, 0.3]).astype("<u2")
        self.definition = rng.integers(0, max_def + 1, num_slots).astype("<u2")
        self.rep[0] = 2
        cut = num_slots // 2
        self.first_slots = np.array([0, cut, num_slots], "<i8")
        self.first_values = np.array([int((self.definition[:stop] <= 1).sum()) for stop in self.first_slots], "<i8")

    def starts(self, chunk: int) -> list[int]:
        first, stop = self.first_slots[chunk : chunk + 2].tolist()
        return [slot for slot in range(first, stop) if self.rep[slot] == 2]

    def find(self, chunks: list[int], ordinals: list[int], with_levels: int = 1) -> tuple[int, list[int], list[int]]:
        """(status, slots, values) of `find_rows`."""
        bounds = (np.array(chunks, "<i8"), np.array(ordinals, "<i8"))
        arrays = (self.rep, self.definition, self.first_slots, self.first_values, *bounds)
        rep, definition, *tables = [guarded(array.tobytes()) for array in arrays]
        slots, values = allocate_guarded(8 * len(chunks)), allocate_guarded(8 * len(chunks))
        status = find_rows(
            rep.address, definition.address * with_levels, 2, 1, *[table.address for table in tables], len(chunks),
            slots.address, values.address,
        )  # fmt: skip
        return status, np.frombuffer(slots, "<i8").tolist(), np.frombuffer(values, "<i8").tolist()


@pytest.mark.parametrize("num_slots", [10, 63, 128, 500, 1001])
@pytest.mark.parametrize("max_def", [1, 3])
def test_rows_are_found_in_chunks(num_slots: int, max_def: int) -> None:
    made = _Chunks(num_slots, max_def, num_slots)
    first, second = made.starts(0), made.starts(1)
    bounds = [(0, place, slot) for place, slot in enumerate(first)] + [(0, len(first), num_slots // 2)]
    bounds += [(1, place, slot) for place, slot in enumerate(second)] + [(1, len(second), num_slots)]
    ends = len(first), len(bounds) - 1
    for step in (1, 3, 40):
        pairs = [(i, min(i + step, len(bounds) - 1)) for i in range(0, len(bounds) - 1, step + 1) if i not in ends]
        chosen = [bounds[i] for pair in pairs for i in pair]
        status, slots, values = made.find([chunk for chunk, _, _ in chosen], [place for _, place, _ in chosen])
        assert (status, slots) == (0, [slot for _, _, slot in chosen])
        assert values == [int((made.definition[:slot] <= 1).sum()) for slot in slots]


def test_rows_without_definition_levels() -> None:
    made = _Chunks(300, 0, 0)
    starts = made.starts(0)
    assert made.find([0, 0], [3, 5], with_levels=0) == (0, [starts[3], starts[5]], [starts[3], starts[5]])


def test_rows_that_are_not_in_their_chunk() -> None:
    made = _Chunks(300, 3, 1)
    count = len(made.starts(0))
    assert made.find([0, 0], [0, count])[0] == 0
    assert made.find([0, 0], [0, count + 1])[0] == ~1
    assert made.find([0, 1], [count, 0])[0] == ~0
    made.first_values[1] = 5
    assert made.find([0, 0], [0, count])[0] == ~1


@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 4095, 4096, 4097, 9000])
def test_ascii(n: int) -> None:
    text = np.full(n, 127, np.uint8)
    assert has_only_ascii(guarded(text.tobytes()).address, n) == 1
    for position in {0, n // 2, n - 1} & set(range(n)):
        text[position] = 128
        assert has_only_ascii(guarded(text.tobytes()).address, n) == 0
        text[position] = 127
