"""Objects in the memory of this process, for tests: ``memory://name`` always opens the same store."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from itertools import count
from typing import Any

import pyarrow as pa

from lance_spark.errors import InvalidInputError, NotFoundError
from lance_spark.storage.base import ByteRange, ObjectInfo, OutputStream, PutResult
from lance_spark.storage.coalesce import require_inside
from lance_spark.storage.paths import Root, folder_path, is_listed, object_path


@dataclass(frozen=True, slots=True)
class _Object:
    data: pa.Buffer
    modified: datetime = field(default_factory=lambda: datetime.now(timezone.utc))
    number: int = field(default_factory=count().__next__)


_objects: dict[str, _Object] = {}
"""All objects of this process, by root and path joined, so that roots can be nested."""


class MemoryStore:
    """An `ObjectStore` over one dictionary.

    Every operation is a single call on that dictionary, hence atomic, and there is no lock that a fork could
    leave locked. Only the name is pickled: another process sees its own, empty store.
    """

    def __init__(self, uri: str, root: Root, options: Mapping[str, str]) -> None:
        self._uri = uri
        self._root = root

    def __reduce__(self) -> tuple[Any, ...]:
        return MemoryStore, (self._uri, self._root, {})

    def __repr__(self) -> str:
        return f"MemoryStore({self._uri!r})"

    @property
    def uri(self) -> str:
        return self._uri

    def read(self, path: str) -> pa.Buffer:
        return self._get(path).data

    def read_range(self, path: str, byte_range: ByteRange) -> pa.Buffer:
        return self.read_ranges(path, [byte_range])[0]

    def read_ranges(self, path: str, byte_ranges: Sequence[ByteRange]) -> list[pa.Buffer]:
        data = self._get(path).data
        require_inside(path, byte_ranges, data.size)
        return [data.slice(piece.start, piece.length) for piece in byte_ranges]

    def size(self, path: str) -> int:
        return int(self._get(path).data.size)

    def put(self, path: str, data: pa.Buffer | bytes) -> None:
        _objects[self._key(path)] = _Object(_copied(data))

    def put_if_absent(self, path: str, data: pa.Buffer | bytes) -> PutResult:
        ours = _Object(_copied(data))
        winner = _objects.setdefault(self._key(path), ours)
        return PutResult.CREATED if winner is ours else PutResult.EXISTS

    def open_output(self, path: str) -> OutputStream:
        return _MemoryOutput(self, object_path(path))

    def list(self, prefix: str, *, recursive: bool = False) -> Iterator[ObjectInfo]:
        for path, below, entry in self._below(prefix):
            if (recursive or "/" not in below) and is_listed(path):
                yield ObjectInfo(path, entry.data.size, entry.modified, entry.number)

    def list_folders(self, prefix: str) -> Iterator[str]:
        seen = None
        for path, below, _ in self._below(prefix):
            name, slash, _ = below.partition("/")
            if slash and name != seen:
                seen = name
                yield path[: len(path) - len(below)] + name

    def delete(self, path: str) -> None:
        _objects.pop(self._key(path), None)

    # The interface of `cache`.

    etags_are_free = True

    @property
    def identity(self) -> Hashable:
        return MemoryStore, self._root.location

    def etag(self, path: str) -> Hashable | None:
        return self._get(path).number

    def _key(self, path: str) -> str:
        return f"{self._root.location}/{object_path(path)}"

    def _get(self, path: str) -> _Object:
        entry = _objects.get(self._key(path))
        if entry is None:
            raise NotFoundError(f"no object {path!r} in {self._uri}")
        return entry

    def _below(self, prefix: str) -> Iterator[tuple[str, str, _Object]]:
        """(path, path below the folder, object), in order of the paths."""
        folder = folder_path(prefix)
        root = f"{self._root.location}/"
        start = f"{root}{folder}/" if folder else root
        # dict.copy is atomic to other threads; iteration over the live dictionary is not.
        inside = [item for item in _objects.copy().items() if item[0].startswith(start)]
        for key, entry in sorted(inside, key=lambda item: item[0]):
            yield key[len(root) :], key[len(start) :], entry


class _MemoryOutput:
    def __init__(self, store: MemoryStore, path: str) -> None:
        self._store = store
        self._path = path
        self._sink: pa.BufferOutputStream | None = pa.BufferOutputStream()
        self._written = 0

    def write(self, data: pa.Buffer | bytes | memoryview) -> None:
        if self._sink is None:
            raise InvalidInputError(f"{self._path} is already closed")
        self._written += self._sink.write(data)

    def tell(self) -> int:
        return self._written

    def close(self) -> None:
        if self._sink is not None:
            self._store.put(self._path, self._sink.getvalue())
            self._sink = None

    def abort(self) -> None:
        self._sink = None


def _copied(data: pa.Buffer | bytes) -> pa.Buffer:
    """A copy: the caller may reuse a mutable buffer."""
    return pa.py_buffer(data if isinstance(data, bytes) else memoryview(data).tobytes())
