"""Which layout a page gets (`lance.encodings21.PageLayout`), and the page in it.

The rules, first match: nothing but nulls, and (2.2) nothing but one value, make a constant page; a dictionary column, and
values that repeat enough, mini-blocks with a dictionary; narrow values mini-blocks; wide values, of 256 bytes and more, are
zipped with their levels so that one of them can be read alone.

Mini-blocks count the levels of a chunk in 16 bits. A page with such long runs of empty lists that no chunk can
hold the placeholders before one value is cut where those runs begin and end, or zipped if that happens inside one row.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from lance_spark.file_version import FileVersion
from lance_spark.layouts.enc_tmp import *
from lance_spark.layouts.leaf_values import leaf_block
from lance_spark.layouts.level_chunks import max_values
from lance_spark.layouts.shred import Shredded


@dataclass(frozen=True, slots=True)
class PageBytes:
    """A page to be written: its `PageLayout` message, serialized, and its buffers."""

    num_rows: int
    message: bytes
    buffers: tuple[pa.Buffer, ...]


def encode_page(rows: Shredded, version: FileVersion) -> list[PageBytes]:
    levels = rows.levels()
    values = rows.values
    large = version is not FileVersion.V2_1
    if values.null_count == len(values):
        layout, buffers = encode_constant(levels)
    elif pa.types.is_dictionary(values.type):
        enc = choose_mini_block(leaf_block(values.indices), max_values=max_values(levels, large_chunks=large))
        layout, buffers = encode_mini_block(
            levels, enc, choose_block(leaf_block(values.dictionary)), large_chunks=large
        )
    else:
        block = leaf_block(values)
        wide = block.data.size >= 256 * block.num_values if hasattr(block, "data") else bits_of(block) >= 2048
        if wide:
            layout, buffers = encode_full_zip(levels, choose_values(block))
        else:
            enc = choose_mini_block(block, max_values=max_values(levels, large_chunks=large))
            layout, buffers = encode_mini_block(levels, enc, None, large_chunks=large)
    return [PageBytes(levels.num_rows, layout.SerializeToString(), tuple(buffers))]
