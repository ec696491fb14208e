"""OPTIMIZE INDEX and REFRESH INDEX: tasks write the new segments, the driver commits them."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql.types import LongType, StringType

from lance_spark.errors import RetryableConflictError
from lance_spark.partitioned.dataset import PartitionedDataset
from lance_spark.schema.projection import quoted
from lance_spark.spark.connector.channel.tasks import messages, work_of
from lance_spark.spark.connector.procedures.index_procedures import INDEX_NAME, segment_groups
from lance_spark.spark.connector.procedures.procedure_types import (
    FLAG,
    TABLE,
    WHOLE,
    Invocation,
    Parameter,
    Procedure,
    Tasks,
)
from lance_spark.spark.connector.scan.local_rows import LocalRows, row_type
from lance_spark.table.dataset import Dataset
from lance_spark.table.indexes.build import build_segment
from lance_spark.table.indexes.definition import IndexDefinition, define
from lance_spark.table.indexes.optimize import (
    OptimizeOptions,
    SegmentPlan,
    definition_of,
    plan_optimization,
    write_planned,
)
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.index_metadata import IndexMetadata
from lance_spark.table.manifests.index_section import parse_indices
from lance_spark.table.source import Split

_LOGGER = logging.getLogger(__name__)

_OPTIMIZED = row_type(
    index_name=StringType(), fragments_indexed=LongType(), segments_before=LongType(), segments_after=LongType()
)
_REFRESHED = row_type(fragments_indexed=LongType(), segments_added=LongType(), index_name=StringType())


@dataclass(frozen=True)
class _IndexToAdd:
    """An index that other partitions have and this one does not: the arguments of `define`."""

    column: str
    kind: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True)
class _SegmentToWrite:
    """One segment of a table, or of the partition `key` of a partitioned one."""

    location: TableLocation
    version: int
    key: str | None
    plan: SegmentPlan
    new: _IndexToAdd | None = None


@dataclass(frozen=True)
class _WrittenSegment:
    """A segment that a task has written, as bytes, and the ids of those that it replaces."""

    key: str | None
    segment: bytes
    replaced: tuple[str, ...]


@dataclass(frozen=True)
class _OptimizeState:
    """The version that the job reads, and the statistics of the index in it."""

    table: Dataset | PartitionedDataset
    name: str
    options: OptimizeOptions
    before: Mapping[str, Any]


@dataclass(frozen=True)
class ExtendTask:
    """Writes segments of an index; returns a `_WrittenSegment` for each."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Pickled by the driver of this query.
        yield messages([pickle.dumps(self._written(pickle.loads(item))) for item in work_of(batches)])

    @staticmethod
    def _written(work: _SegmentToWrite) -> _WrittenSegment:
        manifest, plan = work.location.at(work.version).manifest, work.plan
        if work.new is None:
            segment = write_planned(work.location, manifest, plan)
        else:
            definition = define(manifest, work.new.column, work.new.kind, plan.name, work.new.parameters)
            segment = build_segment(work.location, manifest, definition, plan.fragment_ids)
        return _WrittenSegment(work.key, segment.to_bytes(), plan.replaced)


def _optimize(call: Invocation) -> LocalRows | Tasks:
    given = call.arguments
    num_merged, retrain = given.integer("num_indices_to_merge"), bool(given.flag("retrain"))
    names = (given.required("name"),)
    found = _extended(call, OptimizeOptions(names, 1 if num_merged is None else num_merged, retrain))
    return found if isinstance(found, Tasks) else _optimized(*found)


def _refresh(call: Invocation) -> LocalRows | Tasks:
    found = _extended(call, OptimizeOptions((call.arguments.required("name"),), 0))
    return found if isinstance(found, Tasks) else _refreshed(*found)


def _extended(call: Invocation, options: OptimizeOptions) -> Tasks | tuple[str, Mapping[str, Any], Mapping[str, Any]]:
    """The job; the index and its statistics before and after if there is no segment to write."""
    table, name = call.table(), call.arguments.required("name")
    state = _OptimizeState(table, name, options, table.index_statistics(name))
    work = list(_work(table, options, name))
    if not work:
        return name, state.before, _in_this_process(state).index_statistics(name)
    return Tasks(ExtendTask(), [pickle.dumps(item) for item in work], pickle.dumps(state))


def _work(table: Dataset | PartitionedDataset, options: OptimizeOptions, name: str) -> Iterator[_SegmentToWrite]:
    splits = table.splits()
    definition = _definition(splits, name) or table.recorded_index(name)
    for item in splits:
        new = None
        if any(index.name == name for index in parse_indices(item.manifest.index_section)):
            plans = plan_optimization(item.table, item.manifest, options)
        elif definition is not None:
            # A partition that came after the index was built.
            kind, parameters = definition.builder.index_type.type_name, definition.builder.parameters
            new = _IndexToAdd(quoted(definition.column), kind, parameters)
            plans = [SegmentPlan(name, (), tuple(message.id for message in item.manifest.fragments.messages))]
        else:
            continue  # This release cannot build the index: the plan of a partition that has it says so.
        for plan in plans:
            # Segments of fragments alone do not depend on each other.
            groups = [plan.fragment_ids] if plan.replaced or new else segment_groups(item.manifest, plan.fragment_ids)
            for fragment_ids in groups:
                part = replace(plan, fragment_ids=fragment_ids)
                yield _SegmentToWrite(item.table, item.manifest.version, item.key, part, new)


def _definition(splits: Sequence[Split], name: str) -> IndexDefinition | None:
    """Definition of the index from the first split that has it; None if no split has it."""
    for item in splits:
        segments = [index for index in parse_indices(item.manifest.index_section) if index.name == name]
        if segments:
            return definition_of(item.manifest.schema, segments, item.bases)
    return None


def _commit(state: bytes, results: Sequence[bytes]) -> tuple[str, Mapping[str, Any], Mapping[str, Any]]:
    """The index and its statistics before and after."""
    planned: _OptimizeState = pickle.loads(state)  # Pickled by this package, on this driver.
    written: list[_WrittenSegment] = [pickle.loads(result) for result in results]
    made: dict[str | None, list[IndexMetadata]] = {}
    removed: dict[str | None, set[str]] = {}
    for item in written:
        made.setdefault(item.key, []).append(IndexMetadata.from_bytes(item.segment))
        removed.setdefault(item.key, set()).update(item.replaced)
    try:
        committed = planned.table.commit_segments(made, removed)
    except RetryableConflictError as error:
        # The files of the segments are left to a clean-up: an abandoned version of a partition may name them.
        _LOGGER.warning("another writer was first, index %s is optimized again: %s", planned.name, error)
        committed = _in_this_process(planned)
    return planned.name, planned.before, committed.index_statistics(planned.name)


def _in_this_process(state: _OptimizeState) -> Dataset | PartitionedDataset:
    options = state.options
    return state.table.optimize_indices(
        state.name, num_indices_to_merge=options.num_indices_to_merge, retrain=options.retrain
    )


def _commit_optimized(state: bytes, results: Sequence[bytes]) -> LocalRows:
    return _optimized(*_commit(state, results))


def _commit_refreshed(state: bytes, results: Sequence[bytes]) -> LocalRows:
    return _refreshed(*_commit(state, results))


def _optimized(name: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> LocalRows:
    row = (name, _fragments_added(before, after), before["num_segments"], after["num_segments"])
    return LocalRows.of(_OPTIMIZED, [row])


def _refreshed(name: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> LocalRows:
    num_added = max(0, after["num_segments"] - before["num_segments"])
    return LocalRows.of(_REFRESHED, [(_fragments_added(before, after), num_added, name)])


def _fragments_added(before: Mapping[str, Any], after: Mapping[str, Any]) -> int:
    return int(after["num_indexed_fragments"]) - int(before["num_indexed_fragments"])


PROCEDURES = (
    Procedure(
        "optimize_index",
        "Adds the rows that an index does not cover to it, as a job over the cluster.",
        (
            TABLE,
            INDEX_NAME,
            Parameter(
                "num_indices_to_merge",
                WHOLE,
                "the number of newest segments that are merged with them; 1 if it is left out",
            ),
            Parameter("retrain", FLAG, "builds the index again; false if it is left out"),
        ),
        _optimize,
        finish=_commit_optimized,
        changes_table=True,
    ),
    Procedure(
        "refresh_index",
        "Gives the rows that an index does not cover segments of their own, as a job over the cluster.",
        (TABLE, INDEX_NAME),
        _refresh,
        finish=_commit_refreshed,
        changes_table=True,
    ),
)
