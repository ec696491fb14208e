"""Manifest files taken apart and put together again, with their lengths and positions right."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

from lance_spark._proto import table_pb2

_FOOTER = struct.Struct("<QHH4s")
_LENGTH = struct.Struct("<I")

ManifestEdit = Callable[[table_pb2.Manifest], None]


def newest_manifest(table: Path) -> Path:
    """The manifest file of the newest version; names of the second form sort newest first."""
    return min((table / "_versions").glob("*.manifest"))


def with_manifest(content: bytes, edit: ManifestEdit) -> bytes:
    """The manifest file after `edit` has changed its message in place; the sections before it stay."""
    position, major, minor, magic = _FOOTER.unpack(content[-_FOOTER.size :])
    message = table_pb2.Manifest.FromString(content[position + _LENGTH.size : -_FOOTER.size])
    edit(message)
    data = message.SerializeToString()
    return b"".join(
        [content[:position], _LENGTH.pack(len(data)), data, _FOOTER.pack(position, major, minor, magic)],
    )


def edit_manifest(table: Path, edit: ManifestEdit) -> None:
    """Changes the newest version of a table on disk."""
    path = newest_manifest(table)
    content = with_manifest(path.read_bytes(), edit)
    # A new file: the old one may be mapped into memory.
    path.unlink()
    path.write_bytes(content)
