"""The indices of a version (`lance.table.IndexSection`), in the serialized form in which manifests carry them.

Each function gives the section as it is after a change of the table. What an operation does to rows decides:

- new fragments, deleted rows: nothing. Readers scan what an index does not cover, and leave out deleted rows.
- fragments whose rows have other addresses now (compaction), or other values of an indexed field (an update of
  columns): `without_fragments`.
- fields that are gone: `without_fields`, `of_schema`.

None stands for a section that is not there, and a section without an index becomes None.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import pyroaring
from google.protobuf.message import DecodeError

from lance_spark._proto import table_pb2
from lance_spark.errors import CorruptFileError
from lance_spark.schema.field import LanceSchema
from lance_spark.table.manifests.index_metadata import IndexMetadata

FragmentGroup = tuple[Collection[int], Collection[int]]
"""Ids of old fragments, and ids of the new ones that hold the same rows."""


def parse_indices(section: bytes | None) -> tuple[IndexMetadata, ...]:
    """The indices of a version.

    Raises:
        CorruptFileError: not a serialized section.
    """
    return tuple(IndexMetadata.from_proto(message) for message in _parse(section).indices)


def without_fragments(
    section: bytes | None, fragment_ids: Iterable[int], fields: Collection[int] | None = None
) -> bytes | None:
    """The section after `fragment_ids` lost the rows, or the values of `fields`, that the indices know of them.

    An index that covers nothing then stays as what the user wants indexed, as in the reference library: building it
    anew for the fragments it lacks is then one step. One that does not tell what it covers goes.

    Args:
        fields: ids of the fields whose values changed, all levels; None: the rows have other addresses.

    Raises:
        CorruptFileError: not a serialized section, or not a Roaring bitmap in it.
    """
    deleted = pyroaring.BitMap(fragment_ids)

    def after(index: IndexMetadata) -> IndexMetadata | None:
        if not deleted or index.is_system or (fields is not None and not index.covers_fields(fields)):
            return index
        return index.without_fragments(deleted) if index.tells_coverage else None

    return _changed(section, after)


def without_fields(section: bytes | None, field_ids: Collection[int]) -> bytes | None:
    """The section after `field_ids` (all levels) went: indices over one of them go.

    Raises:
        CorruptFileError: not a serialized section.
    """
    return _changed(section, lambda index: None if index.covers_fields(field_ids) else index)


def of_schema(section: bytes | None, schema: LanceSchema) -> bytes | None:
    """The section of a version with this schema: indices over fields that it lacks go.

    Raises:
        CorruptFileError: not a serialized section.
    """
    known = {node.id for field in schema.fields for node in field.walk()}
    return _changed(section, lambda index: index if index.fields <= known else None)


def rewritten(
    section: bytes | None,
    groups: Sequence[FragmentGroup],
    new_indices: Mapping[bytes, Callable[[IndexMetadata, Sequence[FragmentGroup]], IndexMetadata]],
) -> bytes | None:
    """The section after the rows of each group's old fragments moved into its new ones.

    Args:
        groups: (ids of the old fragments, ids of the new ones).
        new_indices: what stands for an index that was written anew for the new addresses, by UUID as 16 bytes. Every
            other index no longer covers the old fragments, as after `without_fragments`.

    Raises:
        CorruptFileError: not a serialized section, or not a Roaring bitmap in it.
    """
    section = _changed(
        section,
        lambda index: new_indices[index.message.uuid.uuid](index, groups)
        if index.message.uuid.uuid in new_indices
        else index,
    )
    return without_fragments(section, [fragment_id for old, _ in groups for fragment_id in old])


def with_indices(section: bytes | None, new: Iterable[IndexMetadata], removed: Collection[str] = ()) -> bytes | None:
    """The section without the indices whose UUIDs are `removed` or those of `new`, and then with `new`.

    Raises:
        CorruptFileError: not a serialized section.
    """
    added = tuple(new)
    deleted = {*removed, *(index.uuid for index in added)}
    message = _parse(section)
    kept = [index for index in message.indices if IndexMetadata.from_proto(index).uuid not in deleted]
    return _serialized(message, [*kept, *(index.message for index in added)])


def _changed(section: bytes | None, after: Callable[[IndexMetadata], IndexMetadata | None]) -> bytes | None:
    """The section with each index as `after` gives it; the very same bytes if all are as they were."""
    message = _parse(section)
    changed = [(index, after(IndexMetadata.from_proto(index))) for index in message.indices]
    if section and all(new is not None and new.message is old for old, new in changed):
        return section
    return _serialized(message, [new.message for _, new in changed if new is not None])


def _serialized(message: table_pb2.IndexSection, indices: list[table_pb2.IndexMetadata]) -> bytes | None:
    if not indices:
        return None
    rest = table_pb2.IndexSection()
    rest.CopyFrom(message)
    del rest.indices[:]
    rest.indices.extend(indices)
    return rest.SerializeToString(deterministic=True)


def _parse(section: bytes | None) -> table_pb2.IndexSection:
    try:
        return table_pb2.IndexSection.FromString(section or b"")
    except DecodeError as error:
        raise CorruptFileError(f"not a list of indices: {error}") from error
