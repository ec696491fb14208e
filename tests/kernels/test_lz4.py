from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lance_spark.kernels.compression.lz4 import decompress_blocks
from lance_spark.kernels.jit import address_of
from tests.support.guarded_memory import allocate_guarded, guarded

CODEC = pa.Codec("lz4_raw")


def decompressed(blocks: list[bytes], sizes: list[int]) -> bytes | int:
    """The bytes, or the negative status."""
    data = guarded(b"".join(blocks))
    lengths = np.array([len(block) for block in blocks], np.int64)
    starts, targets = np.cumsum(lengths) - lengths, np.array(sizes, np.int64)
    target = allocate_guarded(sum(sizes))
    status = decompress_blocks(
        data.address, address_of(starts), address_of(lengths), address_of(targets), len(blocks), target.address
    )
    return status or target.to_pybytes()


def inputs() -> list[bytes]:
    rng = np.random.default_rng(1)
    return [
        b"x",
        bytes(100_000),
        b"ab" * 5000,
        b"abcdefg" * 333 + b"!",
        rng.bytes(5000),
        rng.integers(0, 4, 50_000, np.uint8).tobytes(),
        b"".join(b"line %d of a text\n" % number for number in range(2000)),
        bytes(15) + rng.bytes(15) + bytes(300),
    ]


def test_blocks_of_the_reference_compressor() -> None:
    blocks = [CODEC.compress(data, asbytes=True) for data in inputs()]
    assert decompressed(blocks, [len(data) for data in inputs()]) == b"".join(inputs())


def test_example() -> None:
    # The last sequence of a block has literals only.
    assert decompressed([bytes.fromhex("31616263030010") + b"!"], [9]) == b"abcabcab!"


@pytest.mark.parametrize("wrong", [-1, 1])
def test_other_sizes_than_claimed_are_corrupt(wrong: int) -> None:
    data = b"abcdefg" * 33
    assert decompressed([CODEC.compress(data, asbytes=True)], [len(data) + wrong]) == -1


def test_the_corrupt_block_is_named() -> None:
    good = CODEC.compress(b"abc", asbytes=True)
    assert decompressed([good, good[:-1]], [3, 3]) == ~1


def test_damage_never_leaves_the_buffers() -> None:
    rng = np.random.default_rng(2)
    for data in inputs():
        block = CODEC.compress(data[:3000], asbytes=True)
        for _ in range(80):
            damaged = bytearray(block)
            damaged[rng.integers(0, len(damaged))] = rng.integers(0, 256)
            damaged = damaged[: rng.integers(0, len(damaged) + 1)] if rng.random() < 0.3 else damaged
            decompressed([bytes(damaged)], [len(data[:3000])])
