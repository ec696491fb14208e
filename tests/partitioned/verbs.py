"""Verbs of partitioned tables as functions, with the options of a commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from lance_spark.expr.nodes import Expr
from lance_spark.expr.sql.parse import condition_of
from lance_spark.partitioned.dataset import PartitionedDataset
from lance_spark.partitioned.maintenance.vacuum import VacuumStats
from lance_spark.partitioned.maintenance.vacuum import vacuum as vacuum_by_policy
from lance_spark.partitioned.partitioned_target import PartitionedTarget
from lance_spark.partitioned.table import PartitionedTable
from lance_spark.table.cleanup.policy import CleanupPolicy
from lance_spark.table.refs.refs import Tag
from lance_spark.table.row_level.merge import MergeActions, merge_once, source_rows
from lance_spark.table.row_level.row_verbs import write_rows
from lance_spark.table.row_level.update import update_once
from lance_spark.table.row_level.write_target import WriteMode
from lance_spark.table.versions.version_summary import TableVersion, version_summaries
from lance_spark.table.writing.row_source import RowSource
from lance_spark.table.writing.save import CommitOptions


def update_rows(
    table: PartitionedTable,
    values: Mapping[str, object],
    filter: Expr | str | None = None,
    options: CommitOptions | None = None,
) -> PartitionedTable:
    condition = None if filter is None else condition_of(filter, to_match_all="leave it out")
    commit = options or CommitOptions()
    return PartitionedTarget.of(table).attempted(lambda target: update_once(target, values, condition, commit), commit)


def merge_rows(
    table: PartitionedTable,
    data: object,
    on: str | Sequence[str],
    *,
    when_matched: str | None = "update",
    when_not_matched: str | None = "insert",
    when_not_matched_by_source: str | None = None,
    options: CommitOptions | None = None,
) -> PartitionedTable:
    actions = MergeActions.of(when_matched, when_not_matched, when_not_matched_by_source)
    rows = source_rows(RowSource.of(data))
    commit = options or CommitOptions()
    return PartitionedTarget.of(table).attempted(lambda target: merge_once(target, rows, on, actions, commit), commit)


def create_tag(table: PartitionedTable, name: str, version: int | None = None) -> None:
    PartitionedDataset.of(table).create_tag(name, version)


def update_tag(table: PartitionedTable, name: str, version: int | None = None) -> None:
    PartitionedDataset.of(table).update_tag(name, version)


def delete_tag(table: PartitionedTable, name: str) -> None:
    PartitionedDataset.of(table).delete_tag(name)


def tags(table: PartitionedTable) -> dict[str, Tag]:
    return PartitionedDataset.of(table).tags()


def versions(table: PartitionedTable, limit: int | None = None) -> list[TableVersion]:
    """The versions of `__manifest`, oldest first."""
    return version_summaries(table.versions_location.history, limit)


def drop_columns(table: PartitionedTable, columns: Sequence[str]) -> PartitionedTable:
    return PartitionedDataset.of(table).drop_columns(columns)


def rename_columns(table: PartitionedTable, names: Mapping[str, str]) -> PartitionedTable:
    return PartitionedDataset.of(table).rename_columns(names)


def reorder_columns(table: PartitionedTable, order: Sequence[str]) -> PartitionedTable:
    return PartitionedDataset.of(table).reorder_columns(order)


def vacuum(
    table: PartitionedTable,
    older_than: timedelta | datetime | None = None,
    keep_versions: int | None = None,
    *,
    keep_from: int | None = None,
    delete_unverified: bool = False,
    error_if_tagged_old_versions: bool = True,
    dry_run: bool = False,
) -> VacuumStats:
    policy = CleanupPolicy(older_than, keep_versions, delete_unverified, error_if_tagged_old_versions, dry_run)
    return vacuum_by_policy(table, policy, keep_from)


def save_rows(table: PartitionedTable, data: object, mode: WriteMode = WriteMode.APPEND) -> PartitionedTable:
    source = RowSource.of(data)
    return write_rows(PartitionedTarget.of(table).taking(source.schema), source, CommitOptions(), mode)


def delete_rows(table: PartitionedTable, filter: Expr | str, options: CommitOptions | None = None) -> PartitionedTable:
    return PartitionedTarget.of(table).delete_rows(filter, options)
