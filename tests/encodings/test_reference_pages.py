"""Codecs read the pages of files that the reference library wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lance_spark.encodings.base import BlockEncoding, MiniBlockEncoding
from lance_spark.encodings.blocks import Block, Chunks, FixedSizeListBlock, FixedWidthBlock, VariableWidthBlock
from lance_spark.encodings.registry import parse
from tests.encodings.reference_pages import ReferencePage, cut_mini_blocks, write_pages
from tests.support.encodings.reference_pages import ARRAYS, METADATA


def to_arrow(block: Block, dtype: pa.DataType) -> pa.Array:
    if isinstance(block, FixedWidthBlock):
        return pa.Array.from_buffers(dtype, block.num_values, [None, block.data])
    if isinstance(block, VariableWidthBlock):
        return pa.Array.from_buffers(dtype, block.num_values, [None, block.offsets, block.data])
    assert isinstance(block, FixedSizeListBlock)
    items = to_arrow(block.items, dtype.value_type)
    if block.validity is not None:
        items = pa.Array.from_buffers(dtype.value_type, len(items), [block.validity, *items.buffers()[1:]])
    return pa.FixedSizeListArray.from_arrays(items, block.dimension)


def decode_page(page: ReferencePage, dtype: pa.DataType) -> tuple[pa.Array, Any]:
    """The values, nulls included, and the definition levels."""
    chunks = cut_mini_blocks(page)
    codec = parse(page.layout.value_compression, MiniBlockEncoding)
    assert codec.to_proto() == page.layout.value_compression
    assert codec.num_buffers == page.layout.num_buffers
    block = codec.decode_mini_blocks(chunks.values)
    levels = None
    if chunks.definition is not None:
        decoded = parse(page.layout.def_compression, BlockEncoding).decode_blocks(chunks.definition)
        levels = np.frombuffer(decoded.data, np.uint16)
    if page.layout.HasField("dictionary"):
        items = parse(page.layout.dictionary, BlockEncoding).decode_blocks(
            Chunks.single(page.buffers[2], page.layout.num_dictionary_items)
        )
        indices = to_arrow(block, pa.uint32())
        return to_arrow(items, dtype).take(indices), levels
    return to_arrow(block, dtype), levels


def check(path: Path, array: pa.Array, version: str, metadata: dict[str, str] | None = None) -> set[str]:
    """Returns the names of the encodings that were met."""
    met = set()
    row = 0
    for page in write_pages(path, array, version, metadata):
        values, levels = decode_page(page, array.type)
        expected = array.slice(row, page.num_rows)
        row += page.num_rows
        if levels is not None:
            assert levels.tolist() == expected.is_null().to_numpy(zero_copy_only=False).astype(int).tolist()
            values, expected = values.filter(expected.is_valid()), expected.drop_null()
        values.validate(full=True)
        assert values.equals(expected)
        met.add(page.layout.value_compression.WhichOneof("compression"))
        met.add(page.layout.def_compression.WhichOneof("compression"))
        met.add(page.layout.dictionary.WhichOneof("compression"))
    assert row == len(array)
    return met


@pytest.mark.parametrize("version", ["2.1", "2.2"])
@pytest.mark.parametrize("name", ARRAYS)
def test_values_and_levels(tmp_path: Path, name: str, version: str) -> None:
    check(tmp_path / "x.lance", ARRAYS[name](), version)


@pytest.mark.parametrize("metadata", METADATA)
@pytest.mark.parametrize("name", ["doubles", "unique strings", "runs", "nullable strings", "vectors with nulls"])
def test_compressed_values(tmp_path: Path, name: str, metadata: str) -> None:
    check(tmp_path / "x.lance", ARRAYS[name](), "2.2", METADATA[metadata])


def test_every_encoding_was_met(tmp_path: Path) -> None:
    """Were the reference library to stop using one of them, the tests above would say nothing about it."""
    met = set()
    for name in ARRAYS:
        met |= check(tmp_path / "x.lance", ARRAYS[name](), "2.2")
    assert met >= {"flat", "variable", "inline_bitpacking", "out_of_line_bitpacking", "fsst", "rle", "general"}
    met = check(tmp_path / "x.lance", ARRAYS["int64"](), "2.2", METADATA["split"])
    assert "byte_stream_split" in met or "general" in met
