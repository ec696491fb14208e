"""One intended change of a table (`lance.table.Transaction`).

The UUID identifies the writer of a version: after a lost reply a writer reads the version back and compares.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

import pyarrow as pa
from google.protobuf.message import DecodeError

from lance_spark._proto import transaction_pb2
from lance_spark.errors import CorruptFileError, InvalidInputError, LanceError
from lance_spark.table.paths import transaction_name

if TYPE_CHECKING:
    from lance_spark.table.operations.base import CommittableOperation, Operation

COMMIT_MESSAGE = "__lance_commit_message"
"""The property with the message of a commit."""

OPERATION = "lance.operation"
"""The property with the name of an operation for which the format has no message of its own."""

_NO_PROPERTIES: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Transaction:
    """An operation on the version `read_version` (0: there was no table)."""

    read_version: int
    uuid: str
    operation: Operation
    properties: Mapping[str, str] = field(default_factory=lambda: _NO_PROPERTIES)

    @classmethod
    def new(
        cls, read_version: int, operation: CommittableOperation, properties: Mapping[str, str] | None = None
    ) -> Transaction:
        """A transaction with a new UUID."""
        return cls(read_version, str(uuid.uuid4()), operation, MappingProxyType(dict(properties or {})))

    @classmethod
    def from_bytes(cls, data: pa.Buffer | bytes) -> Transaction:
        """The transaction of a file or of a section of a manifest.

        Raises:
            CorruptFileError: not a serialized transaction.
        """
        from lance_spark.table.operations.committable import parse_operation

        try:
            message = transaction_pb2.Transaction.FromString(bytes(data))
        except DecodeError as error:
            raise CorruptFileError(f"not a transaction: {error}") from error
        return cls(
            read_version=message.read_version,
            uuid=message.uuid,
            operation=parse_operation(message),
            properties=MappingProxyType(dict(message.transaction_properties)),
        )

    def to_bytes(self) -> bytes:
        """The serialized message.

        Raises:
            TypeError: this release can only read the operation.
            InvalidInputError: a string that is not valid UTF-8, or a number out of the format's range.
        """
        from lance_spark.table.operations.base import CommittableOperation

        if not isinstance(self.operation, CommittableOperation):
            raise TypeError(f"an operation of kind {self.operation.kind.value} is not for writing")
        try:
            message = transaction_pb2.Transaction(
                read_version=self.read_version, uuid=self.uuid, transaction_properties=dict(self.properties)
            )
            getattr(message, self.operation.kind.value).CopyFrom(self.operation.to_proto())
        except LanceError:
            raise
        except ValueError as error:
            raise InvalidInputError(f"the {self.operation.kind.value} cannot be written: {error}") from error
        return message.SerializeToString(deterministic=True)

    @property
    def file_name(self) -> str:
        """Name of its file in `_transactions/`."""
        return transaction_name(self.read_version, self.uuid)
