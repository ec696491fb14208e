from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from lance_spark._proto import encodings_v2_1_pb2 as pb
from lance_spark.encodings.base import MiniBlockEncoding
from lance_spark.encodings.blocks import Block, FixedSizeListBlock, FixedWidthBlock
from lance_spark.encodings.fixed_size_list import FixedSizeList
from lance_spark.encodings.flat import Flat
from lance_spark.encodings.registry import parse
from lance_spark.errors import CorruptFileError
from tests.support.codec_contract import LIMITS, Case, CodecContract, fixed_width


def lists(items: Block, dimension: int, valid: bool) -> FixedSizeListBlock:
    rng = np.random.default_rng(dimension)
    bitmap = np.packbits(rng.random(items.num_values) < 0.8, bitorder="little")
    return FixedSizeListBlock(items, dimension, pa.py_buffer(bitmap) if valid else None, items.num_values // dimension)


class TestFixedSizeList(CodecContract):
    @staticmethod
    def cases() -> Iterator[Case]:
        rng = np.random.default_rng(5)
        for length in (0, 1, 3, 1023, 1025):
            for dimension in (1, 3, 8):
                for valid in (False, True):
                    for items in (
                        rng.random(length * dimension).astype(np.float32),
                        rng.random(length * dimension) < 0.5,
                    ):
                        values = lists(fixed_width(items), dimension, valid)
                        name = f"{length} of {dimension} {items.dtype}, validity {valid}"
                        for limits in LIMITS:
                            yield Case(name, values, FixedSizeList.encode_mini_blocks(values, limits))
                        yield Case(f"values {name}", values, FixedSizeList.encode_values(values))
            for valid in (False, True):
                inner = lists(fixed_width(rng.integers(0, 9, length * 6).astype(np.int16)), 3, True)
                values = lists(inner, 2, valid)
                yield Case(f"nested {length} {valid}", values, FixedSizeList.encode_mini_blocks(values, LIMITS[0]))
                yield Case(f"nested values {length} {valid}", values, FixedSizeList.encode_values(values))


def test_full_zip_value_is_validity_then_items() -> None:
    items = FixedWidthBlock(pa.py_buffer(bytes(range(6))), 8, 6)
    values = FixedSizeListBlock(items, 3, pa.py_buffer(b"\x2d"), 2)
    encoded = FixedSizeList.encode_values(values)
    assert isinstance(encoded.block, FixedWidthBlock)
    assert encoded.block.bits_per_value == 32
    assert encoded.block.data.to_pybytes() == b"\x05\x00\x01\x02" + b"\x05\x03\x04\x05"


def test_vectors_are_not_copied() -> None:
    items = fixed_width(np.arange(4 * 700, dtype=np.float32))
    encoded = FixedSizeList.encode_values(FixedSizeListBlock(items, 700, None, 4))
    decoded = encoded.encoding.decode_values(encoded.block)
    assert isinstance(decoded.items, FixedWidthBlock)
    assert decoded.items.data.address == items.data.address


def test_rows_of_the_wrong_width_are_corrupt() -> None:
    codec = FixedSizeList(4, True, Flat(32))
    with pytest.raises(CorruptFileError):
        codec.decode_values(FixedWidthBlock(pa.py_buffer(bytes(64)), 128, 4))


@pytest.mark.parametrize("items_per_value", [0, 1 << 40])
def test_absurd_dimensions_are_corrupt(items_per_value: int) -> None:
    flat = pb.CompressiveEncoding(flat=pb.Flat(bits_per_value=8))
    message = pb.CompressiveEncoding(fixed_size_list=pb.FixedSizeList(items_per_value=items_per_value, values=flat))
    with pytest.raises(CorruptFileError):
        parse(message, MiniBlockEncoding)
