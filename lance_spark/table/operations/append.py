"""`Transaction.Append`: new fragments after the existing ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from lance_spark._proto import transaction_pb2
from lance_spark.errors import InvalidInputError
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.operations.base import CommittableOperation, OperationKind, Settings
from lance_spark.table.operations.manifest_builder import (
    assign_fragment_ids,
    checked_row_id,
    data_format,
    id_after,
    largest_fragment_id,
    with_flags,
    with_row_ids,
    writer_version,
)
from lance_spark.table.rows.fragment import DataFragment


@dataclass(frozen=True, slots=True)
class Append(CommittableOperation):
    """Adds `fragments`, whose ids are assigned at commit; everything else is unchanged."""

    fragments: tuple[DataFragment, ...]

    operation_kind: ClassVar[OperationKind] = OperationKind.APPEND

    @classmethod
    def from_proto(cls, message: transaction_pb2.Transaction.Append) -> Append:
        return cls(tuple(DataFragment.from_proto(fragment) for fragment in message.fragments))

    def to_proto(self) -> transaction_pb2.Transaction.Append:
        return transaction_pb2.Transaction.Append(fragments=[fragment.to_proto() for fragment in self.fragments])

    def next_manifest(self, previous: Manifest | None, settings: Settings) -> Manifest:
        if previous is None:
            raise InvalidInputError("there is no table to append to")
        largest_id = largest_fragment_id(previous)
        new = assign_fragment_ids(self.fragments, largest_id)
        next_row_id = previous.next_row_id
        if previous.has_stable_row_ids:
            new, next_row_id = with_row_ids(new, checked_row_id(previous), settings.version)
        manifest = replace(
            previous,
            fragments=previous.fragments.appended(new),
            version=settings.version,
            timestamp_nanos=settings.timestamp_nanos,
            file_version=data_format(previous) or settings.file_version,
            max_fragment_id=id_after(largest_id, len(new)),
            next_row_id=next_row_id,
            writer_version=writer_version(),
            tag="",
        )
        return with_flags(manifest, previous, previous.has_stable_row_ids, is_appended=True)

    def data_file_paths(self) -> frozenset[str]:
        return frozenset(file.path for fragment in self.fragments for file in fragment.files)
