"""Procedures for indexes; the statements of ALTER TABLE ... INDEX and SHOW INDEXES call them."""

from __future__ import annotations

import json
import logging
import pickle
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import pyarrow as pa
from pyspark.sql.types import ArrayType, DoubleType, LongType, StringType

from lance_spark.errors import InvalidInputError, RetryableConflictError
from lance_spark.partitioned.dataset import PartitionedDataset
from lance_spark.spark.column_names import in_sql
from lance_spark.spark.connector.channel.tasks import messages, work_of
from lance_spark.spark.connector.procedures.procedure_types import (
    FLAG,
    TABLE,
    TEXT,
    TEXTS,
    WHOLE,
    Arguments,
    Invocation,
    Parameter,
    Procedure,
    Tasks,
)
from lance_spark.spark.connector.scan.local_rows import LocalRows, row_type
from lance_spark.spark.connector.search.arguments import spelt_column
from lance_spark.table.dataset import Dataset
from lance_spark.table.indexes.build import build_segment
from lance_spark.table.indexes.create import trained
from lance_spark.table.indexes.definition import define
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.index_metadata import IndexMetadata
from lance_spark.table.manifests.manifest import Manifest

_CREATED = row_type(fragments_indexed=LongType(), index_name=StringType())
_DROPPED = row_type(index_name=StringType(), status=StringType())
_SHOWN = row_type(
    name=StringType(),
    fields=ArrayType(StringType()),
    index_type=StringType(),
    num_indexed_fragments=LongType(),
    num_indexed_rows=LongType(),
    num_unindexed_fragments=LongType(),
    num_unindexed_rows=LongType(),
)
_RECALL = row_type(index_name=StringType(), recall=DoubleType(), least_recall=DoubleType(), num_queries=LongType())

SEGMENT_ROWS = 8 << 20
"""About this many rows a segment covers, if the user does not say how many segments there are."""

INDEX_NAME = Parameter("name", TEXT, "name of the index", required=True)

_NUM_SEGMENTS = "num_segments"

_MAX_JOBS = 5
"""Maximum number of builds of an index, if other writers move or change its values meanwhile."""

_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True)
class _IndexToBuild:
    """Definition of an index to build: the arguments of `define`."""

    name: str
    kind: str
    column: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True)
class _SegmentWork:
    """One segment: fragments of a table, or of the partition `key` of a partitioned one.

    `trained` are parameters that the driver adds to those of the user: a model that all segments of a table share.
    """

    location: TableLocation
    version: int
    key: str | None
    fragment_ids: tuple[int, ...]
    trained: Mapping[str, object]


@dataclass(frozen=True)
class _BuildState:
    """The version that the job reads, what it builds from it, and how many jobs other writers have outrun."""

    table: Dataset | PartitionedDataset
    index: _IndexToBuild
    num_segments: int | None
    lost: int = 0


@dataclass(frozen=True)
class BuildTask:
    """Builds segments of an index; returns the partition and the metadata of each."""

    index: _IndexToBuild

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Pickled by the driver of this query.
        yield messages([self._built(pickle.loads(item)) for item in work_of(batches)])

    def _built(self, work: _SegmentWork) -> bytes:
        manifest, index = work.location.at(work.version).manifest, self.index
        definition = define(manifest, index.column, index.kind, index.name, {**index.parameters, **work.trained})
        segment = build_segment(work.location, manifest, definition, work.fragment_ids)
        return pickle.dumps((work.key, segment.to_bytes()))


def _create(call: Invocation) -> LocalRows | Tasks:
    table, given = call.table(), call.arguments
    columns = given.texts("columns")
    if len(columns) != 1:
        raise InvalidInputError(f"an index is on one column; {len(columns)} are given: {', '.join(columns)}")
    name = given.required("name")
    if name in table.index_columns() and given.flag("if_not_exists"):
        return LocalRows.of(_CREATED, [(0, name)])
    parameters = _parameters(given)
    num_segments = parameters.pop(_NUM_SEGMENTS, None)
    if num_segments is not None and (type(num_segments) is not int or num_segments < 1):
        raise InvalidInputError(f"{_NUM_SEGMENTS} is {num_segments}; it is a whole number of at least 1")
    column = spelt_column(columns[0], table.stored_schema, in_lists=True)
    return _built(_BuildState(table, _IndexToBuild(name, given.required("kind"), column, parameters), num_segments))


def _built(state: _BuildState) -> LocalRows | Tasks:
    table, index = state.table, state.index
    work = list(_work(table, index, state.num_segments))
    if not work:
        table.create_scalar_index(index.column, index.kind, index.name, True, **index.parameters)
        return LocalRows.of(_CREATED, [(0, index.name)])
    return Tasks(BuildTask(index), [pickle.dumps(item) for item in work], pickle.dumps(state))


def _commit_created(state: bytes, results: Sequence[bytes]) -> LocalRows | Tasks:
    planned: _BuildState = pickle.loads(state)  # Pickled by this package, on this driver.
    by_key: dict[str | None, list[IndexMetadata]] = {}
    for result in results:
        key, segment = pickle.loads(result)
        by_key.setdefault(key, []).append(IndexMetadata.from_bytes(segment))
    try:
        planned.table.commit_segments(by_key)
    except RetryableConflictError as error:
        if planned.lost + 1 >= _MAX_JOBS:
            raise
        _LOGGER.warning("another writer was first, index %s is built again: %s", planned.index.name, error)
        return _built(replace(planned, table=planned.table.newest(), lost=planned.lost + 1))
    num_fragments = sum(len(item.fragment_ids()) for items in by_key.values() for item in items)
    return LocalRows.of(_CREATED, [(num_fragments, planned.index.name)])


def _work(
    table: Dataset | PartitionedDataset, index: _IndexToBuild, num_segments: int | None
) -> Iterator[_SegmentWork]:
    for item in table.splits():
        # A wrong kind, column or parameter is an error before there is a task.
        definition = define(item.manifest, index.column, index.kind, index.name, index.parameters)
        groups = segment_groups(item.manifest, None, num_segments)
        added: Mapping[str, object] = {}
        if len(groups) > 1:
            added = trained(item.manifest, item.table.bases(item.manifest), definition).builder.shared_parameters()
        for fragment_ids in groups:
            yield _SegmentWork(item.table, item.manifest.version, item.key, fragment_ids, added)


def segment_groups(
    manifest: Manifest, fragment_ids: Collection[int] | None, num_segments: int | None = None
) -> list[tuple[int, ...]]:
    """Fragments in groups of about equal numbers, one for each segment.

    Args:
        fragment_ids: those to divide; None for all.
        num_segments: how many groups; None for one for each `SEGMENT_ROWS` rows.
    """
    wanted = None if fragment_ids is None else set(fragment_ids)
    messages = [item for item in manifest.fragments.messages if wanted is None or item.id in wanted]
    if num_segments is None:
        num_segments = max(1, -(-sum(message.physical_rows for message in messages) // SEGMENT_ROWS))
    count = min(num_segments, len(messages))
    bounds = [len(messages) * number // count for number in range(count + 1)] if count else [0]
    return [tuple(item.id for item in messages[start:stop]) for start, stop in pairwise(bounds)]


def _drop(call: Invocation) -> LocalRows:
    table, name = call.table(), call.arguments.required("name")
    if name not in table.index_columns() and call.arguments.flag("if_exists"):
        return LocalRows.of(_DROPPED, [(name, "absent")])
    table.drop_index(name)
    return LocalRows.of(_DROPPED, [(name, "dropped")])


def _show(call: Invocation) -> LocalRows:
    table = call.table()
    fields = table.index_columns()
    rows = []
    for name in sorted(fields):
        found = table.index_statistics(name)
        counts = [found[column] for column in _SHOWN.fieldNames()[3:]]
        rows.append((name, [in_sql(column) for column in fields[name]], str(found["index_type"]).lower(), *counts))
    return LocalRows.of(_SHOWN, rows)


def _recall(call: Invocation) -> LocalRows:
    """Measures a vector index. Arguments that are null are left to `index_recall`."""
    given = call.arguments
    name = given.required("name")
    numbers = {key: given.integer(key) for key in ("k", "num_queries", "nprobes", "refine_factor")}
    found = call.table().index_recall(name, **{key: value for key, value in numbers.items() if value is not None})
    return LocalRows.of(_RECALL, [(name, found["recall"], found["least_recall"], found["num_queries"])])


def _parameters(given: Arguments) -> dict[str, Any]:
    """The options, ``name=value`` each, names in lower case."""
    found: dict[str, Any] = {}
    for text in given.texts("options"):
        name, equals, value = text.partition("=")
        if not equals or name.strip().lower() in found:
            raise InvalidInputError(f"option {text!r} is not of the form name=value, or is given twice")
        found[name.strip().lower()] = _value(value.strip())
    return found


def _value(text: str) -> object:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if text.lower() == "null":
        return None
    if text.startswith("["):
        try:
            return json.loads(text)
        except ValueError as error:
            raise InvalidInputError(f"the option value {text} is no JSON array: {error}") from error
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


PROCEDURES = (
    Procedure(
        "create_index",
        "Builds an index over a column, as a job over the cluster; one of the same name is replaced.",
        (
            TABLE,
            INDEX_NAME,
            Parameter("kind", TEXT, "such as btree, bitmap, zonemap, fts or ivf_pq", required=True),
            Parameter("columns", TEXTS, "the column, as an array of one name", required=True),
            Parameter(
                "options",
                TEXTS,
                "name=value each, lists as JSON: parameters of the kind, and num_segments; none if it is left out",
            ),
            Parameter("if_not_exists", FLAG, "leaves an index of this name as it is; false if it is left out"),
        ),
        _create,
        finish=_commit_created,
        changes_table=True,
    ),
    Procedure(
        "drop_index",
        "Removes an index; a clean-up removes its files.",
        (
            TABLE,
            INDEX_NAME,
            Parameter("if_exists", FLAG, "no error if there is no such index; false if it is left out"),
        ),
        _drop,
        changes_table=True,
    ),
    Procedure("show_indexes", "Lists the indexes of a table, and how many rows they cover.", (TABLE,), _show),
    Procedure(
        "index_recall",
        "Measures which share of the nearest rows searches with a vector index find, for vectors of random rows.",
        (
            TABLE,
            INDEX_NAME,
            Parameter("k", WHOLE, "the number of nearest rows; 10 if it is left out"),
            Parameter("num_queries", WHOLE, "the number of rows that are asked about; 100 if it is left out"),
            Parameter(
                "nprobes", WHOLE, "the number of partitions that are searched; that of a search if it is left out"
            ),
            Parameter(
                "refine_factor",
                WHOLE,
                "candidates for each row that are compared exactly; what suits the index if it is left out",
            ),
        ),
        _recall,
    ),
)
