"""`Transaction.UpdateBases`: additional roots for files of the table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from lance_spark._proto import transaction_pb2
from lance_spark.errors import InvalidInputError
from lance_spark.table.bases import BasePath
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.operations.base import CommittableOperation, OperationKind, Settings
from lance_spark.table.operations.clone import free_base_id
from lance_spark.table.operations.manifest_builder import data_format, with_flags, writer_version


@dataclass(frozen=True, slots=True)
class UpdateBases(CommittableOperation):
    """Adds base paths; existing files are not moved.

    Attributes:
        new_bases: the base paths. One with id 0 is assigned a free id at commit, 1 or more: a clone uses 0 for the root
            of its source table.
    """

    new_bases: tuple[BasePath, ...]

    operation_kind: ClassVar[OperationKind] = OperationKind.UPDATE_BASES

    @classmethod
    def from_proto(cls, message: transaction_pb2.Transaction.UpdateBases) -> UpdateBases:
        return cls(tuple(BasePath.from_proto(base) for base in message.new_bases))

    def to_proto(self) -> transaction_pb2.Transaction.UpdateBases:
        return transaction_pb2.Transaction.UpdateBases(new_bases=[base.to_proto() for base in self.new_bases])

    def next_manifest(self, previous: Manifest | None, settings: Settings) -> Manifest:
        if previous is None:
            raise InvalidInputError("there is no table to add bases to")
        bases = list(previous.base_paths)
        explicit = {base.id for base in self.new_bases if base.id}
        for base in self.new_bases:
            for other in bases:
                if clash := clashing(base, other):
                    raise InvalidInputError(f"the table has a base with the {clash} already: {other}")
            used = explicit.union(other.id for other in bases)
            bases.append(base if base.id else replace(base, id=free_base_id(used, first=1)))
        manifest = replace(
            previous,
            base_paths=tuple(bases),
            version=settings.version,
            timestamp_nanos=settings.timestamp_nanos,
            file_version=data_format(previous) or settings.file_version,
            writer_version=writer_version(),
            tag="",
        )
        return with_flags(manifest, previous, previous.has_stable_row_ids)

    def data_file_paths(self) -> frozenset[str]:
        return frozenset()


def clashing(one: BasePath, other: BasePath) -> str | None:
    """The property in which two base paths must differ but do not; None if there is none.

    The reference library accepts two base paths with one id, and then loses one; it treats ``/a`` and ``/a/`` as two.
    """
    if one.id and one.id == other.id:
        return f"id {one.id}"
    if one.name is not None and one.name == other.name:
        return f"name {one.name!r}"
    if one.path.rstrip("/") == other.path.rstrip("/"):
        return f"path {one.path!r}"
    return None
