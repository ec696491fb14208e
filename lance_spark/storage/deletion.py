"""Deletion of unreferenced objects that must not mask the error that caused it."""

from __future__ import annotations

from lance_spark.errors import LanceError
from lance_spark.storage.base import ObjectStore


def delete_quietly(store: ObjectStore, path: str) -> None:
    """Removes an unreferenced object; if that fails, a cleanup of the table removes it later."""
    try:
        store.delete(path)
    except LanceError:
        return
