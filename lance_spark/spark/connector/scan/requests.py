"""The request of a scan, with what Spark has pushed so far, and the plan in the reply."""

from __future__ import annotations

import pickle
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pyspark.sql.types import DataType, StructType

from lance_spark.expr.nodes import Expr, conjunction
from lance_spark.spark.column_statistics import Entry
from lance_spark.spark.connector.channel.handles import TableHandle
from lance_spark.spark.connector.scan.aggregates import Aggregate
from lance_spark.spark.connector.scan.local_scan import InlineRows
from lance_spark.spark.connector.scan.partition_keys import SparkTransform
from lance_spark.spark.connector.scan.partitioning import Clustering
from lance_spark.spark.connector.scan.runtime_filters import (
    MAX_VALUES,
    KeyFilter,
)
from lance_spark.spark.connector.scan.top_n import TopN
from lance_spark.spark.options.options import ReadOptions
from lance_spark.spark.partitions import BYTES_PER_ROW


def encoded_filter(condition: Expr) -> str:
    """A filter for the JVM, which hands it back in the later requests of the scan."""
    return b64encode(pickle.dumps(condition)).decode()


def decoded_filter(text: str) -> Expr:
    """The filter of an `encoded_filter`."""
    # Pickled by `scan.push` for this very query; it never was in a file or with a user.
    found: Expr = pickle.loads(b64decode(text))
    return found


@dataclass(frozen=True, slots=True)
class ScanRequest:
    """A scan as Spark has asked for it so far.

    Attributes:
        filter: what `scan.push` replied to the filters of the query, an `encoded_filter`; None for all rows.
        columns: what it returns.
        limit: how many rows are enough.
        offset: how many rows to leave out before that.
        top_n: the order, and how many first rows are enough. Spark sorts what the tasks return again, so the plan
            may return more.
        runtime_filters: those that Spark knows only when the query runs. It checks them itself.
        for_changes: the rows are read for DELETE, UPDATE or MERGE.
        binary_ranges: the offset and the length, in bytes, of the part to return of the values of a binary column.
        variant_paths: the paths that are used of the variants of a column; each is a list of `.key` and `[position]`.
    """

    handle: TableHandle
    options: Mapping[str, str] = field(default_factory=dict)
    filter: str | None = None
    columns: StructType | None = None
    limit: int | None = None
    offset: int | None = None
    top_n: TopN | None = None
    runtime_filters: tuple[KeyFilter, ...] = ()
    for_changes: bool = False
    binary_ranges: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    variant_paths: Mapping[str, tuple[tuple[str, ...], ...]] = field(default_factory=dict)

    def read_options(self) -> ReadOptions:
        """The options of the read; where the table is, is in the handle."""
        self.handle.check_place(self.options)
        return ReadOptions.parse({**self.options, "path": self.handle.uri})

    def condition(self) -> Expr | None:
        """The scan's own filter: that of its options and the one that `scan.push` returned; None if it has none."""
        pushed = None if self.filter is None else decoded_filter(self.filter)
        return conjunction(tuple(term for term in (self.read_options().filter, pushed) if term is not None))


@dataclass(frozen=True, slots=True)
class AggregateRequest:
    """Aggregates over all rows of a scan, or over those with equal values in some columns.

    Attributes:
        clusters: how Spark makes use of the keys of partitions.
    """

    scan: ScanRequest
    aggregates: tuple[Aggregate, ...]
    group_by: tuple[str, ...] = ()
    clusters: Clustering = field(default_factory=Clustering)


@dataclass(frozen=True, slots=True)
class Key:
    """One column of the keys of partitions, for joins without a shuffle."""

    transform: SparkTransform
    type: DataType


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """The plan for Spark's planner; the tasks, or the rows, are in the attachments.

    Attributes:
        num_rows, size_bytes: of all rows that are read, before they are filtered.
        keys, key_values: of the rows of each task, if they have some in common.
        coalesced_tasks: groups of tasks that may be one, for plans that do not use the keys.
        metrics: numbers for Spark's UI by the names of its metrics, also of those that only tasks count.
        is_inline: whether the rows are read already.
        ordering: columns in whose ascending order the rows of each task are.
        column_statistics: by column, where it was analyzed.
        filters_values: whether the scan's filter asks for more than that columns are not null.
        runtime_columns: runtime filters on these columns are accepted.
        max_runtime_values: unless they have more values.
        needs_selectivity: whether the driver should request the filter's selectivity.
        selectivity: of the filter, if it is known already.
    """

    description: str
    num_rows: int | None
    size_bytes: int | None
    keys: tuple[Key, ...] = ()
    key_values: tuple[tuple[str | None, ...], ...] = ()
    coalesced_tasks: tuple[tuple[int, ...], ...] = ()
    metrics: Mapping[str, int] = field(default_factory=dict)
    runtime_columns: tuple[str, ...] = ()
    max_runtime_values: int = MAX_VALUES
    needs_selectivity: bool = False
    selectivity: float | None = None
    is_inline: bool = False
    ordering: tuple[str, ...] = ()
    filters_values: bool = False
    column_statistics: Mapping[str, Entry] = field(default_factory=dict)

    def with_rows(self, rows: InlineRows) -> ScanPlan:
        """The same plan, where the rows are read already."""
        return replace(
            self,
            num_rows=rows.num_rows,
            size_bytes=max(rows.num_bytes, rows.num_rows * BYTES_PER_ROW),
            metrics={**self.metrics, **rows.cost},
            runtime_columns=(),
            needs_selectivity=False,
            selectivity=None,
            is_inline=True,
        )
