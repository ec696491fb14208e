from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from lance_spark.encodings.blocks import Chunks
from lance_spark.encodings.out_of_line_bitpacking import OutOfLineBitpacking
from lance_spark.errors import CorruptFileError
from tests.support.codec_contract import EDGE_LENGTHS, Case, CodecContract, fixed_width


class TestOutOfLineBitpacking(CodecContract):
    @staticmethod
    def cases() -> Iterator[Case]:
        rng = np.random.default_rng(3)
        for bits in (8, 16, 32, 64):
            for width in sorted({0, 1, bits // 2, bits - 1, bits}):
                for length in (*EDGE_LENGTHS, 64 * width, 64 * width + 1):
                    values = fixed_width(rng.integers(0, 1 << min(width, 62), length).astype(f"u{bits // 8}"))
                    name = f"{length} of {bits} bits in {width}"
                    whole = np.array([length], np.int64)
                    yield Case(name, values, OutOfLineBitpacking.encode_blocks(values, whole, width))
                    counts = np.array([length // 2, 0, length - length // 2], np.int64)
                    yield Case(f"three, {name}", values, OutOfLineBitpacking.encode_blocks(values, counts, width))


def test_short_tails_are_raw_words() -> None:
    values = fixed_width(np.array([1, 0, 1], np.uint16))
    encoded = OutOfLineBitpacking.encode_blocks(values, np.array([3]), 1)
    assert encoded.chunks.data.to_pybytes() == b"\x01\x00\x00\x00\x01\x00"


def test_long_tails_are_packed() -> None:
    values = fixed_width(np.ones(100, np.uint16))
    encoded = OutOfLineBitpacking.encode_blocks(values, np.array([100]), 1)
    assert encoded.chunks.data.size == 128


def test_width_zero_makes_no_endless_zeros() -> None:
    codec = OutOfLineBitpacking(64, 0)
    with pytest.raises(CorruptFileError, match="claimed"):
        codec.decode_blocks(Chunks.single(pa.py_buffer(b""), 1 << 50))
