"""`Transaction.ReserveFragments`: fragment ids for a writer that needs them before it commits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from lance_spark._proto import transaction_pb2
from lance_spark.errors import InvalidInputError, UnsupportedFeatureError
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.operations.base import CommittableOperation, OperationKind, Settings
from lance_spark.table.operations.manifest_builder import (
    data_format,
    id_after,
    largest_fragment_id,
    with_flags,
    writer_version,
)
from lance_spark.table.rows.fragment import MAX_FRAGMENT_ID


@dataclass(frozen=True, slots=True)
class ReserveFragments(CommittableOperation):
    """Reserves the next `num_fragments` ids: the last ones up to `max_fragment_id` of the new version."""

    num_fragments: int

    operation_kind: ClassVar[OperationKind] = OperationKind.RESERVE_FRAGMENTS

    @classmethod
    def from_proto(cls, message: transaction_pb2.Transaction.ReserveFragments) -> ReserveFragments:
        return cls(message.num_fragments)

    def to_proto(self) -> transaction_pb2.Transaction.ReserveFragments:
        return transaction_pb2.Transaction.ReserveFragments(num_fragments=self.num_fragments)

    def next_manifest(self, previous: Manifest | None, settings: Settings) -> Manifest:
        if previous is None:
            raise InvalidInputError("there is no table to reserve fragments of")
        if self.num_fragments < 0:
            raise InvalidInputError(f"{self.num_fragments} fragments cannot be reserved")
        largest_id = largest_fragment_id(previous) + self.num_fragments
        if largest_id > MAX_FRAGMENT_ID:
            raise UnsupportedFeatureError("the table has no fragment ids left", feature="fragment ids beyond 32 bits")
        manifest = replace(
            previous,
            version=settings.version,
            timestamp_nanos=settings.timestamp_nanos,
            file_version=data_format(previous) or settings.file_version,
            max_fragment_id=id_after(largest_id, 0),
            writer_version=writer_version(),
            tag="",
        )
        return with_flags(manifest, previous, previous.has_stable_row_ids)

    def data_file_paths(self) -> frozenset[str]:
        return frozenset()
