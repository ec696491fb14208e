"""Values that are written as files before there is a row for them.

The bytes go to an object that lies where a sidecar would lie whose data file does not exist. No version ever names it,
so clean-ups remove it when it is old, whether a row got a copy of it or not.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from lance_spark.errors import InvalidInputError
from lance_spark.file.blob_writer import sidecar_path
from lance_spark.storage.base import ObjectStore
from lance_spark.storage.paths import absolute_uri, below
from lance_spark.table.paths import DATA, new_data_file_name

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_PIECE_BYTES = 1 << 20


class BlobWriter(io.RawIOBase):
    """A binary file that is written from front to back. It exists once it is closed, or not at all.

    Use it as a context manager: an error inside discards what was written.

    Args:
        store: the root of a table.
    """

    def __init__(self, store: ObjectStore) -> None:
        super().__init__()
        path = sidecar_path(f"{DATA}/{new_data_file_name()}", 1)
        self._uri = below(absolute_uri(store.uri), path)
        self._output = store.open_output(path)
        self._pending = bytearray()
        self._is_published = False

    @property
    def uri(self) -> str:
        """URI of the value, for ``blob_ingest``.

        Raises:
            InvalidInputError: the file is not closed, or it was discarded.
        """
        if not self._is_published:
            raise InvalidInputError("a blob has a URI once its file was closed without an error")
        return self._uri

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        """Bytes written so far."""
        return self._output.tell() + len(self._pending)

    def write(self, data: ReadableBuffer) -> int:
        """Appends all of `data`; the number of its bytes."""
        if self.closed:
            raise ValueError("the file is closed")
        view = memoryview(data).cast("B")
        if len(self._pending) + len(view) > _PIECE_BYTES:
            self._flush_pending()
        if len(view) > _PIECE_BYTES:
            self._output.write(view)
        else:
            self._pending += view
        return len(view)

    def close(self) -> None:
        """Publishes the value durably; a no-op for a file that is closed already."""
        if self.closed:
            return
        try:
            self._flush_pending()
            self._output.close()
            self._is_published = True
        finally:
            self.discard()

    def discard(self) -> None:
        """Closes the file without the value."""
        if not self.closed:
            self._output.abort()
            super().close()

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: object) -> None:
        if kind is not None:
            self.discard()
        self.close()

    def __del__(self) -> None:
        # What nobody has closed is not complete.
        if hasattr(self, "_output"):
            self.discard()

    def _flush_pending(self) -> None:
        if self._pending:
            self._output.write(bytes(self._pending))
            self._pending = bytearray()
