from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lance_spark._proto import encodings_v2_1_pb2 as pb
from lance_spark.encodings.base import BlockEncoding, MiniBlockEncoding
from lance_spark.encodings.blocks import Chunks
from lance_spark.encodings.constant import Constant
from lance_spark.encodings.registry import parse
from lance_spark.errors import CorruptFileError


def test_value_is_repeated() -> None:
    codec = parse(Constant(b"\x01\x02").to_proto(), BlockEncoding)
    decoded = codec.decode_blocks(Chunks.single(pa.py_buffer(b""), 3))
    assert decoded.data.to_pybytes() == b"\x01\x02" * 3


def test_it_is_no_mini_block_encoding() -> None:
    message = pb.CompressiveEncoding(constant=pb.Constant(value=b"x"))
    with pytest.raises(CorruptFileError):
        parse(message, MiniBlockEncoding)


def test_endless_repetition_is_corrupt() -> None:
    counts = np.array([1 << 62, 1 << 62, 1 << 62], np.int64)
    chunks = Chunks(pa.py_buffer(b""), np.zeros(3, np.int64), np.zeros(3, np.int64), counts)
    with pytest.raises(CorruptFileError):
        Constant(b"\x01\x02").decode_blocks(chunks)
