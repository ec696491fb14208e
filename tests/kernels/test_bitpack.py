from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lance_spark.kernels.bitpack import block_widths, pack_inline, unpack_inline, unpack_out_of_line
from lance_spark.kernels.jit import address_of

ORDER = (0, 4, 2, 6, 1, 5, 3, 7)


def packed_by_definition(values: list[int], word_bits: int, width: int) -> bytes:
    """1024 values in the FastLanes layout, bit by bit."""
    lanes = 1024 // word_bits
    words = [0] * (width * lanes)
    for row in range(word_bits):
        for lane in range(lanes):
            value = values[ORDER[row // 8] * 16 + (row % 8) * 128 + lane]
            for bit in range(width):
                place = row * width + bit
                words[place // word_bits * lanes + lane] |= (value >> bit & 1) << place % word_bits
    return np.array(words, f"<u{word_bits // 8}").tobytes()


@pytest.mark.parametrize("word_bits", [8, 16, 32, 64])
def test_blocks_follow_the_definition(word_bits: int) -> None:
    rng = np.random.default_rng(word_bits)
    for width in sorted({0, 1, 3, word_bits // 2 + 1, word_bits - 1, word_bits}):
        values = [int(value) >> (64 - width) for value in rng.integers(0, 1 << 64, 1024, np.uint64)]
        packed = packed_by_definition(values, word_bits, width)
        dtype = np.dtype(f"u{word_bits // 8}")
        expected = np.array(values, dtype)

        header = np.array([width], dtype).tobytes()
        written = np.zeros(len(header) + len(packed), np.uint8)
        widths, scratch = np.array([width], np.int64), np.zeros(1024, dtype)
        pack_inline(address_of(expected), 1024, word_bits, address_of(widths), address_of(scratch), address_of(written))
        assert written.tobytes() == header + packed

        assert _unpacked(unpack_out_of_line, packed, 1024, dtype, word_bits, width).tolist() == values
        assert _unpacked(unpack_inline, header + packed, 1024, dtype, word_bits).tolist() == values


def _unpacked(kernel: Any, data: bytes, count: int, dtype: Any, *numbers: int) -> np.ndarray[Any, Any]:
    source = np.frombuffer(data, np.uint8)
    start, size, counts = (np.array([number], np.int64) for number in (0, len(data), count))
    target = np.zeros(count + 1024, dtype)
    status = kernel(
        address_of(source), address_of(start), address_of(size), address_of(counts), 1, *numbers, address_of(target)
    )
    assert status == 0
    return target[:count]


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.uint64])
@pytest.mark.parametrize("length", [1, 7, 1023, 1024, 1025, 3000])
def test_widths_are_those_of_the_largest_values(dtype: Any, length: int) -> None:
    rng = np.random.default_rng(length)
    bits = np.dtype(dtype).itemsize * 8
    values = (rng.integers(0, 1 << 63, length, np.uint64) >> np.uint64(63 - min(bits, 63))).astype(dtype)
    values[::2] >>= dtype(bits // 2)
    values[1024:] >>= dtype(bits - 1)
    target = np.zeros(-(-length // 1024), np.int64)
    largest = block_widths(address_of(values), length, bits, address_of(target))
    expected = [int(values[start : start + 1024].max()).bit_length() for start in range(0, length, 1024)]
    assert target.tolist() == expected
    assert largest == max(expected)
