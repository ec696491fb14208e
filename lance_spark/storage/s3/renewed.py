"""Credentials of a catalog, as the clients of S3 take credentials that end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from typing import Any

from lance_spark.storage.renewal import early_seconds, metadata_of, renewing


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
