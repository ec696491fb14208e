"""Writes one object of unknown size to S3: parts are uploaded while the next ones are produced.

Nothing is visible before the upload is completed, and an abort removes the parts.
"""

from __future__ import annotations

import logging
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager
from typing import Any, Protocol

import pyarrow as pa

from lance_spark.errors import InvalidInputError, LanceError, StorageError
from lance_spark.storage.overlap import submit
from lance_spark.storage.s3.client import S3Client

_log = logging.getLogger(__name__)

PART_BYTES = 16 << 20
"""A part has at least 5 MiB, and some services require the same size for all but the last one."""

_PARTS_OF_ONE_SIZE = 4_000
"""An object has at most 10,000 parts, so beyond 64 GB parts are eight times as large."""

_PARTS_IN_FLIGHT = 4


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
