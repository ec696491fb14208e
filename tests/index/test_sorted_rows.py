"""Rows that are sorted in parts and merged: the order is that of one sort of all of them."""

from __future__ import annotations

import datetime
import decimal
import errno
import io
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from lance_spark.index.builders import runs, spill
from lance_spark.index.builders.base import IndexedRows
from lance_spark.index.builders.runs import SortedRows
from lance_spark.index.builders.sorting import sort_order

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

NUM_ROWS = 1000
DAY = datetime.date(2024, 1, 1)

MAKE: dict[str, tuple[pa.DataType, Any]] = {
    "distinct numbers": (pa.int64(), lambda number: number * 7919 % 100_003 - 50_000),
    "few numbers": (pa.int8(), lambda number: number * 7919 % 7 - 3),
    "large numbers": (pa.uint64(), lambda number: (1 << 64) - 1 - number * 7919 % 1009),
    "one number": (pa.int32(), lambda number: 5),
    "floats": (pa.float64(), lambda number: [0.0, -0.0, float("nan"), -1.5, float("inf")][number % 5] + number % 11),
    "texts": (pa.string(), lambda number: f"text {number * 7919 % 10_007} ä"),
    "few large texts": (pa.large_string(), lambda number: "b" * (number % 9)),
    "no UTF-8": (pa.binary(), lambda number: bytes([number * 31 % 256, number % 256])),
    "fixed bytes": (pa.binary(3), lambda number: b"%03d" % (number * 7 % 911)),
    "booleans": (pa.bool_(), lambda number: number % 3 == 0),
    "decimals": (pa.decimal128(10, 2), lambda number: decimal.Decimal(number * 7919 % 1013 - 500)),
    "dates": (pa.date32(), lambda number: DAY + datetime.timedelta(days=number * 7919 % 1013)),
}


@pytest.fixture(params=["one sort", "memory", "file"])
def limits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param != "one sort":
        monkeypatch.setattr(runs, "_ONE_SORT_ROWS", 200)
        monkeypatch.setattr(runs, "_RUN_ROWS", 60)
    if request.param == "file":
        monkeypatch.setattr(spill, "_MEMORY_BYTES", 1000)
    return str(request.param)


def batches(values: pa.Array, sizes: int) -> Iterator[IndexedRows]:
    ids = np.arange(len(values), dtype=np.uint64)
    for start in range(0, len(values), sizes):
        part = ids[start : start + sizes]
        yield IndexedRows(values.slice(start, sizes), part, part)


def sorted_rows(values: pa.Array, sizes: int) -> tuple[pa.Array, list[int]]:
    with closing(SortedRows(values.type)) as rows:
        for batch in batches(values, sizes):
            rows.add(batch)
        pieces = list(rows.pieces())
    found = pa.concat_arrays([pa.array([], values.type), *(part for part, _ in pieces)])
    return found, [number for _, part in pieces for number in part.tolist()]


@pytest.mark.parametrize("name", MAKE)
@pytest.mark.parametrize("nulls", [0, 7, 1])
def test_the_order_is_that_of_one_sort(limits: str, name: str, nulls: int) -> None:
    dtype, make = MAKE[name]
    values = pa.array([None if nulls and n % nulls == 0 else make(n) for n in range(NUM_ROWS)], dtype)
    expected = sort_order(values)
    found, ids = sorted_rows(values, 170)
    assert ids == expected.tolist()
    assert repr(found.to_pylist()) == repr(values.take(pa.array(expected)).to_pylist())


def test_no_rows(limits: str) -> None:
    assert sorted_rows(pa.array([], pa.int64()), 10) == (pa.array([], pa.int64()), [])


@pytest.mark.slow
def test_long_values_are_merged_a_few_at_a_time(limits: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "_ONE_SORT_BYTES", 40_000)
    monkeypatch.setattr(runs, "_RUN_BYTES", 10_000)
    values = pa.array([f"{number * 7919 % 997:0500}" for number in range(600)])
    with closing(SortedRows(values.type)) as rows:
        for batch in batches(values, 50):
            rows.add(batch)
        pieces = list(rows.pieces())
    assert max(part.nbytes for part, _ in pieces) < 30_000
    assert [number for _, part in pieces for number in part.tolist()] == sort_order(values).tolist()


def test_parts_stay_in_memory_where_there_is_no_room_for_a_file(limits: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def full() -> None:
        calls.append(1)
        raise OSError("no space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    values = pa.array([number * 7919 % 10_007 for number in range(NUM_ROWS)])
    assert sorted_rows(values, 100)[1] == sort_order(values).tolist()
    assert len(calls) == (limits == "file")


class _FullDisk(io.FileIO):
    """A file on a disk that has room for some bytes."""

    room = 4_000

    def write(self, data: ReadableBuffer) -> int:
        if self.tell() + len(memoryview(data)) > self.room:
            raise OSError(errno.ENOSPC, "no space left on device")
        return super().write(data)


def test_a_disk_that_becomes_full_is_no_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What found no room is still in the buffer of the file, which closing it writes once more."""
    monkeypatch.setattr(runs, "_ONE_SORT_ROWS", 200)
    monkeypatch.setattr(runs, "_RUN_ROWS", 60)
    monkeypatch.setattr(spill, "_MEMORY_BYTES", 0)
    files: list[io.BufferedRandom] = []

    def temporary() -> io.BufferedRandom:
        files.append(io.BufferedRandom(_FullDisk(tmp_path / "runs", "w+")))
        return files[-1]

    monkeypatch.setattr(tempfile, "TemporaryFile", temporary)
    values = pa.array([number * 7919 % 10_007 for number in range(NUM_ROWS)])
    assert sorted_rows(values, 100)[1] == sort_order(values).tolist()
    assert [file.closed for file in files] == [True]
    assert 0 < (tmp_path / "runs").stat().st_size <= _FullDisk.room
