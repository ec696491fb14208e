"""What a catalog of ten thousand tables costs in requests to an object store."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from lance_spark.namespace.directory import places
from lance_spark.namespace.directory.catalog_rows import NAMESPACE, TABLE, CatalogEntry
from lance_spark.namespace.directory.catalog_table import CatalogTable, CatalogVersion
from lance_spark.namespace.directory.namespace import DirectoryNamespace
from lance_spark.spark.connector.catalog.resolve import TableName, find
from lance_spark.spark.connector.channel.handles import CatalogSettings
from lance_spark.storage import open_store
from lance_spark.table import location
from tests.support.counting_store import CountingStore, Counts

NUM_TABLES = 10_000


class Requests:
    """All stores that were opened since, counted together."""

    def __init__(self) -> None:
        self._stores: list[CountingStore] = []

    def open_store(self, uri: str, storage_options: Mapping[str, str] | None = None) -> CountingStore:
        store = CountingStore(open_store(uri, storage_options))
        self._stores.append(store)
        return store

    def reset(self) -> Counts:
        """The counts of all of them since the last time."""
        total = Counts()
        for store in self._stores:
            counts = store.reset()
            total.requests.update(counts.requests)
            total.num_bytes.update(counts.num_bytes)
        return total


@pytest.fixture(scope="module")
def root() -> str:
    root = f"memory://{uuid.uuid4().hex}"
    tables = [
        CatalogEntry(f"n{i % 2}$table_{i:05d}", TABLE, f"{i:08x}_n{i % 2}$table_{i:05d}") for i in range(NUM_TABLES)
    ]
    entries = [CatalogEntry("n0", NAMESPACE), CatalogEntry("n1", NAMESPACE, None, '{"k":"v"}'), *tables]
    CatalogTable(root).change(lambda rows: rows.added(entries))
    return root


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> Iterator[Requests]:
    requests = Requests()
    monkeypatch.setattr(location, "open_store", requests.open_store)
    monkeypatch.setattr(places, "open_store", requests.open_store)
    return requests


@pytest.mark.slow
def test_a_listing_is_one_scan(root: str, requests: Requests) -> None:
    namespace = DirectoryNamespace(root)
    requests.reset()
    assert len(namespace.list_tables(("n1",))) == NUM_TABLES // 2
    counts = requests.reset()
    assert counts.requests["list"] == 1
    assert counts.total_requests <= 6, "versions, manifest, the file's end, its columns' metadata, two rounds of pages"
    assert namespace.list_namespaces() == ["n0", "n1"]
    assert requests.reset().total_requests <= 6


def test_one_table_of_many(root: str, requests: Requests) -> None:
    namespace = DirectoryNamespace(root)
    requests.reset()
    assert namespace.table_exists(("n1", "table_00501"))
    assert requests.reset().total_requests <= 6
    assert namespace.table_location(("n1", "table_00501")).is_declared
    assert requests.reset().total_requests <= 7, "and a listing of its versions"


def _age(root: Path) -> None:
    """Makes files old enough that their times tell versions apart."""
    for path in root.rglob("*"):
        os.utime(path, (1_000_000_000, 1_000_000_000))


def test_rows_of_a_version_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    namespace = DirectoryNamespace(str(tmp_path))
    namespace.create_namespace(("n",))
    namespace.declare_table(("n", "t"))
    _age(tmp_path)
    reads: list[object] = []
    read = CatalogVersion.rows
    monkeypatch.setattr(CatalogVersion, "rows", lambda *given: reads.append(given) or read(*given))
    for _ in range(3):
        assert namespace.table_location(("n", "t")).is_declared
    assert len(reads) == 1
    DirectoryNamespace(str(tmp_path)).deregister_table(("n", "t"))
    assert not namespace.table_exists(("n", "t"))
    _age(tmp_path)
    assert not namespace.table_exists(("n", "t"))
    reads.clear()
    assert not namespace.table_exists(("n", "t"))
    assert not reads


def test_one_more_table(root: str, requests: Requests) -> None:
    namespace = DirectoryNamespace(root)
    requests.reset()
    namespace.declare_table(("n1", "one more"))
    counts = requests.reset()
    assert counts.requests["put_if_absent"] == 2, "the mark in the table's directory, and the catalog's next version"
    assert counts.requests["open_output"] == 1
    assert counts.requests["put"] == 1, "the transaction"
    assert counts.total_requests <= 14
    assert counts.num_bytes["open_output"] < 60 * NUM_TABLES


def test_a_name_is_found_by_one_scan_and_one_in_another_case_by_two_more(root: str, requests: Requests) -> None:
    catalog = CatalogSettings("lance", {"root": root}, case_sensitive=False)
    exact = CatalogSettings("lance", {"root": root}, case_sensitive=True)
    requests.reset()
    costs = []
    for settings, name in ((exact, "table_00501"), (catalog, "table_00501"), (catalog, "TABLE_00501")):
        assert find(TableName(settings, ("n1",), name)) is not None
        costs.append(requests.reset())
    assert costs[1].total_requests <= costs[0].total_requests
    assert costs[0].requests["list"] == 1
    assert costs[2].requests["list"] == 3, "the name as it is, all names, and the one that is meant"
    assert costs[2].total_requests <= costs[1].total_requests + 8, "a listing of the catalog, and a second look"
    assert sum(costs[2].num_bytes.values()) < 2 * 10**6


def test_a_table_costs_the_same_beside_views(requests: Requests) -> None:
    costs = []
    for num_views in (0, 100):
        root = f"memory://{uuid.uuid4().hex}"
        views = [CatalogEntry(f"n$v{i}", NAMESPACE, None, '{"lance_spark.view":"{}"}') for i in range(num_views)]
        table = CatalogEntry("n$t", TABLE, "0_n$t")
        CatalogTable(root).change(
            lambda rows, added=(table, *views): rows.added([CatalogEntry("n", NAMESPACE), *added])
        )
        for name in ("t", "T"):
            requests.reset()
            assert (
                find(TableName(CatalogSettings("lance", {"root": root}, case_sensitive=False), ("n",), name))
                is not None
            )
            costs.append(requests.reset().requests)
    assert costs[:2] == costs[2:]
    requests.reset()
    assert DirectoryNamespace(root).view(("n", "v7")) == "{}"
    assert requests.reset().total_requests <= 6
    assert len(DirectoryNamespace(root).list_views(("n",))) == 100
    assert requests.reset().total_requests <= 6
