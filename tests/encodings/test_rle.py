from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from lance_spark.encodings.blocks import ChunkLimits, Chunks
from lance_spark.encodings.rle import Rle
from lance_spark.errors import CorruptFileError
from tests.support.codec_contract import EDGE_LENGTHS, LIMITS, Case, CodecContract, fixed_width


class TestRle(CodecContract):
    @staticmethod
    def cases() -> Iterator[Case]:
        rng = np.random.default_rng(4)
        for bits in (8, 16, 32, 64):
            for length in EDGE_LENGTHS:
                for run in (1, 3, 256):
                    runs = rng.integers(0, 200, length // run + 1).astype(f"u{bits // 8}")
                    values = fixed_width(np.repeat(runs, run)[:length])
                    name = f"{length} of {bits} bits in runs of {run}"
                    for limits in LIMITS[::2]:
                        yield Case(name, values, Rle.encode_mini_blocks(values, limits))
                    counts = np.array([length // 3, length - length // 3], np.int64)
                    yield Case(f"blocks of {name}", values, Rle.encode_blocks(values, counts))


def test_runs_of_the_example() -> None:
    encoded = Rle.encode_mini_blocks(fixed_width(np.array([7, 7, 7, 2], np.uint8)), ChunkLimits())
    assert [chunks.data.slice(0, 2).to_pybytes() for chunks in encoded.buffers] == [b"\x07\x02", b"\x03\x01"]


def test_runs_longer_than_a_byte_are_split() -> None:
    encoded = Rle.encode_mini_blocks(fixed_width(np.zeros(600, np.int64)), ChunkLimits())
    lengths = encoded.buffers[1]
    assert lengths.data.slice(0, int(lengths.sizes[0])).to_pybytes() == bytes([255, 255, 90])


def test_block_form() -> None:
    encoded = Rle.encode_blocks(fixed_width(np.array([9, 9, 9, 4], np.uint16)), np.array([4]))
    assert encoded.chunks.data.slice(0, 14).to_pybytes() == struct.pack("<QHHBB", 4, 9, 4, 3, 1)


@pytest.mark.parametrize("lengths", [b"\x03\x02", b"\x01\x02", b"\x04"])
def test_lengths_that_do_not_add_up_are_corrupt(lengths: bytes) -> None:
    values, runs = Chunks.single(pa.py_buffer(b"ab"), 4), Chunks.single(pa.py_buffer(lengths), 4)
    if lengths == b"\x04":
        runs = Chunks.single(pa.py_buffer(b"\x04\x00\x00"), 4)
    with pytest.raises(CorruptFileError):
        Rle(8).decode_mini_blocks([values, runs])
