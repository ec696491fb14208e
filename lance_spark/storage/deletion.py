"""Removing what nothing refers to, where a failure must not hide the error that made it necessary."""

from __future__ import annotations

from lance_spark.errors import LanceError
from lance_spark.storage.base import ObjectStore


def delete_quietly(store: ObjectStore, path: str) -> None:
    """Removes an object that nothing refers to; if the store refuses, a clean-up of the table finds it later."""
    try:
        store.delete(path)
    except LanceError:
        return
