"""Files by the reference library, and the checks that every one of them has to pass."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
from lance.file import LanceFileWriter

from lance_spark.file.open_file import open_data_file
from lance_spark.file.reader import FileReader
from lance_spark.layouts.base import EncodedPage, PageLayout, RowRanges
from lance_spark.layouts.registry import parse_page
from lance_spark.storage import open_store
from tests.support.equality import assert_tables_equal


def write(path: Path, table: pa.Table, version: str = "2.2", **options: int) -> FileReader:
    """`table` in one file, one `write_batch` a chunk; opened."""
    with LanceFileWriter(str(path), table.schema, version=version, **options) as writer:
        for batch in table.to_batches():
            writer.write_batch(batch)
    return open_file(path)


def open_file(path: Path) -> FileReader:
    file = open_data_file(open_store(str(path.parent)), path.name)
    assert isinstance(file, FileReader)
    return file


def one_column(values: pa.Array | pa.ChunkedArray, metadata: dict[str, str] | None = None) -> pa.Table:
    """A table with the column ``x``."""
    return pa.table([values], schema=pa.schema([pa.field("x", values.type, metadata=metadata)]))


def pages(file: FileReader) -> list[EncodedPage]:
    """The pages of all columns."""
    columns = file._load(file.schema.fields, file.columns)
    return [page for column in columns.values() for page in column.pages]


def layouts(file: FileReader) -> list[PageLayout]:
    """The layouts of the pages of all columns."""
    return [parse_page(page.type_url, page.message) for page in pages(file)]


def ranges_of(pairs: list[tuple[int, int]]) -> RowRanges:
    return RowRanges(np.array([a for a, _ in pairs], np.int64), np.array([b for _, b in pairs], np.int64))


def single_rows(rows: np.ndarray) -> RowRanges:
    """One range for every row."""
    starts = np.asarray(rows, np.int64)
    return RowRanges(starts, starts + 1)


def some_ranges(num_rows: int, seed: int = 0) -> list[RowRanges]:
    """None, an end, both ends, a middle, some ranges and many single rows."""
    if num_rows == 0:
        return [ranges_of([]), ranges_of([(0, 0)])]
    rng = np.random.default_rng(num_rows + seed)
    cuts = np.unique(rng.integers(0, num_rows + 1, 20))
    cuts = cuts[: len(cuts) // 2 * 2].reshape(-1, 2)
    return [
        ranges_of([]),
        ranges_of([(num_rows // 3, num_rows)]),
        ranges_of([(0, (num_rows + 1) // 2)]),
        ranges_of([(num_rows // 2, num_rows // 2 + 1)]),
        ranges_of([(0, 1), (num_rows - 1, num_rows)][: min(num_rows, 2)]),
        ranges_of([(int(a), int(b)) for a, b in cuts]),
        single_rows(np.unique(rng.integers(0, num_rows, 60))),
    ]


def check(file: FileReader, expected: pa.Table, seed: int = 0) -> None:
    """All rows, and every one of `some_ranges`, are those of `expected`."""
    whole = file.read_table()
    whole.validate(full=True)
    assert_tables_equal(whole, expected)
    assert whole.schema.equals(expected.schema)
    for rows in some_ranges(expected.num_rows, seed):
        part = file.read_table(rows=rows)
        part.validate(full=True)
        indices = np.concatenate([np.arange(a, b) for a, b in zip(rows.starts, rows.stops, strict=True)] or [[]])
        assert_tables_equal(part, expected.take(pa.array(indices.astype(np.int64))))
