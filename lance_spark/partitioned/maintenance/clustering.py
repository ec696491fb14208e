"""Clusters a partitioned table: each partition is sorted on its own, all of them in one version."""

from __future__ import annotations

from collections.abc import Sequence

from lance_spark.expr.nodes import Expr
from lance_spark.partitioned.maintenance.compaction import compact
from lance_spark.partitioned.table import PartitionedTable
from lance_spark.table.maintenance.clustering.cluster import clustering_options, planner
from lance_spark.table.maintenance.clustering.layout import required_layout
from lance_spark.table.maintenance.compaction_options import CompactionOptions
from lance_spark.table.writing.save import CommitOptions


def cluster(
    table: PartitionedTable,
    columns: Sequence[str] | str | None,
    curve: str,
    where: Expr | str | None = None,
    options: CommitOptions | None = None,
) -> PartitionedTable:
    """The newest version of the table, clustered; it itself if all of it is.

    Arguments and errors are those of `Dataset.cluster`.
    """
    newest = table.newest()
    layout = required_layout(newest.lance_schema, newest.properties, columns, curve)
    compaction = clustering_options(CompactionOptions.of(newest.properties))
    return compact(newest, where, compaction, options, planner(layout))
