from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from lance_spark.encodings.blocks import Chunks
from lance_spark.encodings.inline_bitpacking import InlineBitpacking
from lance_spark.errors import CorruptFileError, InvalidInputError
from tests.support.codec_contract import EDGE_LENGTHS, Case, CodecContract, fixed_width


class TestInlineBitpacking(CodecContract):
    @staticmethod
    def cases() -> Iterator[Case]:
        rng = np.random.default_rng(2)
        for bits in (8, 16, 32, 64):
            for width in sorted({0, 1, bits // 2 + 1, bits - 1, bits}):
                for length in EDGE_LENGTHS[1:]:
                    random = rng.integers(0, 1 << 63, length, np.uint64) * 2 + rng.integers(0, 2, length, np.uint64)
                    kept = random >> np.uint64(64 - width) if width else random * 0
                    values = fixed_width(kept.astype(f"u{bits // 8}"))
                    name = f"{length} of {bits} bits in {width}"
                    yield Case(name, values, InlineBitpacking.encode_mini_blocks(values))
                    if length <= 1024:
                        yield Case(f"block {name}", values, InlineBitpacking.encode_block(values))


def test_a_chunk_is_its_width_and_packed_words() -> None:
    encoded = InlineBitpacking.encode_mini_blocks(fixed_width(np.array([3, 1], np.uint16)))
    packed = encoded.buffers[0].data.to_pybytes()
    # Two bits of 1024 values: row 0 of every lane lies in the low bits, and value i < 64 is row 0 of lane i.
    assert packed == b"\x02\x00" + b"\x03\x00\x01\x00" + bytes(2 * 128 - 4)


def test_negative_values_keep_their_bits() -> None:
    values = fixed_width(np.array([-1, 5, -(2**31)], np.int32))
    encoded = InlineBitpacking.encode_mini_blocks(values)
    decoded = encoded.encoding.decode_mini_blocks(encoded.buffers)
    assert np.frombuffer(decoded.data, np.int32).tolist() == [-1, 5, -(2**31)]


def test_width_above_the_word_is_corrupt() -> None:
    with pytest.raises(CorruptFileError):
        InlineBitpacking(8).decode_blocks(Chunks.single(pa.py_buffer(b"\x09" + bytes(9 * 128)), 5))


def test_more_than_1024_values_do_not_fit() -> None:
    with pytest.raises(InvalidInputError):
        InlineBitpacking.encode_block(fixed_width(np.arange(1025)))
