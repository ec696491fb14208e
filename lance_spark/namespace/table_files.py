"""Deletes the files of tables that are no longer in any catalog."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

from lance_spark.errors import LanceError
from lance_spark.storage import open_manifest_table
from lance_spark.storage.base import ObjectStore
from lance_spark.storage.deletion import delete_folder
from lance_spark.storage.paths import below
from lance_spark.table.location import TableLocation
from lance_spark.table.paths import VERSIONS
from lance_spark.table.refs.clone_tags import tags_for_clone
from lance_spark.table.refs.tagging import delete_tag


def delete_tables_in(
    store: ObjectStore,
    root: str,
    location: str,
    storage_options: Mapping[str, str] | None,
    *,
    last: Iterable[str] = (),
) -> None:
    """Deletes everything in a directory, and the entries of its tables in an external manifest store.

    Branches and the partitions of a partitioned table are in the directory too, and have separate entries. If the table
    is a shallow clone, the tags that keep versions of other tables for it go too.

    Args:
        store: the store of the root.
        root: its URI, the key of the entries.
        location: the directory, relative to the root.
        last: objects to delete after all others.

    Raises:
        StorageError: the store or the service failed; something may remain.
    """
    tags = tags_for_clone(TableLocation(below(root, location), storage_options))
    # First: a new table in this directory must not start with entries of deleted versions.
    if open_manifest_table(root, storage_options) is not None:
        for table in {location, *_roots_of_versions(store, location)}:
            entries = open_manifest_table(below(root, table), storage_options)
            if entries is not None:
                entries.clear()
    delete_folder(store, location, last=last)
    for other, name in tags:
        # A tag that is left keeps files that nobody needs, and can be removed by hand.
        with suppress(LanceError):
            delete_tag(other, name)


def _roots_of_versions(store: ObjectStore, location: str) -> Iterator[str]:
    """The directories below `location` that have manifests."""
    for entry in store.list(location, recursive=True):
        folder, found, _name = entry.path.rpartition(f"/{VERSIONS}/")
        if found:
            yield folder
