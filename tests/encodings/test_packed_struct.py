from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from lance_spark.encodings.blocks import ChunkLimits, FixedSizeListBlock, PackedStructBlock
from lance_spark.encodings.packed_struct import PackedStruct
from lance_spark.encodings.variable_packed_struct import VariablePackedStruct
from lance_spark.errors import CorruptFileError, InvalidInputError
from tests.support.codec_contract import LIMITS, Case, CodecContract, decode, fixed_width, variable_width


class TestPackedStruct(CodecContract):
    @staticmethod
    def cases() -> Iterator[Case]:
        rng = np.random.default_rng(9)
        for length in (0, 1, 5, 1025):
            children = tuple(
                fixed_width(rng.integers(0, 100, length).astype(dtype)) for dtype in (np.int64, np.int8, np.float32)
            )
            values = PackedStructBlock(children, length)
            for limits in LIMITS:
                yield Case(f"{length} {limits}", values, PackedStruct.encode_mini_blocks(values, limits))


class TestVariablePackedStruct(CodecContract):
    @staticmethod
    def cases() -> Iterator[Case]:
        rng = np.random.default_rng(10)
        for length in (0, 1, 5, 1025):
            texts = variable_width([rng.bytes(size) for size in rng.integers(0, 9, length).tolist()])
            wide = variable_width([rng.bytes(size) for size in rng.integers(0, 3, length).tolist()], 64)
            numbers = fixed_width(rng.integers(0, 100, length).astype(np.int16))
            lists = FixedSizeListBlock(fixed_width(rng.random(length * 3).astype(np.float32)), 3, None, length)
            for children in ((texts, numbers), (numbers, lists, wide, texts), (lists,)):
                values = PackedStructBlock(children, length)
                yield Case(f"{length} {len(children)}", values, VariablePackedStruct.encode_values(values))


def test_rows_are_fields_side_by_side() -> None:
    fields = (fixed_width(np.array([1, 2], np.uint16)), fixed_width(np.array([7, 8], np.uint8)))
    encoded = PackedStruct.encode_mini_blocks(PackedStructBlock(fields, 2), ChunkLimits())
    assert encoded.buffers[0].data.to_pybytes() == bytes.fromhex("010007 020008")


def test_fields_of_variable_width_have_their_length_before_them() -> None:
    fields = (variable_width([b"ab", b""]), fixed_width(np.array([7, 8], np.uint8)))
    encoded = VariablePackedStruct.encode_values(PackedStructBlock(fields, 2))
    assert encoded.block.data.to_pybytes() == bytes.fromhex("02000000 6162 07") + bytes.fromhex("00000000 08")


def test_bits_cannot_be_packed() -> None:
    fields = (fixed_width(np.array([True, False])),)
    with pytest.raises(InvalidInputError):
        PackedStruct.encode_mini_blocks(PackedStructBlock(fields, 2), ChunkLimits())


def test_rows_longer_than_their_fields_are_corrupt() -> None:
    fields = (variable_width([b"ab", b"c"]),)
    encoded = VariablePackedStruct.encode_values(PackedStructBlock(fields, 2))
    damaged = encoded.block.data.to_pybytes().replace(b"\x02\0\0\0", b"\x01\0\0\0")
    assert decode(encoded).num_values == 2
    with pytest.raises(CorruptFileError):
        encoded.encoding.decode_values(type(encoded.block)(encoded.block.offsets, pa.py_buffer(damaged), 32, 2))
