"""Which committed operation stands against one of ours (Lance transaction specification, "Conflict resolution").

`RULES` is the whole table: for each operation that this release commits, every kind of operation that another writer
may have committed in between. A pair that is not understood conflicts. What is here was measured with the reference
library; where ours is stricter, the rule says why.
"""

from __future__ import annotations

from collections.abc import Mapping

from lance_spark.table.conflict_rules import (
    Rivals,
    Rule,
    compatible,
    incompatible,
    other_bases,
    other_config_keys,
    other_keys,
    other_keys_than_overwrite,
    retryable,
    same_columns,
    same_columns_and_files,
    same_data_files,
    unless_schema_metadata,
)
from lance_spark.table.operations import OperationKind
from lance_spark.table.operations import OperationKind as Kind

RULES: Mapping[OperationKind, Mapping[OperationKind, Rule]] = {
    Kind.APPEND: {
        Kind.APPEND: compatible,
        Kind.DELETE: compatible,
        Kind.OVERWRITE: incompatible,
        Kind.CREATE_INDEX: compatible,
        Kind.REWRITE: compatible,
        Kind.MERGE: same_columns,
        Kind.RESTORE: incompatible,
        Kind.RESERVE_FRAGMENTS: compatible,
        Kind.UPDATE: compatible,
        Kind.PROJECT: same_columns,
        Kind.UPDATE_CONFIG: compatible,
        Kind.DATA_REPLACEMENT: compatible,
        Kind.UPDATE_MEM_WAL_STATE: incompatible,
        Kind.CLONE: compatible,
        Kind.UPDATE_BASES: compatible,
        Kind.DATA_OVERLAY: retryable,
        Kind.UNKNOWN: retryable,
    },
    Kind.DELETE: {
        Kind.APPEND: compatible,
        Kind.DELETE: same_data_files,
        Kind.OVERWRITE: incompatible,
        Kind.CREATE_INDEX: compatible,
        Kind.REWRITE: same_data_files,
        Kind.MERGE: retryable,
        Kind.RESTORE: incompatible,
        Kind.RESERVE_FRAGMENTS: compatible,
        Kind.UPDATE: same_data_files,
        Kind.PROJECT: same_data_files,
        Kind.UPDATE_CONFIG: compatible,
        Kind.DATA_REPLACEMENT: same_data_files,
        Kind.UPDATE_MEM_WAL_STATE: incompatible,
        Kind.CLONE: compatible,
        Kind.UPDATE_BASES: compatible,
        Kind.DATA_OVERLAY: retryable,
        Kind.UNKNOWN: retryable,
    },
    # Rows that move are copies of what was read: their columns and their old places have to be as they were.
    Kind.UPDATE: {
        Kind.APPEND: compatible,
        Kind.DELETE: same_data_files,
        Kind.OVERWRITE: incompatible,
        Kind.CREATE_INDEX: compatible,
        Kind.REWRITE: same_data_files,
        Kind.MERGE: retryable,
        Kind.RESTORE: incompatible,
        Kind.RESERVE_FRAGMENTS: compatible,
        Kind.UPDATE: same_data_files,
        Kind.PROJECT: same_columns_and_files,
        Kind.UPDATE_CONFIG: compatible,
        Kind.DATA_REPLACEMENT: same_data_files,
        Kind.UPDATE_MEM_WAL_STATE: incompatible,
        Kind.CLONE: compatible,
        Kind.UPDATE_BASES: compatible,
        Kind.DATA_OVERLAY: retryable,
        Kind.UNKNOWN: retryable,
    },
    # An overwrite replaces whatever is there, so only a rival for the same replacement stands against it.
    Kind.OVERWRITE: {
        Kind.APPEND: compatible,
        Kind.DELETE: compatible,
        Kind.OVERWRITE: retryable,
        Kind.CREATE_INDEX: compatible,
        Kind.REWRITE: compatible,
        Kind.MERGE: compatible,
        Kind.RESTORE: compatible,
        Kind.RESERVE_FRAGMENTS: compatible,
        Kind.UPDATE: compatible,
        Kind.PROJECT: compatible,
        Kind.UPDATE_CONFIG: other_config_keys,
        Kind.DATA_REPLACEMENT: compatible,
        Kind.UPDATE_MEM_WAL_STATE: incompatible,
        Kind.CLONE: compatible,
        Kind.UPDATE_BASES: compatible,
        Kind.DATA_OVERLAY: retryable,
        Kind.UNKNOWN: retryable,
    },
    # A restore brings back a version whatever came after it.
    Kind.RESTORE: {
        Kind.APPEND: compatible,
        Kind.DELETE: compatible,
        Kind.OVERWRITE: compatible,
        Kind.CREATE_INDEX: compatible,
        Kind.REWRITE: compatible,
        Kind.MERGE: compatible,
        Kind.RESTORE: compatible,
        Kind.RESERVE_FRAGMENTS: compatible,
        Kind.UPDATE: compatible,
        Kind.PROJECT: compatible,
        Kind.UPDATE_CONFIG: unless_schema_metadata,
        Kind.DATA_REPLACEMENT: compatible,
        Kind.UPDATE_MEM_WAL_STATE: incompatible,
        Kind.CLONE: compatible,
        Kind.UPDATE_BASES: compatible,
        Kind.DATA_OVERLAY: retryable,
        Kind.UNKNOWN: retryable,
    },
    # Config and table metadata have nothing to do with rows and columns.
    Kind.UPDATE_CONFIG: {
        Kind.APPEND: compatible,
        Kind.DELETE: compatible,
        Kind.OVERWRITE: other_keys_than_overwrite,
        Kind.CREATE_INDEX: compatible,
        Kind.REWRITE: compatible,
        Kind.MERGE: compatible,
        Kind.RESTORE: compatible,
        Kind.RESERVE_FRAGMENTS: compatible,
        Kind.UPDATE: compatible,
        Kind.PROJECT: compatible,
        Kind.UPDATE_CONFIG: other_keys,
        Kind.DATA_REPLACEMENT: compatible,
        Kind.UPDATE_MEM_WAL_STATE: incompatible,
        Kind.CLONE: compatible,
        Kind.UPDATE_BASES: compatible,
        Kind.DATA_OVERLAY: retryable,
        Kind.UNKNOWN: retryable,
    },
    # A clone begins a table; whoever else has begun one there was first.
    Kind.CLONE: {
        Kind.APPEND: incompatible,
        Kind.DELETE: incompatible,
        Kind.OVERWRITE: incompatible,
        Kind.CREATE_INDEX: incompatible,
        Kind.REWRITE: incompatible,
        Kind.MERGE: incompatible,
        Kind.RESTORE: incompatible,
        Kind.RESERVE_FRAGMENTS: incompatible,
        Kind.UPDATE: incompatible,
        Kind.PROJECT: incompatible,
        Kind.UPDATE_CONFIG: incompatible,
        Kind.DATA_REPLACEMENT: incompatible,
        Kind.UPDATE_MEM_WAL_STATE: incompatible,
        Kind.CLONE: incompatible,
        Kind.UPDATE_BASES: incompatible,
        Kind.DATA_OVERLAY: incompatible,
        Kind.UNKNOWN: incompatible,
    },
    # Bases have nothing to do with rows and columns.
    Kind.UPDATE_BASES: {
        Kind.APPEND: compatible,
        Kind.DELETE: compatible,
        Kind.OVERWRITE: compatible,
        Kind.CREATE_INDEX: compatible,
        Kind.REWRITE: compatible,
        Kind.MERGE: compatible,
        Kind.RESTORE: compatible,
        Kind.RESERVE_FRAGMENTS: compatible,
        Kind.UPDATE: compatible,
        Kind.PROJECT: compatible,
        Kind.UPDATE_CONFIG: compatible,
        Kind.DATA_REPLACEMENT: compatible,
        Kind.UPDATE_MEM_WAL_STATE: incompatible,
        Kind.CLONE: compatible,
        Kind.UPDATE_BASES: other_bases,
        Kind.DATA_OVERLAY: retryable,
        Kind.UNKNOWN: retryable,
    },
}


def check_conflict(rivals: Rivals) -> None:
    """Passes if ours may be committed after theirs.

    Raises:
        RetryableConflictError: not as it is; computed anew it may.
        IncompatibleConflictError: it makes no sense after theirs.
    """
    RULES[rivals.ours.kind][rivals.theirs.kind](rivals)
