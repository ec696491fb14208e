"""Output streams over fsspec's buffered files, for clients whose files appear only when they are closed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from lance_spark.errors import InvalidInputError
from lance_spark.storage.remote import RemoteStore

BLOCK_BYTES = 16 << 20


class BufferedOutput:
    """An `OutputStream` that opens a file only for content longer than a block; shorter content is one request.

    Args:
        store: the store to write to.
        path: of the object.
        open_file: opens an `fsspec.spec.AbstractBufferedFile` whose upload becomes visible with its last block.
    """

    def __init__(self, store: RemoteStore, path: str, open_file: Callable[[], Any]) -> None:
        self._store = store
        self._path = path
        self._open_file = open_file
        self._first: bytearray | None = bytearray()
        self._file: Any = None
        self._written = 0

    def write(self, data: pa.Buffer | bytes | memoryview) -> None:
        if self._first is None:
            raise InvalidInputError(f"{self._path} is already closed")
        view = memoryview(data).cast("B")
        with self._store.writing(self._path):
            for start in range(0, len(view), BLOCK_BYTES):
                self._append(view[start : start + BLOCK_BYTES])
        self._written += len(view)

    def tell(self) -> int:
        return self._written

    def close(self) -> None:
        if self._first is None:
            return
        try:
            if self._file is None:
                self._store.put(self._path, bytes(self._first))
            else:
                with self._store.writing(self._path):
                    self._file.close()
        finally:
            self._drop()

    def abort(self) -> None:
        if self._first is None:
            return
        try:
            if self._file is not None:
                with self._store.writing(self._path):
                    self._file.discard()
        finally:
            self._drop()

    def __del__(self) -> None:
        self._drop()

    def _append(self, block: memoryview) -> None:
        if self._file is None:
            if self._first is not None and len(self._first) + len(block) <= BLOCK_BYTES:
                self._first += block
                return
            self._file = self._open_file()
            self._file.write(bytes(self._first or b""))
            self._first = bytearray()
        self._file.write(block)

    def _drop(self) -> None:
        self._first = None
        if self._file is not None:
            # Otherwise garbage collection of the file would finish its upload.
            self._file.closed = True
