"""Damaged pages: a `CorruptFileError` or values, and nothing else."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lance_spark.errors import CorruptFileError, LanceError
from lance_spark.layouts.base import EncodedBuffer, EncodedColumn, EncodedPage, RowRanges
from lance_spark.layouts.v2_0.base import FileReads
from lance_spark.layouts.v2_0.blob import DESCRIPTION, BlobNode
from lance_spark.layouts.v2_0.column import Column
from tests.layouts.v2_0.files import OpenFile, single_rows
from tests.support.layouts.v2_0_files import both, write

ROWS = 130


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> OpenFile:
    table = both(ROWS, 0.3, 1).drop_columns(["wide_fixed_size_list"])
    words = [f"some text {i % 9} to compress" for i in range(ROWS)]
    columns = {
        "fsst": (pa.array(words * 1, pa.string()), {"lance-encoding:compression": "fsst"}),
        "zstd": (pa.array(words, pa.binary()), {"lance-encoding:compression": "zstd"}),
        "lz4": (pa.array(words, pa.large_string()), {"lance-encoding:compression": "lz4"}),
        "packed": (
            pa.array([{"a": i, "b": 1.5} for i in range(ROWS)], pa.struct([("a", pa.int16()), ("b", pa.float64())])),
            {"packed": "true"},
        ),
        "blob": (pa.array([None, b"", b"blob"] * 50, pa.large_binary())[:ROWS], {"lance-encoding:blob": "true"}),
    }
    for name, (values, metadata) in columns.items():
        table = table.append_column(pa.field(name, values.type, metadata=metadata), values)
    return write(tmp_path_factory.mktemp("corrupt") / "t.lance", table)


def try_to_read(file: OpenFile) -> None:
    for top in file.schema.fields:
        if file.columns.keys().isdisjoint(node.id for node in top.walk()):
            continue
        for rows in (RowRanges.of(0, ROWS), RowRanges.of(13, 101), single_rows([0, 5, 99, ROWS - 1])):
            with contextlib.suppress(LanceError):
                file.read_field(top.name, rows)


def with_column(file: OpenFile, column: EncodedColumn) -> OpenFile:
    """The top-level field of one column only, so that a damaged column is read and no other."""
    owner = next(field_id for field_id, other in file.columns.items() if other.index == column.index)
    [top] = [top for top in file.schema.fields if owner in {node.id for node in top.walk()}]
    columns = {node.id: file.columns[node.id] for node in top.walk() if node.id in file.columns} | {owner: column}
    return OpenFile(file.data, file.schema, columns, file.num_rows)


def with_page(column: EncodedColumn, page: EncodedPage) -> EncodedColumn:
    return replace(column, pages=(page, *column.pages[1:]))


def flipped(content: bytes, rng: np.random.Generator) -> bytes:
    damaged = bytearray(content)
    for position in rng.integers(0, len(content), int(rng.integers(1, 4))):
        damaged[position] ^= int(rng.integers(1, 256))
    return bytes(damaged)


@pytest.mark.slow
def test_flipped_bytes_in_descriptions(file: OpenFile) -> None:
    rng = np.random.default_rng(1)
    for column in file.columns.values():
        page = column.pages[0]
        for _ in range(60):
            damaged = replace(page, message=flipped(page.message, rng))
            try_to_read(with_column(file, with_page(column, damaged)))


@pytest.mark.slow
def test_flipped_bytes_in_buffers(file: OpenFile) -> None:
    rng = np.random.default_rng(2)
    for column in file.columns.values():
        for buffer in column.pages[0].buffers:
            for _ in range(12 if buffer.size else 0):
                content = bytearray(file.data)
                stop = buffer.position + min(buffer.size, 512)
                content[buffer.position : stop] = flipped(bytes(content[buffer.position : stop]), rng)
                damaged = with_column(file, column)
                damaged.data = pa.py_buffer(bytes(content))
                try_to_read(damaged)


def test_extreme_words_in_buffers(file: OpenFile) -> None:
    for column in file.columns.values():
        for buffer in column.pages[0].buffers:
            for word in (b"\xff" * 8, b"\xff" * 7 + b"\x7f", bytes(7) + b"\x80", bytes(8)):
                content = bytearray(file.data)
                stop = buffer.position + min(buffer.size, 8)
                content[buffer.position : stop] = word[: stop - buffer.position]
                damaged = with_column(file, column)
                damaged.data = pa.py_buffer(bytes(content))
                try_to_read(damaged)


def test_numbers_of_a_page(file: OpenFile) -> None:
    for column in file.columns.values():
        page = column.pages[0]
        changed = [replace(page, num_rows=rows) for rows in (0, ROWS - 1, ROWS + 1, 2**40, 2**63, 2**64 - 1)]
        changed += [replace(page, buffers=page.buffers[:-1]), replace(page, type_url="/lance.encodings21.PageLayout")]
        for number, buffer in enumerate(page.buffers):
            for place in (
                EncodedBuffer(buffer.position, buffer.size // 2),
                EncodedBuffer(buffer.position, 2**63),
                EncodedBuffer(2**64 - 1, buffer.size),
                EncodedBuffer(file.data.size, buffer.size),
            ):
                changed.append(replace(page, buffers=(*page.buffers[:number], place, *page.buffers[number + 1 :])))
        for damaged in changed:
            try_to_read(with_column(file, with_page(column, damaged)))


def test_truncated_buffers_are_found(file: OpenFile) -> None:
    """Every byte of a page counts, but for compressed frames' own slack."""
    for column in file.columns.values():
        page = column.pages[0]
        for number, buffer in enumerate(page.buffers):
            if buffer.size == 0:
                continue
            shorter = EncodedBuffer(buffer.position, buffer.size - 1)
            damaged = replace(page, buffers=(*page.buffers[:number], shorter, *page.buffers[number + 1 :]))
            broken = with_column(file, with_page(column, damaged))
            [top] = [top for top in file.schema.fields if any(node.id in broken.columns for node in top.walk())]
            with pytest.raises(LanceError):
                broken.read_field(top.name, RowRanges.of(0, ROWS))


def test_columns_that_are_longer_than_the_file(file: OpenFile, tmp_path: Path) -> None:
    for column in file.columns.values():
        longer = replace(column, pages=(*column.pages, *column.pages))
        broken = with_column(file, longer)
        [top] = [top for top in file.schema.fields if any(node.id in broken.columns for node in top.walk())]
        with pytest.raises(LanceError):
            broken.read_field(top.name, RowRanges.of(0, ROWS))


@pytest.mark.parametrize("dtype", [pa.large_binary(), DESCRIPTION], ids=["values", "descriptions"])
def test_null_places_of_blobs_are_damage(dtype: pa.DataType, file: OpenFile) -> None:
    numbers = [pa.array([1, None], pa.uint64()), pa.array([0, 0], pa.uint64())]
    described = pa.StructArray.from_arrays(numbers, names=["position", "size"])

    class Described(Column):
        def read(self, ranges: RowRanges, data_type: pa.DataType) -> FileReads[list[pa.Array]]:
            yield from ()
            return [described]

    [top] = [top for top in file.schema.fields if top.name == "blob"]
    column = Described(file.columns[top.id], np.array([0, 2]))
    reading = BlobNode(dtype, column).read(RowRanges.of(0, 2))
    with pytest.raises(CorruptFileError, match="the place of a blob is null"):
        next(reading)
