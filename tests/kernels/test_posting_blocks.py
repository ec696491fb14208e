"""Blocks of posting lists, packed here as the format says, at the end of readable memory."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import pytest

from lance_spark.kernels.jit import address_of
from lance_spark.kernels.text.postings import decode_postings
from tests.support.guarded_memory import guarded

_STEPS = 32


def packed(values: Sequence[int], lanes: int) -> bytes:
    """A width and the values, each lane in every lanes-th word, least significant bit first."""
    width = max(values).bit_length()
    words = np.zeros((width, lanes), np.uint32)
    for lane in range(lanes):
        bits = sum(values[step * lanes + lane] << step * width for step in range(_STEPS))
        for word in range(width):
            words[word, lane] = bits >> 32 * word & 0xFFFFFFFF
    return bytes([width]) + words.tobytes()


def decoded(first: int, deltas: Sequence[int], freqs: Sequence[int], num_docs: int) -> tuple[int, list[int], list[int]]:
    """(the error or 0, documents, frequencies) of one full block."""
    lanes = len(deltas) // _STEPS
    score = struct.pack("<f", 1) if lanes == 4 else b""
    exceptions = b"\0" if lanes == 8 else b""
    frequencies = packed(freqs, lanes)
    body = struct.pack("<I", first) + packed(deltas, lanes) + frequencies[:1] + exceptions + frequencies[1:]
    data = np.frombuffer(guarded(score + body), np.uint8)
    ends = np.array([0, len(data)], np.int64)
    docs, found = np.zeros(len(deltas), np.int32), np.zeros(len(deltas), np.int32)
    addresses = address_of(docs), address_of(found)
    sizes = (address_of(ends), 1, len(deltas), len(deltas), 1, num_docs)
    return decode_postings(address_of(data), len(data), *sizes, *addresses), docs.tolist(), found.tolist()


@pytest.mark.parametrize("block", [128, 256])
@pytest.mark.parametrize("width", range(1, 22))
def test_blocks_of_any_width_are_decoded(block: int, width: int) -> None:
    draw = np.random.default_rng(width)
    deltas = [0, *draw.integers(1, 1 << width, block - 1).tolist()]
    freqs = draw.integers(1, 1 << max(width, 2), block).tolist()
    expected = (7 + np.cumsum(deltas)).tolist()
    failed, docs, found = decoded(7, deltas, freqs, expected[-1] + 1)
    assert (failed, docs, found) == (0, expected, freqs)


@pytest.mark.parametrize("block", [128, 256])
@pytest.mark.parametrize("place", [1, 64, 127])
def test_documents_that_do_not_ascend_are_an_error(block: int, place: int) -> None:
    deltas = [0] + [3] * (block - 1)
    deltas[place] = 0
    assert decoded(5, deltas, [1] * block, 10_000)[0] < 0


@pytest.mark.parametrize("block", [128, 256])
def test_documents_that_the_index_does_not_have_are_an_error(block: int) -> None:
    deltas = [0] + [1] * (block - 1)
    assert decoded(5, deltas, [1] * block, block + 5)[0] == 0
    assert decoded(5, deltas, [1] * block, block + 4)[0] < 0
    deltas[9] = (1 << 32) - 1
    assert decoded(5, deltas, [1] * block, (1 << 31) - 1)[0] < 0


@pytest.mark.parametrize("place", [0, 5, 127])
def test_frequencies_of_zero_are_an_error(place: int) -> None:
    freqs = [2] * 128
    freqs[place] = 0
    assert decoded(0, [0] + [1] * 127, freqs, 1000)[0] < 0
