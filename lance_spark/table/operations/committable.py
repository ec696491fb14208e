"""The mapping from the protobuf fields of operations to their classes."""

from __future__ import annotations

from lance_spark._proto import transaction_pb2
from lance_spark.table.operations.append import Append
from lance_spark.table.operations.base import CommittableOperation, Operation, OperationKind, OtherOperation
from lance_spark.table.operations.clone import Clone
from lance_spark.table.operations.create_index import CreateIndex
from lance_spark.table.operations.data_replacement import DataReplacement
from lance_spark.table.operations.delete import Delete
from lance_spark.table.operations.merge import Merge
from lance_spark.table.operations.overwrite import Overwrite
from lance_spark.table.operations.project import Project
from lance_spark.table.operations.reserve_fragments import ReserveFragments
from lance_spark.table.operations.restore import Restore
from lance_spark.table.operations.rewrite import Rewrite
from lance_spark.table.operations.update import Update
from lance_spark.table.operations.update_bases import UpdateBases
from lance_spark.table.operations.update_config import UpdateConfig

COMMITTABLE: dict[OperationKind, type[CommittableOperation]] = {
    operation.operation_kind: operation
    for operation in (
        Append,
        Clone,
        CreateIndex,
        DataReplacement,
        Delete,
        Merge,
        Overwrite,
        Project,
        ReserveFragments,
        Restore,
        Rewrite,
        Update,
        UpdateBases,
        UpdateConfig,
    )
}
"""The operations that this release can commit."""


def parse_operation(message: transaction_pb2.Transaction) -> Operation:
    """The operation of a transaction; of kind UNKNOWN if this release does not know the field.

    Raises:
        CorruptFileError: the operation violates the format.
    """
    member = message.WhichOneof("operation")
    kinds = {kind.value: kind for kind in OperationKind}
    kind = kinds.get(member or "", OperationKind.UNKNOWN)
    operation = COMMITTABLE.get(kind)
    return OtherOperation(kind) if operation is None else operation.from_proto(getattr(message, kind.value))
