"""Parts of what an index is built from that wait until all are there, most of them in a temporary file."""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO

import pyarrow as pa

_MEMORY_BYTES = 16 << 20
"""Bytes of parts that stay in memory; the others are put into the file."""


class SpilledParts:
    """Parts that are read again once all are there. Where there is no room for a file they stay in memory."""

    def __init__(self) -> None:
        self._parts: list[pa.RecordBatch | _Stored] = []
        self._in_memory = 0
        self._file: IO[bytes] | None = None
        self._is_usable = True

    def add(self, part: pa.RecordBatch) -> None:
        """Adds a part."""
        stored = self._stored(part) if self._in_memory + part.nbytes > _MEMORY_BYTES else None
        if stored is None:
            self._in_memory += part.nbytes
        self._parts.append(part if stored is None else stored)

    def opened(self) -> Sequence[pa.RecordBatch]:
        """All parts in their order, those of the file as pages of it. Nothing can be added then."""
        parts, self._parts = self._parts, []
        if self._file is None:
            return [part for part in parts if isinstance(part, pa.RecordBatch)]
        mapped = pa.py_buffer(mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ))
        return [
            _read(mapped.slice(part.start, part.stop - part.start)) if isinstance(part, _Stored) else part
            for part in parts
        ]

    def close(self) -> None:
        """Removes the file."""
        if self._file is not None:
            # On a full disk there is something left to be written, which nobody needs; the file is closed all the same.
            with suppress(OSError):
                self._file.close()

    def _stored(self, part: pa.RecordBatch) -> _Stored | None:
        """Writes a part; None if there is no room, so that it stays in memory."""
        if not self._is_usable:
            return None
        try:
            file = self._file or tempfile.TemporaryFile()  # noqa: SIM115
            start = file.tell()
            with pa.ipc.new_stream(file, part.schema) as writer:
                writer.write_batch(part)
            file.flush()
            self._file = file
            return _Stored(start, file.tell())
        except OSError:
            # What was written before can still be read.
            self._is_usable = False
            return None


@dataclass(frozen=True, slots=True)
class _Stored:
    """Start and end of a part in the file."""

    start: int
    stop: int


def _read(data: pa.Buffer) -> pa.RecordBatch:
    with pa.ipc.open_stream(data) as reader:
        return reader.read_next_batch()
