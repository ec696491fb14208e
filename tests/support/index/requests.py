"""Stores that count requests for index files."""

from __future__ import annotations

from pathlib import Path

from lance_spark.storage import open_store
from lance_spark.table.dataset import Dataset
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.history import History
from tests.support.counting_store import CountingStore


class KeptStore(CountingStore):
    """A store whose objects may be cached, as those of an object store."""

    etags_are_free = False

    @property
    def identity(self) -> int:
        return id(self)

    def etag(self, path: str) -> None:
        return None


def counted(path: Path, kind: type[CountingStore] = CountingStore) -> tuple[Dataset, CountingStore]:
    location = TableLocation(str(path))
    store = kind(open_store(str(path)))
    location.store = store
    location.history = History(store, None)
    manifest = location.latest()
    assert manifest is not None
    store.reset()
    return Dataset(location, manifest), store
