from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from lance_spark._proto import encodings_v2_1_pb2 as pb
from lance_spark.encodings.base import BlockEncoding, MiniBlockEncoding
from lance_spark.encodings.blocks import Chunks, FixedWidthBlock
from lance_spark.encodings.flat import Flat
from lance_spark.encodings.registry import parse
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from tests.support.codec_contract import EDGE_LENGTHS, LIMITS, Case, CodecContract, fixed_width


class TestFlat(CodecContract):
    @staticmethod
    def cases() -> Iterator[Case]:
        rng = np.random.default_rng(1)
        for length in EDGE_LENGTHS:
            for limits in LIMITS:
                for dtype in (np.bool_, np.uint8, np.int16, np.float32, np.int64):
                    values = fixed_width(rng.integers(0, 100, length).astype(dtype))
                    name = f"{length} {dtype} {limits}"
                    yield Case(f"mini-blocks {name}", values, Flat.encode_mini_blocks(values, limits))
                wide = FixedWidthBlock(pa.py_buffer(rng.bytes(length * 17)), 136, length)
                yield Case(f"17 bytes {length} {limits}", wide, Flat.encode_mini_blocks(wide, limits))
            odd = FixedWidthBlock(pa.py_buffer(rng.bytes((length * 3 + 7) // 8)), 3, length)
            counts = np.array([length // 3, length - length // 3], np.int64)
            yield Case(f"3 bits {length}", odd, Flat.encode_blocks(odd, counts))
            yield Case(f"values {length}", wide, Flat.encode_values(wide))


def test_adjacent_slices_are_not_copied() -> None:
    values = fixed_width(np.arange(5000))
    encoded = Flat.encode_mini_blocks(values, LIMITS[0])
    assert len(encoded.buffers[0].starts) == 5
    decoded = encoded.encoding.decode_mini_blocks(encoded.buffers)
    assert decoded.data.address == values.data.address == encoded.buffers[0].data.address


def test_bits_of_chunks_join_without_gaps() -> None:
    chunks = Chunks(pa.py_buffer(b"\xfd\xff\xf3"), *(np.array(x, np.int64) for x in ([0, 2], [1, 1], [3, 6])))
    assert Flat(1).decode_blocks(chunks).data.to_pybytes() == bytes([0b10011101, 0b1])


def test_short_chunk_is_corrupt() -> None:
    with pytest.raises(CorruptFileError, match="too short"):
        Flat(32).decode_blocks(Chunks.single(pa.py_buffer(bytes(11)), 3))


def test_buffer_compression_of_its_own_is_refused() -> None:
    message = pb.CompressiveEncoding(flat=pb.Flat(bits_per_value=8, data=pb.BufferCompression(scheme=1)))
    with pytest.raises(UnsupportedFeatureError):
        parse(message, MiniBlockEncoding)


def test_absurd_width_is_corrupt() -> None:
    with pytest.raises(CorruptFileError):
        parse(pb.CompressiveEncoding(flat=pb.Flat(bits_per_value=1 << 63)), BlockEncoding)
