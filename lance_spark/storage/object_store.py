"""Stores with an fsspec client.

The client's cache of listings is never used. The put-if-absent call differs between clients: subclasses use the safe
call of theirs; the default is the one that fsspec specifies (``pipe_file`` with mode "create"), which is tested
before it is trusted.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Hashable, Iterator, Mapping
from datetime import datetime, timezone
from importlib import import_module
from typing import Any

import fsspec
import pyarrow as pa

from lance_spark.errors import InvalidInputError, StorageError
from lance_spark.storage.base import ByteRange, OutputStream, PutResult
from lance_spark.storage.paths import Root, object_path
from lance_spark.storage.per_process import PerProcess
from lance_spark.storage.remote import Listed, RemoteStore

_SPOOLED_BYTES = 32 << 20


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
        self._filesystem = PerProcess(self._make_filesystem)
        self._prefix = f"{self._base(self._client_class())}/"

    def open_output(self, path: str) -> OutputStream:
        return _SpooledOutput(self, object_path(path))

    def client_errors(self) -> tuple[type[BaseException], ...]:
        return (OSError, asyncio.TimeoutError, NotImplementedError, ValueError)

    def _client_arguments(self) -> dict[str, Any]:
        """The storage options as arguments of the client."""
        return {name: _typed(value) for name, value in self._options.items()}

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
        filesystem = self._filesystem.get()
        if byte_range is None:
            return bytes(filesystem.cat_file(key))
        return bytes(filesystem.cat_file(key, start=byte_range.start, end=byte_range.stop))

    def _head(self, key: str) -> int:
        filesystem = self._filesystem.get()
        filesystem.invalidate_cache()
        found = filesystem.info(key)
        if found.get("type") == "directory" or found.get("size") is None:
            raise FileNotFoundError(key)
        return int(found["size"])

    def _etag(self, key: str) -> Hashable | None:
        filesystem = self._filesystem.get()
        filesystem.invalidate_cache()
        return _etag(filesystem.info(key))

    def _write(self, key: str, body: bytes) -> None:
        self._prepare_folder(key)
        self._filesystem.get().pipe_file(key, body)

    def _create(self, key: str, body: bytes) -> PutResult:
        self._prepare_folder(key)
        try:
            self._filesystem.get().pipe_file(key, body, mode="create")
        except FileExistsError:
            return PutResult.EXISTS
        except (PermissionError, FileNotFoundError, NotADirectoryError, IsADirectoryError):
            raise
        except (TypeError, ValueError, NotImplementedError) as error:
            raise StorageError(f"the client of {self._uri} cannot create an object only if it is absent") from error
        except self.client_errors():
            return PutResult.UNKNOWN
        return PutResult.CREATED

    def _prepare_folder(self, key: str) -> None:
        """Creates the folder of a new object, if the store has folders; object stores do nothing here."""
        self._filesystem.get().makedirs(key.rpartition("/")[0], exist_ok=True)

    def _remove(self, key: str) -> None:
        filesystem = self._filesystem.get()
        try:
            if filesystem.info(key).get("type") != "directory":
                filesystem.rm_file(key)
        except FileNotFoundError:
            return

    def _entries(self, folder: str, *, recursive: bool) -> Iterator[Listed]:
        found = (self._find(folder) if recursive else self._ls(folder)).items()
        for key, info in sorted(found):
            if info.get("type") != "directory":
                yield Listed(key, int(info.get("size") or 0), _modified(info), _etag(info))

    def _subfolders(self, folder: str) -> Iterator[str]:
        yield from sorted(
            (key for key, info in self._ls(folder).items() if info.get("type") == "directory" and f"{key}/" != folder),
            key=lambda key: f"{key}/",
        )

    def _ls(self, folder: str) -> dict[str, dict[str, Any]]:
        filesystem = self._filesystem.get()
        filesystem.invalidate_cache()
        try:
            found = filesystem.ls(folder.rstrip("/"), detail=True)
        except (FileNotFoundError, NotADirectoryError):
            return {}
        return {info["name"].rstrip("/"): info for info in found}

    def _find(self, folder: str) -> dict[str, dict[str, Any]]:
        filesystem = self._filesystem.get()
        filesystem.invalidate_cache()
        try:
            found: dict[str, dict[str, Any]] = filesystem.find(folder.rstrip("/"), detail=True)
        except (FileNotFoundError, NotADirectoryError):
            return {}
        return found


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
