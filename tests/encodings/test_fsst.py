from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from lance_spark.encodings.blocks import Chunks
from lance_spark.encodings.fsst import Fsst
from lance_spark.encodings.fsst_symbols import Matcher, Sample
from lance_spark.encodings.variable import Variable
from lance_spark.errors import CorruptFileError
from lance_spark.layouts.arrow_values import block_to_array
from tests.support.codec_contract import LIMITS, Case, CodecContract, meaning, variable_width
from tests.support.guarded_memory import allocate_guarded

WORDS = [b"alpha", b"beta", b"", b"gamma delta", b"\xff\xff\x00", b"https://example.com/", b"a"]


def texts(length: int) -> list[bytes]:
    rng = np.random.default_rng(length)
    return [b" ".join(WORDS[word] for word in rng.integers(0, 7, rng.integers(0, 6))) for _ in range(length)]


def table(*symbols: bytes, compressed: bool = True) -> bytes:
    """A symbol table as on the wire, written down from the format's description."""
    header = 0x46535354 << 32 | compressed << 24 | len(symbols)
    body = b"".join(symbol.ljust(8, b"\0") for symbol in symbols) + bytes(len(symbol) for symbol in symbols)
    return (header.to_bytes(8, "little") + body).ljust(2312, b"\0")


class TestFsst(CodecContract):
    @staticmethod
    def cases() -> Iterator[Case]:
        for length in (0, 1, 5, 1023, 1025):
            for bits in (32, 64):
                values = variable_width(texts(length), bits)
                for limits in LIMITS:
                    encoded = Fsst.encode_mini_blocks(values, limits)
                    yield Case(f"{length} of {bits} bits {limits}", values, encoded)
                yield Case(f"values {length} of {bits} bits", values, Fsst.encode_values(values))
        noise = variable_width([np.random.default_rng(1).bytes(50) for _ in range(100)])
        yield Case("noise", noise, Fsst.encode_mini_blocks(noise, LIMITS[0]))
        repeated = variable_width([b"abcdefgh" * 500] * 40)
        yield Case("eightfold", repeated, Fsst.encode_mini_blocks(repeated, LIMITS[0]))


def decode(codes: list[bytes], symbol_table: bytes) -> list[bytes]:
    codec = Fsst(symbol_table, Variable(32))
    return meaning(codec.decode_values(variable_width(codes)))


def test_codes_stand_for_symbols_and_escapes_for_themselves() -> None:
    symbols = table(b"hello", b" ", b"wo")
    assert decode([b"\x00\x01\x02\xffr\xffl\xffd", b"", b"\xff\x00"], symbols) == [b"hello world", b"", b"\x00"]


def test_uncompressed_data_is_taken_as_it_is() -> None:
    assert decode([b"\x00\x01"], table(b"x", compressed=False)) == [b"\x00\x01"]


@pytest.mark.parametrize("codes", [b"\x02", b"\x00\x00\x00\x02", b"\x00\xff"])
def test_codes_without_symbol_and_open_escapes_are_corrupt(codes: bytes) -> None:
    with pytest.raises(CorruptFileError, match=r"value [01]"):
        decode([b"\x00", codes], table(b"x", b"y"))


@pytest.mark.parametrize(
    "symbol_table",
    [
        b"",
        bytes(2312),
        table(b"x")[:12],
        table(b"x", b"").replace(b"\x01\x00", b"\x01\x09"),
        table(b"x", b""),
    ],
)
def test_bad_symbol_tables_are_corrupt(symbol_table: bytes) -> None:
    with pytest.raises(CorruptFileError):
        decode([b"\x00"], symbol_table)


def test_long_values_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pa, "allocate_buffer", allocate_guarded)
    matcher = Matcher.train(Sample.of(variable_width([b"the quick brown fox "] * 50), 0.0))
    rng = np.random.default_rng(3)
    for _ in range(300):
        kinds = rng.integers(0, 4, rng.integers(1, 12)).tolist()
        values = [
            (b"", b"the quick " * 20, rng.bytes(int(rng.integers(60, 140))), b"\xfe" * 99 + b"fox")[kind]
            for kind in kinds
        ]
        encoded = matcher.encode(variable_width(values))
        codec = Fsst.encode_values(variable_width([b""]), matcher).encoding
        assert meaning(codec.decode_values(encoded)) == values


def test_symbols_are_only_chosen_where_they_pay() -> None:
    rng = np.random.default_rng(2)
    noise = variable_width([rng.bytes(30) for _ in range(2000)])
    assert Matcher.if_it_pays(noise) is None
    assert Matcher.if_it_pays(variable_width(texts(2000))) is not None


def test_sample_is_small_and_from_all_over() -> None:
    values = variable_width([b"%07d" % number for number in range(100_000)])
    sample = Sample.of(values, 0.0)
    assert 8_000 < sample.data.size <= 32_768
    taken = [int(sample.data.slice(7 * i, 7).to_pybytes()) for i in range(sample.data.size // 7)]
    assert taken[0] == 0
    assert taken[-1] > 99_000


def test_one_huge_value_is_sampled_in_part() -> None:
    values = variable_width([b"abc" * 1_000_000])
    assert Sample.of(values, 0.5).data.size == 512
    assert Fsst.encode_values(values).block.data.size < 1_500_000


def test_buffers_that_cannot_hold_the_result_grow() -> None:
    codes = [b"\x00" * size for size in (1, 5000, 0, 100_000)]
    assert decode(codes, table(b"12345678")) == [b"12345678" * len(code) for code in codes]
    assert pa.total_allocated_bytes() >= 0


@pytest.mark.parametrize(
    ("codes", "symbols", "is_ascii"),
    [
        ([b"\x00\x01\x00", b""], (b"ab", b"\x7f"), True),
        ([b"\x00\xffr", b""], (b"ab",), True),
        ([b"\x00\xff\xc3", b""], (b"ab",), False),
        ([b"\x00"], (b"ab", b"\xc3\xa4"), False),
        ([b"\x00" * 20_000], (b"ab",), False),
        ([], (), True),
    ],
    ids=["symbols", "literal", "other literal", "other symbol", "long value", "no values"],
)
def test_ascii_is_known_of_symbols_and_literals(codes: list[bytes], symbols: tuple[bytes, ...], is_ascii: bool) -> None:
    block = Fsst(table(*symbols), Variable(32)).decode_values(variable_width(codes))
    assert block.is_ascii is is_ascii


@pytest.mark.parametrize("codes", [b"\xff\xc3", b"\x01", b"\x00" * 20_000 + b"\x01"])
def test_bytes_that_are_no_text_are_corrupt(codes: bytes) -> None:
    block = Fsst(table(b"ab", b"\xc3"), Variable(32)).decode_values(variable_width([b"\x00", codes]))
    with pytest.raises(CorruptFileError, match="type does not allow"):
        block_to_array(block, pa.string())


@pytest.mark.parametrize("count", [0, 1, 5, 127, 128, 129, 254, 255])
def test_tables_of_any_number_of_symbols(count: int) -> None:
    symbols = [bytes([number % 128 + 1]) * (number % 8 + 1) for number in range(count)]
    rng = np.random.default_rng(count)
    parts = [
        [bytes([code]) for code in rng.integers(0, max(count, 1), 40).tolist()] if count else [] for _ in range(20)
    ]
    for codes in parts:
        codes.insert(len(codes) // 2, b"\xff\xfe")
    expected = [b"".join(b"\xfe" if code[0] == 255 else symbols[code[0]] for code in codes) for codes in parts]
    assert decode([b"".join(codes) for codes in parts], table(*symbols)) == expected
    for code in {count, 254} - {255, *range(count)}:
        with pytest.raises(CorruptFileError, match="value"):
            decode([b"\xffa" * 9 + bytes([code]) + b"\xffa" * 9], table(*symbols))


def _chunk(offsets: list[int], codes: bytes) -> Chunks:
    data = np.array(offsets, "<u4").tobytes() + codes
    return Chunks.single(pa.py_buffer(data), len(offsets) - 1)


@pytest.mark.parametrize(
    "offsets", [[0, 14, 16], [12, 17, 18], [14, 13, 16], [12, 20, 16], [12, 14, 2**32 - 1]], ids=str
)
def test_offsets_outside_of_the_codes_of_a_chunk_are_corrupt(offsets: list[int]) -> None:
    codec = Fsst(table(b"ab", b"cd"), Variable(32))
    assert meaning(codec.decode_mini_blocks([_chunk([12, 14, 16], b"\0\1\1\0")])) == [b"abcd", b"cdab"]
    with pytest.raises(CorruptFileError, match="value 0"):
        codec.decode_mini_blocks([_chunk(offsets, b"\0\1\1\0")])
