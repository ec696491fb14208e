"""What a transaction does to a table (the `operation` member of `lance.table.Transaction`).

An operation that this release commits is a class of its own; it knows how the next manifest follows from the one
before. Any other operation of the wire is `OtherOperation`: its kind is enough to judge whether it stands against ours.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar

from lance_spark.file_version import FileVersion
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.rows.fragment import FragmentId


class OperationKind(str, Enum):
    """The operations of the wire, by the name of their member."""

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
    """A member that this release does not know, or a version that tells no transaction."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What a commit decides beside the operation's wire message.

    Attributes:
        version: number of the version to make.
        timestamp_nanos: its commit time.
        file_version: `data_format` of a table that gets its data anew.
        stable_row_ids: whether a new table has stable row ids; an existing one keeps what it has.
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
    """An operation that this release commits. Subclasses are frozen, slotted and named after the wire message."""

    __slots__ = ()

    operation_kind: ClassVar[OperationKind]

    @property
    def kind(self) -> OperationKind:
        return self.operation_kind

    @classmethod
    @abstractmethod
    def from_proto(cls, message: Any) -> CommittableOperation:
        """From the member message of this kind."""

    @abstractmethod
    def to_proto(self) -> Any:
        """The member message of this kind."""

    @abstractmethod
    def next_manifest(self, previous: Manifest | None, settings: Settings) -> Manifest:
        """The version that this operation makes of `previous` (None: there is no table yet).

        Raises:
            InvalidInputError: the operation makes no sense on `previous`.
        """

    @abstractmethod
    def data_file_paths(self) -> frozenset[str]:
        """Paths of the data files (below `data/`) and deletion files that it adds; no other commit ever adds them."""

    @property
    def touched_fragment_ids(self) -> frozenset[FragmentId]:
        """Fragments of the version that was read which it changes or removes."""
        return frozenset()


@dataclass(frozen=True, slots=True)
class OtherOperation(Operation):
    """An operation that others commit."""

    other_kind: OperationKind

    @property
    def kind(self) -> OperationKind:
        return self.other_kind
