"""S3 and compatible services, through s3fs; bulk reads through pyarrow's client.

Objects of unknown size are uploaded in parts while the next ones are produced. Nothing is visible before the upload is
completed, and an abort removes the parts.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager
from typing import Any, Protocol

import pyarrow as pa

from lance_spark.errors import InvalidInputError, LanceError, StorageError
from lance_spark.storage.base import ByteRange, ObjectStore, OutputStream, PutResult
from lance_spark.storage.object_store import require_client
from lance_spark.storage.overlap import submit
from lance_spark.storage.paths import Root, object_path
from lance_spark.storage.remote import Listed, RemoteStore
from lance_spark.storage.s3.bulk import S3BulkReader
from lance_spark.storage.s3.client import S3Client, client_errors, shared_client
from lance_spark.storage.s3.options import s3fs_arguments

_FEW_BYTES = 4 << 20
_MAX_COPIED_BYTES = 5 << 30
_FEW_PIECES = 2

_log = logging.getLogger(__name__)

PART_BYTES = 16 << 20
"""A part has at least 5 MiB, and some services require the same size for all but the last one."""

_PARTS_OF_ONE_SIZE = 4_000
"""An object has at most 10,000 parts, so beyond 64 GB parts are eight times as large."""

_PARTS_IN_FLIGHT = 4


class S3Store(RemoteStore):
    """An `ObjectStore` over one bucket and a key prefix.

    Raises:
        StorageError: s3fs is not installed.
    """

    def __init__(self, uri: str, root: Root, options: Mapping[str, str]) -> None:
        super().__init__(uri, root, options)
        self._client = shared_client(s3fs_arguments(options), options)
        require_client("s3", "s3fs", "s3")
        self._bucket, _, start = root.location.partition("/")
        self._prefix = f"{start}/" if start else ""
        self._bulk = S3BulkReader(self._client, self._bucket)

    def open_output(self, path: str) -> OutputStream:
        key = self._key(path)
        self._bulk.forget(key)
        return S3Output(self._client, self._bucket, key, path, self.writing)

    def copy_object(self, source: ObjectStore, source_path: str, path: str, size: int) -> bool:
        """See `storage.base.copy_object`: one request, for objects up to 5 GiB that the same client reads."""
        if not isinstance(source, S3Store) or source._client is not self._client or size > _MAX_COPIED_BYTES:
            return False
        if source.size(source_path) != size:
            return False
        key = self._key(path)
        self._bulk.forget(key)
        original = {"Bucket": source._bucket, "Key": source._key(source_path)}
        with self.writing(path):
            self._client.call("copy_object", Bucket=self._bucket, Key=key, CopySource=original)
        return True

    def client_errors(self) -> tuple[type[BaseException], ...]:
        return client_errors()

    def _key(self, path: str) -> str:
        if "?versionId=" in path:
            raise InvalidInputError(f"object path {path!r}: S3 clients read '?versionId=' as a version of an object")
        return self._prefix + object_path(path)

    def _fetch(self, key: str, byte_range: ByteRange | None) -> bytes:
        place = f"{self._bucket}/{key}"
        if byte_range is None:
            return self._client.fetch(place)
        return self._client.fetch(place, byte_range.start, byte_range.stop)

    def _range_reader(self, key: str, pieces: Sequence[ByteRange]) -> Callable[[ByteRange], bytes]:
        # Opening an object with the bulk client costs an extra request, not worth it for a few small reads.
        few = len(pieces) <= _FEW_PIECES and sum(piece.length for piece in pieces) <= _FEW_BYTES
        bulk = None if few and not self._bulk.is_open(key) else self._bulk.open(key)
        return bulk if bulk is not None else super()._range_reader(key, pieces)

    def _head(self, key: str) -> int:
        return int(self._client.call("head_object", Bucket=self._bucket, Key=key)["ContentLength"])

    def _etag(self, key: str) -> Hashable | None:
        tag: str | None = self._client.call("head_object", Bucket=self._bucket, Key=key).get("ETag")
        return tag

    def _write(self, key: str, body: bytes) -> None:
        self._bulk.forget(key)
        self._client.call("put_object", Bucket=self._bucket, Key=key, Body=body)

    def _create(self, key: str, body: bytes) -> PutResult:
        return self._client.create(self._bucket, key, body)

    def _remove(self, key: str) -> None:
        self._bulk.forget(key)
        self._client.call("delete_object", Bucket=self._bucket, Key=key)

    def _entries(self, folder: str, *, recursive: bool) -> Iterator[Listed]:
        pages = self._pages(folder, "Contents", "" if recursive else "/")
        entries = (
            Listed(entry["Key"], int(entry["Size"]), entry.get("LastModified"), entry.get("ETag")) for entry in pages
        )
        if self._bucket.endswith("--x-s3"):
            # Directory buckets list without a defined order.
            return iter(sorted(entries, key=lambda entry: entry.key))
        return entries

    def _subfolders(self, folder: str) -> Iterator[str]:
        for entry in self._pages(folder, "CommonPrefixes", "/"):
            yield str(entry["Prefix"]).removesuffix("/")

    def _pages(self, folder: str, part: str, delimiter: str) -> Iterator[dict[str, Any]]:
        parameters = {"Bucket": self._bucket, "Prefix": folder, "Delimiter": delimiter}
        while True:
            page = self._client.call("list_objects_v2", **parameters)
            yield from page.get(part, ())
            if not page.get("IsTruncated"):
                return
            parameters["ContinuationToken"] = page["NextContinuationToken"]


class Translating(Protocol):
    """Translates errors of the client into ours, for a path."""

    def __call__(self, path: str) -> AbstractContextManager[None]: ...


class S3Output:
    """An `OutputStream` over a multipart upload, or over a single PUT for what fits one part.

    A stream that is dropped without `close` or `abort` publishes nothing, but its parts remain until the bucket's
    lifecycle rules remove them: no request can be sent during garbage collection.
    """

    def __init__(self, client: S3Client, bucket: str, key: str, path: str, writing: Translating) -> None:
        self._client = client
        self._object = {"Bucket": bucket, "Key": key}
        self._path = path
        self._writing = writing
        self._pending = bytearray()
        self._written = 0
        self._upload_id: str | None = None
        self._parts: list[Future[Any]] = []
        self._open = True

    def write(self, data: pa.Buffer | bytes | memoryview) -> None:
        if not self._open:
            raise InvalidInputError(f"{self._path} is already closed")
        view = memoryview(data).cast("B")
        for start in range(0, len(view), PART_BYTES):
            self._pending += view[start : start + PART_BYTES]
            while len(self._pending) > self._part_bytes():
                self._send_part()
        self._written += len(view)

    def tell(self) -> int:
        return self._written

    def close(self) -> None:
        if not self._open:
            return
        try:
            with self._writing(self._path):
                if self._upload_id is None:
                    self._client.call("put_object", Body=bytes(self._pending), **self._object)
                else:
                    self._send_part()
                    self._complete()
            self._open = False
        finally:
            self.abort()

    def abort(self) -> None:
        if not self._open:
            return
        self._open = False
        self._pending = bytearray()
        if self._upload_id is None:
            return
        wait(self._parts)
        try:
            with self._writing(self._path):
                self._client.call("abort_multipart_upload", UploadId=self._upload_id, **self._object)
        except LanceError as error:
            _log.warning("cannot abort the upload of %s; its parts stay until the bucket's rules drop them", error)

    def _part_bytes(self) -> int:
        return PART_BYTES if len(self._parts) < _PARTS_OF_ONE_SIZE else 8 * PART_BYTES

    def _send_part(self) -> None:
        with self._writing(self._path):
            if self._upload_id is None:
                self._upload_id = str(self._client.call("create_multipart_upload", **self._object)["UploadId"])
            if len(self._parts) >= _PARTS_IN_FLIGHT:
                self._parts[-_PARTS_IN_FLIGHT].result()
        size = self._part_bytes()
        body = bytes(memoryview(self._pending)[:size])
        del self._pending[:size]
        number, upload_id = len(self._parts) + 1, self._upload_id

        def send() -> dict[str, Any]:
            reply = self._client.call("upload_part", PartNumber=number, UploadId=upload_id, Body=body, **self._object)
            return {"PartNumber": number, "ETag": reply["ETag"]}

        self._parts.append(submit(send))

    def _complete(self) -> None:
        parts = [part.result() for part in self._parts]
        upload = {"UploadId": self._upload_id, "MultipartUpload": {"Parts": parts}}
        try:
            self._client.call("complete_multipart_upload", **upload, **self._object)
        except FileNotFoundError:
            # The client retries requests without a reply; if the first attempt succeeded, the upload no longer exists.
            size = self._client.call("head_object", **self._object)["ContentLength"]
            if size != self._written:
                message = f"{self._path}: the upload was lost, and an object of {size} bytes is in its place"
                raise StorageError(message) from None
