"""The worked examples of the layouts' documentation, and messages that make no sense."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lance_spark._proto import encodings_v2_1_pb2 as pb
from lance_spark.encodings.flat import Flat
from lance_spark.encodings.variable import Variable
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.layouts.base import BufferSlices, RowRanges
from lance_spark.layouts.constant.layout import ConstantLayout
from lance_spark.layouts.full_zip.layout import FullZipLayout
from lance_spark.layouts.mini_block.layout import MiniBlockLayout
from lance_spark.layouts.read_spans import ReadSpans, gathered, spanned
from lance_spark.layouts.registry import PAGE_LAYOUT_URL, parse_page
from lance_spark.layouts.repdef import RepDefLayer as Layer
from tests.layouts.pages import read_page

SAME = bytes.fromhex("02000000 08000000 04000000 00000000 04000000 73616d65")


def test_mini_block() -> None:
    layout = MiniBlockLayout(Flat(64), (Layer.ALL_VALID_ITEM,), num_items=3, has_large_chunk=True)
    chunk = bytes.fromhex("0000 18000000 fefe 0500000000000000 0600000000000000 0700000000000000")
    assert read_page(layout, [b"\x30\0\0\0", chunk], pa.int64(), 3)[0].to_pylist() == [5, 6, 7]
    for words, data in ((b"\x30\0\0", chunk), (b"\x40\0\0\0", chunk), (b"", chunk), (b"\x30\0\0\0", chunk[:24])):
        with pytest.raises(CorruptFileError):
            read_page(layout, [words, data], pa.int64(), 3)


def test_full_zip() -> None:
    layers = (Layer.NULLABLE_ITEM,)
    layout = FullZipLayout(Variable(32), layers, 2, 2, bits_def=1, bits_per_offset=32)
    data = bytes.fromhex("00 02000000 6162 01")
    index = bytes([0, 7, 8])
    assert read_page(layout, [data, index], pa.binary(), 2) == (pa.array([b"ab", None]), 1)
    for row, expected in ((0, b"ab"), (1, None)):
        got = read_page(layout, [data, index], pa.binary(), 2, RowRanges.of(row, row + 1))
        assert got == (pa.array([expected], pa.binary()), 2)


@pytest.mark.parametrize(
    "data", ["00 02000000 61", "00 020000", "00 ffffffff 6162 01", "02 02000000 6162 01", "00 02000000 6162", ""]
)
def test_full_zip_that_is_cut_off(data: str) -> None:
    layout = FullZipLayout(Variable(32), (Layer.NULLABLE_ITEM,), 2, 2, bits_def=1, bits_per_offset=32)
    with pytest.raises(CorruptFileError):
        read_page(layout, [bytes.fromhex(data), bytes([0, 7, 8])], pa.binary(), 2)


@pytest.mark.parametrize("index", [[0, 7], [0, 9, 8], [7, 0, 8], [0, 7, 9], [3, 7, 8]])
def test_row_index_that_makes_no_sense(index: list[int]) -> None:
    layout = FullZipLayout(Variable(32), (Layer.NULLABLE_ITEM,), 2, 2, bits_def=1, bits_per_offset=32)
    data = bytes.fromhex("00 02000000 6162 01")
    rows = RowRanges(np.array([0, 1]), np.array([1, 2]))
    with pytest.raises(CorruptFileError):
        read_page(layout, [data, bytes(index)], pa.binary(), 3, rows)


def test_full_zip_of_fixed_width() -> None:
    layout = FullZipLayout(Flat(16), (Layer.NULLABLE_ITEM,), 3, 3, bits_def=1, bits_per_value=16)
    data = bytes.fromhex("00 0100 01 0000 00 0300")
    assert read_page(layout, [data], pa.int16(), 3)[0].to_pylist() == [1, None, 3]
    assert read_page(layout, [data], pa.int16(), 3, RowRanges.of(1, 3)) == (pa.array([None, 3], pa.int16()), 1)
    plain = FullZipLayout(Flat(16), (Layer.ALL_VALID_ITEM,), 3, 3, bits_per_value=16)
    assert read_page(plain, [bytes([1, 0, 2, 0, 3, 0])], pa.int16(), 3)[0].to_pylist() == [1, 2, 3]
    with pytest.raises(CorruptFileError):
        read_page(plain, [data], pa.int16(), 3)


def test_constant_text() -> None:
    layout = ConstantLayout((Layer.ALL_VALID_ITEM,))
    assert read_page(layout, [SAME], pa.string(), 3)[0].to_pylist() == ["same"] * 3
    wide = SAME[:4] + b"\x10" + SAME[5:12] + bytes(8) + b"\x04" + bytes(7) + b"same"
    assert read_page(layout, [wide], pa.large_binary(), 2)[0].to_pylist() == [b"same"] * 2
    levels = np.array([0, 1, 0], "<u2").tobytes()
    nullable = ConstantLayout((Layer.NULLABLE_ITEM,))
    assert read_page(nullable, [SAME, b"", levels], pa.string(), 3)[0].to_pylist() == ["same", None, "same"]
    for cut in range(len(SAME)):
        with pytest.raises(CorruptFileError):
            read_page(layout, [SAME[:cut]], pa.string(), 3)


def test_constant_inline() -> None:
    layers = (Layer.NULLABLE_ITEM,)
    for dtype, value, expected in (
        (pa.int32(), b"\7\0\0\0", 7),
        (pa.bool_(), b"\1", True),
        (pa.binary(3), b"abc", b"abc"),
        (pa.float64(), bytes(8), 0.0),
    ):
        layout = ConstantLayout(layers, inline_value=value)
        levels = np.array([0, 1, 0], "<u2").tobytes()
        assert read_page(layout, [], dtype, 2)[0].to_pylist() == [expected] * 2
        assert read_page(layout, [b"", levels], dtype, 3)[0].to_pylist() == [expected, None, expected]
        with pytest.raises(CorruptFileError):
            read_page(ConstantLayout(layers, inline_value=value + b"\0"), [], dtype, 2)
    with pytest.raises(CorruptFileError):
        read_page(ConstantLayout(layers, inline_value=b"\2"), [], pa.bool_(), 2)


def test_nulls() -> None:
    nullable = ConstantLayout((Layer.NULLABLE_ITEM,))
    assert read_page(nullable, [], pa.int32(), 3)[0].to_pylist() == [None] * 3
    assert read_page(ConstantLayout((Layer.ALL_VALID_ITEM,)), [], pa.null(), 3)[0].to_pylist() == [None] * 3
    with pytest.raises(CorruptFileError):
        read_page(ConstantLayout((Layer.ALL_VALID_ITEM,)), [], pa.int32(), 3)
    with pytest.raises(CorruptFileError, match="valid"):
        read_page(nullable, [b"", bytes(6)], pa.int32(), 3)
    with pytest.raises(CorruptFileError):
        read_page(nullable, [b"", b"\1\0\1"], pa.int32(), 1)


def test_pages_of_other_versions_are_refused() -> None:
    for url in ("/lance.encodings23.PlanarLayout", "/lance.encodings.PageLayout", "/lance.encodings.ArrayEncoding", ""):
        with pytest.raises(UnsupportedFeatureError, match="rewrite"):
            parse_page(url, b"")


def test_messages_that_make_no_sense() -> None:
    flat = Flat(64).to_proto()
    mini_block = {"value_compression": flat, "layers": [1], "num_buffers": 1, "num_items": 1}
    full_zip = {"value_compression": flat, "layers": [1], "bits_per_value": 64}
    messages = [
        pb.PageLayout(),
        pb.PageLayout(mini_block_layout=pb.MiniBlockLayout(**mini_block | {"num_buffers": 2})),
        pb.PageLayout(mini_block_layout=pb.MiniBlockLayout(**mini_block | {"layers": []})),
        pb.PageLayout(mini_block_layout=pb.MiniBlockLayout(**mini_block | {"num_items": 2**63})),
        pb.PageLayout(mini_block_layout=pb.MiniBlockLayout(**mini_block | {"value_compression": None})),
        pb.PageLayout(full_zip_layout=pb.FullZipLayout(**full_zip | {"bits_per_value": 63})),
        pb.PageLayout(full_zip_layout=pb.FullZipLayout(value_compression=flat, layers=[1])),
        pb.PageLayout(full_zip_layout=pb.FullZipLayout(**full_zip | {"bits_def": 17})),
        pb.PageLayout(constant_layout=pb.ConstantLayout(layers=[1], num_def_values=2**60)),
        pb.PageLayout(blob_layout=pb.BlobLayout(layers=[1])),
    ]
    for message in messages:
        with pytest.raises(CorruptFileError):
            parse_page(PAGE_LAYOUT_URL, message.SerializeToString())
    with pytest.raises(CorruptFileError, match="parse"):
        parse_page(PAGE_LAYOUT_URL, b"\xff\xff")
    deep = pb.MiniBlockLayout(**mini_block | {"repetition_index_depth": 2})
    with pytest.raises(UnsupportedFeatureError):
        parse_page(PAGE_LAYOUT_URL, pb.PageLayout(mini_block_layout=deep).SerializeToString())


def test_spans() -> None:
    starts, stops = np.array([0, 50, 1_000_000, 7]), np.array([10, 60, 1_000_010, 9])
    spans = ReadSpans.plan(starts, stops, np.array([0, 0, 0, 1]))
    [request] = spans.slices(2)
    assert isinstance(request, BufferSlices)
    assert request.buffer == 2
    assert request.starts.tolist() == [0, 1_000_000, 7]
    assert request.lengths.tolist() == [60, 10, 2]
    assert request.pages.tolist() == [0, 0, 1]
    pieces = [pa.py_buffer(bytes(range(60))), pa.py_buffer(b"0123456789"), pa.py_buffer(b"xy")]
    data, places = spans.located(spanned(pieces))
    assert gathered(data, places, stops - starts).to_pybytes() == bytes([*range(10), *range(50, 60)]) + b"0123456789xy"


def test_spanned_keeps_its_pieces() -> None:
    data, bases = spanned([pa.py_buffer(b"ab" * 100), pa.py_buffer(b""), pa.py_buffer(b"cd" * 100)])
    assert data.slice(int(bases[0]), 4).to_pybytes() == b"abab"
    assert data.slice(int(bases[2]), 4).to_pybytes() == b"cdcd"
    assert spanned([pa.py_buffer(b""), pa.py_buffer(b"")])[0].size == 0
