"""Runs the coroutine of one page over buffers in memory."""

from __future__ import annotations

import pyarrow as pa

from lance_spark.layouts.base import BufferSlice, BufferSlices, Page, PageLayout, RowRanges
from lance_spark.layouts.path import LeafPath
from lance_spark.layouts.read_spans import spanned
from lance_spark.schema.arrow import from_arrow_schema
from lance_spark.schema.columns import paths


def path_of(dtype: pa.DataType) -> LeafPath:
    """The only path of a column of this type."""
    [field] = from_arrow_schema(pa.schema([pa.field("x", dtype)])).fields
    [path] = paths(field)
    return LeafPath.of(path)


def read_page(
    layout: PageLayout, buffers: list[bytes], dtype: pa.DataType, num_rows: int, rows: RowRanges | None = None
) -> tuple[pa.Array, int]:
    """(the array of `rows`, how many rounds of requests it took)."""
    page = Page(tuple(len(buffer) for buffer in buffers), num_rows, path_of(dtype))
    reads = layout.read(page, RowRanges.of(0, num_rows) if rows is None else rows)
    rounds = 0
    answer = None
    while True:
        try:
            requests = reads.send(answer)
        except StopIteration as stop:
            stop.value.validate(full=True)
            return stop.value, rounds
        rounds += 1
        answer = []
        for request in requests:
            if isinstance(request, BufferSlices):
                # Each piece in memory of its own, as a store returns them.
                places = zip(request.starts.tolist(), request.lengths.tolist(), strict=True)
                answer.append(spanned([_piece(buffers[request.buffer], *place) for place in places]))
                continue
            assert isinstance(request, BufferSlice)
            answer.append(_piece(buffers[request.buffer], request.start, request.length))


def _piece(buffer: bytes, start: int, length: int) -> pa.Buffer:
    assert 0 <= start <= start + length <= len(buffer)
    return pa.py_buffer(buffer[start : start + length])
