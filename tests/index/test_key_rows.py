"""Pairs of a key and a row that come in parts are grouped as one dictionary groups them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import numpy as np
import pyarrow as pa
import pytest

from lance_spark.errors import InvalidInputError
from lance_spark.index.builders import entries, spill
from lance_spark.index.builders.entries import KeyRows
from lance_spark.index.row_set import RowSet

NUM_ROWS = 900
NAN = float("nan")

KEYS: dict[str, tuple[pa.DataType, Callable[[int], object]]] = {
    "few texts": (pa.string(), lambda number: f"key {number * 7919 % 13}"),
    "a key for each row": (pa.int64(), lambda number: number * 7919 % 100_003),
    "one key": (pa.int16(), lambda number: 3),
    "with nulls": (pa.int32(), lambda number: None if number % 4 == 0 else number % 5),
    "only nulls": (pa.int32(), lambda number: None),
    "floats": (pa.float64(), lambda number: [0.0, -0.0, NAN, 1.5, None][number % 5]),
    "booleans": (pa.bool_(), lambda number: number % 3 == 0),
}
ROWS: dict[str, Callable[[], list[int]]] = {
    "a range": lambda: list(range(NUM_ROWS)),
    "two fragments": lambda: [number + (number // 500 << 32) for number in range(NUM_ROWS)],
    "each row twice": lambda: [number // 2 for number in range(NUM_ROWS)],
    "any order": lambda: np.random.default_rng(3).integers(0, 400, NUM_ROWS).tolist(),
    "descending": lambda: list(range(NUM_ROWS, 0, -1)),
}


def expected(keys: list[object], rows: list[int]) -> dict[str, list[int]]:
    found: dict[str, set[int]] = {}
    for key, row in zip(keys, rows, strict=True):
        found.setdefault(repr(key), set()).add(row)
    return {key: sorted(members) for key, members in found.items()}


def grouped(rows: KeyRows) -> dict[str, list[int]]:
    found = {}
    with closing(rows):
        groups = rows.grouped()
        for keys, bounds, ids in groups.pieces():
            for place, key in enumerate(keys.to_pylist()):
                assert repr(key) not in found
                found[repr(key)] = ids[bounds[place] : bounds[place + 1]].tolist()
    assert len(found) == groups.num_keys
    return found


@pytest.mark.parametrize(("piece", "at_once", "in_memory"), [(7, 20, 0), (7, 1 << 22, 1000), (1 << 18, 100, 1 << 24)])
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("name", KEYS)
def test_rows_are_grouped_by_key(
    monkeypatch: pytest.MonkeyPatch, name: str, rows: str, piece: int, at_once: int, in_memory: int
) -> None:
    monkeypatch.setattr(entries, "_PIECE_ROWS", piece)
    monkeypatch.setattr(entries, "_GROUPED_ROWS", at_once)
    monkeypatch.setattr(spill, "_MEMORY_BYTES", in_memory)
    dtype, make = KEYS[name]
    keys, ids = [make(number) for number in range(NUM_ROWS)], ROWS[rows]()
    found = KeyRows(dtype)
    for start in range(0, NUM_ROWS, 250):
        part = np.array(ids[start : start + 250], np.uint64)
        found.add(pa.array(keys[start : start + 250], dtype), part)
    assert grouped(found) == expected(keys, ids)


@pytest.mark.parametrize("name", KEYS)
def test_keys_of_many_parts_are_kept_once(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(entries, "_SHARED_BYTES", 300)
    dtype, make = KEYS[name]
    keys, ids = [make(number) for number in range(NUM_ROWS)], ROWS["each row twice"]()
    found = KeyRows(dtype)
    for start in range(0, NUM_ROWS, 30):
        found.add(pa.array(keys[start : start + 30], dtype), np.array(ids[start : start + 30], np.uint64))
    assert grouped(found) == expected(keys, ids)


def test_keys_that_fill_an_arrow_array(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "_MAX_KEY_BYTES", 1000)
    found = KeyRows(pa.string())
    # The same keys in each part take no more than once.
    for part in range(50):
        found.add(pa.array(["a" * 100, "b" * 100]), np.array([2 * part, 2 * part + 1], np.uint64))
    for part in range(4):
        found.add(pa.array([f"{part:0100}"]), np.array([1000 + part], np.uint64))
    with pytest.raises(InvalidInputError, match="more than 2 GiB"):
        found.add(pa.array(["c" * 500]), np.array([2000], np.uint64))


def test_rows_of_older_sets_are_added() -> None:
    found = KeyRows(pa.int64())
    found.add(pa.array([5, None, 7]), np.array([1, 2, 3], np.uint64))
    sets = [RowSet.of_numbers(np.array(numbers, np.uint64)) for numbers in ([9, 4], [3, 8], [6])]
    found.add_sets(pa.array([None, 7, 8]), sets, lambda ids: (ids != 6, ids[ids != 6]))
    assert grouped(found) == {"5": [1], "None": [2, 4, 9], "7": [3, 8]}


def test_no_rows() -> None:
    assert grouped(KeyRows(pa.string())) == {}
