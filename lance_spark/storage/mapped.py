"""Objects that are in memory already: files that a store has mapped."""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa

from lance_spark.storage.base import ObjectStore


class Mapping(Protocol):
    """A store that maps files."""

    def mapped_file(self, path: str, size: int, requests: int, num_bytes: int) -> pa.Buffer | None:
        """See `mapped_file`."""

    def whole_file(self, path: str) -> pa.Buffer | None:
        """See `whole_file`."""


def mapped_file(store: ObjectStore, path: str, size: int, requests: int, num_bytes: int) -> pa.Buffer | None:
    """All of an object of `size` bytes; None if it is not mapped yet, has changed since, or has another size.

    Args:
        requests, num_bytes: what of it will be read, for the meter.
    """
    # A check against the protocol takes longer than to read a few rows.
    mapped = getattr(store, "mapped_file", None)
    return None if mapped is None else mapped(path, size, requests, num_bytes)


def whole_file(store: ObjectStore, path: str) -> pa.Buffer | None:
    """All of an object, which is mapped if it was not; None if the store does not map files.

    Raises:
        NotFoundError: the object does not exist.
    """
    whole = getattr(store, "whole_file", None)
    return None if whole is None else whole(path)
