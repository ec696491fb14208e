"""What a manifest says of one index (`lance.table.IndexMetadata`).

An index covers the fragments of its bitmap, in the form that its files had them when it was built. Readers look
for all other rows in the fragments themselves, so an index that covers less is slower and one that covers what it
should not is wrong. System indices of the reference library, whose names begin with ``__lance``, hold state of the
table instead of values.

>>> index = IndexMetadata.of(bytes(range(16)), "a_idx", [0], 3, [0, 1, 7])
>>> sorted(index.fragment_ids()), index.covers_fields([0]), index.covers_fields([1])
([0, 1, 7], True, False)
>>> sorted(index.without_fragments([1, 2]).fragment_ids())
[0, 7]
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable
from dataclasses import dataclass

import pyroaring
from google.protobuf.message import DecodeError

from lance_spark._proto import table_pb2
from lance_spark.errors import CorruptFileError

_SYSTEM_PREFIX = "__lance"
_UUID_BYTES = 16


@dataclass(frozen=True, slots=True)
class IndexMetadata:
    """One index; immutable. Members that this release does not know stay in `message`.

    Attributes:
        message: the wire message; not to be changed.
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
        """The index that a message describes.

        Raises:
            CorruptFileError: its UUID has not 16 bytes.
        """
        if len(message.uuid.uuid) != _UUID_BYTES:
            raise CorruptFileError(f"the UUID of index {message.name!r} has {len(message.uuid.uuid)} bytes")
        return cls(message)

    @classmethod
    def from_bytes(cls, data: bytes) -> IndexMetadata:
        """The index that `to_bytes` gave.

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
        """As the folder of its files is named: 32 hex digits and dashes."""
        return str(uuid.UUID(bytes=self.message.uuid.uuid))

    @property
    def base_id(self) -> int | None:
        """The base that holds the files; None is the table's own root."""
        return self.message.base_id if self.message.HasField("base_id") else None

    @property
    def fields(self) -> frozenset[int]:
        """Ids of the fields whose values are in the index, those too that it only carries along."""
        return frozenset((*self.message.fields, *self.message.covering_fields))

    @property
    def is_system(self) -> bool:
        """True for state of the reference library that is kept in the form of an index."""
        return self.name.startswith(_SYSTEM_PREFIX)

    @property
    def tells_coverage(self) -> bool:
        """False for indices of the first releases, which do not tell what they cover."""
        return bool(self.message.fragment_bitmap)

    def fragment_ids(self) -> pyroaring.BitMap:
        """The fragments that the index covers, as a new bitmap; none if it does not tell.

        Raises:
            CorruptFileError: not a Roaring bitmap.
        """
        if not self.message.fragment_bitmap:
            return pyroaring.BitMap()
        try:
            return pyroaring.BitMap.deserialize(self.message.fragment_bitmap)
        except ValueError as error:
            raise CorruptFileError(f"the fragments of index {self.name!r} are no Roaring bitmap: {error}") from error

    def covers_fields(self, field_ids: Collection[int]) -> bool:
        """True if one of `field_ids` is in the index."""
        return not self.fields.isdisjoint(field_ids)

    def without_fragments(self, fragment_ids: Iterable[int]) -> IndexMetadata:
        """The index as one that does not cover `fragment_ids`; this very object if it did not before."""
        return self.with_fragments(self.fragment_ids() - pyroaring.BitMap(fragment_ids))

    def with_fragments(self, fragment_ids: pyroaring.BitMap) -> IndexMetadata:
        """The index as one that covers `fragment_ids`; this very object if it does."""
        if fragment_ids == self.fragment_ids():
            return self
        copy = table_pb2.IndexMetadata()
        copy.CopyFrom(self.message)
        copy.fragment_bitmap = fragment_ids.serialize()
        return IndexMetadata(copy)
