"""Small pages are decoded many at a time, and errors name their page all the same."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.encodings.blocks import FixedWidthBlock
from lance_spark.errors import CorruptFileError
from lance_spark.file.reader import FileReader
from lance_spark.layouts.base import RowRanges
from lance_spark.layouts.leaf.arrays import PageDictionary
from lance_spark.layouts.mini_block.layout import MiniBlockLayout
from tests.file.reference_files import check, open_file, pages, some_ranges, write
from tests.support import arrays

ROWS = 150_000


def _lists() -> pa.Table:
    rng = np.random.default_rng(0)
    return pa.table({"x": arrays.list_of(lambda k: pa.array(rng.integers(0, 99, k).astype(np.int32)), ROWS, 0.1, rng)})


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Numbers of pages that were read together."""
    seen: list[int] = []
    read_run = MiniBlockLayout.read_run

    def counted(self: MiniBlockLayout, layouts: list, pages: list, rows: RowRanges) -> object:
        seen.append(len(pages))
        return read_run(self, layouts, pages, rows)

    monkeypatch.setattr(MiniBlockLayout, "read_run", counted)
    return seen


def test_pages_of_a_list_column_are_joined(tmp_path: Path, runs: list[int]) -> None:
    expected = _lists()
    file = write(tmp_path / "x.lance", expected)
    assert len(pages(file)) >= 4
    assert file.read_table().column("x").num_chunks < len(pages(file))
    assert runs == [len(pages(file))]
    check(file, expected)


def test_a_buffer_of_all_pages_is_one_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = _lists()
    file = write(tmp_path / "x.lance", expected)
    seen: list[int] = []
    read_run = MiniBlockLayout.read_run

    def counted(self: MiniBlockLayout, layouts: list, pages: list, rows: RowRanges) -> Generator:
        reads = read_run(self, layouts, pages, rows)
        requests = next(reads)
        while True:
            seen.append(len(requests))
            try:
                requests = reads.send((yield requests))
            except StopIteration as stop:
                return stop.value

    monkeypatch.setattr(MiniBlockLayout, "read_run", counted)
    assert file.read_table().equals(expected)
    assert seen == [2]  # Chunk words and chunks.


def _in_every_second_page(file: FileReader) -> RowRanges:
    """The first row, three others and the last row of every second page."""
    starts, stops = [], []
    first = 0
    for number, page in enumerate(pages(file)):
        if number % 2:
            middle, end = first + page.num_rows // 2, first + page.num_rows
            starts += [first, middle, end - 1]
            stops += [first + 1, middle + 3, end]
        first += page.num_rows
    return RowRanges(np.array(starts), np.array(stops))


def test_pages_between_those_with_wanted_rows_are_left_out(tmp_path: Path, runs: list[int]) -> None:
    expected = _lists()
    file = write(tmp_path / "x.lance", expected)
    rows = _in_every_second_page(file)
    assert len(rows.starts) >= 6
    ranges = zip(rows.starts.tolist(), rows.stops.tolist(), strict=True)
    wanted = pa.concat_tables([expected.slice(start, stop - start) for start, stop in ranges])
    assert file.read_table(rows=rows).equals(wanted)
    assert runs == [len(pages(file)) // 2]
    # A range that crosses pages, and single rows after it.
    first, last = pages(file)[0].num_rows, len(expected) - 1
    rows = RowRanges(np.array([5, first - 2, last]), np.array([6, first + 2, last + 1]))
    wanted = pa.concat_tables([expected.slice(5, 1), expected.slice(first - 2, 4), expected.slice(last)])
    assert file.read_table(rows=rows).equals(wanted)


def test_large_pages_with_dictionaries_are_not_joined(tmp_path: Path, runs: list[int]) -> None:
    words = pa.array([f"word {i}" for i in range(50)])
    rng = np.random.default_rng(0)
    column = arrays.list_of(lambda k: words.take(pa.array(rng.integers(0, 50, k))), ROWS, 0.0, rng)
    expected = pa.table({"x": column})
    file = write(tmp_path / "x.lance", expected)
    assert len(pages(file)) >= 4
    assert file.read_table().equals(expected)
    assert runs == []
    # Of few rows only few indices are moved.
    check(file, expected)


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_small_pages_with_dictionaries_are_joined(tmp_path: Path, runs: list[int], version: str) -> None:
    rng = np.random.default_rng(0)
    num_fragments, rows = 12, 120

    def words(count: int, fragment: int) -> pa.Array:
        """Other words in each fragment, and another number of them; some are null."""
        values = [f"{fragment} {'x' * number}" for number in range(fragment + 2)]
        return pa.array([None if rng.random() < 0.1 else rng.choice(values) for _ in range(count)], pa.string())

    tables = []
    for number in range(num_fragments):
        lists = pa.ListArray.from_arrays(np.arange(0, 3 * rows + 1, 3, dtype=np.int32), words(3 * rows, number))
        wide = pa.array((rng.integers(0, 3, rows) + number) << 40)
        plain = words(rows, number)
        structs = pa.StructArray.from_arrays([words(rows, number)], ["w"], mask=pa.array(rng.random(rows) < 0.2))
        tables.append(pa.table({"s": plain, "l": lists, "i": wide, "r": structs}))
    expected = pa.concat_tables(tables)
    uri = str(tmp_path / "t")
    lance.write_dataset(expected, uri, max_rows_per_file=rows, max_rows_per_group=rows, data_storage_version=version)
    dataset, reference = lance_spark.open(uri), lance.dataset(uri)
    assert len(dataset.fragments) == num_fragments
    assert dataset.to_table().equals(expected)
    # Which columns have dictionaries is up to the reference library; the texts and lists do.
    assert runs.count(num_fragments) >= 2
    for size in (1, 30, 900):
        chosen = np.sort(rng.choice(len(expected), size, replace=False)).tolist()
        assert dataset.take(chosen).equals(reference.take(chosen))
    some = "s LIKE '%xxx'"
    assert dataset.to_table(filter=some).equals(reference.to_table(filter=some))


def test_index_outside_of_the_dictionary_of_its_page_is_refused() -> None:
    dictionary = PageDictionary(pa.array(["a", "b", "c"]), pa.string(), np.array([1, 2]))
    pages = np.array([0, 1, 1])

    def joined(*indices: int) -> FixedWidthBlock:
        block = FixedWidthBlock(pa.py_buffer(np.array(indices, np.uint64)), 64, len(indices))
        return dictionary.joined_indices(block, pages)

    assert np.frombuffer(joined(0, 0, 1).data, np.uint32).tolist() == [0, 1, 2]
    for indices in ((1, 0, 1), (0, 0, 2), (0, 0, 2**63)):
        with pytest.raises(CorruptFileError, match="dictionary"):
            joined(*indices)
    with pytest.raises(CorruptFileError, match="2 values, but its levels say 3"):
        joined(0, 0)


def test_an_error_names_the_page_of_the_run(tmp_path: Path, runs: list[int]) -> None:
    path = tmp_path / "x.lance"
    file = write(path, _lists())
    number = len(pages(file)) // 2 // 2 * 2 + 1
    content = bytearray(path.read_bytes())
    # The words of the chunks: the first one claims to be far larger than it is.
    content[pages(file)[number].buffers[0].position + 1] ^= 0xFF
    path.unlink()
    path.write_bytes(content)
    damaged = open_file(path)
    for rows in (None, *some_ranges(ROWS)[1:2], _in_every_second_page(file)):
        with pytest.raises(CorruptFileError) as caught:
            damaged.read_table(rows=rows)
        assert (caught.value.column, caught.value.page) == (0, number)
    assert runs
    # The pages before it are not affected.
    rows_before = int(sum(page.num_rows for page in pages(damaged)[:number]))
    assert damaged.read_table(rows=RowRanges.of(0, rows_before)).num_rows == rows_before
