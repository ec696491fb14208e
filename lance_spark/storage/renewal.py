"""Credentials that a catalog sends for one table, which are renewed before they end, wherever the table is open."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from importlib import import_module
from typing import Any

from lance_spark.errors import StorageError

RENEWAL = "lance_spark.renewal"
"""The storage option that says which catalog sends the others, for which table (`namespace.renewal`)."""

EXPIRES = "expires_at_millis"
"""The storage option with the moment at which the others end, in milliseconds since 1970."""

_EARLY_SECONDS = 60.0
_EARLY_PART = 3
_NAMES = {"access_key": "access_key_id", "secret_key": "secret_access_key", "token": "session_token"}


def metadata_of(options: Mapping[str, str]) -> dict[str, Any]:
    """Credentials of S3 among storage options, as botocore describes those that end.

    Raises:
        StorageError: there are none, or nothing says when they end.
    """
    found: dict[str, Any] = {}
    for ours, name in _NAMES.items():
        found[ours] = options.get(f"aws_{name}", options.get(name))
    text = options.get(EXPIRES, "")
    if not (found["access_key"] and found["secret_key"] and text.isascii() and text.isdigit() and len(text) < 15):
        raise StorageError("the catalog sends no credentials for S3 that say when they end; ask who runs it")
    found["expiry_time"] = datetime.fromtimestamp(int(text) / 1000, timezone.utc).isoformat()
    return found


def early_seconds(options: Mapping[str, str]) -> float:
    """The seconds before their end from which credentials are renewed: a minute, or a third of a shorter life."""
    life = int(options[EXPIRES]) / 1000 - time.time()
    return max(0.0, min(_EARLY_SECONDS, life / _EARLY_PART))


def renewing(renewal: str) -> Callable[[], dict[str, Any]]:
    """A function that asks the catalog for new credentials. Raises as `metadata_of`, and what the catalog raises."""

    def renew() -> dict[str, Any]:
        # Catalogs are above stores, which know them only by what their options say.
        return metadata_of(import_module("lance_spark.namespace.renewal").renewed(renewal))

    return renew
