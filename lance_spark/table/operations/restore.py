"""`Transaction.Restore`: the content of an older version as the newest version."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

from lance_spark._proto import transaction_pb2
from lance_spark.errors import InvalidInputError
from lance_spark.table.manifests.features import check_writable
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.manifests.marks import with_marks_of
from lance_spark.table.operations.base import CommittableOperation, OperationKind, Settings
from lance_spark.table.operations.manifest_builder import (
    data_format,
    id_after,
    largest_fragment_id,
    with_flags,
    writer_version,
)


@dataclass(frozen=True, slots=True)
class Restore(CommittableOperation):
    """Restores rows, schema, indexes, config and table metadata of a version; marks of streaming queries stay.

    Fragment ids and row ids that were assigned since are not reused.

    Attributes:
        version: the version to restore.
        restored: its manifest, set by the committer; not in the message.
    """

    version: int
    restored: Manifest | None = field(default=None, compare=False, repr=False)

    operation_kind: ClassVar[OperationKind] = OperationKind.RESTORE

    @classmethod
    def from_proto(cls, message: transaction_pb2.Transaction.Restore) -> Restore:
        return cls(message.version)

    def to_proto(self) -> transaction_pb2.Transaction.Restore:
        return transaction_pb2.Transaction.Restore(version=self.version)

    def next_manifest(self, previous: Manifest | None, settings: Settings) -> Manifest:
        restored = self.restored
        if previous is None or restored is None or restored.version != self.version:
            raise InvalidInputError(f"version {self.version} is not there to be restored")
        check_writable(restored.writer_flags, f"version {self.version}")
        largest_id = max(largest_fragment_id(previous), largest_fragment_id(restored))
        manifest = replace(
            restored,
            config=with_marks_of(restored.config, previous.config),
            version=settings.version,
            timestamp_nanos=settings.timestamp_nanos,
            file_version=data_format(restored) or settings.file_version,
            max_fragment_id=id_after(largest_id, 0),
            next_row_id=max(previous.next_row_id, restored.next_row_id),
            max_allocated_field_id=_largest(previous.max_allocated_field_id, restored.max_allocated_field_id),
            max_clustering_id=max(previous.max_clustering_id, restored.max_clustering_id),
            writer_version=writer_version(),
            branch=previous.branch,
            tag="",
        )
        return with_flags(manifest, previous, restored.has_stable_row_ids)

    def data_file_paths(self) -> frozenset[str]:
        return frozenset()


def _largest(*ids: int | None) -> int | None:
    return max((number for number in ids if number is not None), default=None)
