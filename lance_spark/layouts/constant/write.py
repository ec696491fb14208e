"""Constant pages (`lance.encodings21.ConstantLayout`; see `layouts.constant`)."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pyarrow as pa

from lance_spark.encodings.base import EncodedBlock
from lance_spark.encodings.blocks import Block, FixedWidthBlock, VariableWidthBlock
from lance_spark.encodings.choose import choose_blocks
from lance_spark.file_version import FileVersion
from lance_spark.layouts.constant.layout import ConstantLayout
from lance_spark.layouts.page_bytes import PageBytes
from lance_spark.layouts.repdef import RepDefLayer
from lance_spark.layouts.shred import Levels, Uint16Array

MAX_INLINE_BYTES = 32
"""Maximum bytes of a value in the message."""

_EMPTY = pa.py_buffer(b"")


def encode_nulls(levels: Levels, version: FileVersion) -> PageBytes:
    """A page without values: nulls, and null and empty lists."""
    if len(levels.scheme.layers) == 1:
        return PageBytes(levels.num_rows, ConstantLayout(levels.scheme.layers), ())
    if version is FileVersion.V2_1:
        return PageBytes(levels.num_rows, ConstantLayout(levels.scheme.layers), _raw_levels(levels))
    rep, def_ = (_encoded_levels(array, version) for array in (levels.reps, levels.defs))
    layout = ConstantLayout(
        levels.scheme.layers,
        rep_compression=None if rep is None else rep.encoding,
        def_compression=None if def_ is None else def_.encoding,
        num_rep_values=0 if rep is None else rep.num_values,
        num_def_values=0 if def_ is None else def_.num_values,
    )
    return PageBytes(levels.num_rows, layout, tuple(_EMPTY if part is None else part.data for part in (rep, def_)))


def encode_empty_structs(levels: Levels) -> PageBytes:
    """A page of structs without fields; a single nullable layer represents all layers, though there are no nulls."""
    return PageBytes(levels.num_rows, ConstantLayout((RepDefLayer.NULLABLE_ITEM,)), ())


def encode_constant(levels: Levels, value: Block) -> PageBytes:
    """A page whose slots are `value` (a block of one value) or null, or a page without slots (file version 2.2)."""
    has_levels = levels.reps is not None or levels.defs is not None
    level_buffers = _raw_levels(levels) if has_levels else ()
    if isinstance(value, FixedWidthBlock) and value.data.size <= MAX_INLINE_BYTES:
        layout = ConstantLayout(levels.scheme.layers, inline_value=value.data.to_pybytes())
        return PageBytes(levels.num_rows, layout, level_buffers)
    return PageBytes(levels.num_rows, ConstantLayout(levels.scheme.layers), (_value_buffer(value), *level_buffers))


def _encoded_levels(levels: Uint16Array | None, version: FileVersion) -> EncodedBlock[Any] | None:
    if levels is None:
        return None
    block = FixedWidthBlock(pa.py_buffer(levels), 16, len(levels))
    encoded = choose_blocks(block, np.array([len(levels)], np.int64), version)
    return EncodedBlock(encoded.encoding, encoded.chunks.data, len(levels))


def _raw_levels(levels: Levels) -> tuple[pa.Buffer, pa.Buffer]:
    rep, def_ = (_EMPTY if array is None else pa.py_buffer(array) for array in (levels.reps, levels.defs))
    return rep, def_


def _value_buffer(value: Block) -> pa.Buffer:
    """Number of parts, their sizes (u32), and the parts of an Arrow array of one value."""
    if isinstance(value, VariableWidthBlock):
        parts = [value.offsets.to_pybytes(), value.data.to_pybytes()]
    elif isinstance(value, FixedWidthBlock):
        parts = [value.data.to_pybytes()]
    else:
        raise TypeError(f"a constant {type(value).__name__}")
    header = struct.pack(f"<I{len(parts)}I", len(parts), *map(len, parts))
    return pa.py_buffer(header + b"".join(parts))
