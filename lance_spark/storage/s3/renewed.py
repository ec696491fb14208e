"""Credentials of a catalog, as the clients of S3 take credentials that end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from typing import Any

from lance_spark.errors import StorageError
from lance_spark.storage.renewal import early_seconds, end_of, renewed_options

_NAMES = {"access_key": "access_key_id", "secret_key": "secret_access_key", "token": "session_token"}


class RenewedCredentials:
    """The credentials for one table. botocore and aiobotocore ask for new ones shortly before they end.

    Args:
        renewal: the storage option that says whom to ask.
    """

    def __init__(self, renewal: str) -> None:
        self._renew = renewing(renewal)
        self._lock = threading.Lock()
        self._newest: Mapping[str, str] = {}

    def offer(self, options: Mapping[str, str]) -> None:
        """Takes the credentials that the catalog has just sent, for clients that are made from now on."""
        metadata_of(options)
        with self._lock:
            self._newest = dict(options)

    def give_to(self, session: Any) -> None:
        """Makes them the credentials of a session of botocore."""
        from botocore.credentials import RefreshableCredentials

        session._credentials = RefreshableCredentials.create_from_metadata(
            **self._described(), refresh_using=self._renew, method="catalog"
        )

    def aiobotocore_session(self) -> Any:
        """A session of aiobotocore with them."""
        from aiobotocore.credentials import AioRefreshableCredentials
        from aiobotocore.session import AioSession

        async def renew() -> dict[str, Any]:
            return await asyncio.to_thread(self._renew)  # It asks a server, and others go on.

        session = AioSession()
        session._credentials = AioRefreshableCredentials.create_from_metadata(
            **self._described(), refresh_using=renew, method="catalog"
        )
        return session

    def _described(self) -> dict[str, Any]:
        with self._lock:
            newest = self._newest
        early = early_seconds(newest)
        return {"metadata": metadata_of(newest), "advisory_timeout": early, "mandatory_timeout": early}


def metadata_of(options: Mapping[str, str]) -> dict[str, Any]:
    """Credentials of S3 among storage options, as botocore describes those that end.

    Raises:
        StorageError: there are none, or nothing says when they end.
    """
    found: dict[str, Any] = {}
    for ours, name in _NAMES.items():
        found[ours] = options.get(f"aws_{name}", options.get(name))
    if not (found["access_key"] and found["secret_key"]):
        raise StorageError("the catalog sends no credentials for S3; ask who runs it")
    found["expiry_time"] = datetime.fromtimestamp(end_of(options), timezone.utc).isoformat()
    return found


def renewing(renewal: str) -> Callable[[], dict[str, Any]]:
    """A function that asks the catalog for new credentials. Raises as `metadata_of`, and what the catalog raises."""

    def renew() -> dict[str, Any]:
        return metadata_of(renewed_options(renewal))

    return renew
