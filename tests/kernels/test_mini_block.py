from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lance_spark.errors import CorruptFileError
from lance_spark.kernels.layouts.mini_block import chunks_of_rows, list_chunks
from lance_spark.layouts.mini_block.chunks import BufferOfPages, ChunkTable
from tests.support.guarded_memory import allocate_guarded, guarded


def _page(rng: np.random.Generator, num_chunks: int, width: int) -> tuple[pa.Buffer, list[int], list[int]]:
    """(chunk words, bytes of each chunk, values of each chunk)."""
    sizes = (rng.integers(1, 1 << (8 * width - 4), num_chunks) & 0xFFF) * 8 + 8
    logs = rng.integers(0, 11, num_chunks)
    words = ((sizes // 8 - 1) << 4 | logs).astype(f"<u{width}")
    counts = (1 << logs).tolist()
    counts[-1] = int(rng.integers(1, counts[-1] + 1)) if num_chunks else 0
    return pa.py_buffer(words.tobytes()), sizes.tolist(), counts


@pytest.mark.parametrize("width", [2, 4])
@pytest.mark.parametrize("seed", range(5))
def test_tables_are_those_of_plain_loops(width: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    pages = [_page(rng, int(rng.integers(1, 40)), width) for _ in range(4)]
    chunks = [
        (page, sum(sizes[:number]), sizes[number], counts[number])
        for page, (_, sizes, counts) in enumerate(pages)
        for number in range(len(sizes))
    ]
    words = BufferOfPages.of([words for words, _, _ in pages])
    given = words, [sum(sizes) for _, sizes, _ in pages], [sum(c) for _, _, c in pages]
    table = ChunkTable.parse(*given, large_chunks=width == 4)
    rows = zip(table.pages, table.starts, table.sizes, table.num_values, strict=True)
    assert [tuple(map(int, row)) for row in rows] == chunks
    assert table.ends.tolist() == np.cumsum([count for *_, count in chunks]).tolist()


@pytest.mark.parametrize("damage", ["a chunk more", "bytes", "values", "too few values", "no words", "half a word"])
def test_words_that_contradict_their_page_are_refused(damage: str) -> None:
    words, sizes, counts = _page(np.random.default_rng(7), 5, 2)
    num_bytes, num_items = sum(sizes), sum(counts)
    if damage == "a chunk more":
        words = pa.py_buffer(words.to_pybytes() + bytes(2))
        num_items -= counts[-1]
    elif damage == "bytes":
        num_bytes -= 1
    elif damage == "values":
        num_items = sum(counts[:-1]) - 1
    elif damage == "too few values":
        num_items = counts[0] - 1
    else:
        words = words.slice(0, 0 if damage == "no words" else 3)
    with pytest.raises(CorruptFileError):
        ChunkTable.parse(BufferOfPages.of([words]), [num_bytes], [num_items], large_chunks=False)


def _listed(file: pa.Buffer, pages: list[list[int]], num_chunks: int) -> list[tuple[int, ...]] | None:
    """The chunks by the kernel: (page, start, size, values, values up to its end); None if it refuses the pages."""
    pages = [[width, file.address + words, *rest] for width, words, *rest in pages]
    table = guarded(np.array(pages, np.int64).T.tobytes())
    listed = allocate_guarded(5 * 8 * num_chunks)
    if list_chunks(table.address, len(pages), listed.address, num_chunks) < 0:
        return None
    return list(zip(*np.frombuffer(listed, np.int64).reshape(5, num_chunks).tolist(), strict=True))


@pytest.mark.parametrize("width", [2, 4])
def test_chunks_of_a_file_are_those_of_plain_loops(width: int) -> None:
    rng = np.random.default_rng(width)
    content, pages, expected, num_values = b"", [], [], 0
    for number in range(5):
        words, sizes, counts = _page(rng, int(rng.integers(1, 40)), width)
        if number == 2:
            # A page that is one chunk, of nulls only.
            words, sizes, counts = pa.py_buffer(b""), [0], [77]
        start = len(content) + words.size
        pages.append([width * (number != 2), len(content), words.size, start, sum(sizes), sum(counts)])
        content += words.to_pybytes() + bytes(sum(sizes))
        for size, count in zip(sizes, counts, strict=True):
            num_values += count
            expected.append((number, start, size, count, num_values))
            start += size
    file = guarded(content)
    assert _listed(file, pages, len(expected)) == expected
    assert _listed(file, pages, len(expected) - 1) is None
    assert _listed(file, pages, len(expected) + 1) is None
    for page in (0, 2, 4):
        for place, value in [(2, pages[page][2] + 1), (3, -1), (4, -1), (4, pages[page][4] - 1), (5, -1)]:
            damaged = [[*values] for values in pages]
            damaged[page][place] = value
            # A page without words has no size of chunks to contradict.
            assert _listed(file, damaged, len(expected)) is None or (page == 2 and place == 2)


@pytest.mark.parametrize("seed", range(20))
def test_chunks_of_rows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    # The chunk of each slot, and whether a row begins with it.
    is_start = rng.random(400) < rng.choice([0.05, 0.5, 1.0])
    is_start[0] = True
    cuts = np.unique([0, *rng.integers(1, 400, 12).tolist(), 400])
    chunk_of = np.repeat(np.arange(len(cuts) - 1), np.diff(cuts))
    row_of = np.cumsum(is_start) - 1
    ends = np.append(np.flatnonzero(is_start)[1:], 400) - 1
    num_chunks, num_rows = len(cuts) - 1, len(ends)
    begun = np.array([is_start[:cut].sum() for cut in cuts[1:]], "<i8")
    finished = np.array([(ends < cut).sum() for cut in cuts[1:]], "<i8")
    bounds = np.unique(rng.integers(0, num_rows + 1, 16)).astype("<i8")
    starts, stops = (bounds[:-1], bounds[1:]) if seed % 2 else (bounds[:-1:2], bounds[1::2])
    inputs = [guarded(array.tobytes()) for array in (begun, finished, starts, stops)]
    chosen, *found = [allocate_guarded(8 * count) for count in (num_chunks, 2 * len(starts), 2 * len(starts))]
    sources = [buffer.address for buffer in inputs]
    targets = [buffer.address for buffer in (chosen, *found)]
    count = chunks_of_rows(*sources[:2], num_chunks, *sources[2:], len(starts), *targets)
    expected = {
        int(chunk)
        for start, stop in zip(starts, stops, strict=True)
        for chunk in range(chunk_of[np.flatnonzero(row_of == start)[0]], chunk_of[ends[stop - 1]] + 1)
    }
    assert np.frombuffer(chosen, "<i8")[:count].tolist() == sorted(expected)
    places, ordinals = (np.frombuffer(buffer, "<i8") for buffer in found)
    at = np.frombuffer(chosen, "<i8")[places]
    first_slots = np.flatnonzero(is_start)[starts]
    last_slots = ends[stops - 1]
    assert at.tolist() == np.stack([chunk_of[first_slots], chunk_of[last_slots]], 1).reshape(-1).tolist()
    begun_before = np.array([is_start[: cuts[chunk]].sum() for chunk in at])
    assert ordinals.tolist() == (np.stack([starts, stops], 1).reshape(-1) - begun_before).tolist()


def test_rows_that_no_chunk_holds() -> None:
    begun, finished, starts, stops = (guarded(np.array([n], "<i8").tobytes()) for n in (3, 2, 2, 3))
    chosen, places, ordinals = allocate_guarded(8), allocate_guarded(16), allocate_guarded(16)
    targets = chosen.address, places.address, ordinals.address
    assert chunks_of_rows(begun.address, finished.address, 1, starts.address, stops.address, 1, *targets) == -1
