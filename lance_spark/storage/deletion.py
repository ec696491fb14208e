"""Deletion of folders, and of unreferenced objects."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from lance_spark.errors import LanceError
from lance_spark.storage.base import ObjectStore
from lance_spark.storage.overlap import overlapped

_DELETES_AT_ONCE = 16


def delete_quietly(store: ObjectStore, path: str) -> None:
    """Removes an unreferenced object without masking the error that caused it.

    If that fails, a cleanup of the table removes the object later.
    """
    try:
        store.delete(path)
    except LanceError:
        return


@runtime_checkable
class _HasFolders(Protocol):
    """A store whose folders exist without objects in them."""

    def remove_empty_folders(self, prefix: str) -> None: ...


def delete_folder(store: ObjectStore, prefix: str, *, last: Iterable[str] = ()) -> None:
    """Removes every object below the folder `prefix`, which is not the root, and the folder itself.

    Args:
        last: objects to delete after all others.

    Raises:
        StorageError: the store failed; some objects may remain.
    """
    final = list(last)
    paths = [entry.path for entry in store.list(prefix, recursive=True) if entry.path not in final]
    overlapped(store.delete, paths, _DELETES_AT_ONCE)
    for path in final:
        store.delete(path)
    if isinstance(store, _HasFolders):
        store.remove_empty_folders(prefix)
