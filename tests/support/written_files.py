"""Writes a table with our writer and reads it with the reference library and with our reader, whole and in parts."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
from lance.file import LanceFileReader

from lance_spark.file.open_file import open_data_file
from lance_spark.file.writer import FileWriter, WrittenFile
from lance_spark.file_version import FileVersion
from lance_spark.layouts.base import RowRanges
from lance_spark.schema.arrow import from_arrow_schema
from lance_spark.storage import open_store
from tests.support.equality import assert_tables_equal

_numbers = itertools.count()


def write_file(
    folder: Path,
    table: pa.Table,
    version: str = "2.2",
    *,
    page_bytes: int = 8 << 20,
    batches: Iterable[pa.RecordBatch | pa.Table] | None = None,
) -> tuple[Path, WrittenFile]:
    """Writes `table` (or the `batches` it consists of) to a new file; each gets another name, as readers may cache."""
    store = open_store(str(folder))
    name = f"file-{next(_numbers)}.lance"
    with FileWriter(
        store, name, from_arrow_schema(table.schema), version=FileVersion(version), page_bytes=page_bytes
    ) as writer:
        for batch in [table] if batches is None else batches:
            writer.write(batch)
        written = writer.close()
    return folder / name, written


def some_ranges(num_rows: int) -> list[tuple[int, int]]:
    """(start, length) of ranges with odd bounds, inside of `num_rows`."""
    wanted = [(0, 1), (num_rows - 1, 1), (num_rows // 3, 7), (num_rows // 2, num_rows // 4), (1023, 3), (4095, 2)]
    return [(start, length) for start, length in wanted if length and start >= 0 and start + length <= num_rows]


def assert_file_holds(path: Path, table: pa.Table, *, ours: bool = True) -> LanceFileReader:
    """The reference library, and our reader, read exactly `table`: all, ranges, and rows by number."""
    reference = LanceFileReader(str(path))
    assert reference.num_rows() == table.num_rows
    assert_tables_equal(reference.read_all().to_table(), table)
    for start, length in some_ranges(table.num_rows):
        assert_tables_equal(reference.read_range(start, length).to_table(), table.slice(start, length))
    taken = sorted(random.Random(0).sample(range(table.num_rows), min(20, table.num_rows)))
    if taken:
        rows = pa.concat_tables([table.slice(row, 1) for row in taken])
        assert_tables_equal(reference.take_rows(taken).to_table(), rows)
    if ours:
        reader = open_data_file(open_store(str(path.parent)), path.name)
        assert_tables_equal(reader.read_table(), table)
        for start, length in some_ranges(table.num_rows):
            part = reader.read_table(rows=RowRanges.of(start, start + length))
            assert_tables_equal(part, table.slice(start, length))
    return reference


def read_table(path: Path) -> pa.Table:
    """The whole file by our reader."""
    return open_data_file(open_store(str(path.parent)), path.name).read_table()


def layouts(reference: LanceFileReader) -> list[list[str]]:
    """For each column the layout of each of its pages, such as ``"MiniBlock"``."""
    names = ("MiniBlock", "FullZip", "Constant")
    return [
        [next(name for name in names if f"{name}Layout" in str(page.encoding)) for page in column.pages]
        for column in reference.metadata().columns
    ]
