"""Google Cloud Storage, through gcsfs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any

from lance_spark.storage.base import OutputStream, PutResult
from lance_spark.storage.buffered_output import BLOCK_BYTES, BufferedOutput
from lance_spark.storage.object_store import FsspecStore, require_client
from lance_spark.storage.options import Target, boolean, json_object, translate

_KEY_FILE = Target(("token",))
_KEY = Target(("token",), json_object)


def _anonymous(text: str) -> str | None:
    return "anon" if boolean(text) else None


def _token(text: str) -> Any:
    """The ``token`` of gcsfs: the name of a method, a file, or a key as JSON."""
    return json.loads(text) if text.startswith("{") else text


_WITH_AND_WITHOUT_PREFIX = {
    "service_account": _KEY_FILE,
    "service_account_path": _KEY_FILE,
    "application_credentials": _KEY_FILE,
    "service_account_key": _KEY,
    "skip_signature": Target(("token",), _anonymous),
    "base_url": Target(("endpoint_url",)),
}

_TARGETS = (
    _WITH_AND_WITHOUT_PREFIX
    | {f"google_{name}": target for name, target in _WITH_AND_WITHOUT_PREFIX.items()}
    | {
        "google_storage_token": Target(("bearer",)),
        "token": Target(("token",), _token),
        "project": Target(("project",)),
        "endpoint_url": Target(("endpoint_url",)),
        "requester_pays": Target(("requester_pays",), boolean),
    }
)

_IGNORED = frozenset(
    [
        "allow_http",
        "client_max_retries",
        "client_retry_timeout",
        "connect_timeout",
        "download_retry_count",
        "expires_at_millis",
        "timeout",
        "user_agent",
    ]
)

KNOWN = frozenset({*_TARGETS, *_IGNORED})
"""Names of all storage options, in lower case."""

_MAY_HAVE_LANDED = frozenset({408, 429, 499})


def gcsfs_arguments(options: Mapping[str, str]) -> dict[str, Any]:
    """Arguments of `gcsfs.GCSFileSystem` for the storage options, and ``bearer`` for an access token.

    Raises:
        InvalidInputError: see `options.translate`.
    """
    arguments = translate("Google Cloud Storage", options, _TARGETS, _IGNORED)
    return {name: value for name, value in arguments.items() if value is not None}


class GcsStore(FsspecStore):
    """An `ObjectStore` over one bucket and a name prefix."""

    def open_output(self, path: str) -> OutputStream:
        key = self._key(path)
        return BufferedOutput(self, path, lambda: self._filesystem.get().open(key, "wb", block_size=BLOCK_BYTES))

    def client_errors(self) -> tuple[type[BaseException], ...]:
        return _client_errors()

    def _client_arguments(self) -> dict[str, Any]:
        return gcsfs_arguments(self._options)

    def _client_class(self) -> Any:
        # The plain client: the one with gRPC extensions queries another service for the kind of bucket.
        return require_client(self._root.scheme, "gcsfs.core", "gcs").GCSFileSystem

    def _base(self, client: Any) -> str:
        return self._root.location

    def _make_filesystem(self) -> Any:
        arguments = dict(self._arguments)
        bearer = arguments.pop("bearer", None)
        if bearer is not None:
            arguments["token"] = import_module("google.oauth2.credentials").Credentials(bearer)
        return self._client_class()(**arguments, use_listings_cache=False)

    def _prepare_folder(self, key: str) -> None:
        """Does nothing: there are no folders, and a request for one could create a bucket."""

    def _create(self, key: str, body: bytes) -> PutResult:
        # Never a resumable upload in several requests, however large the object is.
        try:
            self._filesystem.get().pipe_file(key, body, mode="create", chunksize=len(body) + 1)
        except FileExistsError:
            return PutResult.EXISTS
        except _client_errors() as error:
            if _refused(error):
                raise
            return PutResult.UNKNOWN
        return PutResult.CREATED


def _refused(error: BaseException) -> bool:
    """Whether the service has rejected the request without any effect."""
    code = getattr(error, "code", None)
    if str(code).isdigit():
        return 400 <= int(str(code)) < 500 and int(str(code)) not in _MAY_HAVE_LANDED
    # gcsfs raises a plain OSError for "403 Forbidden" and a ValueError for "400 Bad Request".
    return isinstance(error, (FileNotFoundError, PermissionError, ValueError)) or str(error).startswith("Forbidden")


@cache
def _client_errors() -> tuple[type[BaseException], ...]:
    retry = import_module("gcsfs.retry")
    return (
        OSError,
        asyncio.TimeoutError,
        ValueError,
        retry.HttpError,
        retry.ChecksumError,
        import_module("aiohttp").ClientError,
        import_module("google.auth.exceptions").GoogleAuthError,
        import_module("requests.exceptions").RequestException,
    )
