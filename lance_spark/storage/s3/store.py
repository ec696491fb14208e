"""S3 and compatible services, through s3fs; bulk reads through pyarrow's client."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any

from lance_spark.errors import InvalidInputError
from lance_spark.storage.base import ByteRange, ObjectStore, OutputStream, PutResult
from lance_spark.storage.object_store import require_client
from lance_spark.storage.paths import Root, object_path
from lance_spark.storage.remote import Listed, RemoteStore
from lance_spark.storage.s3.bulk import S3BulkReader
from lance_spark.storage.s3.client import client_errors, shared_client
from lance_spark.storage.s3.options import s3fs_arguments
from lance_spark.storage.s3.output import S3Output

_FEW_BYTES = 4 << 20
_MAX_COPIED_BYTES = 5 << 30
_FEW_PIECES = 2


class S3Store(RemoteStore):
    """An `ObjectStore` over one bucket and a key prefix.

    Raises:
        StorageError: s3fs is not installed.
    """

    def __init__(self, uri: str, root: Root, options: Mapping[str, str]) -> None:
        super().__init__(uri, root, options)
        self._client = shared_client(s3fs_arguments(options))
        require_client("s3", "s3fs", "s3")
        self._bucket, _, start = root.location.partition("/")
        self._prefix = f"{start}/" if start else ""
        self._bulk = S3BulkReader(self._client, self._bucket)

    def open_output(self, path: str) -> OutputStream:
        key = self._key(path)
        self._bulk.forget(key)
        return S3Output(self._client, self._bucket, key, path, self.writing)

    def copy_object(self, source: ObjectStore, source_path: str, path: str, size: int) -> bool:
        """See `storage.copies`: by one request of the service, for objects up to 5 GiB that the same client reads."""
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
        found = (
            Listed(entry["Key"], int(entry["Size"]), entry.get("LastModified"), entry.get("ETag")) for entry in pages
        )
        if self._bucket.endswith("--x-s3"):
            # Directory buckets list without a defined order.
            return iter(sorted(found, key=lambda entry: entry.key))
        return found

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
