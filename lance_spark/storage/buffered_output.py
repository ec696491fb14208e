"""Streams over fsspec's buffered files, for clients whose files appear only when they are closed."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from lance_spark.errors import InvalidInputError
from lance_spark.storage.remote import RemoteStore

BLOCK_BYTES = 16 << 20


class BufferedOutput:
    """An `OutputStream` over a file opened for writing.

    Args:
        store: translates the client's errors.
        path: of the object, for messages.
        file: an `fsspec.spec.AbstractBufferedFile` whose upload becomes visible with its last block.
    """

    def __init__(self, store: RemoteStore, path: str, file: Any) -> None:
        self._store = store
        self._path = path
        self._file = file
        self._written = 0

    def write(self, data: pa.Buffer | bytes | memoryview) -> None:
        if self._file.closed:
            raise InvalidInputError(f"{self._path} is already closed")
        view = memoryview(data).cast("B")
        with self._store.writing(self._path):
            for start in range(0, len(view), BLOCK_BYTES):
                self._file.write(view[start : start + BLOCK_BYTES])
        self._written += len(view)

    def tell(self) -> int:
        return self._written

    def close(self) -> None:
        with self._store.writing(self._path):
            self._file.close()

    def abort(self) -> None:
        if self._file.closed:
            return
        try:
            with self._store.writing(self._path):
                self._file.discard()
        finally:
            # Otherwise the file would finish its upload when Python collects it.
            self._file.closed = True

    def __del__(self) -> None:
        self._file.closed = True
