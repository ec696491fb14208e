"""Procedures on columns: the primary key, and values for rows that a view tells by their addresses."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
from pyspark.sql.types import ArrayType, LongType, StringType, StructType

from lance_spark.errors import InvalidInputError, NotFoundError
from lance_spark.namespace.partitioned_table import PartitionedTable
from lance_spark.schema.arrow import PRIMARY_KEY, PRIMARY_KEY_POSITION
from lance_spark.schema.columns import is_leaf
from lance_spark.schema.evolution import field_at
from lance_spark.schema.projection import parse_path
from lance_spark.spark.bridge.handles import TableHandle
from lance_spark.spark.bridge.local_rows import LocalRows, row_type
from lance_spark.spark.bridge.partitioned_procedures import with_primary_key
from lance_spark.spark.bridge.procedure_types import (
    TABLE,
    TEXT,
    TEXTS,
    Invocation,
    Parameter,
    Procedure,
    Query,
    QueryPlan,
    Source,
)
from lance_spark.spark.bridge.tasks import messages
from lance_spark.spark.types import from_spark_batch, table_types, written_schema
from lance_spark.table.columns.backfill import (
    BackfilledFragment,
    BackfillPlan,
    commit_backfill,
    plan_new_columns,
    plan_new_values,
    write_backfill,
)
from lance_spark.table.dataset import Dataset
from lance_spark.table.location import TableLocation
from lance_spark.table.paths import new_job
from lance_spark.table.reading.system_columns import ROW_ADDRESS
from lance_spark.table.row_address import split_addresses
from lance_spark.table.writing.write import remove_job_files

_KEY = row_type(version=LongType(), columns=ArrayType(StringType()))
_FILLED = row_type(version=LongType(), fragments=LongType(), columns=ArrayType(StringType()))


def _set_primary_key(call: Invocation) -> LocalRows:
    table, columns = call.table(), call.arguments.texts("columns")
    if not columns or len(set(columns)) != len(columns):
        raise InvalidInputError(f"{list(columns)} are no columns of a key")
    known = [item for item in table.lance_schema.walk() if item.unenforced_primary_key]
    wanted = [field_at(table.lance_schema, name) for name in columns]
    for name, item in zip(columns, wanted, strict=True):
        if item.nullable or not is_leaf(item) or item.children:
            raise InvalidInputError(f"{name!r} cannot be part of the primary key: it allows nulls, or holds others")
    if known:
        known.sort(key=lambda item: item.unenforced_primary_key_position)
        if [item.id for item in known] != [item.id for item in wanted]:
            raise InvalidInputError("the table has a primary key, which cannot be changed once it is set")
        return LocalRows.of(_KEY, [(table.version, list(columns))])
    if isinstance(table, PartitionedTable):
        return LocalRows.of(_KEY, [(with_primary_key(table, columns).version, list(columns))])
    entries = {
        name: {PRIMARY_KEY: "true", PRIMARY_KEY_POSITION: str(place)} for place, name in enumerate(columns, start=1)
    }
    return LocalRows.of(_KEY, [(table.update_field_metadata(entries).version, list(columns))])


@dataclass(frozen=True)
class _State:
    location: TableLocation
    plan: BackfillPlan


@dataclass(frozen=True)
class BackfillTask:
    """Writes the columns of the fragments whose rows it gets, ordered by their addresses.

    Attributes:
        target: address and columns, in the types of the table.
    """

    location: TableLocation
    plan: BackfillPlan
    target: pa.Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        base = self.location.at(self.plan.base_version).manifest
        places = {message.id: place for place, message in enumerate(base.fragments.messages)}
        bases = self.location.bases(base)
        written = []
        for number, rows in _by_fragment(from_spark_batch(batch, self.target) for batch in batches):
            if number not in places:
                raise NotFoundError(f"version {base.version} of {self.location.uri} has no fragment {number}")
            addresses = rows.column(ROW_ADDRESS).to_numpy().view(np.uint64)
            columns = rows.drop_columns([ROW_ADDRESS])
            fragment = base.fragments[places[number]]
            made = write_backfill(self.location.store, bases, self.plan, fragment, addresses, columns)
            if made is not None:
                written.append(pickle.dumps(made))
        yield messages(written)


def _by_fragment(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each fragment, of batches that are ordered by address."""
    held: list[pa.RecordBatch] = []
    current = -1
    for batch in batches:
        addresses = batch.column(ROW_ADDRESS)
        if addresses.null_count:
            raise InvalidInputError(
                f"a row has no {ROW_ADDRESS}, so it cannot be told which row of the table it is for"
            )
        ids, _ = split_addresses(addresses.to_numpy().view(np.uint64))
        bounds = [0, *(np.flatnonzero(np.diff(ids)) + 1).tolist(), len(ids)]
        for start, stop in pairwise(bounds):
            if start == stop:
                continue
            if int(ids[start]) != current and held:
                yield current, pa.Table.from_batches(held)
                held = []
            current = int(ids[start])
            held.append(batch.slice(start, stop - start))
    if held:
        yield current, pa.Table.from_batches(held)


def _query(call: Invocation) -> Query:
    """The rows of each fragment together and in order."""
    call.dataset()
    source = ".".join(_quoted(part) for part in parse_path(call.arguments.required("source")))
    columns = call.arguments.texts("columns")
    if not columns or len(set(columns)) != len(columns):
        raise InvalidInputError(f"{list(columns)} are no columns to write")
    listed = ", ".join(_quoted(name) for name in columns)
    return Query(
        f"SELECT CAST({ROW_ADDRESS} AS BIGINT) AS {ROW_ADDRESS}, {listed} FROM {source} "
        f"DISTRIBUTE BY shiftrightunsigned({ROW_ADDRESS}, 32) SORT BY {ROW_ADDRESS}"
    )


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _plan_new(call: Invocation, source: Source) -> QueryPlan:
    table = _read_version(call.dataset(), source.tables)
    fields = table_types(_values_of(source.columns), None)
    plan = plan_new_columns(table.location, table.manifest, fields, job=new_job())
    return _query_plan(table, plan)


def _plan_values(call: Invocation, source: Source) -> QueryPlan:
    table = _read_version(call.dataset(), source.tables)
    plan = plan_new_values(table.location, table.manifest, call.arguments.texts("columns"), job=new_job())
    given, known = _values_of(source.columns), plan.arrow_schema
    kept = table_types(given, known)
    for field in kept:
        if field.type != known.field(field.name).type:
            raise InvalidInputError(
                f"column {field.name!r} is {known.field(field.name).type}, its new values are {field.type}; cast them"
            )
    return _query_plan(table, plan)


def _query_plan(table: Dataset, plan: BackfillPlan) -> QueryPlan:
    target = pa.schema([pa.field(ROW_ADDRESS, pa.int64()), *plan.arrow_schema])
    state = pickle.dumps(_State(table.location, plan))
    return QueryPlan(BackfillTask(table.location, plan, target), state)


def _values_of(columns: StructType) -> pa.Schema:
    fields = [field for field in columns.fields if field.name != ROW_ADDRESS]
    return written_schema(StructType(fields))


def _read_version(newest: Dataset, tables: Sequence[TableHandle]) -> Dataset:
    """The version whose addresses the rows have: the one that the view reads, if it reads the table.

    Raises:
        InvalidInputError: it reads several.
    """
    here = (newest.location.uri.rstrip("/"), newest.location.branch)
    found = {item.version for item in tables if (item.location().uri.rstrip("/"), item.branch) == here}
    if len(found) > 1:
        raise InvalidInputError(f"the view reads the versions {sorted(map(str, found))} of the table; let it read one")
    version = next(iter(found), None)
    if version is None or version == newest.version:
        return newest
    return Dataset(newest.location, newest.location.at(version).manifest)


def _commit(state: bytes, results: Sequence[bytes]) -> LocalRows:
    planned: _State = pickle.loads(state)  # Made by this package, on this driver and its executors.
    written: list[BackfilledFragment] = [pickle.loads(result) for result in results]
    base = planned.location.at(planned.plan.base_version).manifest
    made = commit_backfill(planned.location, base, planned.plan, written)
    names = [field.name for field in planned.plan.written.fields]
    return LocalRows.of(_FILLED, [(made.version, len(written), names)])


def _abort(state: bytes) -> None:
    planned: _State = pickle.loads(state)
    if planned.plan.job is not None:
        remove_job_files(planned.location.store, planned.plan.job)


_SOURCE = (
    TABLE,
    Parameter("source", TEXT, f"table or view with the columns, and {ROW_ADDRESS} of the rows of the table", True),
    Parameter("columns", TEXTS, "the columns", True),
)

PROCEDURES = (
    Procedure(
        "set_primary_key",
        "Says which columns tell rows apart; nothing enforces it.",
        (TABLE, Parameter("columns", TEXTS, "the columns, in the order of the key", required=True)),
        _set_primary_key,
    ),
    Procedure(
        "add_columns_from",
        "Adds columns with the values of a view, as a job over the cluster; rows that the view lacks get nulls.",
        _SOURCE,
        _query,
        _plan_new,
        _commit,
        _abort,
    ),
    Procedure(
        "update_columns_from",
        "Gives columns the values of a view, as a job over the cluster; rows that the view lacks keep theirs.",
        _SOURCE,
        _query,
        _plan_values,
        _commit,
        _abort,
    ),
)
