"""`Transaction.Update`: updated rows, in new fragments or, column by column, in place.

REWRITE_COLUMNS puts new values of some columns into separate files; the rows are not moved. A file with one of the
columns keeps it, marked as replaced. In a table with stable row ids the changed rows get the new version as their last
updated version. Other rows may be deleted and added in the same version, as without it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from types import MappingProxyType
from typing import ClassVar

import numpy as np
import pyroaring

from lance_spark._proto import table_pb2, transaction_pb2
from lance_spark.errors import CorruptFileError, InvalidInputError, UnsupportedFeatureError
from lance_spark.schema.field import FieldId
from lance_spark.table.manifests import index_section
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.operations.base import (
    CommittableOperation,
    OperationKind,
    Settings,
    live_field_ids,
    with_live_files,
    without_columns,
)
from lance_spark.table.operations.delete import with_deletions
from lance_spark.table.operations.manifest_builder import (
    assign_fragment_ids,
    check_distinct_ids,
    checked_row_id,
    data_format,
    id_after,
    largest_fragment_id,
    with_flags,
    writer_version,
)
from lance_spark.table.rows.fragment import DataFragment, FragmentId, FragmentList
from lance_spark.table.rows.row_ids import RowIdSequence
from lance_spark.table.rows.row_versions import RowDatasetVersionSequence


def with_rewritten_columns(
    before: FragmentList,
    updated: Collection[DataFragment],
    offsets: Mapping[FragmentId, bytes],
    live_field_ids: Collection[int],
    version: int,
) -> FragmentList:
    """The fragments with the new files of `updated`, as of `version`.

    Args:
        updated: fragments of an older version, each with its new list of files.
        offsets: portable Roaring bitmaps of the changed rows; without one, all rows of a fragment have changed.
        live_field_ids: fields of the table.

    Raises:
        InvalidInputError: a fragment has no new file.
        CorruptFileError: `offsets` are not valid bitmaps, or the row versions of a fragment do not fit it.
    """
    by_id = {int(fragment.id): fragment for fragment in updated}
    return FragmentList(
        _rewritten(message, by_id[message.id], offsets.get(FragmentId(message.id)), live_field_ids, version)
        if message.id in by_id
        else message
        for message in before.messages
    )


def _rewritten(
    message: table_pb2.DataFragment,
    updated: DataFragment,
    offsets: bytes | None,
    live_field_ids: Collection[int],
    version: int,
) -> table_pb2.DataFragment:
    paths = {file.path for file in message.files}
    new = [file for file in updated.files if file.path not in paths]
    if not new:
        raise InvalidInputError(f"the update has no new file for fragment {updated.id}, whose columns it rewrites")
    changed = without_columns(message, {field_id for file in new for field_id in file.columns()})
    changed.files.extend(file.to_proto() for file in new)
    if changed.HasField("column_last_updated_at_versions"):
        raise UnsupportedFeatureError(
            f"the row versions of fragment {updated.id} are in its data files; compact the table first",
            feature="column rewrites beside spilled row versions",
        )
    if changed.HasField("inline_last_updated_at_versions"):
        sequence = RowDatasetVersionSequence.from_bytes(
            changed.inline_last_updated_at_versions, changed.physical_rows or None
        )
        versions = sequence.at(np.arange(sequence.num_rows))
        versions[_rows(offsets, sequence.num_rows)] = version
        changed.inline_last_updated_at_versions = RowDatasetVersionSequence.of_versions(versions).to_bytes()
    return with_live_files(changed, live_field_ids)


def _rows(offsets: bytes | None, num_rows: int) -> np.typing.NDArray[np.int64]:
    if offsets is None:
        return np.arange(num_rows)
    try:
        rows = pyroaring.BitMap.deserialize(offsets)
    except ValueError as error:
        raise CorruptFileError(f"the rows that an update has changed are not a Roaring bitmap: {error}") from error
    # A few bytes of runs can stand for 2**32 rows: looked at before they are listed.
    if rows and rows.max() >= num_rows:
        raise CorruptFileError(f"an update has changed row {rows.max()} of a fragment of {num_rows} rows")
    return np.array(rows.to_array(), np.int64)


class UpdateMode(IntEnum):
    """The protobuf enum `Update.UpdateMode`."""

    REWRITE_ROWS = 0
    REWRITE_COLUMNS = 1


_NO_OFFSETS: Mapping[FragmentId, bytes] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Update(CommittableOperation):
    """Deletes rows from fragments and adds fragments, whose ids are assigned at commit.

    In a table with stable row ids a new fragment's `row_ids` and `created_at_versions` may end before its last row: the
    rows after that are new ones, and get their ids at commit.

    The coverage of indexes is unchanged: the rewritten rows are deleted, and no index covers the new fragments.

    Attributes:
        removed_fragment_ids: fragments without live rows.
        updated_fragments: fragments of the table with their new deletion file.
        new_fragments: the rewritten rows and the new ones.
        fields_modified: fields whose column is in a new file of some fragments; with REWRITE_COLUMNS only.
        changed_fields: fields whose values may differ in the rewritten rows (`fields_for_preserving_frag_bitmap`).
        mode: what the update rewrote.
        updated_offsets: portable Roaring bitmaps of the rows that changed in place; with REWRITE_COLUMNS only.
    """

    removed_fragment_ids: tuple[FragmentId, ...]
    updated_fragments: tuple[DataFragment, ...]
    new_fragments: tuple[DataFragment, ...]
    fields_modified: tuple[FieldId, ...] = ()
    changed_fields: tuple[FieldId, ...] = ()
    mode: UpdateMode = UpdateMode.REWRITE_ROWS
    updated_offsets: Mapping[FragmentId, bytes] = field(default_factory=lambda: _NO_OFFSETS)

    operation_kind: ClassVar[OperationKind] = OperationKind.UPDATE

    @classmethod
    def from_proto(cls, message: transaction_pb2.Transaction.Update) -> Update:
        try:
            mode = UpdateMode(message.update_mode)
        except ValueError:
            raise CorruptFileError(f"there is no update of mode {message.update_mode}") from None
        return cls(
            removed_fragment_ids=tuple(FragmentId(number) for number in message.removed_fragment_ids),
            updated_fragments=tuple(DataFragment.from_proto(fragment) for fragment in message.updated_fragments),
            new_fragments=tuple(DataFragment.from_proto(fragment) for fragment in message.new_fragments),
            fields_modified=tuple(FieldId(number) for number in message.fields_modified),
            changed_fields=tuple(FieldId(number) for number in message.fields_for_preserving_frag_bitmap),
            mode=mode,
            updated_offsets=MappingProxyType(
                {FragmentId(key): bits for key, bits in message.updated_fragment_offset_bitmaps.items()}
            ),
        )

    def to_proto(self) -> transaction_pb2.Transaction.Update:
        message = transaction_pb2.Transaction.Update(
            removed_fragment_ids=self.removed_fragment_ids,
            updated_fragments=[fragment.to_proto() for fragment in self.updated_fragments],
            new_fragments=[fragment.to_proto() for fragment in self.new_fragments],
            fields_modified=self.fields_modified,
            fields_for_preserving_frag_bitmap=self.changed_fields,
            updated_fragment_offset_bitmaps={int(key): bits for key, bits in self.updated_offsets.items()},
        )
        message.update_mode = self.mode.value  # type: ignore[assignment]
        return message

    @property
    def touched_fragment_ids(self) -> frozenset[FragmentId]:
        """The fragments with deleted rows."""
        return frozenset(fragment.id for fragment in self.updated_fragments).union(self.removed_fragment_ids)

    def next_manifest(self, previous: Manifest | None, settings: Settings) -> Manifest:
        if previous is None:
            raise InvalidInputError("there is no table to update")
        if self.touched_fragment_ids:
            check_distinct_ids(previous)
        missing = self.touched_fragment_ids.difference(message.id for message in previous.fragments.messages)
        if missing:
            raise InvalidInputError(f"the table has no fragments {sorted(missing)} to update")
        rewritten = self._rewritten(previous)
        fragments, section = previous.fragments, previous.index_section
        if self.mode is UpdateMode.REWRITE_COLUMNS:
            live = live_field_ids(previous.schema)
            fragments = with_rewritten_columns(fragments, rewritten, self.updated_offsets, live, settings.version)
            ids = [fragment.id for fragment in rewritten]
            section = index_section.without_fragments(section, ids, frozenset(self.fields_modified))
        updated = {fragment.id: fragment for fragment in self.updated_fragments}
        deleted = frozenset(self.removed_fragment_ids)
        largest_id = largest_fragment_id(previous)
        new = assign_fragment_ids(self.new_fragments, largest_id)
        next_row_id = previous.next_row_id
        if previous.has_stable_row_ids:
            new, next_row_id = completed_lineage(new, checked_row_id(previous), settings.version)
        remaining = FragmentList(
            with_deletions(message, updated.get(FragmentId(message.id)))
            for message in fragments.messages
            if message.id not in deleted
        )
        manifest = replace(
            previous,
            fragments=remaining.appended(new),
            index_section=section,
            version=settings.version,
            timestamp_nanos=settings.timestamp_nanos,
            file_version=data_format(previous) or settings.file_version,
            max_fragment_id=id_after(largest_id, len(new)),
            next_row_id=next_row_id,
            writer_version=writer_version(),
            tag="",
        )
        return with_flags(manifest, previous, previous.has_stable_row_ids)

    def _rewritten(self, previous: Manifest) -> tuple[DataFragment, ...]:
        """The fragments that get a file with new values."""
        if self.mode is UpdateMode.REWRITE_ROWS:
            return ()
        before = {message.id: {file.path for file in message.files} for message in previous.fragments.messages}
        return tuple(
            fragment
            for fragment in self.updated_fragments
            if not before[fragment.id].issuperset(file.path for file in fragment.files)
        )

    def data_file_paths(self) -> frozenset[str]:
        modified = frozenset(self.fields_modified)
        paths = {file.path for fragment in self.new_fragments for file in fragment.files}
        for fragment in self.updated_fragments:
            if fragment.id in self.updated_offsets:
                # Its deletion file may be that of an older version.
                paths.update(file.path for file in fragment.files if not modified.isdisjoint(file.fields))
            elif fragment.deletion_file is not None:
                paths.add(fragment.deletion_file.path(fragment.id))
        return frozenset(paths)


def completed_lineage(
    fragments: tuple[DataFragment, ...], next_row_id: int, version: int
) -> tuple[tuple[DataFragment, ...], int]:
    """New fragments with ids and versions for all of their rows; and the next free row id."""
    versions = [
        RowIdSequence(()) if item.row_ids is None else RowIdSequence.from_bytes(item.row_ids) for item in fragments
    ]
    next_row_id = max([next_row_id, *(sequence.largest + 1 for sequence in versions)])
    result = []
    for fragment, sequence in zip(fragments, versions, strict=True):
        num_rows = fragment.physical_rows
        if num_rows is None or sequence.num_rows > num_rows:
            raise InvalidInputError(f"a new fragment of {num_rows} rows comes with {sequence.num_rows} row ids")
        created = RowDatasetVersionSequence(())
        if fragment.created_at_versions is not None:
            created = RowDatasetVersionSequence.from_bytes(fragment.created_at_versions)
        if created.num_rows != sequence.num_rows:
            raise InvalidInputError("a new fragment has the ids of moved rows, but not when they were created")
        num_new = num_rows - sequence.num_rows
        result.append(
            replace(
                fragment,
                row_ids=sequence.followed_by(next_row_id, num_new).to_bytes(),
                created_at_versions=created.followed_by(num_new, version).to_bytes(),
                last_updated_at_versions=RowDatasetVersionSequence.uniform(num_rows, version).to_bytes(),
            )
        )
        next_row_id += num_new
    return tuple(result), next_row_id
