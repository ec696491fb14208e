"""The operation of a transaction (the `operation` field of `lance.table.Transaction`).

Each operation that this release commits has its own class, which builds the next manifest from the previous one. Any
other operation is an `OtherOperation`: its kind is enough to decide whether it conflicts with ours.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar

from lance_spark._proto import table_pb2
from lance_spark.file_version import FileVersion
from lance_spark.schema.field import TOMBSTONE_FIELD_ID, LanceSchema
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.rows.fragment import FragmentId


class OperationKind(str, Enum):
    """The operations of the format, by the name of their protobuf field."""

    APPEND = "append"
    DELETE = "delete"
    OVERWRITE = "overwrite"
    CREATE_INDEX = "create_index"
    REWRITE = "rewrite"
    MERGE = "merge"
    RESTORE = "restore"
    RESERVE_FRAGMENTS = "reserve_fragments"
    UPDATE = "update"
    PROJECT = "project"
    UPDATE_CONFIG = "update_config"
    DATA_REPLACEMENT = "data_replacement"
    UPDATE_MEM_WAL_STATE = "update_mem_wal_state"
    CLONE = "clone"
    UPDATE_BASES = "update_bases"
    DATA_OVERLAY = "data_overlay"
    UNKNOWN = "unknown"
    """An operation that this release does not know, or a version without a transaction."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The parameters of a commit that are not in the operation's message.

    Attributes:
        version: number of the version to create.
        timestamp_nanos: its commit time.
        file_version: `data_format` of a table whose data is replaced.
        stable_row_ids: whether a new table has stable row ids; an existing one does not change.
    """

    version: int
    timestamp_nanos: int
    file_version: FileVersion
    stable_row_ids: bool


class Operation(ABC):
    """One operation."""

    __slots__ = ()

    @property
    @abstractmethod
    def kind(self) -> OperationKind: ...


class CommittableOperation(Operation):
    """An operation that this release commits. Subclasses are frozen, slotted and named after the protobuf message."""

    __slots__ = ()

    operation_kind: ClassVar[OperationKind]

    @property
    def kind(self) -> OperationKind:
        return self.operation_kind

    @classmethod
    @abstractmethod
    def from_proto(cls, message: Any) -> CommittableOperation:
        """From the protobuf message of this kind."""

    @abstractmethod
    def to_proto(self) -> Any:
        """The protobuf message of this kind."""

    @abstractmethod
    def next_manifest(self, previous: Manifest | None, settings: Settings) -> Manifest:
        """The version that results from applying this operation to `previous` (None: there is no table yet).

        Raises:
            InvalidInputError: the operation is invalid for `previous`.
        """

    @abstractmethod
    def data_file_paths(self) -> frozenset[str]:
        """Paths of the data files (below `data/`) and deletion files that it adds; unique to this commit."""

    @property
    def touched_fragment_ids(self) -> frozenset[FragmentId]:
        """Fragments of the read version that it changes or removes."""
        return frozenset()


@dataclass(frozen=True, slots=True)
class OtherOperation(Operation):
    """An operation that only other writers commit."""

    other_kind: OperationKind

    @property
    def kind(self) -> OperationKind:
        return self.other_kind


def live_field_ids(schema: LanceSchema) -> frozenset[int]:
    """The ids of all fields of a schema, at all levels; the fields of a blob descriptor have none."""
    return frozenset(node.id for node in schema.walk() if node.id >= 0)


def with_live_files(message: table_pb2.DataFragment, field_ids: Collection[int]) -> table_pb2.DataFragment:
    """`message` without the files that hold none of `field_ids`; the same message if there are none.

    Ids below the tombstone belong to hidden columns, whose files are kept. At least one file is always kept: other
    readers treat a fragment without files as one without rows.
    """
    live = [file for file in message.files if _is_live(file, field_ids)]
    if len(live) == len(message.files):
        return message
    copy = table_pb2.DataFragment()
    copy.CopyFrom(message)
    del copy.files[:]
    copy.files.extend(live or [min(message.files, key=lambda file: file.file_size_bytes)])
    return copy


def without_columns(message: table_pb2.DataFragment, field_ids: Collection[int]) -> table_pb2.DataFragment:
    """A copy of `message` with the columns of `field_ids` marked as replaced in its files."""
    copy = table_pb2.DataFragment()
    copy.CopyFrom(message)
    for file in copy.files:
        file.fields[:] = [TOMBSTONE_FIELD_ID if field_id in field_ids else field_id for field_id in file.fields]
    return copy


def _is_live(file: table_pb2.DataFile, field_ids: Collection[int]) -> bool:
    return any(field_id in field_ids or field_id < TOMBSTONE_FIELD_ID for field_id in file.fields)
