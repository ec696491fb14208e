"""Requests and bytes of an object store, asserted: opening, scanning a column, appending to small and large tables."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import NotFoundError
from lance_spark.storage import open_store
from lance_spark.table.commits.commit import Commit, NewTable
from lance_spark.table.dataset import Dataset
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.external_manifests import ExternalManifests
from lance_spark.table.manifests.history import History
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.manifests.transaction import Transaction
from lance_spark.table.operations.append import Append
from lance_spark.table.paths import ManifestNaming
from lance_spark.table.rows.fragment import DataFragment
from lance_spark.table.versions.changes import update_config
from lance_spark.table.writing.row_source import RowSource
from lance_spark.table.writing.save import DEFAULT_FILE_VERSION
from tests.support.counting_store import CountingStore, Counts
from tests.support.manifest_tables import MemoryManifestTable
from tests.support.row_verbs import delete_rows, save

COLUMNS = 50


def wide(num_rows: int) -> pa.Table:
    values = pa.array([number * 0x9E3779B97F4A7C15 % (1 << 62) for number in range(num_rows)], pa.int64())
    return pa.table({f"c{number}": values for number in range(COLUMNS)})


class Counted:
    """A table whose store is counted."""

    def __init__(self, uri: str, *, external: MemoryManifestTable | None = None) -> None:
        self.uri = uri
        self.external = external

    def open(self) -> tuple[TableLocation, CountingStore]:
        location = TableLocation(self.uri)
        store = CountingStore(open_store(self.uri))
        location.store = store
        manifests = None if self.external is None else ExternalManifests(store, self.external)
        location.history = History(store, manifests)
        return location, store

    def dataset(self) -> tuple[Dataset, CountingStore]:
        location, store = self.open()
        manifest = location.latest()
        assert manifest is not None
        store.reset()
        return Dataset(location, manifest), store


def manifest_bytes(uri: str, version: int) -> int:
    return open_store(uri).size(ManifestNaming.V2.path(version))


@pytest.fixture(scope="module")
def scanned() -> Iterator[Counted]:
    """50 columns, 3 fragments of 100,000 rows each."""
    uri = f"memory://counts-{uuid.uuid4().hex}"
    table = wide(100_000)
    for _ in range(3):
        lance_spark.write(table, uri, mode="append")
    yield Counted(uri)
    store = open_store(uri)
    for entry in list(store.list("", recursive=True)):
        store.delete(entry.path)


def large_table(num_fragments: int) -> Counted:
    """A table of so many fragments. All of them name the same file: none of these tests reads it."""
    uri = f"memory://counts-{uuid.uuid4().hex}"
    lance_spark.write(wide(10), uri)
    location = TableLocation(uri)
    base = location.latest()
    assert base is not None
    fragment: DataFragment = replace(base.fragments[0], id=0)
    operation = Append([fragment] * (num_fragments - 1))
    Commit(location.history, base, Transaction.new(1, operation), NewTable(DEFAULT_FILE_VERSION)).run()
    return Counted(uri)


@pytest.mark.slow
def test_opening_the_newest_version_costs_a_listing_and_a_manifest(scanned: Counted) -> None:
    location, store = scanned.open()
    assert location.latest() is not None
    counts = store.reset()
    assert dict(counts.calls) == {"list": 1, "read": 1}
    assert counts.bytes_read == manifest_bytes(scanned.uri, 3)


def test_opening_a_version_by_its_number_costs_its_manifest(scanned: Counted) -> None:
    location, store = scanned.open()
    location.at(2)
    counts = store.reset()
    assert dict(counts.calls) == {"read": 1}
    assert counts.bytes_read == manifest_bytes(scanned.uri, 2)


def test_opening_through_entries_costs_a_manifest() -> None:
    counted = Counted(f"memory://counts-{uuid.uuid4().hex}", external=MemoryManifestTable())
    location, store = counted.open()
    save(location, RowSource.of(wide(10)))
    counts = store.reset()
    # Is the name taken; the data file; the transaction; staged, final; the staged one goes.
    assert dict(counts.calls)["put"] == 3
    assert counts.calls["put_if_absent"] == 0
    assert counts.calls["delete"] == 1
    location.latest()
    assert dict(store.reset().calls) == {"read": 1}


def test_one_of_fifty_columns_costs_its_own_bytes(scanned: Counted) -> None:
    dataset, store = scanned.dataset()
    assert dataset.to_table(columns=["c7"]).num_rows == 300_000
    counts = store.reset()
    assert counts.calls["size"] == 0, "the manifest knows the sizes of files"
    # A fragment: the end of its file, which has the column's metadata, and the pages of the column.
    assert counts.total_requests <= 3 * 3
    one_column = 3 * 100_000 * 8
    assert counts.bytes_read <= one_column + 3 * 2 * 64 * 1024
    everything = sum(file.size_bytes or 0 for fragment in dataset.fragments for file in fragment.files)
    assert counts.bytes_read < everything / 20


def test_all_columns_are_few_large_requests(scanned: Counted) -> None:
    dataset, store = scanned.dataset()
    assert dataset.to_table().num_rows == 300_000
    counts = store.reset()
    everything = sum(file.size_bytes or 0 for fragment in dataset.fragments for file in fragment.files)
    assert counts.bytes_read <= everything * 1.02 + 3 * 64 * 1024
    assert counts.total_requests <= everything / (4 << 20) + 3 * 3


def test_a_count_costs_nothing(scanned: Counted) -> None:
    dataset, store = scanned.dataset()
    assert dataset.count_rows() == 300_000
    assert store.reset().total_requests == 0


def test_a_few_rows_cost_a_few_pages(scanned: Counted) -> None:
    dataset, store = scanned.dataset()
    assert dataset.take([5, 250_000], columns=["c3"]).num_rows == 2
    counts = store.reset()
    assert counts.total_requests <= 2 * 3
    assert counts.bytes_read <= 2 * (64 * 1024 + (1 << 20))


def append_counts(counted: Counted) -> tuple[Manifest, Counts]:
    location, store = counted.open()
    manifest = save(location, RowSource.of(wide(10)), mode="append")
    return manifest, store.reset()


@pytest.mark.parametrize("num_fragments", [10, 10_000])
def test_an_append_costs_eight_requests_however_large_the_table(num_fragments: int) -> None:
    counted = large_table(num_fragments)
    manifest, counts = append_counts(counted)
    assert (manifest.version, len(manifest.fragments)) == (3, num_fragments + 1)
    # The newest version; the data file; the transaction; is it still the newest, and of this table; publish; was the
    # name free for good.
    calls = {"list": 3, "read": 1, "read_range": 1, "open_output": 1, "put": 1, "put_if_absent": 1}
    assert dict(counts.calls) == calls
    read, written = manifest_bytes(counted.uri, 2), manifest_bytes(counted.uri, 3)
    assert counts.bytes_read == read + min(read, 16 * 1024)
    assert counts.num_bytes["put_if_absent"] == written
    # The one before still carries the transaction that made all the fragments.
    assert written < 5_000 + 700 * num_fragments
    assert counts.num_bytes["open_output"] < 64 * 1024
    assert counts.num_bytes["put"] < 2_000


def test_an_append_that_is_overtaken_reads_what_has_overtaken_it() -> None:
    counted = large_table(10)
    location, store = counted.open()
    base = location.latest()
    assert base is not None
    for _ in range(3):
        lance_spark.write(wide(10), counted.uri, mode="append")
    store.reset()
    transaction = Transaction.new(base.version, Append([replace(base.fragments[0], id=0)]))
    assert Commit(location.history, base, transaction, NewTable(DEFAULT_FILE_VERSION)).run().version == 6
    # The base is looked at once more.
    assert dict(store.reset().calls) == {"put": 1, "list": 2, "read": 4, "put_if_absent": 1}


def test_a_change_of_config_reads_no_data() -> None:
    counted = large_table(10)
    location, store = counted.open()
    base = location.latest()
    assert base is not None
    store.reset()
    update_config(location, base, {"k": "v"})
    assert dict(store.reset().calls) == {"put": 1, "list": 2, "read_range": 1, "put_if_absent": 1}


def test_a_delete_reads_the_columns_of_its_filter(scanned: Counted) -> None:
    dataset, store = scanned.dataset()
    delete_rows(dataset.location, dataset.manifest, "c9 < 0")
    counts = store.reset()
    assert counts.total_requests <= 3 * 3
    assert counts.bytes_read <= 3 * 100_000 * 8 + 3 * 2 * 64 * 1024
    assert not counts.bytes_written


def test_a_version_that_is_not_there_costs_two_requests(scanned: Counted) -> None:
    location, store = scanned.open()
    with pytest.raises(NotFoundError):
        location.at(77)
    # One for each way to name manifests.
    assert store.reset().total_requests <= 2
