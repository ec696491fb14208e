from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lance_spark.encodings.blocks import ChunkLimits
from lance_spark.encodings.byte_stream_split import ByteStreamSplit
from tests.support.codec_contract import EDGE_LENGTHS, LIMITS, Case, CodecContract, fixed_width


class TestByteStreamSplit(CodecContract):
    @staticmethod
    def cases() -> Iterator[Case]:
        rng = np.random.default_rng(8)
        for length in EDGE_LENGTHS:
            for dtype in (np.float32, np.float64):
                values = fixed_width(rng.random(length).astype(dtype))
                for limits in LIMITS:
                    yield Case(f"{length} {dtype}", values, ByteStreamSplit.encode_mini_blocks(values, limits))


def test_example() -> None:
    values = fixed_width(np.frombuffer(bytes.fromhex("0102030411121314"), np.uint32))
    encoded = ByteStreamSplit.encode_mini_blocks(values, ChunkLimits())
    assert encoded.buffers[0].data.to_pybytes().hex() == "0111021203130414"
