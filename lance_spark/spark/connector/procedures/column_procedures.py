"""Procedures for columns: the primary key, and values for rows that a view identifies by address."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.types import ArrayType, LongType, StringType, StructType

from lance_spark.errors import InvalidInputError
from lance_spark.schema.arrow import PRIMARY_KEY, PRIMARY_KEY_POSITION
from lance_spark.schema.columns import is_leaf
from lance_spark.schema.evolution import field_at
from lance_spark.schema.projection import parse_path, quoted
from lance_spark.schema.text_type import has_collation
from lance_spark.spark.blobs.references import decoded_secret
from lance_spark.spark.connector.channel.handles import TableHandle
from lance_spark.spark.connector.channel.tasks import PARTITION_COLUMN, messages
from lance_spark.spark.connector.procedures.procedure_types import (
    TABLE,
    TEXT,
    TEXTS,
    AnalyzedQuery,
    Invocation,
    Parameter,
    Procedure,
    Query,
    QueryPlan,
)
from lance_spark.spark.connector.scan.local_rows import LocalRows, row_type
from lance_spark.spark.connector.write.tables import PARTITION_ROW_ID, ROW_ID, check_identifiable
from lance_spark.spark.jobs.backfill_job import AnyTable, BackfillJob, plan_columns, plan_values
from lance_spark.spark.jobs.compaction_job import AnyDataset
from lance_spark.spark.types.descriptions import check_no_descriptions
from lance_spark.spark.types.schemas import table_types, written_schema
from lance_spark.storage.paths import place_of
from lance_spark.table.columns.backfill_writer import Backfill
from lance_spark.table.reading.system_columns import ROW_ADDRESS

_KEY = row_type(status=StringType(), primary_key_columns=StringType())
_VERSION = row_type(version=LongType())
_FILLED = row_type(version=LongType(), fragments=LongType(), columns=ArrayType(StringType()))
_ID_TYPES = {PARTITION_COLUMN: "STRING", ROW_ADDRESS: "BIGINT"}


def _sync_identity(call: Invocation) -> LocalRows:
    return LocalRows.of(_VERSION, [(call.table().sync_identity().version,)])


def _set_primary_key(call: Invocation) -> LocalRows:
    table, columns = call.table(), call.arguments.texts("columns")
    if not columns or len(set(columns)) != len(columns):
        raise InvalidInputError(f"{list(columns)} are not key columns")
    known = [item for item in table.lance_schema.walk() if item.unenforced_primary_key]
    wanted = [field_at(table.lance_schema, name) for name in columns]
    for name, item in zip(columns, wanted, strict=True):
        if item.nullable or not is_leaf(item) or item.children:
            raise InvalidInputError(f"{name!r} cannot be part of the primary key: it allows nulls, or holds others")
        if has_collation(item):
            raise InvalidInputError(
                f"{name!r} cannot be part of the primary key: keys compare bytes; it has a collation"
            )
    if known:
        known.sort(key=lambda item: item.unenforced_primary_key_position)
        if [item.id for item in known] != [item.id for item in wanted]:
            raise InvalidInputError("the table has a primary key, which cannot be changed once it is set")
    else:
        table.update_field_metadata(
            {
                name: {PRIMARY_KEY: "true", PRIMARY_KEY_POSITION: str(place)}
                for place, name in enumerate(columns, start=1)
            }
        )
    return LocalRows.of(_KEY, [("OK", ", ".join(columns))])


@dataclass(frozen=True)
class BackfillTask:
    """Writes columns for rows that are sorted by split and address."""

    job: BackfillJob

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield messages([pickle.dumps(item) for item in self.job.write(batches)])


def _query(call: Invocation) -> Query:
    """The rows, grouped by fragment and sorted."""
    table = _table(call)
    ids = _row_id(table)
    source = quoted(parse_path(call.arguments.required("source")))
    columns = call.arguments.texts("columns")
    names = [call.spelled_as_in(table, name) for name in columns]
    compared = names if call.session.case_sensitive else [name.lower() for name in names]
    if not columns or len(set(compared)) != len(columns) or not set(names).isdisjoint(ids):
        raise InvalidInputError(f"{list(columns)} are not columns to write")
    selected = [f"CAST({name} AS {_ID_TYPES[name]}) AS {name}" for name in ids]
    selected += [f"{quoted((column,))} AS {quoted((name,))}" for column, name in zip(columns, names, strict=True)]
    homes = [name for name in ids if name != ROW_ADDRESS]
    return Query(
        f"SELECT {', '.join(selected)} FROM {source} "
        f"DISTRIBUTE BY {', '.join([*homes, f'shiftrightunsigned({ROW_ADDRESS}, 32)'])} SORT BY {', '.join(ids)}"
    )


def _table(call: Invocation) -> AnyDataset:
    """The newest version of the table.

    Raises:
        InvalidInputError: rows of a partitioned table have no address. For a plain table, reading raises this error.
    """
    table = call.table()
    if table.has_split_keys:
        check_identifiable(table.stored_schema, PARTITION_ROW_ID)
    table.versions_location.history.check_commits()
    return table


def _row_id(table: AnyTable) -> tuple[str, ...]:
    return PARTITION_ROW_ID if table.has_split_keys else ROW_ID


def _plan_new(call: Invocation, source: AnalyzedQuery) -> QueryPlan:
    table = _read_version(_table(call), source.tables)
    plan = plan_columns(table, table_types(_values_of(source.columns, _row_id(table)), None))
    return _query_plan(call, table, plan)


def _plan_values(call: Invocation, source: AnalyzedQuery) -> QueryPlan:
    table = _read_version(_table(call), source.tables)
    given = _values_of(source.columns, _row_id(table))
    plan = plan_values(table, given.names)
    _check_types(given, plan.arrow_schema)
    return _query_plan(call, table, plan)


def _check_types(given: pa.Schema, known: pa.Schema) -> None:
    for field in table_types(given, known):
        if field.type != known.field(field.name).type:
            raise InvalidInputError(
                f"column {field.name!r} is {known.field(field.name).type}, its new values are {field.type}; cast them"
            )


def _query_plan(call: Invocation, table: AnyTable, plan: Backfill) -> QueryPlan:
    split_column = PARTITION_COLUMN if PARTITION_COLUMN in _row_id(table) else None
    job = BackfillJob(plan, split_column, decoded_secret(call.session.blob_mark))
    return QueryPlan(BackfillTask(job), pickle.dumps(plan))


def _values_of(columns: StructType, ids: Sequence[str]) -> pa.Schema:
    fields = [field for field in columns.fields if field.name not in ids]
    values = written_schema(StructType(fields))
    check_no_descriptions(values)
    return values


def _read_version(newest: AnyDataset, tables: Sequence[TableHandle]) -> AnyTable:
    """The version of the row addresses: the one that the view reads, if it reads the table.

    Raises:
        InvalidInputError: it reads several versions.
    """
    here = (place_of(newest.uri), newest.branch)
    found = {item.version: item for item in tables if (place_of(item.uri), item.branch) == here}
    version = _only(set(found))
    return newest if version is None or version == newest.version else found[version].source()


def _only(versions: set[int | None]) -> int | None:
    if len(versions) > 1:
        raise InvalidInputError(
            f"the view reads the versions {sorted(map(str, versions))} of the table; let it read one"
        )
    return next(iter(versions), None)


def _commit(state: bytes, results: Sequence[bytes]) -> LocalRows:
    plan: Backfill = pickle.loads(state)  # Pickled by this package, on this driver.
    version = plan.commit([pickle.loads(result) for result in results])
    return LocalRows.of(_FILLED, [(version, len(results), [field.name for field in plan.written.fields])])


def _abort(state: bytes) -> None:
    plan: Backfill = pickle.loads(state)
    plan.remove_files()


_SOURCE = (
    TABLE,
    Parameter(
        "source",
        TEXT,
        f"table or view with the columns, and {ROW_ADDRESS} of the rows of the table; of a partitioned one "
        f"{PARTITION_COLUMN} too",
        True,
    ),
    Parameter("columns", TEXTS, "the columns", True),
)

PROCEDURES = (
    Procedure(
        "set_primary_key",
        "Says which columns tell rows apart; nothing enforces it.",
        (TABLE, Parameter("columns", TEXTS, "the columns, in the order of the key", required=True)),
        _set_primary_key,
        changes_table=True,
    ),
    Procedure(
        "sync_identity",
        "Counts the values that rows have in identity columns, so that new rows get others.",
        (TABLE,),
        _sync_identity,
        changes_table=True,
    ),
    Procedure(
        "add_columns_from",
        "Adds columns with the values of a view, as a job over the cluster; rows that the view lacks get nulls.",
        _SOURCE,
        _query,
        _plan_new,
        _commit,
        _abort,
        changes_table=True,
    ),
    Procedure(
        "update_columns_from",
        "Gives columns the values of a view, as a job over the cluster; rows that the view lacks keep theirs.",
        _SOURCE,
        _query,
        _plan_values,
        _commit,
        _abort,
        changes_table=True,
    ),
)
