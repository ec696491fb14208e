"""Deleting the files of tables that no catalog has any more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from lance_spark.storage import open_manifest_table
from lance_spark.storage.base import ObjectStore
from lance_spark.storage.folders import delete_folder
from lance_spark.storage.paths import below
from lance_spark.table.paths import VERSIONS


def delete_tables_in(
    store: ObjectStore,
    root: str,
    location: str,
    storage_options: Mapping[str, str] | None,
    *,
    last: Iterable[str] = (),
) -> None:
    """Deletes everything in a directory, and what another service knows of the versions of tables there.

    Branches and the partitions of a partitioned table lie in the directory too, and are known there one by one.

    Args:
        store: the store of the root.
        root: its URI, by which the service knows it.
        location: the directory, relative to the root.
        last: objects that go when all others are gone.

    Raises:
        StorageError: the store or the service failed; something may be left.
    """
    # First: a new table in this directory must not begin with entries of versions that are gone.
    if open_manifest_table(root, storage_options) is not None:
        for table in {location, *_roots_of_versions(store, location)}:
            entries = open_manifest_table(below(root, table), storage_options)
            if entries is not None:
                entries.clear()
    delete_folder(store, location, last=last)


def _roots_of_versions(store: ObjectStore, location: str) -> Iterator[str]:
    """The directories below `location` that have manifests."""
    for entry in store.list(location, recursive=True):
        folder, found, _name = entry.path.rpartition(f"/{VERSIONS}/")
        if found:
            yield folder
