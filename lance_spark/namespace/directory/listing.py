"""Tables of a root that are found by their directories (Lance directory namespace specification, V1).

The directory ``<name>.lance`` directly below the root is the table `name` if it is not empty and has no file
``.lance-deregistered``. A file ``.lance-reserved`` reserves a name for a table without versions.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection
from enum import Enum

from lance_spark.errors import NotFoundError, StorageError
from lance_spark.namespace.locations import listed_directory, listed_name
from lance_spark.namespace.object_id import folded
from lance_spark.storage.base import ObjectStore, PutResult
from lance_spark.storage.overlap import overlapped
from lance_spark.table.commits.commit import RetryPolicy

RESERVED_MARKER = ".lance-reserved"
DEREGISTERED_MARKER = ".lance-deregistered"

_RESERVED = "reserved"
"""The content of the marker in the reference library."""
_LISTINGS_AT_ONCE = 16
_POLICY = RetryPolicy(max_requests=5)
"""For a store that does not say whether a name is reserved."""


class DirectoryState(str, Enum):
    """The state of a name's directory in the root."""

    FREE = "free"
    TABLE = "table"
    DEREGISTERED = "deregistered"


class DirectoryListing:
    """The directories below the root of a namespace.

    Args:
        store: the root.
    """

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def names(self, claimed: Collection[str] = ()) -> list[str]:
        """Names of the tables, sorted, except those in directories of `claimed`."""
        names = {}
        for folder in self._store.list_folders(""):
            name = listed_name(folder)
            if name is not None and folder not in claimed:
                names[folder] = name
        folders = sorted(names)
        states = overlapped(self._state, folders, _LISTINGS_AT_ONCE)
        tables = zip(folders, states, strict=True)
        return sorted(names[folder] for folder, state in tables if state is DirectoryState.TABLE)

    def alike(self, name: str) -> list[str]:
        """Names of tables that differ from `name` at most in case."""
        names = (listed_name(folder) for folder in self._store.list_folders(""))
        alike = [other for other in names if other is not None and folded(other) == folded(name)]
        return [other for other in alike if self.state(other) is DirectoryState.TABLE]

    def state(self, name: str) -> DirectoryState:
        """The state of the directory of the table `name`; also `FREE` if the name is not valid for a directory."""
        folder = listed_directory(name)
        return DirectoryState.FREE if folder is None else self._state(folder)

    def reserve(self, location: str) -> bool:
        """Creates the marker of a table without versions; False if another writer's exists.

        The content distinguishes ours from another's after a lost reply: a marker that we forget blocks its name.

        Raises:
            StorageError: the store failed, or the result is unknown.
        """
        path, content = f"{location}/{RESERVED_MARKER}", f"{_RESERVED} {uuid.uuid4().hex}".encode()
        for attempt in range(_POLICY.max_requests):
            if self._store.put_if_absent(path, content) is PutResult.CREATED:
                return True
            try:
                return bytes(self._store.read(path)) == content
            except NotFoundError:
                _POLICY.wait(attempt)
        raise StorageError(f"the store did not say whether {location!r} is reserved now; try again")

    def release(self, location: str) -> None:
        """Removes the marker of `reserve`."""
        self._store.delete(f"{location}/{RESERVED_MARKER}")

    def hide(self, location: str) -> None:
        """Creates the marker that hides a directory from listings."""
        self._store.put(f"{location}/{DEREGISTERED_MARKER}", b"")

    def unhide(self, location: str) -> None:
        """Removes the marker of `hide`."""
        self._store.delete(f"{location}/{DEREGISTERED_MARKER}")

    def _state(self, folder: str) -> DirectoryState:
        files = {entry.path for entry in self._store.list(folder)}
        if f"{folder}/{DEREGISTERED_MARKER}" in files:
            return DirectoryState.DEREGISTERED
        # A file system can have empty folders; object stores have none.
        inside = bool(files) or any(
            True for below in self._store.list_folders(folder) for _ in self._store.list(below, recursive=True)
        )
        return DirectoryState.TABLE if inside else DirectoryState.FREE
