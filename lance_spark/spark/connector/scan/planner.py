"""The plan of a scan of one table: fragments, tasks, and what Spark's planner has to know of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import pyarrow as pa
from pyspark.sql.types import StructType

from lance_spark.errors import InvalidInputError, LanceError
from lance_spark.expr.nodes import Expr, conjunction
from lance_spark.expr.prune import ColumnStatistics, may_match
from lance_spark.schema.arrow import to_arrow_schema
from lance_spark.spark.connector.channel.handles import Recent, TableHandle
from lance_spark.spark.connector.channel.registry import Call
from lance_spark.spark.connector.channel.tasks import ReadTask, TaskFunction, narrowed
from lance_spark.spark.connector.channel.wire_types import wire_schema
from lance_spark.spark.connector.scan.aggregates import Aggregate, AggregateTask, Aggregation
from lance_spark.spark.connector.scan.local_scan import can_be_inline
from lance_spark.spark.connector.scan.requests import ScanPlan, ScanRequest, TopN
from lance_spark.spark.connector.scan.runtime_filters import (
    MANY_ROWS,
    filter_columns,
    runtime_filter,
)
from lance_spark.spark.connector.scan.top_n import SortKey, TopNTask, sort_keys
from lance_spark.spark.options import BATCH_BYTES
from lance_spark.spark.partitions import (
    BYTES_PER_ROW,
    LanceInputPartition,
    ProjectedSizes,
    SizedFragment,
    estimated_bytes,
    plan_partitions,
    sized,
    task_bytes,
)
from lance_spark.spark.predicates import to_filter
from lance_spark.spark.projection import narrow
from lance_spark.storage.local import LocalStore
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.operations.successor import data_format
from lance_spark.table.reading.blob_columns import shown
from lance_spark.table.reading.limit import physical_offset
from lance_spark.table.reading.scan import Scan
from lance_spark.table.reading.selectivity import estimated_share
from lance_spark.table.reading.system_columns import FRAGMENT_ID, ROW_ADDRESS, SYSTEM_FIELDS
from lance_spark.table.reading.zones import ZoneBudget, matching_rows, zoned_fields, zones_of
from lance_spark.table.rows.fragment import DataFragment, FragmentId
from lance_spark.table.rows.row_address import MAX_ROWS_PER_FRAGMENT, OFFSET_BITS

_PRUNED_BY = ((ROW_ADDRESS,), (FRAGMENT_ID,))
"""The columns whose values tell the fragment."""

_ZONED_ROWS = 16 << 20
_ZONED_ROWS_OF_REMOTE = 2 << 20
"""Rows that one plan reads to know their bounds; sixteen plans are to be enough for a table."""

_ZONED_FRAGMENTS = 1024
"""To look at the bounds of more takes longer than it saves."""

_shares: Recent[float] = Recent()

_filtered_by: Recent[bool] = Recent()
"""The columns of tables that a filter was about before."""


class ScanPlanner:
    """Plans one request, whose columns are known; the scan took its filters, order and aggregates before."""

    def __init__(self, request: ScanRequest, call: Call) -> None:
        assert request.columns is not None, "a plan is asked for with its columns"
        self._options = request.read_options()
        self._handle = request.handle
        self._location, self._manifest = request.handle.open()
        self._filterable = filterable(self._manifest)
        # Tasks that aggregate read other columns than they return.
        self._returned = request.columns
        self._columns = request.columns
        self._aggregation: Aggregation | None = None
        if request.aggregates or request.group_by:
            self._aggregation = aggregation_of(request.aggregates, request.group_by, self._manifest)
            assert self._aggregation is not None, "the scan took these aggregates before"
            self._columns = self._aggregation.read
        limits = [limit for limit in (request.limit, self._options.limit) if limit is not None]
        self._limit = min(limits) if limits else None
        self._top_n = request.top_n
        self._parallelism = call.session.parallelism
        self.runtime_filter = runtime_filter(request.runtime_filters, call.attachments, self._filterable, _PRUNED_BY)
        self._scan = self._make_scan(request, call.session.time_zone)
        self._sizes = ProjectedSizes(self._scan.schema, self._scan.projection)
        self._skip = request.offset or 0
        self._takes_all_rows = (
            self._limit is None and self._top_n is None and not self._skip and self._aggregation is None
        )
        self._for_changes = request.for_changes
        self._condition = narrowed(self._scan, self.runtime_filter).filter
        self._ranges: Mapping[FragmentId, list[tuple[int, int]]] = {}
        self._fragments = self._chosen()

    def _make_scan(self, request: ScanRequest, time_zone: str) -> Scan:
        schema = shown(self._manifest.schema, data_format(self._manifest))
        names = self._filterable
        terms = [] if self._options.filter is None else [self._options.filter]
        for predicate in request.predicates:
            term = to_filter(predicate, names)
            assert term is not None, "the scan took this filter before"
            terms.append(term)
        scan = Scan.of(
            schema,
            self._location.bases(self._manifest),
            columns=[],
            filter=conjunction(tuple(terms)),
            stable_row_ids=self._manifest.has_stable_row_ids,
            batch_rows=self._options.batch_size,
            window_bytes=self._options.max_batch_bytes,
            time_zone=time_zone,
        )
        projection = narrow(schema, self._columns, SYSTEM_FIELDS)
        return replace(scan, projection=projection, output=tuple(self._columns.fieldNames()), batch_bytes=BATCH_BYTES)

    def _chosen(self) -> list[DataFragment]:
        """The fragments that can have rows of the answer."""
        fragments = self._manifest.fragments
        if self._skip:
            return self._after_offset()
        if self._condition is not None:
            chosen = [fragment for fragment in fragments if self._may_match(fragment, self._condition)]
            self._ranges = self._zones_of_interest(chosen, self._condition)
            return [fragment for fragment in chosen if self._ranges.get(fragment.id) != []]
        if self._limit is None:
            return list(fragments)
        first: list[DataFragment] = []
        left = self._limit
        for place, rows in enumerate(fragments.row_counts()):
            if left <= 0:
                break
            first.append(fragments[place])
            left -= rows or 0
        return first

    def _may_match(self, fragment: DataFragment, condition: Expr) -> bool:
        """Whether a filter can be true in a fragment, by what its place tells."""
        hidden = self._scan.schema.names()
        places: dict[tuple[str, ...], ColumnStatistics] = {
            (name,): statistics for name, statistics in _place_statistics(fragment).items() if name not in hidden
        }
        return may_match(condition, places, time_zone=self._scan.time_zone)

    def _zones_of_interest(
        self, fragments: Sequence[DataFragment], condition: Expr
    ) -> Mapping[FragmentId, list[tuple[int, int]]]:
        """By the fragments' ids the rows that a filter can match, of those where zones tell it."""
        fields = zoned_fields(condition, self._scan.schema)
        at_once = _ZONED_ROWS_OF_REMOTE if self.is_remote else _ZONED_ROWS
        num_rows = sum(fragment.physical_rows or 0 for fragment in fragments)
        if not fields or num_rows > 16 * at_once or len(fragments) > _ZONED_FRAGMENTS:
            return {}
        # Zones cost as much as one read of the column. A column that is filtered by once may never be again.
        key = (self._handle.uri, self._handle.branch, frozenset(field.id for field in fields.values()))
        budget = ZoneBudget(at_once if _filtered_by.get(key) else 0)
        _filtered_by.put(key, True)
        ranges = {}
        for fragment in fragments:
            try:
                found = {path: zones_of(fragment, field, self._scan.bases, budget) for path, field in fields.items()}
            except LanceError:
                return {}  # The tasks will tell.
            zones = {path: item for path, item in found.items() if item is not None}
            if zones and fragment.physical_rows is not None:
                ranges[fragment.id] = matching_rows(
                    condition, zones, fragment.physical_rows, time_zone=self._scan.time_zone
                )
        return ranges

    def _after_offset(self) -> list[DataFragment]:
        """The fragments after the first rows; `_skip` becomes the rows to leave out in the first of them."""
        fragments = self._manifest.fragments
        for place, rows in enumerate(fragments.row_counts()):
            assert rows is not None, "an offset is taken only where all counts are known"
            if rows > self._skip:
                return list(fragments[place:])
            self._skip -= rows
        return []

    def partitions(self) -> list[LanceInputPartition]:
        """The work of the tasks."""
        planned = plan_partitions(self._pieces, self._target_bytes())
        # Spark takes the sum of no counts for null.
        needs_one = self._aggregation is not None and not self._aggregation.group_by
        return planned or [LanceInputPartition(())] if needs_one else planned

    @cached_property
    def _pieces(self) -> list[SizedFragment]:
        return self._pieces_of(self._sizes)

    def _pieces_of(self, sizes: ProjectedSizes) -> list[SizedFragment]:
        """The rows that can be of the answer, as far as that is told without reading: those in zones that the filter
        can match, none before an offset, and no more than a limit needs.
        """
        pieces = []
        for fragment in self._fragments:
            whole = sized(fragment, self._scan.bases, sizes)
            ranges = self._ranges.get(fragment.id)
            pieces += [whole] if ranges is None else [whole.part(start, stop) for start, stop in ranges]
        if self._skip and pieces:
            start = physical_offset(self._scan, self._fragments[0], self._skip)
            pieces[0] = pieces[0].part(start, pieces[0].physical_rows)
        counts = [fragment.num_rows for fragment in self._fragments]
        if self._limit is None or self._condition is not None or self._skip or None in counts or not pieces:
            return pieces
        if self._fragments[-1].deletion_file is None:
            left = self._limit - sum(count for count in counts[:-1] if count is not None)
            pieces[-1] = pieces[-1].part(0, left)
        return pieces

    @property
    def is_remote(self) -> bool:
        """Whether there is a store to wait for."""
        return not isinstance(self._scan.bases.root, LocalStore)

    def is_small(self, most: int) -> bool:
        """Whether the planner can read all by itself: `most` bytes of the files at most."""
        if self._for_changes:
            return False
        sizes = ProjectedSizes(self._scan.schema, narrowed(self._scan, self.runtime_filter).decoded)
        return can_be_inline(self._pieces_of(sizes), self._options, most)

    def _target_bytes(self) -> int:
        """How much a task reads: as the user says, else no more than gives every core something to do."""
        if self._options.limit is not None:
            # Rows up to a limit of the user are counted in one place, or there would be too many.
            return 1 << 62
        total = sum(estimated_bytes(piece) for piece in self._pieces)
        return task_bytes(self._options.target_partition_bytes, total, self._parallelism)

    def task(self) -> tuple[TaskFunction, StructType]:
        """The function of the tasks, and the columns that it returns."""
        target = wire_schema(self._columns)
        if self._aggregation is not None:
            task = AggregateTask(self._scan, self._aggregation.group_by, self._aggregation.slots, self._returned)
            return task, self._returned
        if self._top_n is not None:
            keys = sort_keys_of(self._top_n, self._handle)
            assert keys is not None, "the scan took this order before"
            return TopNTask(self._scan, keys, self._top_n.limit, target), self._columns
        return ReadTask(self._scan, target, self._limit), self._columns

    def summary(self) -> ScanPlan:
        """What the planner is told."""
        num_rows = self._num_rows()
        if num_rows is not None and self._limit is not None:
            num_rows = min(num_rows, self._limit)
        if self._aggregation is not None and not self._aggregation.group_by:
            num_rows = self._parallelism
        sizes = [piece.size_bytes for piece in self._pieces]
        size = None if None in sizes else sum(item for item in sizes if item is not None)
        floor = None if num_rows is None else num_rows * BYTES_PER_ROW
        return ScanPlan(
            description=self._description(size),
            num_rows=num_rows,
            size_bytes=max((item for item in (size, floor) if item is not None), default=None),
            filters_many_rows=self._filters_many_rows(),
            metrics={
                "fragments_read": len(self._fragments),
                "fragments_pruned": len(self._manifest.fragments) - len(self._fragments),
                "files_read": sum(len(fragment.files) for fragment in self._fragments),
                "bytes_planned": size or 0,
            },
            runtime_columns=self._runtime_columns(),
            share=_shares.get(self._share_key()),
        )

    def _filters_many_rows(self) -> bool:
        num_rows = self._num_rows()
        has_many = num_rows is None or num_rows >= MANY_ROWS
        # As many groups as rows there can be, though mostly there are few.
        takes_all = self._takes_all_rows or (self._aggregation is not None and bool(self._aggregation.group_by))
        return self._scan.filter is not None and takes_all and has_many

    def share(self) -> float:
        """About which share of the rows the filter keeps."""
        if not self._filters_many_rows():
            return 1.0
        share = _shares.get(self._share_key())
        if share is None:
            share = self._estimated_share()
            _shares.put(self._share_key(), share)
        return share

    def _share_key(self) -> tuple[object, ...]:
        return (self._handle.key, self._scan.time_zone, str(self._scan.filter))

    def _estimated_share(self) -> float:
        try:
            return estimated_share(self._scan, self._fragments)
        except InvalidInputError:
            # The sample has deleted rows, too; whether a row that is there fails, the tasks tell.
            return 1.0

    def _num_rows(self) -> int | None:
        counts = [self._most_rows(fragment) for fragment in self._fragments]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None

    def _most_rows(self, fragment: DataFragment) -> int | None:
        ranges = self._ranges.get(fragment.id)
        if fragment.num_rows is None or ranges is None:
            return fragment.num_rows
        return min(fragment.num_rows, sum(stop - start for start, stop in ranges))

    def _runtime_columns(self) -> tuple[str, ...]:
        if not self._takes_all_rows or self._for_changes:
            return ()
        columns = self._columns.fieldNames()
        return filter_columns(_PRUNED_BY, self._filterable, columns, self._num_rows())

    def _description(self, size: int | None) -> str:
        files = sum(len(fragment.files) for fragment in self._fragments)
        parts = [
            f"lance {self._handle.shown}@v{self._manifest.version}",
            f"columns=[{', '.join(_column_names(self._columns))}]",
            f"filters=[{'' if self._scan.filter is None else self._scan.filter}]",
            *([] if self._limit is None else [f"limit={self._limit}"]),
            *([] if self._top_n is None else [f"top={self._top_n.limit}"]),
            *([] if self._aggregation is None else [str(self._aggregation)]),
            f"fragments={len(self._fragments)}/{len(self._manifest.fragments)}",
            f"files={files}",
            f"bytes={'unknown' if size is None else size}",
        ]
        return " ".join(parts)


def aggregation_of(
    aggregates: tuple[Aggregate, ...], group_by: tuple[str, ...], manifest: Manifest
) -> Aggregation | None:
    """The aggregates as tasks have them; None if they cannot."""
    counts = manifest.fragments.row_counts()
    known = [count for count in counts if count is not None]
    return Aggregation.of(group_by, aggregates, filterable(manifest), sum(known) if len(known) == len(counts) else None)


def sort_keys_of(top_n: TopN, handle: TableHandle) -> tuple[SortKey, ...] | None:
    """The keys, if tasks can tell the first rows."""
    return sort_keys(top_n.orders, top_n.limit, columns_of(handle))


def columns_of(handle: TableHandle) -> pa.Schema:
    """The columns of a table of either kind, as a scan reads them."""
    if handle.partitioned:
        table = handle.open_partitioned()
        return to_arrow_schema(shown(table.lance_schema, table.file_version))
    manifest = handle.open()[1]
    return to_arrow_schema(shown(manifest.schema, data_format(manifest)))


def _column_names(columns: StructType) -> list[str]:
    """The columns as EXPLAIN shows them: of a struct that is read in part, its fields."""
    return [
        f"{field.name}<{', '.join(_column_names(field.dataType))}>"
        if isinstance(field.dataType, StructType)
        else field.name
        for field in columns.fields
    ]


def _place_statistics(fragment: DataFragment) -> dict[str, ColumnStatistics]:
    """The bounds of the system columns that a fragment's id decides."""
    number = pa.scalar(fragment.id, pa.uint64())
    first = fragment.id << OFFSET_BITS
    last = first + (fragment.physical_rows or MAX_ROWS_PER_FRAGMENT) - 1
    return {
        FRAGMENT_ID: ColumnStatistics(number, number, null_count=0),
        ROW_ADDRESS: ColumnStatistics(pa.scalar(first, pa.uint64()), pa.scalar(last, pa.uint64()), null_count=0),
    }


def filterable(manifest: Manifest) -> pa.Schema:
    """What a filter may name: the columns, and system columns that they do not hide."""
    data = to_arrow_schema(shown(manifest.schema, data_format(manifest)))
    return pa.schema([*data, *(item for name, item in SYSTEM_FIELDS.items() if name not in data.names)])
