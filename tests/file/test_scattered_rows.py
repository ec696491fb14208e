"""Scattered rows of files that are mapped, and of a store that returns each range by itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lance_spark.errors import CorruptFileError
from lance_spark.file.data_file_reader import DataFileReader
from lance_spark.file.open_file import open_data_file
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.slices import move_slices
from lance_spark.layouts.base import FieldsReads, FileRange, FileRanges, RowRanges
from lance_spark.storage import open_store
from lance_spark.storage.meter import READS
from tests.file.reference_files import write

NUM_ROWS = 200_000
ROWS = RowRanges.of_numbers(np.arange(3, NUM_ROWS, 9973))


def table() -> pa.Table:
    rng = np.random.default_rng(5)
    numbers = rng.integers(0, 2**60, NUM_ROWS)
    words = np.array([f"word {number}" for number in range(300)])
    lists = pa.ListArray.from_arrays(np.arange(0, 2 * NUM_ROWS + 1, 2, np.int32), pa.array(rng.random(2 * NUM_ROWS)))
    return pa.table(
        {
            "number": numbers,
            "nullable": pa.array(numbers, mask=rng.random(NUM_ROWS) < 0.1),
            "word": words[rng.integers(0, 300, NUM_ROWS)],
            "text": [f"{number:020d}" for number in numbers.tolist()],
            "list": lists,
            "long": [str(number) * 20 for number in range(NUM_ROWS)],
        }
    )


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pa.Table]:
    data = table()
    path = tmp_path_factory.mktemp("scattered") / "x.lance"
    write(path, data, "2.1")
    return path, data


def test_files_in_memory_and_ranges_of_a_store_have_the_same_rows(stored: tuple[Path, pa.Table]) -> None:
    path, data = stored
    expected = data.take(pa.array(ROWS.indices()))
    memory = open_store("memory://scattered")
    memory.put(path.name, path.read_bytes())
    counts = []
    for store in (memory, open_store(str(path.parent))):
        file = open_data_file(store, path.name)
        # The first read maps a local file, the second one finds it mapped.
        for _ in range(2):
            before = READS.counts
            assert file.read_table(rows=ROWS).equals(expected)
            counts.append((READS.counts - before).num_bytes)
    assert 0 < counts[3] <= counts[2] < path.stat().st_size // 2


def test_a_range_beyond_the_file_is_refused(stored: tuple[Path, pa.Table]) -> None:
    path, _ = stored
    file = open_data_file(open_store(str(path.parent)), path.name)
    for start, length in ((file.size_bytes - 3, 4), (-1, 1), (0, -1), (2**62, 2**62)):
        with pytest.raises(CorruptFileError, match="leaves the file"):
            run(file, FileRange(start, length))
    with pytest.raises(CorruptFileError, match="leaves the file"):
        run(file, FileRanges(np.array([0, file.size_bytes - 3]), np.array([1, 4]), 5, file.size_bytes + 1))


def run(file: DataFileReader, ranges: FileRange | FileRanges) -> None:
    def reads() -> FieldsReads:
        yield [ranges]
        return []

    file._run(reads())


@pytest.mark.parametrize(("start", "length", "page"), [(-1, 1, 0), (0, -1, 0), (9, 2, 0), (2**62, 2**62, 1), (0, 1, 2)])
def test_slices_outside_of_their_buffers_are_found(start: int, length: int, page: int) -> None:
    tables = [np.array(values) for values in ([0, start], [10, length], [1, page])]
    buffers, moved = np.array([[100, 1000], [10, 10]]), np.empty(3, np.int64)
    addresses = [address_of(values) for values in tables]
    assert move_slices(*addresses, 2, address_of(buffers), 2, address_of(moved)) == ~1
    tables[0][1], tables[1][1], tables[2][1] = 4, 6, 0
    assert move_slices(*addresses, 2, address_of(buffers), 2, address_of(moved)) == 16
    assert moved.tolist() == [1000, 104, 1010]
