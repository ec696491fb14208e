"""Storage options of a catalog with credentials that end: when and how they are renewed."""

from __future__ import annotations

import time
from collections.abc import Mapping
from importlib import import_module

from lance_spark.errors import StorageError
from lance_spark.storage.options import EXPIRES

_EARLY_SECONDS = 60.0
_EARLY_PART = 3


def early_seconds(options: Mapping[str, str]) -> float:
    """The seconds before their end from which credentials are renewed: a minute, or a third of a shorter life."""
    life = end_of(options) - time.time()
    return max(0.0, min(_EARLY_SECONDS, life / _EARLY_PART))


def end_of(options: Mapping[str, str]) -> float:
    """The moment at which the credentials end, in seconds since 1970.

    Raises:
        StorageError: nothing says when they end.
    """
    text = options.get(EXPIRES, "")
    if not (text.isascii() and text.isdigit() and len(text) < 15):
        raise StorageError("the catalog sends no credentials that say when they end; ask who runs it")
    return int(text) / 1000


def renewed_options(renewal: str) -> Mapping[str, str]:
    """The storage options of a table as its catalog sends them now. Raises what the catalog raises.

    Args:
        renewal: the storage option that says whom to ask.
    """
    # Catalogs are above stores, which know them only by what their options say.
    options: Mapping[str, str] = import_module("lance_spark.namespace.opening").renewed(renewal)
    return options
