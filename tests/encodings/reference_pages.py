"""Pages of files written by the reference library, cut up by hand: what codecs see, without any layout code of ours."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from google.protobuf import any_pb2
from lance.file import LanceFileWriter

from lance_spark._proto import encodings_v2_1_pb2 as pb
from lance_spark._proto import file2_pb2
from lance_spark.encodings.blocks import Chunks


@dataclass(frozen=True)
class ReferencePage:
    """The layout message and the buffers of one page."""

    layout: Any
    buffers: list[pa.Buffer]
    num_rows: int


def write_pages(
    path: Path, array: pa.Array, version: str, metadata: dict[str, str] | None = None
) -> list[ReferencePage]:
    """The pages of column 0 of a file that holds `array`, written by the reference library."""
    schema = pa.schema([pa.field("x", array.type, array.null_count > 0, metadata=metadata)])
    with LanceFileWriter(str(path), schema, version=version) as writer:
        writer.write_batch(pa.record_batch([array], schema=schema))
    data = path.read_bytes()
    (cmo_start,) = struct.unpack_from("<Q", data, len(data) - 32)
    start, size = struct.unpack_from("<QQ", data, cmo_start)
    column = file2_pb2.ColumnMetadata.FromString(data[start : start + size])
    pages = []
    for page in column.pages:
        any_message = any_pb2.Any.FromString(page.encoding.direct.encoding)
        layout = pb.PageLayout.FromString(any_message.value)
        buffers = [
            pa.py_buffer(data[offset : offset + length])
            for offset, length in zip(page.buffer_offsets, page.buffer_sizes, strict=True)
        ]
        pages.append(ReferencePage(getattr(layout, layout.WhichOneof("layout")), buffers, page.length))
    return pages


@dataclass(frozen=True)
class MiniBlocks:
    """The chunks of a mini-block page: definition levels (or None), and each value buffer."""

    definition: Chunks | None
    repetition: Chunks | None
    values: list[Chunks]


def cut_mini_blocks(page: ReferencePage) -> MiniBlocks:
    """Cuts the chunks of a mini-block page as `lance.encodings21.MiniBlockLayout` describes them."""
    layout = page.layout
    words = np.frombuffer(page.buffers[0], "<u4" if layout.has_large_chunk else "<u2").tolist()
    data = page.buffers[1]
    size_word = "I" if layout.has_large_chunk else "H"
    left = layout.num_items
    at = 0
    slices: dict[str, list[tuple[int, int, int]]] = {"rep": [], "def": []}
    slices |= {str(index): [] for index in range(layout.num_buffers)}
    for index, word in enumerate(words):
        count = left if index == len(words) - 1 else 1 << (word & 15)
        left -= count
        names = [name for name in ("rep", "def") if layout.HasField(f"{name}_compression")]
        header = f"<H{len(names)}H" + f"{layout.num_buffers}{size_word}"
        num_levels, *sizes = struct.unpack_from(header, data, at)
        place = at + -(-struct.calcsize(header) // 8) * 8
        for name, size in zip(names + [str(i) for i in range(layout.num_buffers)], sizes, strict=True):
            slices[name].append((place, size, num_levels if name in ("rep", "def") else count))
            place += -(-size // 8) * 8
        at += ((word >> 4) + 1) * 8
        assert place == at
    chunks = {
        name: Chunks(data, *(np.array(column, np.int64) for column in zip(*rows, strict=True)))
        for name, rows in slices.items()
        if rows
    }
    return MiniBlocks(chunks.get("def"), chunks.get("rep"), [chunks[str(index)] for index in range(layout.num_buffers)])
