"""The requests that Spark's lookup of a table and the plan after it send to a store without free stamps of objects."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lance_spark
from lance_spark.spark.connector.catalog.table import LoadRequest, TimeTravel, load
from lance_spark.spark.connector.channel.handles import CatalogSettings, TableHandle
from lance_spark.spark.connector.channel.registry import Call
from lance_spark.storage.registry import open_store
from lance_spark.table import location
from lance_spark.table.dataset import Dataset
from tests.support.counting_store import CountingStore, Counts


@pytest.fixture
def table(tmp_path: Path) -> Dataset:
    uri = str(tmp_path / "t")
    lance_spark.write(pa.table({"a": [1]}), uri)
    return lance_spark.write(pa.table({"a": [2]}), uri, mode="append")


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Counts:
    """Of all stores that are opened from now on."""
    counts = Counts()

    def counted(*arguments: object) -> CountingStore:
        store = CountingStore(open_store(*arguments))  # type: ignore[arg-type]
        store.counts = counts
        return store

    monkeypatch.setattr(location, "open_store", counted)
    return counts


def looked_up(table: Dataset, **options: object) -> TableHandle:
    request = LoadRequest(CatalogSettings("lance"), (), str(table.uri), by_path=True, **options)  # type: ignore[arg-type]
    reply = load(request, Call())
    assert reply.table is not None
    return reply.table.handle


@pytest.mark.parametrize("privileges", [(), ("INSERT",)])
def test_a_new_version_is_listed_and_read_once(table: Dataset, counts: Counts, privileges: tuple[str, ...]) -> None:
    handle = looked_up(table, privileges=privileges)
    _, manifest = handle.open()
    assert manifest.version == table.version
    assert counts.read_requests == 1
    assert counts.calls["list"] + counts.calls["list_names"] == 1


def test_an_older_version_is_read_once(table: Dataset, counts: Counts) -> None:
    _, manifest = looked_up(table, time_travel=TimeTravel(version="1")).open()
    assert manifest.version == 1
    assert counts.read_requests == 1
