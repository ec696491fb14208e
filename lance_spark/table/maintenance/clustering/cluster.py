"""Clusters a table by the machinery of compactions: a plan, tasks that sort rows, one commit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lance_spark.expr.nodes import Expr
from lance_spark.expr.sql.parse import to_expr
from lance_spark.table.location import TableLocation
from lance_spark.table.maintenance.clustering.layout import Layout, required_layout
from lance_spark.table.maintenance.clustering.plan import plan_clustering
from lance_spark.table.maintenance.compaction import Planner, compact
from lance_spark.table.maintenance.compaction_options import CompactionOptions
from lance_spark.table.maintenance.compaction_plan import CompactionPlan
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.writing.save import CommitOptions


def cluster(
    table: TableLocation,
    columns: Sequence[str] | str | None,
    curve: str,
    where: Expr | str | None = None,
    options: CommitOptions | None = None,
) -> Manifest:
    """The newest version of `table`, clustered; the very version that is there if all of it is.

    Arguments and errors are those of `Dataset.cluster`.
    """
    newest = table.newest()
    layout = required_layout(newest.schema, newest.config, columns, curve)
    chosen = None if where is None else to_expr(where)
    compaction = clustering_options(CompactionOptions.of(newest.config))
    return compact(table, compaction, options, planner(layout, chosen))


def clustering_options(options: CompactionOptions) -> CompactionOptions:
    """The options without what cannot be done to rows that change their order: a deferred remap of indexes."""
    return replace(options, defer_index_remap=False)


def planner(layout: Layout, where: Expr | None = None) -> Planner:
    """Plans a clustering of a version."""

    def plan(table: TableLocation, base: Manifest, options: CompactionOptions) -> CompactionPlan:
        return plan_clustering(table, base, options, layout, where)

    return plan
