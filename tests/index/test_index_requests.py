"""What an index lookup reads: small parts of the index and of the data."""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_spark.storage import open_store
from lance_spark.table.dataset import Dataset
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.history import History
from tests.support.counting_store import CountingStore, Counts

NUM_ROWS = 400_000


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """400,000 rows in random order of a key, and a payload; 2 fragments."""
    path = tmp_path_factory.mktemp("indexed") / uuid.uuid4().hex
    numbers = np.random.default_rng(3)
    keys = numbers.permutation(NUM_ROWS)
    data = pa.table(
        {
            "key": keys,
            "kind": pa.array((keys % 50).astype(np.int32)),
            "payload": numbers.integers(0, 1 << 60, NUM_ROWS),
        }
    )
    dataset = lance.write_dataset(data, str(path), max_rows_per_file=NUM_ROWS // 2)
    dataset.create_scalar_index("key", "BTREE")
    dataset.create_scalar_index("kind", "BITMAP")
    return path


def counted(path: Path) -> tuple[Dataset, CountingStore]:
    location = TableLocation(str(path))
    store = CountingStore(open_store(str(path)))
    location.store = store
    location.history = History(store, None)
    manifest = location.latest()
    assert manifest is not None
    store.reset()
    return Dataset(location, manifest), store


def read(path: Path, condition: str, **options: object) -> tuple[int, Counts]:
    dataset, store = counted(path)
    found = dataset.to_table(filter=condition, columns=["payload"], **options)
    return found.num_rows, store.reset()


def index_bytes(path: Path) -> int:
    return sum(file.stat().st_size for file in (path / "_indices").rglob("*.lance"))


def test_equality_reads_the_page_lookup_and_one_page(table: Path) -> None:
    num_rows, counts = read(table, "key = 123456")
    scanned_rows, scan = read(table, "key = 123456", use_scalar_index=False)
    assert num_rows == scanned_rows == 1
    # The ends of 2 index files and 1 data file; values and ids of the page, and the row, each after its chunk
    # index, and the column of the filter, by which the row is checked.
    assert counts.read_requests <= 11
    assert counts.bytes_read < index_bytes(table) / 5
    assert counts.bytes_read < scan.bytes_read / 5


def test_fragment_without_matches_is_not_opened(table: Path) -> None:
    _, counts = read(table, "key = 123456")
    assert len({path for path in counts.paths if path.startswith("data/")}) == 1


def test_count_of_an_exact_answer_reads_no_data_file(table: Path) -> None:
    dataset, store = counted(table)
    assert dataset.count_rows("key < 1000 AND key <> 7") == 999
    assert not [path for path in store.reset().paths if path.startswith("data/")]


def test_bitmap_lookup_reads_only_the_bitmaps_of_its_keys(table: Path) -> None:
    dataset, store = counted(table)
    assert dataset.count_rows("kind = 3") == NUM_ROWS // 50
    (file,) = (table / "_indices").rglob("bitmap_page_lookup.lance")
    assert store.reset().bytes_read < file.stat().st_size / 3


def test_wide_range_is_scanned(table: Path) -> None:
    dataset, store = counted(table)
    assert dataset.explain("key > 10").endswith("scanned without index: fragments 0-1")
    assert not [path for path in store.reset().paths if path.endswith("page_data.lance")][1:]


def test_scattered_range_is_scanned(table: Path) -> None:
    """5 % of the rows, which lie in every block of the column; of the index no more than one page of ids is read."""
    dataset, store = counted(table)
    assert dataset.explain("key BETWEEN 40000 AND 60000").endswith("scanned without index: fragments 0-1")
    pages = store.reset()
    (file,) = (table / "_indices").rglob("page_data.lance")
    assert pages.bytes_read < file.stat().st_size / 10
    assert dataset.count_rows("key BETWEEN 40000 AND 60000") == 20_001


def test_range_of_ordered_values_uses_the_index(tmp_path: Path) -> None:
    data = pa.table({"key": np.arange(NUM_ROWS), "payload": np.arange(NUM_ROWS)})
    lance.write_dataset(data, str(tmp_path)).create_scalar_index("key", "BTREE")
    num_rows, counts = read(tmp_path, "key BETWEEN 40000 AND 60000")
    scanned_rows, scan = read(tmp_path, "key BETWEEN 40000 AND 60000", use_scalar_index=False)
    assert num_rows == scanned_rows == 20_001
    assert counts.bytes_read < scan.bytes_read / 2


@pytest.mark.parametrize("change", ["delete", "update"])
def test_changes_by_key_read_the_rows_that_the_index_finds(table: Path, tmp_path: Path, change: str) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(table, copy)
    files = {f"data/{file.name}" for file in (copy / "data").iterdir()}
    dataset, store = counted(copy)
    changed = dataset.delete("key = 123456") if change == "delete" else dataset.update({"payload": -1}, "key = 123456")
    assert len(files.intersection(store.reset().paths)) == 1 < len(files)
    assert changed.count_rows("key = 123456") == (change == "update")


def test_switch_turns_indexes_off(table: Path) -> None:
    _, counts = read(table, "key = 5", use_scalar_index=False)
    assert not [path for path in counts.paths if path.startswith("_indices/")]
