"""Single values out of mini-block chunks equal those of decoding the chunks."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.encodings.blocks import ChunkLimits, Chunks, FixedSizeListBlock, FixedWidthBlock, VariableWidthBlock
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

VALUES = 5000


def _picked(num_values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(chunk, place, number) of some values, those at the borders of chunks among them."""
    ends = np.cumsum(num_values)
    starts = ends - num_values
    numbers = np.unique(np.concatenate([starts, ends - 1, np.random.default_rng(0).integers(0, ends[-1], 300)]))
    chunk = np.searchsorted(starts, numbers, "right") - 1
    return chunk, numbers - starts[chunk], numbers


@pytest.mark.parametrize("word_bits", [8, 16, 32, 64])
def test_inline_bitpacking_of_all_widths(word_bits: int) -> None:
    rng = np.random.default_rng(word_bits)
    for width in range(word_bits + 1):
        values = (
            rng.integers(0, 2**64, VALUES, np.uint64) >> np.uint64(64 - width) if width else np.zeros(VALUES)
        ).astype(f"u{word_bits // 8}")
        encoded = InlineBitpacking.encode_mini_blocks(FixedWidthBlock(pa.py_buffer(values), word_bits, VALUES))
        chunk, place, numbers = _picked(encoded.num_values)
        taken = encoded.encoding.take_mini_blocks(encoded.buffers, chunk, place)
        assert np.array_equal(np.frombuffer(taken.data, values.dtype), values[numbers])


@pytest.mark.parametrize("word_bits", [8, 16, 32, 64])
def test_out_of_line_bitpacking_of_all_widths_and_tails(word_bits: int) -> None:
    rng = np.random.default_rng(word_bits)
    # Tails that are raw, tails that are packed, none, and a block of nothing else.
    counts = np.array([1024, 2048, 1034, 2047, 7, 1])
    num_values = int(counts.sum())
    for width in range(word_bits + 1):
        values = (
            rng.integers(0, 2**64, num_values, np.uint64) >> np.uint64(64 - width) if width else np.zeros(num_values)
        ).astype(f"u{word_bits // 8}")
        block = FixedWidthBlock(pa.py_buffer(values), word_bits, num_values)
        encoded = OutOfLineBitpacking.encode_blocks(block, counts, width)
        chunk, place, numbers = _picked(counts)
        taken = encoded.encoding.take_blocks(encoded.chunks, chunk, place)
        assert np.array_equal(np.frombuffer(taken.data, values.dtype), values[numbers])


@pytest.mark.parametrize("bits", [1, 64])
def test_tables_with_gaps(bits: int) -> None:
    """Columns of larger tables: kernels read copies of them, which have to live that long."""
    values = np.random.default_rng(bits).integers(0, 256, 8 * 2048, np.uint8)
    places = np.array([[3, 1], [0, 1], [5, 0], [1023, 1]])
    slices = np.array([[0, 1024 * bits // 8, 1024], [1024 * bits // 8, 1024 * bits // 8, 1024]])
    chunks = Chunks(pa.py_buffer(values), slices[:, 0], slices[:, 1], slices[:, 2])
    taken = Flat(bits).take_blocks(chunks, places[:, 1], places[:, 0])
    stored = np.unpackbits(values, bitorder="little") if bits == 1 else values.view(np.uint64)
    found = np.frombuffer(taken.data, np.uint8 if bits == 1 else np.uint64) if taken is not None else None
    assert found is not None
    found = np.unpackbits(found, bitorder="little")[:4] if bits == 1 else found
    assert found.tolist() == stored[places[:, 1] * 1024 + places[:, 0]].tolist()


def test_out_of_line_bitpacking_with_gaps_in_its_tables() -> None:
    values = np.arange(2048, dtype=np.uint32) % 1000
    encoded = OutOfLineBitpacking.encode_blocks(
        FixedWidthBlock(pa.py_buffer(values), 32, 2048), np.array([1024, 1024]), 10
    )
    places = np.array([[3, 1], [0, 1], [5, 0], [1023, 1]])
    taken = encoded.encoding.take_blocks(encoded.chunks, places[:, 1], places[:, 0])
    assert np.frombuffer(taken.data, np.uint32).tolist() == values[places[:, 1] * 1024 + places[:, 0]].tolist()


def test_out_of_line_bitpacking_checks_sizes() -> None:
    counts = np.array([2048 + 1000])
    values = np.arange(3048).astype(np.uint16) & 7
    encoded = OutOfLineBitpacking.encode_blocks(FixedWidthBlock(pa.py_buffer(values), 16, 3048), counts, 3)
    chunks = encoded.chunks
    assert int(chunks.sizes[0]) == 3 * 3 * 128
    for place, size in ((0, 767), (2048, 3 * 3 * 128 - 1), (3048, 3 * 3 * 128)):
        cut = Chunks(chunks.data, chunks.starts, np.array([size]), chunks.num_values)
        with pytest.raises(CorruptFileError):
            encoded.encoding.take_blocks(cut, np.array([0]), np.array([place]))


@pytest.mark.parametrize("bits", [1, 8, 16, 32, 64, 128])
def test_flat(bits: int) -> None:
    data = np.random.default_rng(bits).integers(0, 256, (VALUES * bits + 7) // 8).astype(np.uint8)
    encoded = Flat.encode_mini_blocks(FixedWidthBlock(pa.py_buffer(data), bits, VALUES), ChunkLimits())
    chunk, place, numbers = _picked(encoded.num_values)
    taken = encoded.encoding.take_mini_blocks(encoded.buffers, chunk, place)
    assert taken is not None
    got = np.frombuffer(taken.data, np.uint8)
    if bits == 1:
        all_bits = np.unpackbits(data, bitorder="little")
        assert np.array_equal(np.unpackbits(got, count=len(numbers), bitorder="little"), all_bits[numbers])
    else:
        assert np.array_equal(got.reshape(-1, bits // 8), data.reshape(-1, bits // 8)[numbers])


@pytest.mark.parametrize(("bits", "dimension"), [(8, 1), (8, 3), (16, 5), (32, 7), (64, 2), (1, 16)])
def test_fixed_size_lists(bits: int, dimension: int) -> None:
    row_bytes = bits * dimension // 8
    data = np.random.default_rng(bits).integers(0, 256, VALUES * row_bytes).astype(np.uint8)
    items = FixedWidthBlock(pa.py_buffer(data), bits, VALUES * dimension)
    lists = FixedSizeListBlock(items, dimension, None, VALUES)
    encoded = FixedSizeList.encode_mini_blocks(lists, ChunkLimits())
    assert encoded.encoding.can_take
    chunk, place, numbers = _picked(encoded.num_values)
    taken = encoded.encoding.take_mini_blocks(encoded.buffers, chunk, place)
    assert (taken.dimension, taken.num_values, taken.items.num_values) == (
        dimension,
        len(numbers),
        len(numbers) * dimension,
    )
    got = np.frombuffer(taken.items.data, np.uint8).reshape(-1, row_bytes)
    assert np.array_equal(got, data.reshape(-1, row_bytes)[numbers])


def test_fixed_size_lists_that_are_decoded_as_chunks() -> None:
    assert not FixedSizeList(3, True, Flat(8)).can_take, "items can be null"
    assert not FixedSizeList(3, False, Flat(1)).can_take, "lists end within a byte"
    assert not FixedSizeList((1 << 31) - 1, False, Flat(1 << 34)).can_take, "no chunk has such a list"
    assert not FixedSizeList(2, False, FixedSizeList(2, False, Flat(8))).can_take


@pytest.mark.parametrize("kind", [Variable, Fsst])
def test_strings(kind: type[Variable] | type[Fsst]) -> None:
    texts = [f"some text {number}" * (number % 4) for number in range(VALUES)]
    _, offsets, data = pa.array(texts).buffers()
    encoded = kind.encode_mini_blocks(VariableWidthBlock(offsets, data, 32, VALUES), ChunkLimits())
    chunk, place, numbers = _picked(encoded.num_values)
    taken = encoded.encoding.take_mini_blocks(encoded.buffers, chunk, place)
    got = pa.Array.from_buffers(pa.string(), len(numbers), [None, taken.offsets, taken.data])
    assert got.to_pylist() == [texts[number] for number in numbers.tolist()]


@pytest.mark.parametrize("bits", [32, 64])
def test_split_bytes(bits: int) -> None:
    values = np.random.default_rng(bits).integers(0, 2**32, VALUES).astype(f"u{bits // 8}")
    encoded = ByteStreamSplit.encode_mini_blocks(FixedWidthBlock(pa.py_buffer(values), bits, VALUES), ChunkLimits())
    chunk, place, numbers = _picked(encoded.num_values)
    taken = encoded.encoding.take_mini_blocks(encoded.buffers, chunk, place)
    assert np.array_equal(np.frombuffer(taken.data, values.dtype), values[numbers])


@pytest.mark.parametrize("run", [1, 3, 300, 2000])
@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_runs(bits: int, run: int) -> None:
    values = np.repeat(np.random.default_rng(bits).integers(0, 200, VALUES), run)[:VALUES].astype(f"u{bits // 8}")
    encoded = Rle.encode_mini_blocks(FixedWidthBlock(pa.py_buffer(values), bits, VALUES), ChunkLimits())
    chunk, place, numbers = _picked(encoded.num_values)
    backwards = np.ascontiguousarray(chunk[::-1]), np.ascontiguousarray(place[::-1])
    for picked, wanted in (((chunk, place), numbers), (backwards, numbers[::-1])):
        taken = encoded.encoding.take_mini_blocks(encoded.buffers, *picked)
        assert np.array_equal(np.frombuffer(taken.data, values.dtype), values[wanted])


@pytest.mark.parametrize("scheme", list(CompressionScheme))
def test_compressed_chunks(scheme: CompressionScheme) -> None:
    values = np.repeat(np.random.default_rng(3).integers(0, 2**40, VALUES // 4), 4)
    block = FixedWidthBlock(pa.py_buffer(values), 64, VALUES)
    for inner in (
        Flat.encode_mini_blocks(block, ChunkLimits()),
        InlineBitpacking.encode_mini_blocks(block),
        ByteStreamSplit.encode_mini_blocks(block, ChunkLimits()),
        Rle.encode_mini_blocks(block, ChunkLimits()),
    ):
        encoded = General.encode_mini_blocks(inner, BufferCompression(scheme))
        assert encoded.encoding.can_take
        chunk, place, numbers = _picked(encoded.num_values)
        taken = encoded.encoding.take_mini_blocks(encoded.buffers, chunk, place)
        assert np.array_equal(np.frombuffer(taken.data, np.int64), values[numbers])


def test_damaged_runs_are_refused() -> None:
    """A chunk with fewer values for its runs, or fewer runs, than it takes to reach a value."""
    zero = np.zeros(1, np.int64)

    def part(data: bytes) -> Chunks:
        return Chunks(pa.py_buffer(data), zero, np.array([len(data)]), np.array([300]))

    whole = bytes([1, 2]), bytes([255, 45])
    assert Rle(8).take_mini_blocks([part(each) for each in whole], zero, np.array([299])).data.to_pybytes() == b"\2"
    for values, lengths in (
        (whole[0][:1], whole[1]),
        (whole[0], whole[1][:1]),
        (whole[0], bytes([255, 44])),
        (b"", b""),
    ):
        with pytest.raises(CorruptFileError):
            Rle(8).take_mini_blocks([part(values), part(lengths)], zero, np.array([299]))


@pytest.mark.parametrize("damage", ["short", "width"])
def test_damaged_chunks_are_refused(damage: str) -> None:
    data = np.full(2000, 255, np.uint8)
    size = np.array([4 if damage == "short" else 2000])
    chunks = Chunks(pa.py_buffer(data), np.zeros(1, np.int64), size, np.array([1024]))
    zero, last = np.zeros(1, np.int64), np.array([1023])
    with pytest.raises(CorruptFileError):
        InlineBitpacking(64).take_mini_blocks([chunks], zero, last)
    with pytest.raises(CorruptFileError):
        Variable(32).take_mini_blocks([chunks], zero, last)
    if damage == "short":
        with pytest.raises(CorruptFileError):
            Flat(64).take_mini_blocks([chunks], zero, last)
        with pytest.raises(CorruptFileError):
            ByteStreamSplit(32).take_mini_blocks([chunks], zero, last)
        with pytest.raises(CorruptFileError):
            FixedSizeList(2, False, Flat(32)).take_mini_blocks([chunks], zero, last)
        with pytest.raises(CorruptFileError):
            Flat(1).take_mini_blocks([chunks], zero, last)
        with pytest.raises(CorruptFileError):
            Flat(1).take_mini_blocks([Chunks(chunks.data, chunks.starts, size, np.array([32]))], zero, np.array([32]))


def _columns() -> pa.Table:
    rng = np.random.default_rng(5)
    rows = 60_000
    mask = rng.random(rows) < 0.2
    texts = pa.array([f"{number:x}" * (number % 7) for number in rng.integers(0, 2**30, rows).tolist()])
    numbers = pa.array(rng.integers(-(2**60), 2**60, rows))
    return pa.table(
        {
            "wide": numbers,
            "small": rng.integers(0, 1000, rows),
            "negative": rng.integers(-5, 5, rows).astype(np.int16),
            "null": pa.array(rng.integers(0, 9, rows), mask=mask),
            "bool": pa.array(rng.random(rows) < 0.5, mask=mask),
            "text": pa.array(texts.to_pylist(), mask=mask),
            "word": pa.array([f"word {number}" for number in rng.integers(0, 50, rows).tolist()]),
            "struct": pa.StructArray.from_arrays([numbers, texts], ["a", "b"]),
            "list": pa.array([[number] * (number % 5) for number in rng.integers(0, 50, rows).tolist()]),
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(rng.random(rows * 4, np.float32)), 4),
            "decimal": pa.array(rng.integers(0, 10**9, rows)).cast(pa.decimal128(30, 2)),
        }
    )


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_takes_of_large_pages_equal_pylance(tmp_path: Path, version: str) -> None:
    path = str(tmp_path / "t")
    reference = lance.write_dataset(_columns(), path, data_storage_version=version)
    table = lance_spark.open(path)
    for count in (1, 7, 500, 30_000):
        indices = np.sort(np.random.default_rng(count).choice(table.count_rows(), count, replace=False)).tolist()
        assert table.take(indices).equals(reference.take(indices))
