"""The file that holds a manifest (Lance table format specification, "Manifest").

::

    [u32 length, IndexSection]     optional; its offset is Manifest.index_section
    [u32 length, Transaction]      optional; its offset is Manifest.transaction_section
    u32 length, Manifest           at the position that the footer names, up to the footer
    u64 position, u16 0, u16 minor, "LANC"

An offset of 0 is valid: a section exists if its field is set. The offset of the transaction was moved from field 21
to field 23, so both are written, and 23 is read first.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import pyarrow as pa
from google.protobuf.message import DecodeError

from lance_spark._proto import manifest_summary_pb2, table_pb2
from lance_spark.errors import CorruptFileError, InvalidInputError, LanceError
from lance_spark.table.manifests.manifest import Manifest

_FOOTER = struct.Struct("<QHH4s")
_LENGTH = struct.Struct("<I")
_MAGIC = b"LANC"
_MAJOR, _MINOR = 0, 2


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """The content of a manifest file.

    Attributes:
        transaction: the serialized transaction of this version, None if it is not in this file.
    """

    manifest: Manifest
    transaction: bytes | None

    @classmethod
    def decode(cls, data: pa.Buffer | bytes, path: str) -> ManifestFile:
        """Decodes a manifest file; `path` is for messages.

        Raises:
            CorruptFileError: the bytes are not a manifest file.
            UnsupportedFeatureError: the manifest stores its fragments in a tree.
        """
        try:
            return cls._decode(memoryview(data), path)
        except CorruptFileError as error:
            raise error.at(path=path) from None

    @classmethod
    def _decode(cls, data: memoryview, path: str) -> ManifestFile:
        position, section = manifest_content(data)
        content = bytes(section)
        try:
            message = table_pb2.Manifest.FromString(content)
        except DecodeError as error:
            raise CorruptFileError(f"the manifest is not a protobuf message: {error}", start=position) from error
        index_section = _section(data[:position], message.index_section) if message.HasField("index_section") else None
        return cls(
            Manifest.from_proto(message, bytes(index_section) if index_section is not None else None, content),
            inline_transaction(data[:position], message),
        )

    def encode(self) -> bytes:
        """The bytes of the file.

        Raises:
            InvalidInputError: a string that is not valid UTF-8, or a number out of the format's range.
        """
        try:
            message = self.manifest.to_proto_without_fragments()
        except LanceError:
            raise
        except ValueError as error:
            raise InvalidInputError(f"version {self.manifest.version} cannot be written: {error}") from error
        parts: list[bytes] = []
        if self.manifest.index_section is not None:
            message.index_section = 0
            parts += [_LENGTH.pack(len(self.manifest.index_section)), self.manifest.index_section]
        if self.transaction is not None:
            offset = sum(len(part) for part in parts)
            message.transaction_section = offset
            message.transaction_section_deprecated = offset
            parts += [_LENGTH.pack(len(self.transaction)), self.transaction]
        position = sum(len(part) for part in parts)
        # Fields of a message can be in any order. `History.is_replaced` looks for others in the last bytes.
        content = self.manifest.fragments.to_manifest_bytes() + message.SerializeToString(deterministic=True)
        return b"".join([*parts, _LENGTH.pack(len(content)), content, _FOOTER.pack(position, _MAJOR, _MINOR, _MAGIC)])


def manifest_content(data: memoryview) -> tuple[int, memoryview]:
    """(offset of the manifest's section in a manifest file, the serialized `Manifest`).

    Raises:
        CorruptFileError: the bytes are not a manifest file.
    """
    body = len(data) - _FOOTER.size
    if body < 0:
        raise CorruptFileError(f"a manifest file ends with a footer of {_FOOTER.size} bytes, this one has {len(data)}")
    position, _, _, magic = _FOOTER.unpack(data[body:])
    if magic != _MAGIC:
        raise CorruptFileError("not a manifest file: it does not end with LANC", start=body, length=_FOOTER.size)
    content = _section(data[:body], position)
    if position + _LENGTH.size + len(content) != body:
        raise CorruptFileError("the manifest does not end where the footer begins", start=position, length=len(content))
    return position, content


def inline_transaction(
    data: memoryview, message: table_pb2.Manifest | manifest_summary_pb2.ManifestSummary
) -> bytes | None:
    """The serialized transaction in the part of the file before the manifest, None if there is none.

    Raises:
        CorruptFileError: the manifest references an offset outside of `data`.
    """
    if message.HasField("transaction_section"):
        return bytes(_section(data, message.transaction_section))
    if message.HasField("transaction_section_deprecated"):
        return bytes(_section(data, message.transaction_section_deprecated))
    return None


def _section(data: memoryview, offset: int) -> memoryview:
    start = offset + _LENGTH.size
    if start > len(data):
        raise CorruptFileError(f"a section begins at byte {offset}, after the end", start=offset)
    (length,) = _LENGTH.unpack(data[offset:start])
    if start + length > len(data):
        raise CorruptFileError(f"a section of {length} bytes does not fit into the file", start=offset, length=length)
    return data[start : start + length]
