"""What reading and committing cost in requests to an object store."""

from __future__ import annotations

import uuid
from pathlib import Path

import pyarrow as pa
import pytest

import lance_spark
from lance_spark.storage import open_store
from lance_spark.table.dataset import Dataset
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.history import History
from lance_spark.table.writing.row_source import RowSource
from tests.support.counting_store import CountingStore
from tests.support.row_verbs import save


def wide(num_rows: int, num_columns: int) -> pa.Table:
    return pa.table({f"c{i}": pa.array(range(i, i + num_rows), pa.int64()) for i in range(num_columns)})


def counted(uri: str) -> tuple[TableLocation, CountingStore]:
    location = TableLocation(uri)
    store = CountingStore(open_store(uri))
    location.store = store
    location.history = History(store)
    return location, store


def test_opening_the_newest_version(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    for _ in range(5):
        lance_spark.write(wide(10, 2), uri, mode="append")
    location, store = counted(uri)
    assert location.latest() is not None
    counts = store.reset()
    assert (counts.calls["list"], counts.calls["read"], counts.total_requests) == (1, 1, 2)


@pytest.mark.slow
def test_one_of_fifty_columns(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance_spark.write(wide(200_000, 50), uri)
    location, store = counted(uri)
    manifest = location.latest()
    assert manifest is not None
    dataset = Dataset(location, manifest)
    store.reset()
    table = dataset.to_table(columns=["c7"])
    assert table.num_rows == 200_000
    counts = store.reset()
    assert counts.total_requests <= 3, "the end of the file, the column's metadata, its pages"
    size = sum(file.size_bytes or 0 for fragment in dataset.fragments for file in fragment.files)
    assert counts.bytes_read < size / 10


def test_counting_and_limits_open_no_file_that_they_do_not_need(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance_spark.write(wide(1000, 3), uri, max_rows_per_file=100)
    location, store = counted(uri)
    manifest = location.latest()
    assert manifest is not None
    dataset = Dataset(location, manifest)
    store.reset()
    assert dataset.count_rows() == 1000
    assert store.reset().total_requests == 0
    assert dataset.to_table(limit=5, offset=730)["c0"].to_pylist() == list(range(730, 735))
    assert len({path for path in store.reset().paths if path.startswith("data/")}) == 1
    assert dataset.take([3, 999, 998]).num_rows == 3
    assert len({path for path in store.reset().paths if path.startswith("data/")}) == 2


def test_an_append(tmp_path: Path) -> None:
    uri = f"memory://requests-{uuid.uuid4().hex}"
    lance_spark.write(wide(10, 2), uri)
    location, store = counted(uri)
    assert save(location, RowSource.of(wide(10, 2)), mode="append").version == 2
    counts = store.reset()
    # The newest version; the data file; the transaction; is it still the newest, and of this table; publish; was the
    # name free for good.
    calls = {"list": 3, "read": 1, "read_range": 1, "open_output": 1, "put": 1, "put_if_absent": 1}
    assert dict(counts.calls) == calls
