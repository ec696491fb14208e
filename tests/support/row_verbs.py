"""Verbs that write and change rows of a plain table as functions, with the options of a commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lance_spark.expr.nodes import Expr
from lance_spark.expr.sql.parse import condition_of
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.row_level.merge import MergeActions, merge_once, source_rows
from lance_spark.table.row_level.plain_target import PlainTarget
from lance_spark.table.row_level.row_verbs import RowsToWrite, write_rows
from lance_spark.table.row_level.update import update_once
from lance_spark.table.row_level.write_target import WriteMode
from lance_spark.table.writing.row_source import RowSource
from lance_spark.table.writing.save import CommitOptions


def update_rows(
    table: TableLocation,
    base: Manifest,
    values: Mapping[str, object],
    filter: Expr | str | None = None,
    options: CommitOptions | None = None,
) -> Manifest:
    condition = None if filter is None else condition_of(filter, to_match_all="leave it out")
    commit, target = options or CommitOptions(), PlainTarget.of(table, base)
    return target.attempted(lambda current: update_once(current, values, condition, commit), commit)


def merge_rows(
    table: TableLocation,
    base: Manifest,
    source: RowSource,
    on: str | Sequence[str],
    actions: MergeActions,
    options: CommitOptions | None = None,
) -> Manifest:
    rows = source_rows(source)
    commit, target = options or CommitOptions(), PlainTarget.of(table, base)
    return target.attempted(lambda current: merge_once(current, rows, on, actions, commit), commit)


def save(
    table: TableLocation,
    source: RowSource,
    *,
    mode: str = "create",
    options: CommitOptions | None = None,
    merge_schema: bool = False,
) -> Manifest:
    target = PlainTarget.of(table, table.latest())
    target = target.taking(source.schema, mode=WriteMode(mode), merge_schema=merge_schema)
    return write_rows(target, source, options or CommitOptions(), WriteMode(mode))


def delete_rows(
    table: TableLocation, base: Manifest, filter: Expr | str, options: CommitOptions | None = None
) -> Manifest:
    return PlainTarget.of(table, base).delete_rows(filter, options)


def replace_where(table: TableLocation, base: Manifest, rows: RowsToWrite, condition: Expr) -> Manifest:
    target = PlainTarget.of(table, base)
    source = rows.where(condition, target.read_schema).source
    return write_rows(target.taking(source.schema), source, rows.options, WriteMode.REPLACE_WHERE, condition)
