"""Bulk reads from S3 through pyarrow's client, with about twice the throughput of s3fs.

It uses the endpoint, region and credentials of s3fs's client, so both act as the same user. If these do not map
onto pyarrow's arguments there is no bulk client, and s3fs reads everything.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from fsspec.asyn import sync
from pyarrow import fs

from lance_spark.storage.base import ByteRange
from lance_spark.storage.per_process import PerProcess
from lance_spark.storage.s3.client import S3Client

_MAX_FILES = 128

_UNMAPPED_CONFIG = ("proxies", "signature_version", "client_cert")

_Credentials = tuple[str, str, str | None] | None


class S3BulkReader:
    """Opens objects of one bucket with pyarrow's client."""

    def __init__(self, client: S3Client, bucket: str) -> None:
        self._client = client
        self._bucket = bucket
        self._place = PerProcess(self._find_place)
        self._made = PerProcess[dict[_Credentials, Any]](dict)
        self._files = PerProcess[OrderedDict[str, Any]](OrderedDict)

    def is_open(self, key: str) -> bool:
        """Whether the object can be read without a request to open it."""
        return key in self._files.get()

    def open(self, key: str) -> Callable[[ByteRange], bytes] | None:
        """A function that reads ranges of the object (safe to call in parallel); None if there is no bulk client.

        Raises:
            OSError: the object cannot be opened; FileNotFoundError if it does not exist.
        """
        filesystem = self._filesystem()
        if filesystem is None:
            return None
        files = self._files.get()
        file = files.get(key)
        if file is None:
            file = files[key] = filesystem.open_input_file(f"{self._bucket}/{key}")
            while len(files) > _MAX_FILES:
                with suppress(KeyError):
                    files.popitem(last=False)
        return lambda piece: bytes(file.read_at(piece.length, piece.start))

    def forget(self, key: str) -> None:
        """Closes the object; it is about to change."""
        self._files.get().pop(key, None)

    def _filesystem(self) -> Any | None:
        place = self._place.get()
        if place is None:
            return None
        credentials = self._credentials()
        per_process = self._made.get()
        filesystem = per_process.get(credentials)
        if filesystem is None:
            filesystem = fs.S3FileSystem(**place, **_as_arguments(credentials))
            # Temporary credentials were renewed: clients with the old ones will soon fail.
            per_process.clear()
            self._files.get().clear()
            per_process[credentials] = filesystem
        return filesystem

    def _find_place(self) -> dict[str, Any] | None:
        """Endpoint and region as pyarrow's arguments; None if the configuration has no equivalent there."""
        arguments = self._client.arguments
        config, client = arguments.get("config_kwargs", {}), arguments.get("client_kwargs", {})
        style = config.get("s3", {})
        if (
            not hasattr(fs, "S3FileSystem")
            or any(name in config for name in _UNMAPPED_CONFIG)
            or style.keys() - {"addressing_style", "payload_signing_enabled"}
            or client.keys() - {"region_name", "endpoint_url"}
            or arguments.get("requester_pays")
            or self._bucket.endswith("--x-s3")
        ):
            return None
        meta = self._client.filesystem.s3.meta
        endpoint = urlsplit(meta.endpoint_url)
        host = endpoint.hostname or ""
        certificates = os.environ.get("AWS_CA_BUNDLE") or os.environ.get("REQUESTS_CA_BUNDLE")
        proxied = endpoint.scheme in getproxies() and not proxy_bypass(host)
        if endpoint.path.strip("/") or proxied or (certificates and endpoint.scheme == "https"):
            return None
        place: dict[str, Any] = {"scheme": endpoint.scheme}
        if host.endswith((".amazonaws.com", ".amazonaws.com.cn")):
            return place | {"region": self._bucket_region(meta.region_name)}
        virtual = style.get("addressing_style") == "virtual"
        return place | {
            "region": meta.region_name or "us-east-1",
            "endpoint_override": endpoint.netloc,
            "force_virtual_addressing": virtual,
        }

    def _bucket_region(self, configured: str | None) -> str:
        """The region of the bucket: s3fs follows redirects to it, pyarrow's client must know it."""
        try:
            return str(fs.resolve_s3_region(self._bucket))
        except OSError:
            return configured or "us-east-1"

    def _credentials(self) -> _Credentials:
        """The current credentials of s3fs: (key, secret, session token); None if requests are not signed."""
        arguments = self._client.arguments
        if arguments.get("anon"):
            return None
        if arguments.get("key") and arguments.get("secret"):
            return arguments["key"], arguments["secret"], arguments.get("token")
        filesystem = self._client.filesystem
        return sync(filesystem.loop, _frozen_credentials, filesystem)  # type: ignore[no-any-return]


async def _frozen_credentials(filesystem: Any) -> _Credentials:
    await filesystem.set_session()
    credentials = await filesystem.session.get_credentials()
    if credentials is None:
        return None
    frozen = await credentials.get_frozen_credentials()
    return frozen.access_key, frozen.secret_key, frozen.token


def _as_arguments(credentials: _Credentials) -> dict[str, Any]:
    if credentials is None:
        return {"anonymous": True}
    key, secret, token = credentials
    return {"access_key": key, "secret_key": secret, "session_token": token}
