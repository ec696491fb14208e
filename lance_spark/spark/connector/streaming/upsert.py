"""The plan of an epoch whose rows replace those with the same key (docs/design/036-streaming.md)."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
from pyspark.sql.types import StructField, StructType

from lance_spark.errors import InvalidInputError, NotFoundError, UnsupportedFeatureError
from lance_spark.expr.evaluate import evaluate
from lance_spark.expr.nodes import Expr, referenced_columns
from lance_spark.expr.values import no_rows
from lance_spark.schema.blob import has_blobs
from lance_spark.schema.field import LanceSchema
from lance_spark.schema.generated import generated_of
from lance_spark.spark.connector.channel.handles import TableHandle
from lance_spark.spark.connector.write.tables import RequestedMode, table_of
from lance_spark.spark.jobs.upsert_job import UpsertJob
from lance_spark.spark.option_values import STATIC
from lance_spark.spark.options.options import WriteOptions
from lance_spark.spark.streaming.options import SinkOptions
from lance_spark.spark.table_view import written_columns
from lance_spark.spark.types.collations import is_collated
from lance_spark.spark.types.descriptions import has_descriptions
from lance_spark.spark.types.schemas import exchanged_schema
from lance_spark.table.manifests.epoch_mark import EpochMark
from lance_spark.table.row_level.upsert import key_schema


def brought_columns(shown: StructType, schema: LanceSchema, columns: StructType) -> StructType:
    """The columns that tasks get: all but generated ones that the stream does not have, which tasks compute.

    Blob columns are descriptions where the stream has these.
    """
    generated = generated_of(schema)
    brought = {field.name.lower(): field.dataType for field in columns.fields}
    described = {name: dtype for name, dtype in brought.items() if has_descriptions(dtype)}
    blobs = {field.name for field in schema.fields if has_blobs(field)}
    return StructType(
        [
            StructField(item.name, described.get(item.name.lower(), item.dataType), item.nullable, item.metadata)
            if item.name in blobs
            else item
            for item in shown.fields
            if item.name not in generated or item.name.lower() in brought
        ]
    )


def with_extra_columns(table: StructType, rows: StructType, options: SinkOptions) -> StructType:
    """The columns that tasks get: those of the table, and others of the rows that the options of an upsert name."""
    known = {name.lower() for name in table.names}
    wanted = {name.lower() for name in _named(options)} - known
    return StructType([*table.fields, *(field for field in rows.fields if field.name.lower() in wanted)])


def _named(options: SinkOptions) -> set[str]:
    """The columns that the options of an upsert name, besides the key."""
    names = set() if options.sequence_by is None else {options.sequence_by}
    if options.delete_when is not None:
        names |= {path[0] for path in referenced_columns(options.delete_when)}
    return names


def plan_upsert(
    handle: TableHandle, columns: StructType, options: SinkOptions, write: WriteOptions, mark: EpochMark
) -> UpsertJob:
    """The job of an epoch.

    Args:
        columns: what tasks get.

    Raises:
        InvalidInputError: a key column is of a type that cannot be one, or the condition is invalid for the columns, or
            one of them has a collation.
        NotFoundError: no such column.
        UnsupportedFeatureError: new columns are to be added too.
    """
    if write.merge_schema:
        raise UnsupportedFeatureError(
            "options key and mergeSchema: an upsert adds no columns; add them by ALTER TABLE", feature="mergeSchema"
        )
    assert options.key is not None  # Else it is an append.
    stored = _stored_columns(handle, columns)
    _refuse_collations(stored, columns, options)
    table = table_of(handle)
    append = table.plan_write(stored, table.write_mode(RequestedMode("append", (), None, STATIC)), write, None)
    if append.target.identity:
        raise UnsupportedFeatureError(
            f"{handle.display_name} has an identity column, whose value a row would lose when another one with its key "
            "replaces it; use foreachBatch with MERGE",
            feature="upserts with identity columns",
        )
    append = replace(append, commit_options=replace(append.commit_options, mark=mark))
    keys = [_column(stored, name) for name in options.key]
    schema = None if handle.version is None else handle.source().lance_schema
    keys_as_stored = pa.schema([append.table_types.field(name) for name in keys])
    return UpsertJob(
        append.target,
        append.table_types,
        append.commit_options,
        append,
        keys_as_stored if schema is None else key_schema(schema, keys),
        _checked_condition(columns, options),
        None if options.sequence_by is None else _column(columns, options.sequence_by),
    )


def _refuse_collations(stored: StructType, columns: StructType, options: SinkOptions) -> None:
    compared = {name.lower() for name in (*(options.key or ()), *_named(options))}
    for field in (*stored.fields, *columns.fields):
        if field.name.lower() in compared and is_collated(field.dataType):
            raise InvalidInputError(
                f"column {field.name} is {field.dataType.simpleString()}, and an upsert compares bytes; choose another "
                "column, or cast it to STRING"
            )


def _checked_condition(columns: StructType, options: SinkOptions) -> Expr | None:
    if options.delete_when is not None:
        result = evaluate(options.delete_when, no_rows(exchanged_schema(columns)))
        if not pa.types.is_boolean(result.type):
            raise InvalidInputError(f"option delete_when is {options.delete_when}, which is not a condition")
    return options.delete_when


def _stored_columns(handle: TableHandle, columns: StructType) -> StructType:
    """The columns of the table; all that tasks get if the epoch makes it."""
    if handle.version is None:
        return columns
    table = handle.source()
    shown = written_columns(table.lance_schema, table.file_version, table.properties)
    return brought_columns(shown, table.lance_schema, columns)


def _column(columns: StructType, name: str) -> str:
    """The name as the columns spell it."""
    found: list[StructField] = [field for field in columns.fields if field.name == name]
    found = found or [field for field in columns.fields if field.name.lower() == name.lower()]
    if len(found) != 1:
        raise NotFoundError(f"an option of the stream names the column {name!r}; there are only {columns.names}")
    return str(found[0].name)
