"""`Transaction.Delete`: deleted rows, as new deletion files and removed fragments."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from lance_spark._proto import table_pb2, transaction_pb2
from lance_spark.errors import InvalidInputError
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.operations.base import CommittableOperation, OperationKind, Settings
from lance_spark.table.operations.manifest_builder import (
    check_distinct_ids,
    data_format,
    id_after,
    largest_fragment_id,
    with_flags,
    writer_version,
)
from lance_spark.table.rows.fragment import DataFragment, FragmentId, FragmentList


@dataclass(frozen=True, slots=True)
class Delete(CommittableOperation):
    """Removes rows from fragments. Data files, row ids and the coverage of indexes are unchanged.

    Attributes:
        updated_fragments: fragments of the table with their new deletion file.
        deleted_fragment_ids: fragments without live rows.
        predicate: the condition that selected the rows, as SQL.
    """

    updated_fragments: tuple[DataFragment, ...]
    deleted_fragment_ids: tuple[FragmentId, ...]
    predicate: str

    operation_kind: ClassVar[OperationKind] = OperationKind.DELETE

    @classmethod
    def from_proto(cls, message: transaction_pb2.Transaction.Delete) -> Delete:
        return cls(
            updated_fragments=tuple(DataFragment.from_proto(fragment) for fragment in message.updated_fragments),
            deleted_fragment_ids=tuple(FragmentId(number) for number in message.deleted_fragment_ids),
            predicate=message.predicate,
        )

    def to_proto(self) -> transaction_pb2.Transaction.Delete:
        return transaction_pb2.Transaction.Delete(
            updated_fragments=[fragment.to_proto() for fragment in self.updated_fragments],
            deleted_fragment_ids=self.deleted_fragment_ids,
            predicate=self.predicate,
        )

    @property
    def touched_fragment_ids(self) -> frozenset[FragmentId]:
        """The fragments with deleted rows."""
        return frozenset(fragment.id for fragment in self.updated_fragments).union(self.deleted_fragment_ids)

    def next_manifest(self, previous: Manifest | None, settings: Settings) -> Manifest:
        if previous is None:
            raise InvalidInputError("there is no table to delete from")
        if self.touched_fragment_ids:
            check_distinct_ids(previous)
        missing = self.touched_fragment_ids.difference(message.id for message in previous.fragments.messages)
        if missing:
            raise InvalidInputError(f"the table has no fragments {sorted(missing)} to delete from")
        updated = {fragment.id: fragment for fragment in self.updated_fragments}
        deleted = frozenset(self.deleted_fragment_ids)
        fragments = FragmentList(
            with_deletions(message, updated.get(FragmentId(message.id)))
            for message in previous.fragments.messages
            if message.id not in deleted
        )
        manifest = replace(
            previous,
            fragments=fragments,
            version=settings.version,
            timestamp_nanos=settings.timestamp_nanos,
            file_version=data_format(previous) or settings.file_version,
            max_fragment_id=id_after(largest_fragment_id(previous), 0),
            writer_version=writer_version(),
            tag="",
        )
        return with_flags(manifest, previous, previous.has_stable_row_ids)

    def data_file_paths(self) -> frozenset[str]:
        return frozenset(
            fragment.deletion_file.path(fragment.id)
            for fragment in self.updated_fragments
            if fragment.deletion_file is not None
        )


def with_deletions(message: table_pb2.DataFragment, updated: DataFragment | None) -> table_pb2.DataFragment:
    """`message` with the deletion file of `updated`; unknown fields are preserved."""
    if updated is None or updated.deletion_file is None:
        return message
    copy = table_pb2.DataFragment()
    copy.CopyFrom(message)
    copy.deletion_file.CopyFrom(updated.deletion_file.to_proto())
    return copy
