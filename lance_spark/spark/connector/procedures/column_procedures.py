"""Procedures for columns: the primary key, and values for rows that a view identifies by address."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.types import ArrayType, LongType, StringType, StructType

from lance_spark.errors import InvalidInputError
from lance_spark.partitioned.backfill import (
    PartitionedBackfill,
    commit_partitioned_backfill,
    plan_partitioned_columns,
    plan_partitioned_values,
)
from lance_spark.partitioned.table import PartitionedTable
from lance_spark.schema.arrow import PRIMARY_KEY, PRIMARY_KEY_POSITION
from lance_spark.schema.columns import is_leaf
from lance_spark.schema.evolution import field_at
from lance_spark.schema.projection import parse_path
from lance_spark.spark.connector.channel.handles import TableHandle
from lance_spark.spark.connector.channel.tasks import PARTITION_COLUMN
from lance_spark.spark.connector.procedures.column_tasks import BackfillTask, PartitionedBackfillTask
from lance_spark.spark.connector.procedures.partitioned_procedures import with_primary_key
from lance_spark.spark.connector.procedures.procedure_types import (
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
from lance_spark.spark.connector.scan.local_rows import LocalRows, row_type
from lance_spark.spark.connector.write.tables import PARTITION_ROW_ID, ROW_ID, check_partitioned_changeable
from lance_spark.spark.types import table_types, written_schema
from lance_spark.table.columns.backfill import (
    BackfilledFragment,
    BackfillPlan,
    commit_backfill,
    plan_new_columns,
    plan_new_values,
)
from lance_spark.table.dataset import Dataset
from lance_spark.table.location import TableLocation
from lance_spark.table.paths import new_job
from lance_spark.table.reading.system_columns import ROW_ADDRESS
from lance_spark.table.writing.write import remove_job_files

_KEY = row_type(status=StringType(), primary_key_columns=StringType())
_FILLED = row_type(version=LongType(), fragments=LongType(), columns=ArrayType(StringType()))
_ID_TYPES = {PARTITION_COLUMN: "STRING", ROW_ADDRESS: "BIGINT"}


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
    elif isinstance(table, PartitionedTable):
        with_primary_key(table, columns)
    else:
        table.update_field_metadata(
            {
                name: {PRIMARY_KEY: "true", PRIMARY_KEY_POSITION: str(place)}
                for place, name in enumerate(columns, start=1)
            }
        )
    return LocalRows.of(_KEY, [("OK", ", ".join(columns))])


@dataclass(frozen=True)
class _State:
    location: TableLocation
    plan: BackfillPlan


def _query(call: Invocation) -> Query:
    """The rows, grouped by fragment and sorted."""
    table = _table(call)
    ids = PARTITION_ROW_ID if isinstance(table, PartitionedTable) else ROW_ID
    source = ".".join(_quoted(part) for part in parse_path(call.arguments.required("source")))
    columns = call.arguments.texts("columns")
    names = [_as_in(table, name, call) for name in columns]
    compared = names if call.case_sensitive else [name.lower() for name in names]
    if not columns or len(set(compared)) != len(columns) or not set(names).isdisjoint(ids):
        raise InvalidInputError(f"{list(columns)} are no columns to write")
    selected = [f"CAST({name} AS {_ID_TYPES[name]}) AS {name}" for name in ids]
    selected += [f"{_quoted(column)} AS {_quoted(name)}" for column, name in zip(columns, names, strict=True)]
    homes = [name for name in ids if name != ROW_ADDRESS]
    return Query(
        f"SELECT {', '.join(selected)} FROM {source} "
        f"DISTRIBUTE BY {', '.join([*homes, f'shiftrightunsigned({ROW_ADDRESS}, 32)'])} SORT BY {', '.join(ids)}"
    )


def _as_in(table: Dataset | PartitionedTable, name: str, call: Invocation) -> str:
    """A column's name as the table spells it; `name` if Spark would not match any."""
    known = table.lance_schema.names()
    alike = [] if name in known or call.case_sensitive else [item for item in known if item.lower() == name.lower()]
    return alike[0] if len(alike) == 1 else name


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _table(call: Invocation) -> Dataset | PartitionedTable:
    """The newest version of the table.

    Raises:
        InvalidInputError: rows of a partitioned table have no address. For a plain table, reading raises this error.
    """
    table = call.table()
    if isinstance(table, PartitionedTable):
        check_partitioned_changeable(table)
        table.catalog.table.history.check_commits()
    else:
        table.location.history.check_commits()
    return table


def _plan_new(call: Invocation, source: Source) -> QueryPlan:
    newest = _table(call)
    if isinstance(newest, PartitionedTable):
        whole = _whole_version(newest, source.tables)
        fields = table_types(_values_of(source.columns, PARTITION_ROW_ID), None)
        return _partitioned_plan(plan_partitioned_columns(whole, fields, new_job()))
    table = _read_version(newest, source.tables)
    fields = table_types(_values_of(source.columns, ROW_ID), None)
    return _query_plan(table, plan_new_columns(table.location, table.manifest, fields, job=new_job()))


def _plan_values(call: Invocation, source: Source) -> QueryPlan:
    newest = _table(call)
    if isinstance(newest, PartitionedTable):
        columns = [name for name in source.columns.fieldNames() if name not in PARTITION_ROW_ID]
        planned = plan_partitioned_values(_whole_version(newest, source.tables), columns, new_job())
        _check_types(_values_of(source.columns, PARTITION_ROW_ID), planned.arrow_schema)
        return _partitioned_plan(planned)
    table = _read_version(newest, source.tables)
    columns = [name for name in source.columns.fieldNames() if name not in ROW_ID]
    plan = plan_new_values(table.location, table.manifest, columns, job=new_job())
    _check_types(_values_of(source.columns, ROW_ID), plan.arrow_schema)
    return _query_plan(table, plan)


def _check_types(given: pa.Schema, known: pa.Schema) -> None:
    for field in table_types(given, known):
        if field.type != known.field(field.name).type:
            raise InvalidInputError(
                f"column {field.name!r} is {known.field(field.name).type}, its new values are {field.type}; cast them"
            )


def _query_plan(table: Dataset, plan: BackfillPlan) -> QueryPlan:
    target = pa.schema([pa.field(ROW_ADDRESS, pa.int64()), *plan.arrow_schema])
    state = pickle.dumps(_State(table.location, plan))
    return QueryPlan(BackfillTask(table.location, plan, target), state)


def _partitioned_plan(plan: PartitionedBackfill) -> QueryPlan:
    ids = [pa.field(PARTITION_COLUMN, pa.string()), pa.field(ROW_ADDRESS, pa.int64())]
    target = pa.schema([*ids, *plan.arrow_schema])
    return QueryPlan(PartitionedBackfillTask(plan, target), pickle.dumps(plan))


def _values_of(columns: StructType, ids: Sequence[str]) -> pa.Schema:
    fields = [field for field in columns.fields if field.name not in ids]
    return written_schema(StructType(fields))


def _read_version(newest: Dataset, tables: Sequence[TableHandle]) -> Dataset:
    """The version of the row addresses: the one that the view reads, if it reads the table.

    Raises:
        InvalidInputError: it reads several versions.
    """
    here = (newest.location.uri.rstrip("/"), newest.location.branch)
    found = {item.version for item in tables if (item.location().uri.rstrip("/"), item.branch) == here}
    version = _only(found)
    if version is None or version == newest.version:
        return newest
    return Dataset(newest.location, newest.location.at(version).manifest)


def _whole_version(newest: PartitionedTable, tables: Sequence[TableHandle]) -> PartitionedTable:
    """As `_read_version`, for a partitioned table, with the same errors."""
    here = TableLocation(newest.root, newest.storage_options).uri.rstrip("/")
    found = {item.version: item for item in tables if item.partitioned and item.location().uri.rstrip("/") == here}
    version = _only(set(found))
    return newest if version is None or version == newest.version else found[version].open_partitioned()


def _only(versions: set[int | None]) -> int | None:
    if len(versions) > 1:
        raise InvalidInputError(
            f"the view reads the versions {sorted(map(str, versions))} of the table; let it read one"
        )
    return next(iter(versions), None)


def _commit(state: bytes, results: Sequence[bytes]) -> LocalRows:
    planned: _State | PartitionedBackfill = pickle.loads(state)  # Pickled by this package, on this driver.
    plan = planned if isinstance(planned, PartitionedBackfill) else planned.plan
    names = [field.name for field in plan.written.fields]
    if isinstance(planned, PartitionedBackfill):
        version = commit_partitioned_backfill(planned, [pickle.loads(result) for result in results]).version
    else:
        written: list[BackfilledFragment] = [pickle.loads(result) for result in results]
        base = planned.location.at(planned.plan.base_version).manifest
        version = commit_backfill(planned.location, base, planned.plan, written).version
    return LocalRows.of(_FILLED, [(version, len(results), names)])


def _abort(state: bytes) -> None:
    planned: _State | PartitionedBackfill = pickle.loads(state)
    if isinstance(planned, PartitionedBackfill):
        planned.remove_files()
    elif planned.plan.job is not None:
        remove_job_files(planned.location.store, planned.plan.job)


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
    ),
    Procedure(
        "add_columns_from",
        "Adds columns with the values of a view, as a job over the cluster; rows that the view lacks get nulls.",
        _SOURCE,
        _query,
        _plan_new,
        _commit,
        _abort,
        changes_rows=True,
    ),
    Procedure(
        "update_columns_from",
        "Gives columns the values of a view, as a job over the cluster; rows that the view lacks keep theirs.",
        _SOURCE,
        _query,
        _plan_values,
        _commit,
        _abort,
        changes_rows=True,
    ),
)
