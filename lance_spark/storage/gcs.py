"""Google Cloud Storage, through gcsfs.

gcsfs repeats each request six times, whatever a statement has already waited for. So its client is used with the
retries of `patience` instead, request by request: also each part of a large upload is repeated alone.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import time
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import Any

from lance_spark.errors import StorageError
from lance_spark.storage.base import ObjectStore, OutputStream, PutResult
from lance_spark.storage.buffered_output import BLOCK_BYTES, BufferedOutput
from lance_spark.storage.conditional_put import create_if_absent
from lance_spark.storage.object_store import FsspecStore, Result, http_transport_errors, require_client
from lance_spark.storage.options import EXPIRES, RENEWAL, ClientArgument, boolean, json_object, seconds, translate
from lance_spark.storage.patience import CONNECT_SECONDS, READ_SECONDS, RETRY_SECONDS, Failure, Patience
from lance_spark.storage.renewal import early_seconds, end_of, renewed_options

_BEARER = "google_storage_token"
_KEY_FILE = ClientArgument(("token",))
_KEY = ClientArgument(("token",), json_object)


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
    "skip_signature": ClientArgument(("token",), _anonymous),
    "base_url": ClientArgument(("endpoint_url",)),
}

_TARGETS = (
    _WITH_AND_WITHOUT_PREFIX
    | {f"google_{name}": target for name, target in _WITH_AND_WITHOUT_PREFIX.items()}
    | {
        _BEARER: ClientArgument(("bearer",)),
        "token": ClientArgument(("token",), _token),
        "project": ClientArgument(("project",)),
        "endpoint_url": ClientArgument(("endpoint_url",)),
        "requester_pays": ClientArgument(("requester_pays",), boolean),
        "client_retry_timeout": ClientArgument((RETRY_SECONDS,), seconds),
        "connect_timeout": ClientArgument(("connect_seconds",), seconds),
        "timeout": ClientArgument(("read_seconds",), seconds),
    }
)

_IGNORED = frozenset(
    [
        "allow_http",
        "client_max_retries",
        "download_retry_count",
        EXPIRES,
        RENEWAL,
        "user_agent",
    ]
)

KNOWN = frozenset({*_TARGETS, *_IGNORED})
"""Names of all storage options, in lower case."""

_MAY_HAVE_LANDED = frozenset({408, 429, 499})


def gcsfs_arguments(options: Mapping[str, str]) -> dict[str, Any]:
    """Arguments of `gcsfs.GCSFileSystem` for the storage options, and some of ours.

    These are ``bearer`` (an access token), ``connect_seconds``, ``read_seconds`` and `RETRY_SECONDS`.

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

    def copy_object(self, source: ObjectStore, source_path: str, path: str, size: int) -> bool:
        """See `storage.base.copy_object`: by the service's rewrite, which goes on until all is there."""
        if not isinstance(source, GcsStore) or source.service != self.service or source.size(source_path) != size:
            return False
        with self.writing(path):
            self._filesystem.get().cp_file(source._key(source_path), self._key(path))
        return True

    def client_errors(self) -> tuple[type[BaseException], ...]:
        return _client_errors()

    def _client_arguments(self) -> dict[str, Any]:
        return gcsfs_arguments(self._options)

    def _client_class(self) -> Any:
        # The plain client: the one with gRPC extensions queries another service for the kind of bucket.
        require_client(self._root.scheme, "gcsfs.core", "gcs")
        return _gcs_client_class()

    def _service_name(self) -> str:
        return str(self._arguments.get("endpoint_url") or "Google Cloud Storage")

    def _ask(self, send: Callable[[Any], Result], *, short: bool = False) -> Result:
        # The client repeats by itself, see `_gcs_client_class`.
        return send(self._filesystem.get())

    def _base(self, client: Any) -> str:
        return self._root.location

    def _make_filesystem(self) -> Any:
        arguments = dict(self._arguments)
        bearer = arguments.pop("bearer", None)
        if bearer is not None and RENEWAL in self._options:
            arguments["token"] = _catalog_token_class()(self._options)
        elif bearer is not None:
            arguments["token"] = import_module("google.oauth2.credentials").Credentials(bearer)
        timeouts = {
            "sock_connect": arguments.pop("connect_seconds", CONNECT_SECONDS),
            "sock_read": arguments.pop("read_seconds", READ_SECONDS),
        }
        return self._client_class()(
            **arguments,
            retry_service=self._patience.service,
            retry_seconds=self._patience.seconds,
            requests_timeout=import_module("aiohttp").ClientTimeout(**timeouts),
            use_listings_cache=False,
        )

    def _prepare_folder(self, key: str) -> None:
        """Does nothing: there are no folders, and a request for one could create a bucket."""

    def _create(self, key: str, body: bytes) -> PutResult:
        def send() -> None:
            # Never a resumable upload in several requests, however large the object is.
            self._filesystem.get().pipe_file(key, body, mode="create", chunksize=len(body) + 1)

        return create_if_absent(self._patience, send, _client_errors(), _created, judge_failure)


def _created(error: BaseException) -> PutResult | None:
    """The outcome of a failed put-if-absent, as `conditional_put.Outcome`."""
    if isinstance(error, FileExistsError):
        return PutResult.EXISTS
    return None if _refused(error) else PutResult.UNKNOWN


def _refused(error: BaseException) -> bool:
    """Whether the service has rejected the request without any effect."""
    code = getattr(error, "code", None)
    if str(code).isdigit():
        return 400 <= int(str(code)) < 500 and int(str(code)) not in _MAY_HAVE_LANDED
    # gcsfs raises a plain OSError for "403 Forbidden" and a ValueError for "400 Bad Request".
    return isinstance(error, (FileNotFoundError, PermissionError, ValueError)) or str(error).startswith("Forbidden")


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


def judge_failure(error: BaseException) -> Failure | None:
    """Whether a request may succeed on a retry."""
    google, requests = import_module("google.auth.exceptions"), import_module("requests.exceptions")
    if isinstance(error, requests.ProxyError):
        # gcsfs says so for "502 Bad Gateway".
        return Failure.REFUSED_FOR_NOW
    if isinstance(error, google.RefreshError):
        return Failure.REFUSED_FOR_NOW if getattr(error, "retryable", False) else None
    transport = (requests.ConnectionError, requests.Timeout, requests.ChunkedEncodingError, google.TransportError)
    silent = (asyncio.TimeoutError, TimeoutError, ConnectionError, *http_transport_errors(), *transport)
    if isinstance(error, silent):
        return Failure.UNANSWERED
    return Failure.REFUSED_FOR_NOW if import_module("gcsfs.retry").is_retriable(error) else None


def _catalog_token_class() -> Any:
    """Credentials of Google's libraries with an access token of a catalog, which is renewed before it ends."""
    base = import_module("google.auth.credentials").Credentials

    class CatalogToken(base):  # type: ignore[misc, valid-type]
        def __init__(self, options: Mapping[str, str]) -> None:
            super().__init__()
            self._renewal = options[RENEWAL]
            self._take(options)

        @property
        def valid(self) -> bool:
            # Not `expiry`: Google's libraries renew minutes before it, and would renew a short life each time.
            return time.time() < self._renewed_from

        def refresh(self, request: Any) -> None:
            self._take(renewed_options(self._renewal))

        def _take(self, options: Mapping[str, str]) -> None:
            token = next((value for name, value in options.items() if name.lower() == _BEARER), None)
            if not token:
                raise StorageError("the catalog sends no access token for Google Cloud Storage; ask who runs it")
            self.token = token
            self._renewed_from = end_of(options) - early_seconds(options)

    return CatalogToken


@cache
def _gcs_client_class() -> Any:
    """`GCSFileSystem` with the retries of `patience` in place of its own."""
    plain = import_module("gcsfs.core").GCSFileSystem
    # The method under gcsfs's retries, whose number is fixed.
    send_once = inspect.unwrap(plain._request)

    class GcsClient(plain):  # type: ignore[misc, valid-type]
        def __init__(self, *args: Any, retry_service: str, retry_seconds: float, **kwargs: Any) -> None:
            self._patience = Patience(retry_service, retry_seconds)
            super().__init__(*args, **kwargs)

        async def _request(self, method: str, path: str, *args: Any, **kwargs: Any) -> Any:
            if "ifGenerationMatch" in kwargs:
                # A put-if-absent: only `GcsStore._create` knows how to repeat it.
                return await send_once(self, method, path, *args, **kwargs)
            return await self._patience.run_async(
                lambda: send_once(self, method, path, *args, **kwargs),
                _client_errors(),
                judge_failure,
                short=kwargs.get("data") is None and "alt=media" not in path,
            )

    return GcsClient
