"""The indexes of a version (`lance.table.IndexSection`), in the serialized form of manifests.

Each function returns the section after a change of the table. The effect depends on what an operation does to rows:

- new fragments, deleted rows: none. Readers scan uncovered fragments and skip deleted rows.
- fragments whose row addresses changed (compaction), or whose indexed values changed (an update of columns):
  `without_fragments`.
- dropped fields: `without_fields`, `of_schema`.

None means that there is no section, and a section without an index becomes None.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import pyroaring
from google.protobuf.message import DecodeError

from lance_spark._proto import table_pb2
from lance_spark.errors import CorruptFileError
from lance_spark.schema.field import LanceSchema
from lance_spark.table.manifests.fragment_reuse import FRAGMENT_REUSE, inline_fragment_reuse
from lance_spark.table.manifests.index_metadata import IndexMetadata

FragmentGroup = tuple[Collection[int], Collection[int]]
"""Ids of old fragments, and ids of the new ones that hold the same rows."""


def parse_indices(section: bytes | None) -> tuple[IndexMetadata, ...]:
    """The indexes of a version.

    Raises:
        CorruptFileError: not a serialized section, or two indexes have one UUID.
    """
    indexes = tuple([IndexMetadata.from_proto(message) for message in _parse(section).indices])
    if len({index.message.uuid.uuid for index in indexes}) < len(indexes):
        raise CorruptFileError(f"two of the indexes {[index.name for index in indexes]} have one UUID")
    return indexes


def without_fragments(
    section: bytes | None, fragment_ids: Iterable[int], fields: Collection[int] | None = None
) -> bytes | None:
    """The section after row addresses, or values of `fields`, of `fragment_ids` have changed.

    An index that then covers nothing is kept as a record of what the user wants indexed, as in the reference library:
    rebuilding it for the uncovered fragments is then one step. An index without a fragment bitmap is removed.

    After a deferred compaction a bitmap can still name the old fragments, so it is brought up to date first; where the
    moves are not at hand, an index over changed fields covers nothing.

    Args:
        fields: ids of the fields whose values changed, all levels; None: the row addresses changed.

    Raises:
        CorruptFileError: not a serialized section, or it contains an invalid Roaring bitmap.
    """
    deleted = pyroaring.BitMap(fragment_ids)
    current = _current_fragments(section)

    def after(index: IndexMetadata) -> IndexMetadata | None:
        if not deleted or index.is_system or (fields is not None and not index.covers_fields(fields)):
            return index
        return index.with_fragments(current(index) - deleted) if index.tells_coverage else None

    return _changed(section, after)


def without_fields(section: bytes | None, field_ids: Collection[int]) -> bytes | None:
    """The section after `field_ids` (all levels) were dropped: without the indexes over one of them.

    Raises:
        CorruptFileError: not a serialized section.
    """
    return _changed(section, lambda index: None if index.covers_fields(field_ids) else index)


def of_schema(section: bytes | None, schema: LanceSchema) -> bytes | None:
    """The section of a version with this schema: without indexes over fields that are not in it.

    Raises:
        CorruptFileError: not a serialized section.
    """
    field_ids = {node.id for field in schema.fields for node in field.walk()}
    return _changed(section, lambda index: index if index.fields <= field_ids else None)


def rewritten(
    section: bytes | None,
    groups: Sequence[FragmentGroup],
    new_indices: Mapping[bytes, Callable[[IndexMetadata, Sequence[FragmentGroup]], IndexMetadata]],
    follows_rows: Callable[[IndexMetadata], bool] = lambda index: False,
) -> bytes | None:
    """The section after the rows of each group's old fragments were rewritten into its new ones.

    Args:
        groups: (ids of the old fragments, ids of the new ones).
        new_indices: the replacements of indexes that were remapped to the new addresses, by UUID as 16 bytes. Every
            other index no longer covers the old fragments, as after `without_fragments`.
        follows_rows: whether an index holds stable row ids: it covers the new fragments of a group if it covered all
            old ones.

    Raises:
        CorruptFileError: not a serialized section, or it contains an invalid Roaring bitmap.
    """
    section = _changed(
        section,
        lambda index: new_indices[index.message.uuid.uuid](index, groups)
        if index.message.uuid.uuid in new_indices
        else index.with_fragments(coverage_after(index, groups))
        if not index.is_system and follows_rows(index)
        else index,
    )
    return without_fragments(section, [fragment_id for old, _ in groups for fragment_id in old])


def coverage_after(index: IndexMetadata, groups: Sequence[FragmentGroup]) -> pyroaring.BitMap:
    """The fragments that an index covers whose rows follow a compaction: the new ones of a group if it covered all old
    ones.

    >>> index = IndexMetadata.of(bytes(16), "i", [0], 1, [0, 1, 2])
    >>> sorted(coverage_after(index, [([0, 1], [7, 8]), ([2, 3], [9])]))
    [7, 8]
    """
    covered = index.fragment_ids()
    after = pyroaring.BitMap(covered)
    for old, new in groups:
        deleted = pyroaring.BitMap(old)
        after -= deleted
        if deleted <= covered:
            after |= pyroaring.BitMap(new)
    return after


def with_indices(section: bytes | None, new: Iterable[IndexMetadata], removed: Collection[str] = ()) -> bytes | None:
    """The section without the indexes whose UUIDs are in `removed` or `new`, followed by `new`.

    Raises:
        CorruptFileError: not a serialized section.
    """
    added = tuple(new)
    deleted = {*removed, *(index.uuid for index in added)}
    message = _parse(section)
    remaining = [index for index in message.indices if IndexMetadata.from_proto(index).uuid not in deleted]
    return _serialized(message, [*remaining, *(index.message for index in added)])


def with_fragment_reuse(section: bytes | None, reuse: IndexMetadata) -> bytes | None:
    """The section after a compaction that has recorded where rows moved, in place of an earlier record.

    Bitmaps stay: the record says what became of the fragments that they name. An index without one is removed.

    Raises:
        CorruptFileError: not a serialized section.
    """
    kept = _changed(section, lambda index: index if index.is_system or index.tells_coverage else None)
    removed = {index.uuid for index in parse_indices(kept) if index.is_fragment_reuse}
    return with_indices(kept, [reuse], removed)


def _current_fragments(section: bytes | None) -> Callable[[IndexMetadata], pyroaring.BitMap]:
    """Returns a function from an index of a section to the fragments that it covers now."""
    reuse = [index for index in parse_indices(section) if index.name == FRAGMENT_REUSE]
    if not reuse:
        return IndexMetadata.fragment_ids
    moves = inline_fragment_reuse(reuse[0])
    return lambda index: pyroaring.BitMap() if moves is None else moves.current(index.fragment_ids())


def _changed(section: bytes | None, after: Callable[[IndexMetadata], IndexMetadata | None]) -> bytes | None:
    """The section with `after` applied to each index; the very same bytes if nothing changed."""
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
