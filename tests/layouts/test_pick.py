"""Rows that are picked out of pages are those of the decoded pages, and nothing outside of the pages is touched."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lance_spark.encodings.base import EncodedBlocks, EncodedMiniBlocks, EncodedValues
from lance_spark.encodings.blocks import ChunkLimits, Chunks, FixedWidthBlock
from lance_spark.encodings.buffer_compression import BufferCompression, CompressionScheme
from lance_spark.encodings.byte_stream_split import ByteStreamSplit
from lance_spark.encodings.fixed_size_list import FixedSizeList
from lance_spark.encodings.flat import Flat
from lance_spark.encodings.fsst import Fsst
from lance_spark.encodings.general import General
from lance_spark.encodings.inline_bitpacking import InlineBitpacking
from lance_spark.encodings.out_of_line_bitpacking import OutOfLineBitpacking
from lance_spark.encodings.rle import Rle
from lance_spark.encodings.variable import Variable
from lance_spark.errors import CorruptFileError
from lance_spark.file_version import FileVersion
from lance_spark.layouts.base import EncodedBuffer, EncodedColumn, EncodedPage, RowRanges
from lance_spark.layouts.full_zip.write import encode_full_zip
from lance_spark.layouts.leaf.values import leaf_block
from lance_spark.layouts.mini_block import write
from lance_spark.layouts.mini_block.layout import DecodedRun
from lance_spark.layouts.page_bytes import PageBytes
from lance_spark.layouts.prepared.leaf import PreparedLeaf
from lance_spark.layouts.registry import PAGE_LAYOUT_URL
from lance_spark.layouts.shred import shred
from tests.layouts.pages import path_of, read_page
from tests.support.guarded_memory import allocate_guarded, guarded

ROWS = 5000
LIMITS = ChunkLimits()
V2_1, V2_2 = FileVersion.V2_1, FileVersion.V2_2

Encode = Callable[[Any], EncodedMiniBlocks[Any]]


def numbers(dtype: str, bits: int) -> pa.Array:
    """Values of at most so many bits, in runs here and there."""
    random = np.random.default_rng(bits)
    values = random.integers(0, 2**64, ROWS, np.uint64) >> np.uint64(64 - bits) if bits else np.zeros(ROWS, np.uint64)
    values[1000:1600] = values[1000]
    return pa.array(values.astype(np.dtype(dtype)))


TEXTS = pa.array([f"some text {number}" * (number % 4) for number in range(ROWS)])
VECTORS = pa.FixedSizeListArray.from_arrays(pa.array(np.random.default_rng(0).random(3 * ROWS, np.float32)), 3)

FLAT: Encode = lambda block: Flat.encode_mini_blocks(block, LIMITS)  # noqa: E731
RUNS: Encode = lambda block: Rle.encode_mini_blocks(block, LIMITS)  # noqa: E731

KINDS: dict[str, tuple[pa.Array, Encode]] = {
    **{
        f"packed {width} of {kind}": (numbers(kind, width), InlineBitpacking.encode_mini_blocks)
        for kind, widths in (("u1", (0, 3, 8)), ("u2", (5, 16)), ("u4", (1, 31)), ("u8", (0, 33, 64)))
        for width in widths
    },
    **{f"runs of {kind}": (numbers(kind, 3), RUNS) for kind in ("u1", "u2", "u4", "u8")},
    "flat": (numbers("u8", 64), FLAT),
    "flat, 16 bytes": (pa.array(range(ROWS)).cast(pa.decimal128(25)), FLAT),
    "bits": (pa.array(np.random.default_rng(1).random(ROWS) < 0.5), FLAT),
    "split": (numbers("u4", 32), lambda block: ByteStreamSplit.encode_mini_blocks(block, LIMITS)),
    "vectors": (VECTORS, lambda block: FixedSizeList.encode_mini_blocks(block, LIMITS)),
    "strings": (TEXTS, lambda block: Variable.encode_mini_blocks(block, LIMITS)),
    "strings, fsst": (TEXTS, lambda block: Fsst.encode_mini_blocks(block, LIMITS)),
}


@dataclass
class File:
    """Pages of a column, one behind the other in a file."""

    dtype: pa.DataType
    pages: list[PageBytes]

    def __post_init__(self) -> None:
        self.content, self.column = b"", EncodedColumn(0, (), sum(page.num_rows for page in self.pages))
        pages = []
        for page in self.pages:
            buffers = []
            for buffer in page.buffers:
                buffers.append(EncodedBuffer(len(self.content), buffer.size))
                self.content += buffer.to_pybytes() + bytes(-buffer.size % 8)
            message = page.layout.to_proto().SerializeToString()
            pages.append(EncodedPage(tuple(buffers), page.num_rows, 0, PAGE_LAYOUT_URL, message))
        self.column = EncodedColumn(0, tuple(pages), self.column.num_rows)

    def prepared(self, data: pa.Buffer) -> PreparedLeaf | None:
        return PreparedLeaf.of(path_of(self.dtype), self.column, data)

    def picked(self, rows: np.ndarray[Any, Any], content: bytes | None = None) -> pa.Array | None:
        data = guarded(self.content if content is None else content)
        leaf = self.prepared(data)
        return None if leaf is None else leaf.pick(data, rows)

    def decoded(self) -> pa.Array:
        arrays = [
            read_page(page.layout, [buffer.to_pybytes() for buffer in page.buffers], self.dtype, page.num_rows)[0]  # type: ignore[arg-type]
            for page in self.pages
        ]
        return pa.concat_arrays(arrays)


def page_of(array: pa.Array, encode: Encode, version: FileVersion = V2_2, steps: tuple[int, ...] = ()) -> PageBytes:
    shredded = shred(array, steps)
    page = write.encode_mini_blocks(shredded.levels(), encode(leaf_block(shredded.values)), version)
    assert page is not None
    return page


def with_nulls(array: pa.Array, share: float = 0.2) -> pa.Array:
    mask = np.random.default_rng(9).random(len(array)) < share
    if pa.types.is_fixed_size_list(array.type):
        return pa.FixedSizeListArray.from_arrays(array.flatten(), array.type.list_size, mask=pa.array(mask))
    return pa.compute.if_else(pa.array(mask), pa.scalar(None, array.type), array)


def in_lists(array: pa.Array) -> pa.Array:
    """Lists of 0 to 40 values, one of 2,000, null and empty ones."""
    random = np.random.default_rng(7)
    lengths = np.minimum(random.integers(0, 41, len(array)), 40)
    lengths[5] = 2000
    lengths[20:60] = 0
    ends = np.minimum(np.cumsum(lengths), len(array))
    offsets = np.concatenate([[0], ends[: int(ends.searchsorted(len(array))) + 1]])
    mask = (np.diff(offsets) == 0) & (np.arange(len(offsets) - 1) % 3 == 0)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), array, mask=pa.array(mask))


@pytest.fixture(autouse=True)
def guarded_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pa, "allocate_buffer", allocate_guarded)


def check(file: File, expected: pa.Array) -> None:
    random = np.random.default_rng(4)
    count = len(expected)
    assert file.decoded().equals(expected)
    for rows in ([0], [count - 1, 0, 0, count // 2], random.permutation(count), np.arange(count)):
        wanted = np.array(rows, np.int64)
        array = file.picked(wanted)
        assert array is not None
        array.validate(full=True)
        assert array.equals(expected.take(pa.array(wanted)))
    for outside in ([count], [-1], [1 << 62], [0, count]):
        with pytest.raises(CorruptFileError):
            file.picked(np.array(outside, np.int64))


@pytest.mark.parametrize("version", [V2_1, V2_2])
@pytest.mark.parametrize("shape", ["plain", "nulls", "late nulls", "lists", "lists of nulls"])
@pytest.mark.parametrize("name", list(KINDS))
def test_rows_of_mini_blocks(name: str, shape: str, version: FileVersion) -> None:
    array, encode = KINDS[name]
    if "nulls" in shape:
        array = with_nulls(array, 0.2 if shape != "late nulls" else 0.001)
    if "lists" in shape:
        array = in_lists(array)
        check(File(array.type, [page_of(array, encode, version, (0,))]), array)
        return
    # A page with nulls and one without have one reader.
    others = KINDS[name][0].slice(17, 1500)
    file = File(array.type, [page_of(array, encode, version), page_of(others, encode, version)])
    check(file, pa.concat_arrays([array, others]))


def inline(block: FixedWidthBlock, counts: np.ndarray[Any, Any]) -> EncodedBlocks[Any]:
    """Levels of up to 1024 slots in a block each."""
    blocks, start = [], 0
    for count in counts.tolist():
        levels = FixedWidthBlock(block.data.slice(2 * start, 2 * count), 16, count)
        blocks.append(InlineBitpacking.encode_mini_blocks(levels).buffers[0].data.to_pybytes())
        start += count
    sizes = np.array([len(each) for each in blocks])
    chunks = Chunks(pa.py_buffer(b"".join(blocks)), np.cumsum(sizes) - sizes, sizes, counts)
    return EncodedBlocks(InlineBitpacking(16), chunks)


@pytest.mark.parametrize("levels", ["out of line", "inline", "runs"])
@pytest.mark.parametrize("shape", ["nulls", "lists"])
def test_encodings_of_levels(shape: str, levels: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def chosen(block: FixedWidthBlock, counts: np.ndarray[Any, Any], _: FileVersion) -> Any:
        if levels == "runs":
            return Rle.encode_blocks(block, counts)
        if levels == "inline":
            return inline(block, counts)
        return OutOfLineBitpacking.encode_blocks(block, counts, 3)

    monkeypatch.setattr(write, "choose_blocks", chosen)
    small = ChunkLimits(max_values=256)
    array = with_nulls(numbers("u4", 20))
    array = in_lists(array) if shape == "lists" else array
    steps = (0,) if shape == "lists" else ()
    page = page_of(array, lambda block: Flat.encode_mini_blocks(block, small), steps=steps)
    check(File(array.type, [page]), array)


def zipped(array: pa.Array, codec: Any, steps: tuple[int, ...] = ()) -> PageBytes:
    shredded = shred(array, steps)
    values: EncodedValues[Any] = codec.encode_values(leaf_block(shredded.values))
    return encode_full_zip(shredded.levels(), values)


@pytest.mark.parametrize("name", ["vectors", "strings", "strings, fsst"])
@pytest.mark.parametrize("shape", ["plain", "nulls", "lists", "lists of nulls"])
def test_rows_of_full_zip_pages(name: str, shape: str) -> None:
    array = KINDS[name][0]
    codec = {"vectors": FixedSizeList, "strings": Variable, "strings, fsst": Fsst}[name]
    array = with_nulls(array) if "nulls" in shape else array
    array, steps = (in_lists(array), (0,)) if "lists" in shape else (array, ())
    check(File(array.type, [zipped(array, codec, steps)]), array)


def test_structs_around_a_leaf() -> None:
    inner = with_nulls(numbers("u8", 40))
    mask = np.random.default_rng(5).random(ROWS) < 0.1
    array = pa.StructArray.from_arrays([inner], ["a"], mask=pa.array(mask))
    page = page_of(array, InlineBitpacking.encode_mini_blocks, steps=(0,))
    check(File(array.type, [page]), array)


@pytest.mark.parametrize("shape", ["plain", "nulls", "lists of nulls"])
@pytest.mark.parametrize("name", ["flat", "packed 33 of u8", "split", "strings"])
def test_chunks_that_are_compressed_are_decoded(name: str, shape: str) -> None:
    array, inner = KINDS[name]
    array = with_nulls(array) if "nulls" in shape else array
    array, steps = (in_lists(array), (0,)) if "lists" in shape else (array, ())
    lz4 = BufferCompression(CompressionScheme.LZ4)
    page = page_of(array, lambda block: General.encode_mini_blocks(inner(block), lz4), steps=steps)
    file = File(array.type, [page, page])
    leaf = file.prepared(guarded(file.content))
    assert leaf is not None
    assert [type(run) for run in leaf.runs] == [DecodedRun]
    check(file, pa.concat_arrays([array, array]))
    check_damage(file)


@pytest.mark.parametrize("shape", ["plain", "nulls", "lists of nulls"])
@pytest.mark.parametrize("name", ["packed 33 of u8", "runs of u2", "flat", "bits", "split", "strings", "strings, fsst"])
def test_changed_bytes_of_mini_blocks(name: str, shape: str) -> None:
    array, encode = KINDS[name]
    array = with_nulls(array.slice(0, 3000)) if "nulls" in shape else array.slice(0, 3000)
    steps = (0,) if "lists" in shape else ()
    array = in_lists(array) if steps else array
    check_damage(File(array.type, [page_of(array, encode, steps=steps)]))


@pytest.mark.parametrize("shape", ["plain", "nulls", "lists of nulls"])
@pytest.mark.parametrize("name", ["vectors", "strings"])
def test_changed_bytes_of_full_zip_pages(name: str, shape: str) -> None:
    array = KINDS[name][0].slice(0, 500)
    array = with_nulls(array) if "nulls" in shape else array
    array, steps = (in_lists(array), (0,)) if "lists" in shape else (array, ())
    check_damage(File(array.type, [zipped(array, FixedSizeList if name == "vectors" else Variable, steps)]))


def check_damage(file: File) -> None:
    """One or two bytes are changed, mostly where pages say how long something is; or the file ends too early."""
    random = np.random.default_rng(3)
    count = file.column.num_rows
    starts = [buffer.position for page in file.column.pages for buffer in page.buffers]
    wanted = np.concatenate([np.array([count - 1, 0, 1], np.int64), random.integers(0, count, 20)])
    for number in range(400):
        damaged = bytearray(file.content)
        for _ in range(1 + number % 2):
            start = starts[random.integers(len(starts))]
            place = start + int(random.integers(40)) if random.integers(2) else int(random.integers(len(damaged)))
            damaged[min(place, len(damaged) - 1)] = int(random.integers(256))
        try:
            array = file.picked(wanted, bytes(damaged))
        except CorruptFileError:
            continue
        assert array is None or len(array) == len(wanted)
    end = max(start + size for page in file.column.pages for start, size in page.buffers)
    for missing in (1, 9, 100):
        with pytest.raises(CorruptFileError):
            file.picked(wanted, file.content[: end - missing])


@pytest.mark.parametrize("name", ["packed 33 of u8", "strings", "runs of u2"])
def test_bytes_that_end_earlier_than_when_they_were_prepared(name: str) -> None:
    """The kernel compares each chunk with the bytes that it gets."""
    array, encode = KINDS[name]
    file = File(array.type, [page_of(array, encode)])
    leaf = file.prepared(guarded(file.content))
    assert leaf is not None
    rows = np.arange(ROWS)
    chunks = file.column.pages[0].buffers[1]
    for size in (0, chunks.position, chunks.position + 7, chunks.position + chunks.size - 1):
        with pytest.raises(CorruptFileError):
            leaf.pick(guarded(file.content[:size]), rows)


@pytest.mark.parametrize("steps", [(), (0,)])
@pytest.mark.parametrize("share", [0.001, 0.02])
def test_spans_that_are_fetched_have_the_same_rows(steps: tuple[int, ...], share: float) -> None:
    """Few rows of a page that is not in memory: chunks come in pieces of memory of their own."""
    array = with_nulls(pa.concat_arrays([numbers("u8", 60)] * 20))
    array = in_lists(array) if steps else array
    page = page_of(array, InlineBitpacking.encode_mini_blocks, steps=steps)
    buffers = [buffer.to_pybytes() for buffer in page.buffers]
    random = np.random.default_rng(2)
    rows = np.unique(random.integers(0, len(array), max(1, int(len(array) * share))))
    picked, rounds = read_page(page.layout, buffers, array.type, len(array), RowRanges.of_numbers(rows))  # type: ignore[arg-type]
    assert rounds == 2
    assert picked.equals(array.take(pa.array(rows)))
