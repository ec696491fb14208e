"""Stores with an fsspec client.

The client's cache of listings is never used. The put-if-absent call differs between clients: subclasses use the safe
call of theirs; the default is the one that fsspec specifies (``pipe_file`` with mode "create"), which is tested
before it is trusted.

Requests are repeated here, with one timeout per statement (`patience`). Whatever an unknown client repeats by itself
comes before that, and counts as one attempt.
"""

from __future__ import annotations

import asyncio
import errno
import json
import socket
import tempfile
from collections.abc import Callable, Hashable, Iterator, Mapping
from datetime import datetime, timezone
from functools import cache
from importlib import import_module
from typing import Any, TypeVar

import fsspec
import pyarrow as pa

from lance_spark.errors import InvalidInputError, StorageError
from lance_spark.storage.base import ByteRange, OutputStream, PutResult
from lance_spark.storage.conditional_put import create_if_absent
from lance_spark.storage.options import parsed, seconds
from lance_spark.storage.paths import Root, object_path
from lance_spark.storage.patience import DEFAULT_SECONDS, RETRY_SECONDS, Failure, Patience
from lance_spark.storage.per_process import PerProcess
from lance_spark.storage.remote import Listed, RemoteStore

Result = TypeVar("Result")

_SPOOLED_BYTES = 32 << 20

_UNREACHABLE = frozenset({errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENETDOWN, errno.ENETUNREACH})


def require_client(scheme: str, package: str, extra: str) -> Any:
    """The client package, imported.

    Raises:
        StorageError: it is not installed; the message says how to install it.
    """
    try:
        return import_module(package)
    except ImportError as error:
        raise StorageError(
            f"{scheme}:// needs the package {package}, which cannot be imported ({error}): "
            f"pip install 'lance-spark[{extra}]'"
        ) from error


class FsspecStore(RemoteStore):
    """An `ObjectStore` over an fsspec file system.

    Raises:
        InvalidInputError: fsspec does not know the scheme.
        StorageError: the client is not installed.
    """

    def __init__(self, uri: str, root: Root, options: Mapping[str, str]) -> None:
        super().__init__(uri, root, options)
        self._arguments = self._client_arguments()
        self._patience = Patience(self._service_name(), self._arguments.pop(RETRY_SECONDS, DEFAULT_SECONDS))
        self._filesystem = PerProcess(self._make_filesystem)
        self._prefix = f"{self._base(self._client_class())}/"

    def open_output(self, path: str) -> OutputStream:
        return _SpooledOutput(self, object_path(path))

    def client_errors(self) -> tuple[type[BaseException], ...]:
        # TypeError: an option that the client does not know.
        return (OSError, asyncio.TimeoutError, NotImplementedError, ValueError, TypeError, *http_errors())

    def _client_arguments(self) -> dict[str, Any]:
        """The storage options as arguments of the client, and `RETRY_SECONDS` if it is set."""
        arguments = {name: _typed(value) for name, value in self._options.items() if name.lower() != RETRY_SECONDS}
        timeout = next((value for name, value in self._options.items() if name.lower() == RETRY_SECONDS), None)
        return arguments if timeout is None else arguments | {RETRY_SECONDS: parsed(RETRY_SECONDS, timeout, seconds)}

    def _service_name(self) -> str:
        """The service in messages of the log; stores with equal names share the timeout of a statement."""
        return f"{self._root.scheme}://{self._root.location.partition('/')[0]}"

    def _ask(self, send: Callable[[Any], Result], *, short: bool = False) -> Result:
        """The result of `send`, called with the client, with retries.

        Args:
            short: as for `Patience.run`.
        """
        return self._patience.run(
            lambda: send(self._filesystem.get()), self.client_errors(), judge_failure, short=short
        )

    def _client_class(self) -> Any:
        try:
            return fsspec.get_filesystem_class(self._root.scheme)
        except ImportError as error:
            raise StorageError(f"{self._uri}: the client of {self._root.scheme}:// is missing: {error}") from error
        except ValueError as error:
            raise InvalidInputError(f"{self._uri}: no client is known for {self._root.scheme}://") from error

    def _base(self, client: Any) -> str:
        """The root as a path of the client, without a trailing slash."""
        return str(client._strip_protocol(self._uri)).rstrip("/")

    def _make_filesystem(self) -> Any:
        client = self._client_class()
        from_uri = client._get_kwargs_from_urls(self._uri)
        return client(**{**from_uri, **self._arguments}, use_listings_cache=False)

    def _fetch(self, key: str, byte_range: ByteRange | None) -> bytes:
        if byte_range is None:
            return self._ask(lambda client: bytes(client.cat_file(key)))
        return self._ask(lambda client: bytes(client.cat_file(key, start=byte_range.start, end=byte_range.stop)))

    def _head(self, key: str) -> int:
        info = self._info(key)
        if info.get("type") == "directory" or info.get("size") is None:
            raise FileNotFoundError(key)
        return int(info["size"])

    def _etag(self, key: str) -> Hashable | None:
        return _etag(self._info(key))

    def _info(self, key: str) -> dict[str, Any]:
        def send(client: Any) -> dict[str, Any]:
            client.invalidate_cache()
            info: dict[str, Any] = client.info(key)
            return info

        return self._ask(send, short=True)

    def _write(self, key: str, body: bytes) -> None:
        self._prepare_folder(key)
        self._ask(lambda client: client.pipe_file(key, body))

    def _create(self, key: str, body: bytes) -> PutResult:
        self._prepare_folder(key)

        def send() -> None:
            self._filesystem.get().pipe_file(key, body, mode="create")

        # Once only: a client that is not known may report the lost reply of its first attempt in any way.
        return create_if_absent(
            self._patience, send, self.client_errors(), self._created, judge_failure, max_attempts=1
        )

    def _created(self, error: BaseException) -> PutResult | None:
        """The outcome of a failed put-if-absent, as `conditional_put.Outcome`."""
        if isinstance(error, FileExistsError):
            return PutResult.EXISTS
        if isinstance(error, (PermissionError, FileNotFoundError, NotADirectoryError, IsADirectoryError)):
            return None
        if isinstance(error, (TypeError, ValueError, NotImplementedError)):
            raise StorageError(f"the client of {self._uri} cannot create an object only if it is absent") from error
        return PutResult.UNKNOWN

    def _prepare_folder(self, key: str) -> None:
        """Creates the folder of a new object, if the store has folders; object stores do nothing here."""
        self._ask(lambda client: client.makedirs(key.rpartition("/")[0], exist_ok=True), short=True)

    def _remove(self, key: str) -> None:
        def send(client: Any) -> None:
            if client.info(key).get("type") != "directory":
                client.rm_file(key)

        try:
            self._ask(send, short=True)
        except FileNotFoundError:
            return

    def _entries(self, folder: str, *, recursive: bool) -> Iterator[Listed]:
        entries = (self._find(folder) if recursive else self._ls(folder)).items()
        for key, info in sorted(entries):
            if info.get("type") != "directory":
                yield Listed(key, int(info.get("size") or 0), _modified(info), _etag(info))

    def _subfolders(self, folder: str) -> Iterator[str]:
        yield from sorted(
            (key for key, info in self._ls(folder).items() if info.get("type") == "directory" and f"{key}/" != folder),
            key=lambda key: f"{key}/",
        )

    def _ls(self, folder: str) -> dict[str, dict[str, Any]]:
        def send(client: Any) -> list[dict[str, Any]]:
            client.invalidate_cache()
            listing: list[dict[str, Any]] = client.ls(folder.rstrip("/"), detail=True)
            return listing

        try:
            listing = self._ask(send, short=True)
        except (FileNotFoundError, NotADirectoryError):
            return {}
        return {info["name"].rstrip("/"): info for info in listing}

    def _find(self, folder: str) -> dict[str, dict[str, Any]]:
        def send(client: Any) -> dict[str, dict[str, Any]]:
            client.invalidate_cache()
            listing: dict[str, dict[str, Any]] = client.find(folder.rstrip("/"), detail=True)
            return listing

        try:
            return self._ask(send)
        except (FileNotFoundError, NotADirectoryError):
            return {}


class _SpooledOutput:
    """An `OutputStream` that buffers everything locally and uploads it in one request when it is closed."""

    def __init__(self, store: FsspecStore, path: str) -> None:
        self._store = store
        self._path = path
        self._spool = tempfile.SpooledTemporaryFile(max_size=_SPOOLED_BYTES)  # noqa: SIM115
        self._written = 0

    def write(self, data: pa.Buffer | bytes | memoryview) -> None:
        if self._spool.closed:
            raise InvalidInputError(f"{self._path} is already closed")
        self._written += self._spool.write(memoryview(data))

    def tell(self) -> int:
        return self._written

    def close(self) -> None:
        if self._spool.closed:
            return
        with self._spool:
            self._spool.seek(0)
            self._store.put(self._path, self._spool.read())

    def abort(self) -> None:
        self._spool.close()


def judge_failure(error: BaseException) -> Failure | None:
    """Whether a request of an fsspec client may succeed on a retry, as far as its error is one of a known kind."""
    status = getattr(error, "status", None)
    if isinstance(status, int) and status >= 400:
        return Failure.REFUSED_FOR_NOW if status in (408, 429) or (status >= 500 and status != 501) else None
    silent: tuple[type[BaseException], ...]
    silent = (asyncio.TimeoutError, TimeoutError, ConnectionError, socket.gaierror, *http_transport_errors())
    if isinstance(error, silent) or (isinstance(error, OSError) and error.errno in _UNREACHABLE):
        return Failure.UNANSWERED
    return None


@cache
def http_errors() -> tuple[type[BaseException], ...]:
    """Exceptions of clients over aiohttp; none if it is not installed."""
    try:
        return (import_module("aiohttp").ClientError,)
    except ImportError:
        return ()


def http_transport_errors() -> tuple[type[BaseException], ...]:
    """The `http_errors` for a request that was not sent or got no complete reply."""
    if not http_errors():
        return ()
    http = import_module("aiohttp")
    return http.ClientConnectionError, http.ClientPayloadError


def _typed(text: str) -> Any:
    """The typed value of an option: options are text, clients want objects and booleans."""
    if text in ("true", "false"):
        return text == "true"
    if text.startswith("{"):
        try:
            return json.loads(text)
        except json.JSONDecodeError:
            return text
    return text


def _etag(info: Mapping[str, Any]) -> Hashable | None:
    """The generation or ETag, under the client's name for it; neither is ever reused."""
    for name in ("generation", "ETag", "etag"):
        value = info.get(name)
        if isinstance(value, (str, int)):
            return name, value
    return None


def _modified(info: Mapping[str, Any]) -> datetime | None:
    """The modification time, under the client's name for it."""
    for name in ("LastModified", "last_modified", "mtime", "updated", "created"):
        value = info.get(name)
        if isinstance(value, datetime):
            return value if value.tzinfo is not None else value.replace(tzinfo=timezone.utc)
        if isinstance(value, (int, float)):
            return datetime.fromtimestamp(value, timezone.utc)
    return None
