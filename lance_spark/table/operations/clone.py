"""`Transaction.Clone`: a version of one table as the first version of another, which shares its files.

A shallow clone copies only the manifest. The root of the source table becomes a base path of the clone, and every file
without a base path (data files, deletion files, indexes) is found there; files under other base paths keep them. A
branch is a shallow clone below `tree/`, whose manifest names the branch.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import ClassVar

from lance_spark._proto import transaction_pb2
from lance_spark.errors import InvalidInputError, UnsupportedFeatureError
from lance_spark.table.bases import BasePath
from lance_spark.table.manifests.features import check_writable
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.operations.base import CommittableOperation, OperationKind, Settings
from lance_spark.table.operations.base_ids import indices_with_base_ids, with_base_ids
from lance_spark.table.operations.manifest_builder import data_format, with_flags, writer_version
from lance_spark.table.rows.fragment import BaseId, FragmentList

_MAX_BASE_ID = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class Clone(CommittableOperation):
    """Creates a table from a version of another one. The version keeps its number.

    Attributes:
        is_shallow: the files are not copied.
        ref_name: the source branch; None is the main branch.
        ref_version: the source version.
        ref_path: absolute path or URI of the root that has the version.
        branch_name: the new branch; None for a separate table.
        source: the manifest of the version, set by the committer; not in the message.
    """

    is_shallow: bool
    ref_name: str | None
    ref_version: int
    ref_path: str
    branch_name: str | None = None
    source: Manifest | None = field(default=None, compare=False, repr=False)

    operation_kind: ClassVar[OperationKind] = OperationKind.CLONE

    @classmethod
    def from_proto(cls, message: transaction_pb2.Transaction.Clone) -> Clone:
        return cls(
            is_shallow=message.is_shallow,
            ref_name=message.ref_name if message.HasField("ref_name") else None,
            ref_version=message.ref_version,
            ref_path=message.ref_path,
            branch_name=message.branch_name if message.HasField("branch_name") else None,
        )

    def to_proto(self) -> transaction_pb2.Transaction.Clone:
        return transaction_pb2.Transaction.Clone(
            is_shallow=self.is_shallow,
            ref_name=self.ref_name,
            ref_version=self.ref_version,
            ref_path=self.ref_path,
            branch_name=self.branch_name,
        )

    def next_manifest(self, previous: Manifest | None, settings: Settings) -> Manifest:
        if previous is not None:
            raise InvalidInputError("there is a table already where the clone is to be")
        source = self.source
        if source is None or source.version != self.ref_version:
            raise InvalidInputError(f"version {self.ref_version} is not there to be cloned")
        if not self.is_shallow:
            raise UnsupportedFeatureError("this release makes shallow clones only", feature="deep clone")
        check_writable(source.writer_flags, f"version {self.ref_version}")
        base = BasePath(
            free_base_id(base.id for base in source.base_paths), self.ref_path, is_dataset_root=True, name=self.ref_name
        )
        manifest = replace(
            source,
            fragments=FragmentList(with_base_ids(message, {None: base.id}) for message in source.fragments.messages),
            timestamp_nanos=settings.timestamp_nanos,
            file_version=data_format(source) or settings.file_version,
            base_paths=(*source.base_paths, base),
            index_section=indices_with_base_ids(source.index_section, {None: base.id}),
            writer_version=writer_version(),
            branch=self.branch_name,
            tag="",
        )
        return with_flags(manifest, source, source.has_stable_row_ids)

    def data_file_paths(self) -> frozenset[str]:
        return frozenset()


def free_base_id(used: Iterable[int], first: int = 0) -> BaseId:
    """The smallest unused base path id from `first` on.

    Raises:
        InvalidInputError: all 2**32 ids are used.
    """
    taken = set(used)
    free = next(number for number in range(first, first + len(taken) + 1) if number not in taken)
    if free > _MAX_BASE_ID:
        raise InvalidInputError("the table has no base ids left")
    return BaseId(free)
