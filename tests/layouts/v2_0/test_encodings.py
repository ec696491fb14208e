"""Pages by hand: encodings that writers no longer choose, variations of old releases, examples of the format."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from lance_spark._proto import encodings_v2_0_pb2 as pb
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.layouts.base import RowRanges
from lance_spark.schema.field import Field, FieldId
from tests.layouts.v2_0.files import ranges_of, single_rows
from tests.layouts.v2_0.pages import (
    Builder,
    all_nulls,
    binary,
    flat,
    leaf,
    no_nulls,
    read,
    some_nulls,
    u64,
)

ROWS = 2500
SELECTIONS = [
    RowRanges.of(0, ROWS),
    RowRanges.of(3, 2100),
    ranges_of([(0, 1), (1023, 1025), (1030, 1031), (2499, 2500)]),
    single_rows(np.arange(5, ROWS, 41)),
]


def selected(values: np.ndarray, ranges: RowRanges) -> list[object]:
    return values[ranges.indices()].tolist()


def packed_bits(values: np.ndarray, width: int) -> bytes:
    """The low `width` bits of every value, one value after the other, lowest bit first."""
    bits = (values.astype(np.uint64)[:, None] >> np.arange(width, dtype=np.uint64)) & np.uint64(1)
    return np.packbits(bits.astype(np.uint8).ravel(), bitorder="little").tobytes()


def test_bitpacked_worked_example() -> None:
    message = pb.Bitpacked(compressed_bits_per_value=3, uncompressed_bits_per_value=8, buffer=pb.Buffer())
    assert read(pb.ArrayEncoding(bitpacked=message), [b"\xd1\x00"], 3, "uint8").to_pylist() == [1, 2, 3]


@pytest.mark.parametrize("word_bits", [8, 16, 32, 64])
@pytest.mark.parametrize("signed", [False, True])
def test_bitpacked(word_bits: int, signed: bool) -> None:
    rng = np.random.default_rng(word_bits)
    for width in sorted({1, 3, 7, 8, word_bits // 2 + 1, word_bits - 1, word_bits}):
        low, high = (-(2 ** (width - 1)), 2 ** (width - 1) - 1) if signed else (0, 2**width - 1)
        kind = np.int64 if signed else np.uint64
        values = rng.integers(low, high, ROWS, dtype=kind, endpoint=True)
        message = pb.Bitpacked(
            compressed_bits_per_value=width,
            uncompressed_bits_per_value=word_bits,
            buffer=pb.Buffer(buffer_index=0),
            signed=signed,
        )
        encoding = no_nulls(pb.ArrayEncoding(bitpacked=message))
        for ranges in SELECTIONS:
            logical_type = f"{'' if signed else 'u'}int{word_bits}"
            actual = read(encoding, [packed_bits(values, width)], ROWS, logical_type, ranges)
            assert actual.to_pylist() == selected(values, ranges), (width, ranges)


def fast_lanes(values: np.ndarray, word_bits: int, width: int) -> bytes:
    """1024 values as the FastLanes paper orders them, bit by bit."""
    lanes = 1024 // word_bits
    order = [0, 4, 2, 6, 1, 5, 3, 7]
    packed = np.zeros(width * lanes, np.uint64)
    for row in range(word_bits):
        for bit in range(width):
            place = row * width + bit
            word, shift = place // word_bits, np.uint64(place % word_bits)
            logical = order[row // 8] * 16 + (row % 8) * 128 + np.arange(lanes)
            bits = (values[logical].astype(np.uint64) >> np.uint64(bit)) & np.uint64(1)
            packed[word * lanes : (word + 1) * lanes] |= bits << shift
    return packed.astype(f"u{word_bits // 8}").tobytes()


@pytest.mark.parametrize("word_bits", [8, 16, 32, 64])
@pytest.mark.parametrize("rows", [1, 1023, 1024, ROWS])
def test_bitpacked_for_non_neg(word_bits: int, rows: int) -> None:
    rng = np.random.default_rng(word_bits)
    for width in {1, 5, word_bits}:
        values = rng.integers(0, 2**width - 1, rows, dtype=np.uint64, endpoint=True)
        padded = np.concatenate([values, np.zeros(-rows % 1024, np.uint64)]).reshape(-1, 1024)
        message = pb.BitpackedForNonNeg(
            compressed_bits_per_value=width, uncompressed_bits_per_value=word_bits, buffer=pb.Buffer(buffer_index=0)
        )
        data = b"".join(fast_lanes(block, word_bits, width) for block in padded)
        for ranges in SELECTIONS if rows == ROWS else [RowRanges.of(0, rows), RowRanges.of(rows - 1, rows)]:
            actual = read(pb.ArrayEncoding(bitpacked_for_non_neg=message), [data], rows, f"uint{word_bits}", ranges)
            assert actual.to_pylist() == selected(values, ranges), (width, ranges)


def test_a_short_tail_is_packed_even_if_it_could_be_raw() -> None:
    """512 words of 8 bits packed to 4 take as many bytes as the words themselves."""
    values = np.arange(512, dtype=np.uint64) % 16
    message = pb.BitpackedForNonNeg(
        compressed_bits_per_value=4, uncompressed_bits_per_value=8, buffer=pb.Buffer(buffer_index=0)
    )
    data = fast_lanes(np.concatenate([values, np.zeros(512, np.uint64)]), 8, 4)
    assert read(pb.ArrayEncoding(bitpacked_for_non_neg=message), [data], 512, "uint8").to_pylist() == values.tolist()


@pytest.mark.parametrize("logical_type", ["string", "large_string", "binary", "large_binary"])
@pytest.mark.parametrize("byte_bits", [8, 24])
def test_fixed_size_binary(logical_type: str, byte_bits: int) -> None:
    """The bytes are 8-bit values, or values as wide as a string."""
    words = [f"{i:03d}"[:3] for i in range(900)]
    validity = np.arange(900) % 4 != 0
    message = pb.FixedSizeBinary(bytes=no_nulls(flat(byte_bits, 1)), byte_width=3)
    encoding = some_nulls(flat(1, 0), pb.ArrayEncoding(fixed_size_binary=message))
    buffers = [np.packbits(validity, bitorder="little").tobytes(), "".join(words).encode()]
    for ranges in (RowRanges.of(0, 900), single_rows([0, 3, 7, 899]), RowRanges.of(5, 77)):
        expected = [words[i] if validity[i] else None for i in ranges.indices()]
        if "binary" in logical_type:
            expected = [None if word is None else word.encode() for word in expected]
        assert read(encoding, buffers, 900, logical_type, ranges).to_pylist() == expected


@pytest.mark.parametrize(
    ("logical_type", "value", "expected"),
    [
        ("int32", (-5).to_bytes(4, "little", signed=True), -5),
        ("bool", b"\x01", True),
        ("double", np.float64(2.5).tobytes(), 2.5),
        ("string", b"same", "same"),
        ("large_binary", b"", b""),
        ("fixed_size_binary:3", b"abc", b"abc"),
    ],
)
def test_constant(logical_type: str, value: bytes, expected: object) -> None:
    encoding = pb.ArrayEncoding(constant=pb.Constant(value=value))
    assert read(encoding, [], 1000, logical_type, RowRanges.of(10, 500)).to_pylist() == [expected] * 490
    with pytest.raises(CorruptFileError, match="cannot hold"):
        read(encoding, [], 10, "decimal:256:40:2")


def test_ends_of_strings_worked_example() -> None:
    """``["ab", null, "", "cde"]``: a null has the adjustment added to its end."""
    buffers = [u64(2, 8, 2, 5), b"abcde"]
    expected = ["ab", None, "", "cde"]
    assert read(binary(6), buffers, 4, "string").to_pylist() == expected
    for row in range(4):
        assert read(binary(6), buffers, 4, "large_string", RowRanges.of(row, row + 1)).to_pylist() == [expected[row]]


@pytest.mark.parametrize("pages", [1, 2])
def test_strings_without_an_adjustment_for_nulls_are_refused(pages: int) -> None:
    builder = Builder().column(*[(binary(0), [u64(1, 2), b"ab"], 2)] * pages)
    for rows in (None, RowRanges.of(1, 2)):
        with pytest.raises(CorruptFileError, match="nulls from lengths"):
            builder.file(leaf("string")).read(*() if rows is None else (rows,))


def test_bytes_of_old_strings_are_nullable() -> None:
    message = pb.Binary(indices=no_nulls(flat(64, 0)), bytes=no_nulls(flat(8, 1)), null_adjustment=4)
    encoding = pb.ArrayEncoding(binary=message)
    assert read(encoding, [u64(1, 3, 7), b"abc"], 3, "string").to_pylist() == ["a", "bc", None]


def list_field() -> Field:
    return Field("x", FieldId(0), "list", children=(leaf("string", "item", 1),))


def list_page(ends: list[int], num_items: int) -> tuple[pb.ArrayEncoding, list[bytes], int]:
    message = pb.List(offsets=no_nulls(flat(64)), null_offset_adjustment=num_items + 1, num_items=num_items)
    return pb.ArrayEncoding(list=message), [u64(*ends)], len(ends)


def test_ends_of_lists_worked_example() -> None:
    """The lists of the format's description, with the adjustment 7; then a page of lists whose items share a page."""
    message = pb.List(offsets=no_nulls(flat(64)), null_offset_adjustment=7, num_items=5)
    first = (pb.ArrayEncoding(list=message), [u64(2, 9, 2, 5)], 4)
    builder = Builder().column(first, list_page([2, 2, 2 + 3], 2))
    builder.column((binary(8), [u64(1, 2, 3, 4, 5, 6, 7), b"ABCDEFG"], 7))
    file = builder.file(list_field())
    expected = [["A", "B"], None, [], ["C", "D", "E"], ["F", "G"], [], None]
    assert file.read()["x"].to_pylist() == expected
    for start in range(7):
        for stop in range(start, 8):
            assert file.read(RowRanges.of(start, stop))["x"].to_pylist() == expected[start:stop]


@pytest.mark.parametrize("streamed", [False, True], ids=["with its size", "without its size"])
def test_bare_zstd_frames(streamed: bool) -> None:
    """Releases before 0.39 wrote no size before the frame, and some not even one in it."""
    data = b"the same words again and again " * 100
    if streamed:
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, "zstd") as stream:
            stream.write(data)
        compressed = sink.getvalue().to_pybytes()
    else:
        compressed = pa.compress(data, "zstd", asbytes=True)
    assert compressed[:4] == b"\x28\xb5\x2f\xfd"
    ends = np.arange(31, len(data) + 1, 31)
    buffers = [u64(*ends), compressed]
    words = [data[:31].decode()] * 100
    encoding = binary(len(data) + 1, scheme="zstd")
    assert read(encoding, buffers, 100, "string").to_pylist() == words
    assert read(encoding, buffers, 100, "string", single_rows([3, 99])).to_pylist() == words[:2]


@pytest.mark.parametrize(("scheme", "size_bytes"), [("zstd", 8), ("lz4", 4)])
def test_compressed_integers(scheme: str, size_bytes: int) -> None:
    values = np.arange(ROWS, dtype=np.int32) // 7
    codec = {"zstd": "zstd", "lz4": "lz4_raw"}[scheme]
    compressed = (4 * ROWS).to_bytes(size_bytes, "little") + pa.compress(values.tobytes(), codec, asbytes=True)
    for ranges in SELECTIONS:
        actual = read(no_nulls(flat(32, 0, scheme)), [compressed], ROWS, "int32", ranges)
        assert actual.to_pylist() == selected(values, ranges)
    with pytest.raises(CorruptFileError):
        read(no_nulls(flat(32, 0, scheme)), [compressed], ROWS + 1, "int32")
    with pytest.raises(CorruptFileError):
        read(no_nulls(flat(32, 0, scheme)), [compressed[: len(compressed) // 2]], ROWS, "int32")
    with pytest.raises(UnsupportedFeatureError, match="brotli"):
        read(no_nulls(flat(32, 0, "brotli")), [compressed], ROWS, "int32")


def test_buffers_of_the_column_and_of_the_file() -> None:
    values = np.arange(5, dtype=np.int16).tobytes()
    for kind, place in ((1, "column_buffers"), (2, "file_buffers")):
        builder = Builder().column((no_nulls(flat(16, 1, kind=kind)), [], 5))
        file = builder.file(leaf("int16"), **{place: [b"", values]})
        assert file.read()["x"].to_pylist() == [0, 1, 2, 3, 4]


def test_blobs_anywhere_in_the_file() -> None:
    """In no order, overlapping, at position 0, null and empty."""
    encoding = pb.ArrayEncoding(
        packed_struct=pb.PackedStruct(inner=[no_nulls(flat(64)), no_nulls(flat(64))], buffer=pb.Buffer(buffer_index=0))
    )
    builder = Builder()
    builder.place(b"the first bytes")
    far = builder.place(bytes(9000) + b"far away").position + 9000
    places = [(far, 8), (0, 9), (1, 0), (0, 0), (77, 0), (4, 11), (4, 5), (far, 3)]
    builder.column((encoding, [u64(*np.array(places).ravel())], len(places)))
    file = builder.file(leaf("large_binary"))
    message = pb.ColumnEncoding(blob=pb.Blob()).SerializeToString()
    file.columns[FieldId(0)] = replace(file.columns[FieldId(0)], message=message)
    expected = [b"far away", b"the first", None, b"", b"", b"first bytes", b"first", b"far"]
    assert file.read()["x"].to_pylist() == expected
    assert file.read(single_rows([1, 2, 7]))["x"].to_pylist() == [b"the first", None, b"far"]


def test_columns_that_are_missing_are_null() -> None:
    members = (leaf("int32", "a", 1), leaf("string", "b", 2))
    data = np.arange(3, dtype=np.int32).tobytes()
    struct_page = (pb.ArrayEncoding(struct=pb.SimpleStruct()), [], 3)
    file = (
        Builder()
        .column(struct_page)
        .column((no_nulls(flat(32)), [data], 3))
        .file(Field("x", FieldId(0), "struct", children=members))
    )
    assert file.read()["x"].to_pylist() == [{"a": i, "b": None} for i in range(3)]
    file.columns.clear()
    assert file.read_field("x", RowRanges.of(1, 3)).to_pylist() == [None, None]


def corrupt_pages() -> list[tuple[str, pb.ArrayEncoding, list[bytes], int, str]]:
    letters = np.array([1, 0, 3], np.uint8).tobytes()
    words = pb.Dictionary(indices=no_nulls(flat(8)), items=binary(3, 1), num_dictionary_items=2)
    bits = pb.Bitpacked(compressed_bits_per_value=9, uncompressed_bits_per_value=8, buffer=pb.Buffer())
    packed = pb.PackedStruct(inner=[no_nulls(flat(8)), flat(1)], buffer=pb.Buffer())
    lists = pb.FixedSizeList(dimension=2**31, items=all_nulls())
    return [
        ("a width that nobody has", flat(12), [b"123"], 2, "int16"),
        ("a width that the type has not", flat(16), [b"1234"], 2, "int32"),
        ("a short buffer", flat(32), [b"1234567"], 2, "int32"),
        ("a buffer that is not there", flat(32, 1), [b"12345678"], 2, "int32"),
        ("a kind of buffer that is not there", flat(32, 0, kind=3), [b"12345678"], 2, "int32"),
        ("strings for integers", binary(3), [u64(1, 2), b"ab"], 2, "int32"),
        ("integers for strings", flat(32), [b"12345678"], 2, "string"),
        ("no adjustment", binary(0), [u64(1, 2), b"ab"], 2, "string"),
        ("ends that fall", binary(3), [u64(2, 1), b"ab"], 2, "string"),
        ("ends behind the bytes", binary(2**40), [u64(2, 200), b"ab"], 2, "string"),
        ("a null that ends too early", binary(3), [u64(2, 3), b"ab"], 2, "string"),
        ("half a null", binary(3), [u64(1, 6), b"ab"], 2, "string"),
        ("text that is no text", binary(3), [u64(1, 2), b"\xff\xfe"], 2, "string"),
        ("a code without a word", pb.ArrayEncoding(dictionary=words), [letters, u64(1, 2), b"ab"], 3, "string"),
        ("bits beyond the word", pb.ArrayEncoding(bitpacked=bits), [b"123"], 2, "uint8"),
        ("a packed bit", pb.ArrayEncoding(packed_struct=packed), [b"123"], 2, "struct"),
        ("lists beyond measure", pb.ArrayEncoding(fixed_size_list=lists), [], 2**20, "fixed_size_list:int8:2147483648"),
        ("nulls beyond measure", all_nulls(), [], 2**40, "int64"),
        ("values beyond measure", pb.ArrayEncoding(constant=pb.Constant(value=b"1")), [], 2**40, "int8"),
        ("nothing", pb.ArrayEncoding(), [], 3, "int8"),
        ("nothing about nulls", pb.ArrayEncoding(nullable=pb.Nullable()), [], 3, "int8"),
        ("lists in a leaf", list_page([1, 2], 2)[0], [u64(1, 2)], 2, "int8"),
        ("rows of a struct in a leaf", pb.ArrayEncoding(struct=pb.SimpleStruct()), [], 2, "int8"),
    ]


@pytest.mark.parametrize("case", corrupt_pages(), ids=lambda case: case[0])
def test_contradictions(case: tuple[str, pb.ArrayEncoding, list[bytes], int, str]) -> None:
    _, message, buffers, rows, kind = case
    with pytest.raises(CorruptFileError) as caught:
        read(message, buffers, rows, kind)
    assert caught.value.column == 0 or "malformed" in str(caught.value)


def test_dates_and_decimals_out_of_range() -> None:
    for kind, data in (("date64:ms", u64(5)), ("decimal:128:5:2", b"\x7f" * 16), ("time32:s", b"\xff\xff\xff\x7f")):
        width = len(data) * 8
        with pytest.raises(CorruptFileError, match="type does not allow"):
            read(no_nulls(flat(width)), [data], 1, kind)


def test_encodings_of_later_versions_are_refused() -> None:
    variable = pb.ArrayEncoding.FromString(bytes([0x82, 1, 2, 8, 32]))
    with pytest.raises(UnsupportedFeatureError, match="previews"):
        read(variable, [], 3, "string")


def test_columns_that_disagree() -> None:
    """Releases up to 0.23 wrote the members of a sliced struct unsliced."""
    member = (no_nulls(flat(8)), [b"12345"], 5)
    struct_page = (pb.ArrayEncoding(struct=pb.SimpleStruct()), [], 3)
    field = Field("x", FieldId(0), "struct", children=(leaf("int8", "a", 1),))
    with pytest.raises(CorruptFileError, match="3 rows, but a member 5"):
        Builder().column(struct_page).column(member).file(field).read()
    field = Field("x", FieldId(0), "list", children=(leaf("int8", "item", 1),))
    with pytest.raises(CorruptFileError, match="items"):
        Builder().column(list_page([1, 3], 3)).column(member).file(field).read()
    file = Builder().column(member).file(leaf("int8"))
    with pytest.raises(CorruptFileError, match="5 values"):
        file.read_field("x", RowRanges.of(0, 6))
