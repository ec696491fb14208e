"""The metadata of one index in a manifest (`lance.table.IndexMetadata`).

An index covers the fragments of its bitmap, as their files were when it was built. Readers scan the fragments for all
other rows, so an index that covers too little is slow and one that covers too much gives wrong results. System indexes
of the reference library, whose names begin with ``__lance``, hold state of the table instead of values.

>>> index = IndexMetadata.of(bytes(range(16)), "a_idx", [0], 3, [0, 1, 7])
>>> sorted(index.fragment_ids()), index.covers_fields([0]), index.covers_fields([1])
([0, 1, 7], True, False)
>>> sorted(index.without_fragments([1, 2]).fragment_ids())
[0, 7]
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

import pyroaring
from google.protobuf.message import DecodeError

from lance_spark._proto import table_pb2
from lance_spark.errors import CorruptFileError

_SYSTEM_PREFIX = "__lance"
_FRAGMENT_REUSE = "__lance_frag_reuse"
_UUID_BYTES = 16

_MAX_FRAGMENTS = 1 << 22
"""More than any table has. A bitmap of a few bytes can have 2**32."""


@dataclass(frozen=True, slots=True)
class IndexMetadata:
    """One index; immutable. Fields that this release does not know are kept in `message`.

    Attributes:
        message: the protobuf message; must not be modified.
    """

    message: table_pb2.IndexMetadata

    @classmethod
    def of(
        cls, index_uuid: bytes, name: str, fields: Iterable[int], dataset_version: int, fragment_ids: Iterable[int]
    ) -> IndexMetadata:
        """An index over `fields` (ids) that was built at `dataset_version` and covers `fragment_ids`."""
        message = table_pb2.IndexMetadata(fields=fields, name=name, dataset_version=dataset_version)
        message.uuid.uuid = index_uuid
        message.fragment_bitmap = pyroaring.BitMap(fragment_ids).serialize()
        return cls.from_proto(message)

    @classmethod
    def from_proto(cls, message: table_pb2.IndexMetadata) -> IndexMetadata:
        """The index of a message.

        Raises:
            CorruptFileError: its UUID does not have 16 bytes.
        """
        if len(message.uuid.uuid) != _UUID_BYTES:
            raise CorruptFileError(f"the UUID of index {message.name!r} has {len(message.uuid.uuid)} bytes")
        return cls(message)

    @classmethod
    def from_bytes(cls, data: bytes) -> IndexMetadata:
        """Inverse of `to_bytes`.

        Raises:
            CorruptFileError: not a serialized index.
        """
        try:
            return cls.from_proto(table_pb2.IndexMetadata.FromString(data))
        except DecodeError as error:
            raise CorruptFileError(f"not the metadata of an index: {error}") from error

    def to_bytes(self) -> bytes:
        """The serialized message."""
        return self.message.SerializeToString(deterministic=True)

    @property
    def name(self) -> str:
        return self.message.name

    @property
    def uuid(self) -> str:
        """The UUID as the folder name of its files: 32 hex digits and dashes."""
        text = self.message.uuid.uuid.hex()
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    @property
    def base_id(self) -> int | None:
        """The base path of the files; None is the table's own root."""
        return self.message.base_id if self.message.HasField("base_id") else None

    @property
    def fields(self) -> frozenset[int]:
        """Ids of the fields whose values are in the index, including covering fields."""
        return frozenset((*self.message.fields, *self.message.covering_fields))

    @property
    def is_system(self) -> bool:
        """True for state of the reference library that is stored as an index."""
        return self.message.name.startswith(_SYSTEM_PREFIX)

    @property
    def is_fragment_reuse(self) -> bool:
        """True for the record of where a compaction that left other indexes as they were has moved rows."""
        return self.message.name == _FRAGMENT_REUSE

    @property
    def tells_coverage(self) -> bool:
        """False for indexes of the first releases, which have no fragment bitmap."""
        return bool(self.message.fragment_bitmap)

    def fragment_ids(self) -> pyroaring.BitMap:
        """The covered fragments, as a new bitmap; empty if the index has none.

        Raises:
            CorruptFileError: not a Roaring bitmap, or too many fragments.
        """
        if not self.message.fragment_bitmap:
            return pyroaring.BitMap()
        try:
            ids = pyroaring.BitMap.deserialize(self.message.fragment_bitmap)
        except ValueError as error:
            raise CorruptFileError(f"the fragments of index {self.name!r} are not a Roaring bitmap: {error}") from error
        if len(ids) > _MAX_FRAGMENTS:
            raise CorruptFileError(f"index {self.name!r} claims to cover {len(ids)} fragments")
        return ids

    def covers_fields(self, field_ids: Collection[int]) -> bool:
        """True if one of `field_ids` is in the index."""
        return not self.fields.isdisjoint(field_ids)

    def without_fragments(self, fragment_ids: Iterable[int]) -> IndexMetadata:
        """The index with `fragment_ids` no longer covered; this very object if it did not cover them."""
        return self.with_fragments(self.fragment_ids() - pyroaring.BitMap(fragment_ids))

    def with_fragments(self, fragment_ids: pyroaring.BitMap) -> IndexMetadata:
        """The index with exactly `fragment_ids` covered; this very object if unchanged."""
        if fragment_ids == self.fragment_ids():
            return self
        copy = table_pb2.IndexMetadata()
        copy.CopyFrom(self.message)
        copy.fragment_bitmap = fragment_ids.serialize()
        return IndexMetadata(copy)
