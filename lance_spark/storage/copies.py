"""Copies of stored bytes, for stores that make them in fewer steps.

Ranges of objects as `bytes`, for those who hand them to a user: a store that reads into them copies once. Complete
objects within a store: their bytes need not pass through this process.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from lance_spark.storage.base import ByteRange, ObjectStore


@runtime_checkable
class Copying(Protocol):
    """A store that reads into `bytes`."""

    def read_copies(self, path: str, byte_ranges: Sequence[ByteRange]) -> list[bytes]:
        """`ObjectStore.read_ranges`, as copies."""


@runtime_checkable
class ObjectCopying(Protocol):
    """A store that copies complete objects itself."""

    def copy_object(self, source: ObjectStore, source_path: str, path: str, size: int) -> bool:
        """See `copy_object`."""


def read_copies(store: ObjectStore, path: str, byte_ranges: Sequence[ByteRange]) -> list[bytes]:
    """The bytes of each range, in order. Raises as `ObjectStore.read_ranges`."""
    if isinstance(store, Copying):
        return store.read_copies(path, byte_ranges)
    return [found.to_pybytes() for found in store.read_ranges(path, byte_ranges)]


def copy_object(source: ObjectStore, source_path: str, target: ObjectStore, path: str, size: int) -> bool:
    """Copies a complete object to a new one, as `ObjectStore.open_output` publishes it.

    Returns:
        False, and nothing is written, if the stores cannot do that by themselves, or the object does not have `size`
        bytes: the caller copies the bytes.

    Raises:
        NotFoundError: the source does not exist.
        StorageError: the store failed; the copy may exist.
    """
    return isinstance(target, ObjectCopying) and target.copy_object(source, source_path, path, size)
