"""The plan of a scan: its splits and fragments, the work of its tasks, and what Spark's planner has to know of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyroaring
from pyspark.sql.types import StructType

from lance_spark.cached import cached_property
from lance_spark.errors import InvalidInputError
from lance_spark.expr.nodes import And, Expr, IsNull, Not, conjunction, quote_name
from lance_spark.index.planner import IndexQuery
from lance_spark.schema.blob import has_blobs
from lance_spark.spark.blobs.columns import (
    blob_bytes,
    columns_with_bytes,
    with_ranges,
)
from lance_spark.spark.blobs.references import decoded_secret
from lance_spark.spark.column_statistics import Entry, entry_of, has_statistics
from lance_spark.spark.connector.channel.handles import LruCache
from lance_spark.spark.connector.channel.registry import Call
from lance_spark.spark.connector.channel.tasks import (
    PARTITION_COLUMN,
    ReadTask,
    ReadWork,
    SplitWork,
    TaskFunction,
    narrowed,
)
from lance_spark.spark.connector.channel.wire_types import wire_schema
from lance_spark.spark.connector.scan.aggregates import ROWS_OF_GROUP, AggregateTask, Aggregation
from lance_spark.spark.connector.scan.distance_search import DistanceSearch, search_of
from lance_spark.spark.connector.scan.local_scan import can_be_inline
from lance_spark.spark.connector.scan.partitioning import LIMITED, Clustering, Partitioning, partitioning_of
from lance_spark.spark.connector.scan.plan_description import ScanCounts, plan_description
from lance_spark.spark.connector.scan.requests import AggregateRequest, Key, ScanPlan, ScanRequest
from lance_spark.spark.connector.scan.runtime_filters import MANY_ROWS, affordable, filter_columns, runtime_filter
from lance_spark.spark.connector.scan.selection import (
    LOCATION_COLUMNS,
    RowChoice,
    ScannedFragments,
    SelectedFragments,
    SplitScan,
    all_fragments,
    most_rows,
    sampled_selectivity,
)
from lance_spark.spark.connector.scan.settings import (
    check_settings,
    searches_approximately,
    uses_selectivity,
    uses_top_n,
)
from lance_spark.spark.connector.scan.task_packing import (
    SplitPart,
    coalesced,
    pieces_of,
    planned_bytes,
    restricted,
    split_parts,
    total_bytes,
    work_of,
)
from lance_spark.spark.connector.scan.top_n import TopNTask
from lance_spark.spark.index_answers import IndexAnswers, asked_scalar_index
from lance_spark.spark.partitions import BYTES_PER_ROW, task_bytes
from lance_spark.spark.projected_sizes import ProjectedSizes
from lance_spark.spark.scan_spec import ScanSpec, bound_to
from lance_spark.spark.table_view import with_same_values
from lance_spark.spark.types.collations import comparable
from lance_spark.spark.types.variant_paths import with_paths
from lance_spark.storage.local.store import LocalStore
from lance_spark.table.reading.extremes import Extreme, extremes_filter
from lance_spark.table.reading.first_rows import SortKey
from lance_spark.table.reading.scan import Scan
from lance_spark.table.reading.selectivity import BlobBytes, rows_of_a_group
from lance_spark.table.reading.system_columns import filterable
from lance_spark.table.search.text_filters import (
    asked_text_indexes,
    has_text_search,
    shared_analyses,
    with_text_searches_done,
)
from lance_spark.table.source import Split, known_row_counts

_ALL_IN_ONE_TASK = 1 << 62

_selectivities: LruCache[float] = LruCache()
_blob_sizes: LruCache[BlobBytes] = LruCache()
_searched_filters: LruCache[Expr] = LruCache()
_digests: LruCache[str] = LruCache()


@dataclass(frozen=True, slots=True)
class PlannedTasks:
    """The work of the tasks of a scan.

    Attributes:
        work: of each task.
        key_values: the values of the partitions' keys in each task; none where no keys are reported to Spark.
        coalesced_tasks: which tasks may be one where the keys are of no use.
    """

    work: tuple[ReadWork, ...]
    key_values: tuple[tuple[str | None, ...], ...] = ()
    coalesced_tasks: tuple[tuple[int, ...], ...] = ()


class ScanPlanner:
    """Plans one request for a scan of a table of either kind.

    Attributes:
        aggregation: what tasks return instead of rows; None if they return rows, or cannot aggregate as asked.
        sort_keys: the order of the first rows that each task returns; empty if it returns all.
        runtime_filter: what the filters that came while the query runs keep. It leaves out splits, fragments and rows,
            but where tasks have keys it moves nothing between tasks.

    Raises:
        InvalidInputError: the request has no columns, or a filter that the scan cannot apply.
    """

    def __init__(
        self,
        request: ScanRequest,
        call: Call,
        aggregates: AggregateRequest | None = None,
        *,
        extremes: Expr | None = None,
    ) -> None:
        if request.columns is None:
            raise InvalidInputError(
                f"the request for a plan of {request.handle.display_name} does not say which columns"
            )
        check_settings(call.session)
        self._request = request
        self._options = request.read_options()
        self._session = call.session
        self._source = request.handle.source()
        self._filterable = comparable(filterable(self._source.stored_schema))
        self._filter = conjunction(tuple(term for term in (request.condition(), extremes) if term is not None))
        choosing = self._choosing_columns
        self.runtime_filter = runtime_filter(request.runtime_filters, call.attachments, self._filterable, choosing)
        limits = [limit for limit in (request.limit, self._options.limit) if limit is not None]
        self._limit = min(limits, default=None)
        opened = self._source.splits(self._condition, time_zone=self._session.time_zone)
        counts = known_row_counts(opened)
        self._known_rows = None if counts is None else sum(counts)
        self._group_by = () if aggregates is None else aggregates.group_by
        self.aggregation = (
            None
            if aggregates is None
            else Aggregation.of(self._group_by, aggregates.aggregates, self._filterable, self._known_rows)
        )
        self.sort_keys = self._sort_keys()
        # Tasks that aggregate read other columns than they return.
        self._columns = request.columns if self.aggregation is None else self.aggregation.read
        self._partitioning = partitioning_of(
            self._source,
            opened,
            with_same_values(self._source.stored_schema, self._columns),
            self._filter,
            is_narrowed=self.runtime_filter is not None,
            time_zone=self._session.time_zone,
        )
        spec = ScanSpec.of(
            self._source.lance_schema,
            self._source.file_version,
            self._columns,
            self._options,
            time_zone=self._session.time_zone,
            constants=() if self._partitioning is None else (PARTITION_COLUMN,),
        )
        self._scan = spec.scan(request.handle.unbound_bases(), self._filter)
        spec.check_shown(self._scan, request.handle.display_name)
        self._analyses = shared_analyses(self._source)
        self._splits = [
            SplitScan(split, self._searched(bound_to(self._scan, split), split))
            for split in opened
            if self._partitioning is None or split.key in self._partitioning.object_ids
        ]
        self._search = self._distance_search()
        if self._search is not None:
            self._splits = [*self._search.splits]

    @property
    def _condition(self) -> Expr | None:
        """The scan's own filter and the runtime filter."""
        return conjunction(tuple(term for term in (self._filter, self.runtime_filter) if term is not None))

    @property
    def _choosing_columns(self) -> list[tuple[str, ...]]:
        """The columns whose values choose splits or fragments."""
        return [*self._source.split_columns, *((name,) for name in LOCATION_COLUMNS)]

    def _searched(self, scan: Scan, split: Split) -> Scan:
        """The scan of a split, with the rows of its text searches in the filter."""
        if scan.filter is None or not has_text_search(scan.filter):
            return scan
        key = (self._request.handle.key, split.key, self._session.time_zone, str(scan.filter))
        found = _searched_filters.get(key)
        if found is None:
            found = with_text_searches_done(
                scan.filter, split.manifest, scan.schema, scan.bases, scan.time_zone, self._analyses
            )
            assert found is not None
            _searched_filters.put(key, found)
        return replace(scan, filter=found)

    def _text_queries(self) -> tuple[list[IndexQuery], int]:
        """Index queries of text searches, and the number of fragments that a search reads without an index."""
        queries: list[IndexQuery] = []
        num_unsearched = 0
        condition = self._filter
        if condition is None or not has_text_search(condition):
            return queries, num_unsearched
        for item in self._splits:
            manifest, bases = item.split.manifest, item.split.bases
            found = asked_text_indexes(condition, manifest, item.scan.schema, bases, self._analyses)
            covered = [query.fragment_ids for query in found]
            queries += found
            num_unsearched += len(manifest.fragments) - len(pyroaring.BitMap.intersection(*covered) if covered else ())
        return queries, num_unsearched

    def is_clustered_by(self, group_by: Sequence[str], clustering: Clustering) -> bool:
        """Whether the keys of partitions already bring rows of equal `group_by` together in Spark."""
        return self._partitioning is not None and self._partitioning.is_clustered_by(group_by, clustering)

    def has_large_groups(self) -> bool:
        """Whether tasks group faster than Spark: not where rows of a group are few, if there are many rows."""
        group_by = self._group_by
        if not group_by or (self._known_rows is not None and self._known_rows < MANY_ROWS):
            return True
        scan = Scan.of(self._scan.schema, self._scan.version, columns=[quote_name(name) for name in group_by])
        splits = [SplitScan(item.split, bound_to(scan, item.split)) for item in self._splits]
        return rows_of_a_group(ScannedFragments(all_fragments(splits), splits)) >= ROWS_OF_GROUP

    def extremes(self) -> Expr | None:
        """A filter under which MIN and MAX of columns are the same, from indexes; None if there is none."""
        aggregation = self.aggregation
        if aggregation is None or aggregation.group_by or self._condition is not None or self._limit is not None:
            return None
        wanted = [Extreme(slot.column, slot.kind == "max") for slot in aggregation.slots if slot.column is not None]
        if len(wanted) < len(aggregation.slots) or any(slot.kind not in ("min", "max") for slot in aggregation.slots):
            return None
        asked = asked_scalar_index(self._options.use_scalar_index, self._session.use_scalar_index)
        if not asked or self._request.offset:
            return None
        return extremes_filter([(item.split.manifest, item.scan) for item in self._splits], wanted)

    @property
    def _takes_all_rows(self) -> bool:
        return self._limit is None and not self.sort_keys and not self._request.offset and self.aggregation is None

    def _sort_keys(self) -> tuple[SortKey, ...]:
        top_n = self._request.top_n
        if top_n is None or self._limit is not None or not uses_top_n(self._options, self._session):
            return ()
        return top_n.sort_keys(comparable(self._source.stored_schema)) or ()

    def _distance_search(self) -> DistanceSearch | None:
        """Search of the rows that are nearest to a vector; None if the order is not by their distance."""
        top_n = self._request.top_n
        if top_n is None or not self.sort_keys:
            return None
        approximate = searches_approximately(self._session) and self.runtime_filter is None
        asked = asked_scalar_index(self._options.use_scalar_index, self._session.use_scalar_index)
        return search_of(
            self.sort_keys,
            top_n.limit,
            self._splits,
            self._filterable,
            is_approximate=approximate and not self._request.for_changes,
            use_scalar_index=asked,
        )

    def _choice_after(self, answers: IndexAnswers) -> RowChoice:
        return RowChoice(self._limit, self._request.offset or 0, answers)

    def _ask_indexes(self, splits: Sequence[SplitScan]) -> IndexAnswers:
        if not asked_scalar_index(self._options.use_scalar_index, self._session.use_scalar_index):
            return IndexAnswers()
        return IndexAnswers.of([(item.split.manifest, item.scan) for item in splits])

    @cached_property
    def _narrowed_splits(self) -> list[SplitScan]:
        """The splits, whose scans have the runtime filter too."""
        return [SplitScan(item.split, narrowed(item.scan, self.runtime_filter)) for item in self._splits]

    @cached_property
    def _answers(self) -> IndexAnswers:
        return self._ask_indexes(self._narrowed_splits)

    def indexed_rows(self) -> int | None:
        """Number of rows that the filter keeps, if scalar indexes know it exactly; None if not, or without a filter."""
        if self._limit is not None or self._request.offset or self._filter is None:
            return None
        return self._answers.num_rows

    @cached_property
    def _selected(self) -> list[SelectedFragments]:
        return self._choice_after(self._answers).of(self._narrowed_splits)

    @cached_property
    def _sizes(self) -> ProjectedSizes:
        return ProjectedSizes(self._scan.schema, self._scan.projection, self._blob_bytes)

    @cached_property
    def _blob_bytes(self) -> BlobBytes:
        """Without the runtime filter: a plan with it has to pack the fragments that are left as the plan before it."""
        if not any(map(has_blobs, self._scan.schema.fields)):
            return BlobBytes()
        names = columns_with_bytes(self._scan.arrow_schema, self._target)
        key = (
            self._request.handle.key,
            self._session.time_zone,
            str(self._filter),
            (names, bool(self._scan.projection.fields)),
            str(self._request.binary_ranges),
        )
        found = _blob_sizes.get(key)
        if found is None:
            splits = self._source.splits(self._filter, time_zone=self._session.time_zone)
            parts = ((bound_to(self._scan, split), item) for split in splits for item in split.manifest.fragments)
            found = blob_bytes(parts, self._target, self._scan)
            _blob_sizes.put(key, found)
        return found

    @cached_property
    def _pieces(self) -> list[SplitPart]:
        return list(pieces_of(self._selected, self._splits, self._sizes))

    @cached_property
    def _keys(self) -> Partitioning | None:
        """The partitioning reported to Spark: none for groups, nor where one task counts rows."""
        partitioning = self._partitioning
        has_keys = partitioning is not None and bool(partitioning.keys)
        return partitioning if has_keys and self.aggregation is None and self._options.limit is None else None

    def tasks(self) -> PlannedTasks:
        """The work of the tasks: where they have keys each is of one partition."""
        if self._keys is not None:
            return self._keyed_tasks(self._keys)
        target = self._target_bytes()
        parts = split_parts(self._pieces, target)
        groups = [work_of([parts[number] for number in pack], self._splits) for pack in coalesced(parts, target)]
        if not groups and self.aggregation is not None and not self.aggregation.group_by:
            groups = [()]  # Spark takes the sum of no counts for null.
        return PlannedTasks(self._work(groups))

    def _keyed_tasks(self, partitioning: Partitioning) -> PlannedTasks:
        pieces = self._pieces
        if self.runtime_filter is not None:
            unnarrowed = self._choice_after(self._ask_indexes(self._splits)).of(self._splits)
            pieces = list(pieces_of(unnarrowed, self._splits, self._sizes))
        parts = split_parts(pieces, self._options.target_partition_bytes)
        if self.runtime_filter is not None:
            # Spark compares the tasks with those of the plan without this filter: their rows have to stay apart alike.
            parts = restricted(parts, self._pieces)
        values = partitioning.values(item.split for item in self._splits)
        coalesced_tasks = coalesced(parts, self._target_bytes())
        return PlannedTasks(
            self._work([work_of([part], self._splits) for part in parts]),
            tuple(values[part.split] for part in parts),
            coalesced_tasks if len(coalesced_tasks) < len(parts) else (),
        )

    def _work(self, groups: Sequence[tuple[SplitWork, ...]]) -> tuple[ReadWork, ...]:
        runtime = affordable(self.runtime_filter, len(groups))
        return tuple(ReadWork(parts, runtime) for parts in groups)

    def _target_bytes(self) -> int:
        """Bytes that one task reads: the user's value, else at most as much as gives every core something to do."""
        if self._options.limit is not None:
            # Rows up to a limit of the user are counted in one place, or there would be too many.
            return _ALL_IN_ONE_TASK
        return task_bytes(self._options.target_partition_bytes, total_bytes(self._pieces), self._session.parallelism)

    @cached_property
    def _target(self) -> pa.Schema:
        """Schema of the rows that tasks return."""
        whole = wire_schema(self._columns)
        return with_paths(with_ranges(whole, self._request.binary_ranges), self._request.variant_paths)

    def task(self) -> tuple[TaskFunction, StructType]:
        """The function of the tasks, and the columns that it returns."""
        aggregation, top_n = self.aggregation, self._request.top_n
        if aggregation is not None:
            returned = aggregation.returned
            return AggregateTask(self._scan, aggregation.group_by, aggregation.slots, returned), returned
        target, key = self._target, decoded_secret(self._session.blob_key)
        if top_n is None or not self.sort_keys:
            return ReadTask(self._scan, target, self._limit, key), self._columns
        return TopNTask(self._scan, target, None, key, self.sort_keys, top_n.limit), self._columns

    @property
    def is_remote(self) -> bool:
        """Whether there is a store to wait for."""
        return not isinstance(self._scan.bases.root, LocalStore)

    def is_small(self, most: int) -> bool:
        """Whether the planner can read all by itself: `most` bytes of the files at most."""
        if self._request.for_changes:
            return False
        sizes = ProjectedSizes(self._scan.schema, narrowed(self._scan, self.runtime_filter).decoded, self._blob_bytes)
        pieces = pieces_of(self._selected, self._splits, sizes)
        return can_be_inline((piece.rows for piece in pieces), self._options, most)

    def summary(self, tasks: PlannedTasks) -> ScanPlan:
        """The plan for Spark's planner."""
        size = planned_bytes(self._pieces)
        num_rows = self._num_rows()
        floor = None if num_rows is None else num_rows * BYTES_PER_ROW
        counts = ScanCounts.of(self._selected, [item.split for item in self._splits], self._source.num_splits)
        keys = () if self._keys is None else self._keys.keys
        return ScanPlan(
            description=self._description(counts, size),
            num_rows=num_rows,
            size_bytes=max((item for item in (size, floor) if item is not None), default=None),
            keys=tuple(Key(key.transform, key.type) for key in keys),
            key_values=tasks.key_values,
            coalesced_tasks=tasks.coalesced_tasks,
            metrics={
                **counts.metrics(is_partitioned=self._partitioning is not None),
                "bytes_planned": size or 0,
                **({} if self._search is None else self._search.metrics),
            },
            runtime_columns=self._runtime_columns(),
            needs_selectivity=self._samples_rows(),
            selectivity=_selectivities.get(self._selectivity_key) if self._samples_rows() else None,
            filters_values=_filters_values(self._filter),
            column_statistics=self._column_statistics(),
        )

    def _column_statistics(self) -> dict[str, Entry]:
        properties = self._source.properties
        if not has_statistics(properties):
            return {}
        key = self._request.handle.key
        digest = _digests.get(key)
        if digest is None:
            digest = self._source.data_digest
            _digests.put(key, digest)
        names = {name: name for name in self._columns.fieldNames()}
        if self.aggregation is not None:
            # The groups are first, and alone are values of the table.
            names = dict(zip(self.aggregation.returned.fieldNames(), self._group_by, strict=False))
        columns = (
            (shown, entry_of(properties, name, self._columns[name].dataType, digest)) for shown, name in names.items()
        )
        return {shown: entry for shown, entry in columns if entry is not None}

    @cached_property
    def _most_rows(self) -> int | None:
        return most_rows(self._selected)

    def _num_rows(self) -> int | None:
        if self.aggregation is not None and not self.aggregation.group_by:
            return self._session.parallelism
        num_rows = self._most_rows
        return num_rows if num_rows is None or self._limit is None else min(num_rows, self._limit)

    def _samples_rows(self) -> bool:
        """Whether a sample is worth it: a filter of many rows, and nothing that limits them."""
        return uses_selectivity(self._session) and self._filters_many_rows()

    def _filters_many_rows(self) -> bool:
        num_rows = self._most_rows
        has_many = num_rows is None or num_rows >= MANY_ROWS
        # As many groups as rows there can be, though mostly there are few.
        takes_all = self._takes_all_rows or (self.aggregation is not None and bool(self.aggregation.group_by))
        return self._filter is not None and takes_all and has_many

    def selectivity(self) -> float:
        """About which share of the planned rows the filter keeps, from a sample."""
        if not self._samples_rows():
            return 1.0
        found = _selectivities.get(self._selectivity_key)
        if found is None:
            found = sampled_selectivity(self._selected, self._splits)
            _selectivities.put(self._selectivity_key, found)
        return found

    @property
    def _selectivity_key(self) -> tuple[object, ...]:
        """All that a sample depends on, so that a cached value is the one that would be computed."""
        return (self._request.handle.key, self._session.time_zone, bool(self._answers.queries), str(self._filter))

    def _runtime_columns(self) -> tuple[str, ...]:
        if not self._takes_all_rows:
            return ()
        columns = self._columns.fieldNames()
        return filter_columns(self._choosing_columns, self._filterable, columns, self._most_rows)

    def _description(self, counts: ScanCounts, size: int | None) -> str:
        handle, partitioning = self._request.handle, self._partitioning
        if partitioning is not None and self._options.limit is not None:
            partitioning = partitioning.without_keys(LIMITED)
        return plan_description(
            f"{handle.display_name}@v{self._source.version}",
            self._columns,
            self._filter,
            self._limit,
            self._request.top_n if self.sort_keys else None,
            self.aggregation,
            counts,
            size,
            partitioning,
            self._answers.described(*self._text_queries()),
            None if self._search is None else self._search.described,
        )


def _filters_values(condition: Expr | None) -> bool:
    """Whether a filter asks for more than that columns are not null."""
    terms = condition.terms if isinstance(condition, And) else (condition,)
    return any(term is not None and not (isinstance(term, Not) and isinstance(term.value, IsNull)) for term in terms)
