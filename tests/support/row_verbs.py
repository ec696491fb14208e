"""Verbs that change rows of a plain table as functions, with the options of a commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lance_spark.expr.nodes import Expr
from lance_spark.expr.sql.parse import condition_of
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.row_level.merge import MergeActions, merge_once, source_rows
from lance_spark.table.row_level.row_target import change_rows
from lance_spark.table.row_level.update import update_once
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
    return change_rows(table, base, lambda target: update_once(target, values, condition), options or CommitOptions())


def merge_rows(
    table: TableLocation,
    base: Manifest,
    source: RowSource,
    on: str | Sequence[str],
    actions: MergeActions,
    options: CommitOptions | None = None,
) -> Manifest:
    rows = source_rows(source)
    return change_rows(table, base, lambda target: merge_once(target, rows, on, actions), options or CommitOptions())
