"""Counts what a store is asked for, so that a test can say: this costs at most so many requests and bytes.

Reads are counted as an object store would serve them (`plan_stretches` and `cut` of its policy), whatever store is
inside: a test on local files then tells what the same work costs on S3.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from lance_spark.storage.base import ByteRange, ObjectInfo, ObjectStore, OutputStream, PutResult
from lance_spark.storage.coalesce import ReadPolicy, cut, plan_stretches
from lance_spark.storage.remote import RemoteStore


@dataclass
class Counts:
    """What happened since the last `CountingStore.reset`, by operation (the method's name).

    `calls` of the method, `requests` that an object store would see, `num_bytes` moved (gaps that are read along
    included), `paths` touched in order, without immediate repetition.
    """

    calls: Counter[str] = field(default_factory=Counter)
    requests: Counter[str] = field(default_factory=Counter)
    num_bytes: Counter[str] = field(default_factory=Counter)
    paths: list[str] = field(default_factory=list)

    @property
    def total_requests(self) -> int:
        return sum(self.requests.values())

    @property
    def read_requests(self) -> int:
        return self.requests["read"] + self.requests["read_range"] + self.requests["read_ranges"]

    @property
    def bytes_read(self) -> int:
        return self.num_bytes["read"] + self.num_bytes["read_range"] + self.num_bytes["read_ranges"]

    @property
    def bytes_written(self) -> int:
        return self.num_bytes["put"] + self.num_bytes["put_if_absent"] + self.num_bytes["open_output"]


class CountingStore:
    """An `ObjectStore` over `inner`; `counts` says what it was asked for."""

    def __init__(self, inner: ObjectStore, policy: ReadPolicy = RemoteStore.policy) -> None:
        self._inner = inner
        self._policy = policy
        self._lock = threading.Lock()
        self.counts = Counts()

    def reset(self) -> Counts:
        """The counts so far; they start anew."""
        with self._lock:
            counts, self.counts = self.counts, Counts()
        return counts

    @property
    def uri(self) -> str:
        return self._inner.uri

    def read(self, path: str) -> pa.Buffer:
        data = self._inner.read(path)
        self.count("read", path, num_bytes=data.size)
        return data

    def read_range(self, path: str, byte_range: ByteRange) -> pa.Buffer:
        data = self._inner.read_range(path, byte_range)
        self._count_ranges("read_range", path, [byte_range])
        return data

    def read_ranges(self, path: str, byte_ranges: Sequence[ByteRange]) -> list[pa.Buffer]:
        found = self._inner.read_ranges(path, byte_ranges)
        self._count_ranges("read_ranges", path, byte_ranges)
        return found

    def size(self, path: str) -> int:
        self.count("size", path)
        return self._inner.size(path)

    def put(self, path: str, data: pa.Buffer | bytes) -> None:
        self.count("put", path, num_bytes=memoryview(data).nbytes)
        self._inner.put(path, data)

    def put_if_absent(self, path: str, data: pa.Buffer | bytes) -> PutResult:
        self.count("put_if_absent", path, num_bytes=memoryview(data).nbytes)
        return self._inner.put_if_absent(path, data)

    def open_output(self, path: str) -> OutputStream:
        self.count("open_output", path)
        return _CountingOutput(self, path, self._inner.open_output(path))

    def list(self, prefix: str, *, recursive: bool = False) -> Iterator[ObjectInfo]:
        self.count("list", prefix)
        return self._inner.list(prefix, recursive=recursive)

    def list_folders(self, prefix: str) -> Iterator[str]:
        self.count("list_folders", prefix)
        return self._inner.list_folders(prefix)

    def delete(self, path: str) -> None:
        self.count("delete", path)
        self._inner.delete(path)

    def count(self, operation: str, path: str, *, calls: int = 1, requests: int = 1, num_bytes: int = 0) -> None:
        with self._lock:
            self.counts.calls[operation] += calls
            self.counts.requests[operation] += requests
            self.counts.num_bytes[operation] += num_bytes
            if self.counts.paths[-1:] != [path]:
                self.counts.paths.append(path)

    def _count_ranges(self, operation: str, path: str, byte_ranges: Sequence[ByteRange]) -> None:
        stretches = plan_stretches(byte_ranges, self._policy)
        pieces = [piece for stretch in stretches for piece in cut(stretch.byte_range, self._policy)]
        self.count(operation, path, requests=len(pieces), num_bytes=sum(piece.length for piece in pieces))


class _CountingOutput:
    def __init__(self, store: CountingStore, path: str, inner: OutputStream) -> None:
        self._store = store
        self._path = path
        self._inner = inner

    def write(self, data: pa.Buffer | bytes | memoryview) -> None:
        self._inner.write(data)
        self._store.count("open_output", self._path, calls=0, requests=0, num_bytes=memoryview(data).nbytes)

    def tell(self) -> int:
        return self._inner.tell()

    def close(self) -> None:
        self._inner.close()

    def abort(self) -> None:
        self._inner.abort()
