"""What an index lookup reads: small parts of the index and of the data."""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.indices import IndexConfig

import lance_spark
from lance_spark._proto import table_pb2
from lance_spark.storage.base import ObjectStore
from lance_spark.storage.coalesce import ReadPolicy
from lance_spark.table.rows.fragment import DataFragment
from tests.support.counting_store import CountingStore, Counts
from tests.support.index.requests import KeptStore, counted

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


class LocalStore(CountingStore):
    """Counts the bytes that a local file is asked for: what lies between two pieces is not read."""

    def __init__(self, inner: ObjectStore) -> None:
        super().__init__(inner, ReadPolicy(max_gap_bytes=0, max_read_bytes=1 << 30, num_threads=1))


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
    # The ends of 2 index files and 1 data file; values and ids of the page, and the row, each after its chunk index.
    assert counts.read_requests <= 9
    assert counts.bytes_read < index_bytes(table) / 5
    assert counts.bytes_read < scan.bytes_read / 5


def test_fragment_without_matches_is_not_opened(table: Path) -> None:
    _, counts = read(table, "key = 123456")
    assert len({path for path in counts.paths if path.startswith("data/")}) == 1


@pytest.mark.parametrize(
    ("condition", "num_rows", "reads_key"),
    [
        ("key = 123456", 1, False),
        ("key = 123456 AND payload > 0", 1, False),
        ("key = 123456 AND key + 0 > 0", 1, True),  # what arithmetic compares is not asked of an index
        ("kind IN (1, 2, 3, 4, 5)", NUM_ROWS // 10, False),  # in every block of the columns
        ("kind <> 7", NUM_ROWS // 50 * 49, False),
    ],
)
def test_rows_of_an_exact_answer_are_read_without_the_column_of_the_filter(
    table: Path, condition: str, num_rows: int, reads_key: bool
) -> None:
    found = {}
    for columns in (["payload"], ["payload", "kind" if condition.startswith("kind") else "key"]):
        dataset, store = counted(table)
        assert dataset.to_table(columns, condition).num_rows == num_rows
        counts = store.reset()
        found[len(columns)] = sum(path.startswith("data/") for path in counts.paths), counts.bytes_read
    assert (found[1] == found[2]) is reads_key, found


def test_count_of_an_exact_answer_reads_no_data_file(table: Path) -> None:
    dataset, store = counted(table)
    assert dataset.count_rows("key < 1000 AND key <> 7") == 999
    assert not [path for path in store.reset().paths if path.startswith("data/")]


def test_second_lookup_of_a_page_reads_no_index_file(table: Path) -> None:
    dataset, store = counted(table, KeptStore)
    assert dataset.count_rows("key = 20") == 1
    store.reset()
    assert dataset.count_rows("key = 21") == 1
    assert store.reset().read_requests == 0


def test_second_list_of_keys_reads_no_index_file(table: Path) -> None:
    """The keys of both lists lie in almost all pages of the index."""
    dataset, store = counted(table, KeptStore)
    for first in (0, 7):
        keys = ", ".join(str(number) for number in range(first, NUM_ROWS, 500))
        assert dataset.count_rows(f"key IN ({keys})") == NUM_ROWS // 500
        paths = store.reset().paths
        assert not [path for path in paths if path.startswith("data/")]
        assert bool(paths) is (first == 0)


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


def test_zones_of_numbers_are_read_in_one_step(tmp_path: Path) -> None:
    """The payload is read with the column of the filter, not for the rows that it has kept."""
    data = pa.table({"key": np.arange(100_000), "payload": np.arange(100_000) * 7})
    lance.write_dataset(data, str(tmp_path)).create_scalar_index("key", IndexConfig("zonemap", {}))
    dataset, store = counted(tmp_path)
    found = dataset.to_table(["payload"], "key BETWEEN 50000 AND 50099")["payload"].to_pylist()
    assert found == list(range(350_000, 350_700, 7))
    # The columns of the index, then those of the data file.
    assert store.reset().calls["read_ranges"] == 2


def test_scattered_range_of_texts_uses_the_index(tmp_path: Path) -> None:
    """10,000 rows of 60,000, which lie in every block of the column: texts cost more to decode than entries."""
    keys = np.random.default_rng(3).permutation(60_000)
    data = pa.table({"key": [f"key {key:05}" for key in keys], "payload": keys})
    dataset = lance.write_dataset(data, str(tmp_path))
    dataset.create_scalar_index("key", "BTREE")
    opened = lance_spark.open(tmp_path)
    assert opened.explain("key LIKE 'key 1%'").endswith("scanned without index: none")
    found = opened.to_table(["payload"], "key LIKE 'key 1%'")["payload"].to_pylist()
    assert found == [key for key in keys.tolist() if 10_000 <= key < 20_000]


@pytest.mark.parametrize(
    ("kind", "condition"),
    [("NGRAM", "contains(key, 'y 04242')"), (IndexConfig("bloomfilter", {}), "key = 'key 04242'")],
)
def test_second_lookup_of_a_superset_reads_no_index_file(
    tmp_path: Path, kind: str | IndexConfig, condition: str
) -> None:
    data = pa.table({"key": [f"key {key:05}" for key in range(20_000)], "payload": range(20_000)})
    lance.write_dataset(data, str(tmp_path)).create_scalar_index("key", kind)
    dataset, store = counted(tmp_path, KeptStore)
    for is_first in (True, False):
        assert dataset.to_table(["payload"], condition)["payload"].to_pylist() == [4242]
        assert any(path.startswith("_indices/") for path in store.reset().paths) is is_first


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


@pytest.mark.parametrize("matched", ["update", "delete"])
def test_merge_of_1000_keys_by_an_index_reads_a_fifth(tmp_path: Path, matched: str) -> None:
    """Half of the keys are in the table, in neighbouring rows, as new versions of recent rows are."""
    num_rows = 1_000_000
    found = {}
    for name in ("indexed", "plain"):
        path = tmp_path / uuid.uuid4().hex
        numbers = np.arange(num_rows) * 7
        lance.write_dataset(pa.table({"key": numbers, "payload": numbers % 5}), str(path))
        if name == "indexed":
            lance.dataset(str(path)).create_scalar_index("key", "BTREE")
        dataset, store = counted(path, LocalStore)
        keys = np.arange(num_rows - 500, num_rows + 500) * 7
        source = pa.table({"key": keys, "payload": np.full(1000, -1)})
        merged = dataset.merge(source, "key", when_matched=matched, when_not_matched="insert")
        found[name] = store.reset().bytes_read
        assert merged.count_rows() == num_rows + (500 if matched == "update" else 0)
        assert merged.count_rows("payload = -1") == (1000 if matched == "update" else 500)
    assert found["indexed"] * 5 <= found["plain"], found


def test_merge_of_stale_entries_inserts_what_is_gone(table: Path, tmp_path: Path) -> None:
    """The index has entries of deleted rows, and none of appended ones."""
    copy = tmp_path / "copy"
    shutil.copytree(table, copy)
    dataset, _ = counted(copy)
    dataset.delete("key IN (5, 6)")
    lance.write_dataset(
        pa.table({"key": [6, NUM_ROWS], "kind": pa.array([1, 1], pa.int32()), "payload": [1, 1]}),
        str(copy),
        mode="append",
    )
    keys = [4, 5, 6, NUM_ROWS]
    source = pa.table({"key": keys, "kind": pa.array([7] * 4, pa.int32()), "payload": [-1] * 4})
    merged = counted(copy)[0].merge(source, "key")
    assert merged.count_rows() == NUM_ROWS + 1
    assert merged.count_rows("payload = -1", use_scalar_index=False) == 4
    rows = merged.to_table(["key"], f"key IN (4, 5, 6, {NUM_ROWS})", use_scalar_index=False)
    assert sorted(rows["key"].to_pylist()) == keys


def test_lookup_looks_only_at_the_fragments_with_its_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lance.write_dataset(pa.table({"key": range(1000)}), str(tmp_path), max_rows_per_file=10)
    lance.dataset(str(tmp_path)).create_scalar_index("key", "BTREE")
    dataset = lance_spark.open(tmp_path)
    parsed = []
    parse = DataFragment.from_proto

    def counting(message: table_pb2.DataFragment) -> DataFragment:
        parsed.append(message.id)
        return parse(message)

    monkeypatch.setattr(DataFragment, "from_proto", counting)
    for key in (555, 999, 5):
        assert dataset.to_table(filter=f"key = {key}")["key"].to_pylist() == [key]
        assert dataset.count_rows(f"key IN ({key}, 5000)") == 1
    assert sorted(parsed) == [0, 55, 99]
    parsed.clear()
    assert dataset.to_table(filter="key = 777", use_scalar_index=False).num_rows == 1
    assert len(parsed) == 97
