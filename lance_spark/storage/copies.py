"""Ranges of objects as `bytes`, for those who hand them to a user: stores that can read into them copy once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from lance_spark.storage.base import ByteRange, ObjectStore


@runtime_checkable
class Copying(Protocol):
    """A store that reads into `bytes`."""

    def read_copies(self, path: str, byte_ranges: Sequence[ByteRange]) -> list[bytes]:
        """`ObjectStore.read_ranges`, as copies."""


def read_copies(store: ObjectStore, path: str, byte_ranges: Sequence[ByteRange]) -> list[bytes]:
    """The bytes of each range, in order. Raises as `ObjectStore.read_ranges`."""
    if isinstance(store, Copying):
        return store.read_copies(path, byte_ranges)
    return [found.to_pybytes() for found in store.read_ranges(path, byte_ranges)]
