"""`Transaction.CreateIndex`: changes the list of indexes; rows and schema are unchanged."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from lance_spark._proto import transaction_pb2
from lance_spark.errors import InvalidInputError, RetryableConflictError
from lance_spark.table.manifests.index_metadata import IndexMetadata
from lance_spark.table.manifests.index_section import parse_indices, with_indices
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.operations.base import CommittableOperation, OperationKind, Settings
from lance_spark.table.operations.manifest_builder import (
    data_format,
    id_after,
    largest_fragment_id,
    with_flags,
    writer_version,
)


@dataclass(frozen=True, slots=True)
class CreateIndex(CommittableOperation):
    """Adds and removes indexes, whose files others write. An index over new data is a new index of the same name.

    Attributes:
        new_indices: the added indexes.
        removed_indices: the removed indexes, by UUID.
        known_indices: the UUIDs of all indexes of the version that was read, where the change is right for no others;
            None where it is. The message has no place for it.
    """

    new_indices: tuple[IndexMetadata, ...] = ()
    removed_indices: tuple[IndexMetadata, ...] = ()
    known_indices: frozenset[str] | None = None

    operation_kind: ClassVar[OperationKind] = OperationKind.CREATE_INDEX

    @classmethod
    def from_proto(cls, message: transaction_pb2.Transaction.CreateIndex) -> CreateIndex:
        return cls(
            tuple(IndexMetadata.from_proto(index) for index in message.new_indices),
            tuple(IndexMetadata.from_proto(index) for index in message.removed_indices),
        )

    def to_proto(self) -> transaction_pb2.Transaction.CreateIndex:
        return transaction_pb2.Transaction.CreateIndex(
            new_indices=[index.message for index in self.new_indices],
            removed_indices=[index.message for index in self.removed_indices],
        )

    @property
    def names(self) -> frozenset[str]:
        """Names of the added and removed indexes."""
        return frozenset(index.name for index in (*self.new_indices, *self.removed_indices))

    def next_manifest(self, previous: Manifest | None, settings: Settings) -> Manifest:
        if previous is None:
            raise InvalidInputError("there is no table to index")
        self._check(previous)
        manifest = replace(
            previous,
            version=settings.version,
            timestamp_nanos=settings.timestamp_nanos,
            file_version=data_format(previous) or settings.file_version,
            max_fragment_id=id_after(largest_fragment_id(previous), 0),
            index_section=with_indices(
                previous.index_section, self.new_indices, {index.uuid for index in self.removed_indices}
            ),
            writer_version=writer_version(),
            tag="",
        )
        return with_flags(manifest, previous, previous.has_stable_row_ids)

    def _check(self, previous: Manifest) -> None:
        field_ids = {node.id for field in previous.schema.fields for node in field.walk()}
        present = {index.uuid for index in parse_indices(previous.index_section)}
        for index in self.new_indices:
            missing = sorted(index.fields - field_ids)
            if missing:
                raise InvalidInputError(f"index {index.name!r} is over fields {missing}, which the table does not have")
        if self.known_indices is not None and not present <= self.known_indices:
            raise RetryableConflictError(
                "another writer has committed an index. Read the new version and try again",
                own=self.operation_kind.value,
                table_version=previous.version,
            )
        for index in self.removed_indices:
            # Compaction may have replaced it, which must not go unnoticed.
            if index.uuid not in present:
                raise RetryableConflictError(
                    f"index {index.name!r} is not the one that is to be removed. Read the new version and try again",
                    own=self.operation_kind.value,
                    table_version=previous.version,
                )

    def data_file_paths(self) -> frozenset[str]:
        return frozenset()
