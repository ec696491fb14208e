"""`Transaction.Merge`: added columns, in new data files or in none.

It lists all fragments of the new version, so rows can be added and deleted together with the columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import ClassVar

from lance_spark._proto import table_pb2, transaction_pb2
from lance_spark.errors import InvalidInputError, RetryableConflictError
from lance_spark.schema.field import LanceSchema
from lance_spark.schema.wire import fields_to_proto, schema_from_messages
from lance_spark.table.manifests import index_section
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.operations.base import (
    CommittableOperation,
    OperationKind,
    Settings,
    live_field_ids,
    with_live_files,
)
from lance_spark.table.operations.manifest_builder import (
    checked_row_id,
    data_format,
    id_after,
    largest_fragment_id,
    with_flags,
    writer_version,
)
from lance_spark.table.rows.fragment import DataFragment, FragmentId, FragmentList
from lance_spark.table.rows.row_ids import RowIdSequence


class Recomputed(Enum):
    """Whether the committer of a Merge recomputes it for each newer version; its message lists all fragments."""

    NEVER = "never"
    BY_PLACE = "by place"
    """Values are keyed by row address: rows that others rewrote would lose theirs."""
    ALWAYS = "always"
    """Values are computed from the rows, or there are none."""


@dataclass(frozen=True, slots=True)
class Merge(CommittableOperation):
    """Gives the table a new schema and the fragments new data files; rows are neither changed nor moved, except rows
    deleted from the fragments in `losing`.

    Attributes:
        fragments: all fragments of the new version, with their ids.
        schema: the new schema.
        preserves_nullability: whether rows that others append concurrently cannot violate it.
        recomputed: not in the message.
        new_files: paths of the data and deletion files that were written for it; not in the message.
        losing: the fragments with deleted rows, or all of whose rows are deleted; not in the message.
    """

    fragments: FragmentList
    schema: LanceSchema
    preserves_nullability: bool = False
    recomputed: Recomputed = field(default=Recomputed.NEVER, compare=False)
    new_files: frozenset[str] = field(default=frozenset(), compare=False)
    losing: frozenset[FragmentId] = field(default=frozenset(), compare=False)

    operation_kind: ClassVar[OperationKind] = OperationKind.MERGE

    @classmethod
    def from_proto(cls, message: transaction_pb2.Transaction.Merge) -> Merge:
        return cls(
            fragments=FragmentList(message.fragments),
            schema=schema_from_messages(message.schema, message.schema_metadata),
            preserves_nullability=message.preserves_nullability,
        )

    def to_proto(self) -> transaction_pb2.Transaction.Merge:
        message = transaction_pb2.Transaction.Merge(
            schema=fields_to_proto(self.schema.fields),
            schema_metadata=dict(self.schema.metadata),
            preserves_nullability=self.preserves_nullability,
        )
        message.fragments.extend(self.fragments.messages)
        return message

    def next_manifest(self, previous: Manifest | None, settings: Settings) -> Manifest:
        if previous is None:
            raise InvalidInputError("there is no table that could get columns")
        self._check_rows(previous)
        live = live_field_ids(self.schema)
        largest_id = largest_fragment_id(previous)
        manifest = replace(
            previous,
            schema=self.schema,
            fragments=FragmentList(with_live_files(message, live) for message in self.fragments.messages),
            index_section=self._indices(previous),
            version=settings.version,
            timestamp_nanos=settings.timestamp_nanos,
            file_version=data_format(previous) or settings.file_version,
            max_fragment_id=id_after(max([largest_id, *(message.id for message in self.fragments.messages)]), 0),
            next_row_id=self._next_row_id(previous),
            writer_version=writer_version(),
            tag="",
        )
        return with_flags(manifest, previous, previous.has_stable_row_ids)

    def data_file_paths(self) -> frozenset[str]:
        return self.new_files

    @property
    def touched_fragment_ids(self) -> frozenset[FragmentId]:
        """The fragments with deleted rows; in others only files change."""
        return self.losing

    def _check_rows(self, previous: Manifest) -> None:
        """The message lists all fragments, so one from an older version would bring back or lose rows."""
        own = {message.id: message for message in self.fragments.messages}
        for message in previous.fragments.messages:
            before = own.pop(message.id, None)
            if FragmentId(message.id) in self.losing:
                continue
            if before is None or not _same_rows(message, before):
                raise RetryableConflictError(
                    f"fragment {message.id} has other rows by now. Read the new version and run the operation again",
                    own=self.kind.value,
                    table_version=previous.version,
                )
        largest_id = largest_fragment_id(previous)
        if any(fragment_id <= largest_id for fragment_id in own):
            raise InvalidInputError(f"the fragments {sorted(own)} to add have ids that the table has used")

    def _indices(self, previous: Manifest) -> bytes | None:
        """Indexes of remaining fields, without the fragments in which their values are now in other files."""
        section = index_section.of_schema(previous.index_section, self.schema)
        if not section:
            return section
        own: Mapping[int, table_pb2.DataFragment] = {message.id: message for message in self.fragments.messages}
        moved: dict[frozenset[int], list[int]] = {}
        for before in previous.fragments.messages:
            after = own.get(before.id)
            if after is not None and before.files != after.files:
                old, new = _places(before), _places(after)
                changed = frozenset(
                    field_id for field_id in old.keys() | new.keys() if old.get(field_id) != new.get(field_id)
                )
                moved.setdefault(changed, []).append(before.id)
        for field_ids, fragment_ids in moved.items():
            section = index_section.without_fragments(section, fragment_ids, field_ids)
        return section

    def _next_row_id(self, previous: Manifest) -> int:
        if not previous.has_stable_row_ids:
            return previous.next_row_id
        fragment_ids = {message.id for message in previous.fragments.messages}
        new = [
            DataFragment.from_proto(message) for message in self.fragments.messages if message.id not in fragment_ids
        ]
        if any(fragment.row_ids is None for fragment in new):
            raise InvalidInputError("the table has stable row ids, a fragment to add has none")
        sequences = [RowIdSequence.from_bytes(fragment.row_ids or b"") for fragment in new]
        return max([checked_row_id(previous), *(sequence.largest + 1 for sequence in sequences)])


def _same_rows(before: table_pb2.DataFragment, after: table_pb2.DataFragment) -> bool:
    return (
        before.physical_rows == after.physical_rows
        and before.deletion_file == after.deletion_file
        and before.inline_row_ids == after.inline_row_ids
    )


def _places(message: table_pb2.DataFragment) -> dict[int, tuple[str, int, int]]:
    """The location of the values of each field: base path, path and column."""
    places: dict[int, tuple[str, int, int]] = {}
    for file in message.files:
        indices = file.column_indices or range(len(file.fields))
        for field_id, index in zip(file.fields, indices, strict=False):
            if field_id >= 0:
                places[field_id] = (file.path, file.base_id if file.HasField("base_id") else -1, index)
    return places
