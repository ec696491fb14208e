"""ALTER TABLE: columns and properties. A statement creates one version, or none if nothing changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
from pyspark.sql.types import CharType, DataType, StringType, StructField, StructType, VarcharType

from lance_spark.errors import InvalidInputError, NotFoundError, UnsupportedFeatureError
from lance_spark.expr.assign import constant
from lance_spark.expr.literals import Literal
from lance_spark.expr.nodes import quote_name
from lance_spark.layouts.arrow_take import take
from lance_spark.partitioned.access import find_table
from lance_spark.partitioned.dataset import PartitionedDataset
from lance_spark.schema import evolution
from lance_spark.schema.arrow import to_arrow_field, with_metadata, with_metadata_entries
from lance_spark.schema.constraints import checks_of
from lance_spark.schema.field import Field, FieldId, LanceSchema
from lance_spark.spark.connector.catalog.resolve import TableName, find
from lance_spark.spark.connector.catalog.table import (
    LoadReply,
    LoadRequest,
    describe_evolving,
    load,
)
from lance_spark.spark.connector.channel.handles import CatalogSettings, TableHandle
from lance_spark.spark.connector.channel.registry import Call, operation
from lance_spark.spark.constraints import TableConstraint
from lance_spark.spark.options.options import TableDefaults
from lance_spark.spark.options.property_names import check_set_properties
from lance_spark.spark.predicates import SparkExpression, to_literal
from lance_spark.spark.types.collations import has_collation
from lance_spark.spark.types.column_properties import apply, metadata_key, split_name
from lance_spark.spark.types.defaults import DEFAULT, EXISTING_VALUE, checked_default
from lance_spark.spark.types.schemas import is_same_for_spark, table_types, to_spark_schema, written_schema
from lance_spark.spark.types.texts import with_longer_text
from lance_spark.table.columns.alter_column import COMMENT
from lance_spark.table.columns.schema_changes import Edit
from lance_spark.table.dataset import Dataset
from lance_spark.table.indexes.auto_zonemap import check_zone_columns
from lance_spark.table.indexes.zone_setting import AUTO_ZONEMAP
from lance_spark.table.maintenance.clustering.layout import CLUSTERING_COLUMNS, check_clustering

_SET, _REMOVE = "set_property", "remove_property"
_PROPERTIES = (_SET, _REMOVE)
_CONSTRAINTS = ("add_constraint", "drop_constraint")
_TEXTS = (StringType, CharType, VarcharType)


@dataclass(frozen=True, slots=True)
class Position:
    """The position of a column: directly after `after`, or first."""

    after: str | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """One of Spark's changes of a table.

    Attributes:
        kind: "set_property", "remove_property", "add", "drop", "rename", "type", "nullable", "comment", "default",
            "position", "add_constraint", "drop_constraint", or "other" for changes that Lance tables do not support.
        name: the property, the new name of the column, or Spark's name of another change.
        path: the column, as Spark names it: items of arrays are `element`, parts of maps `key` and `value`.
        column: one column of the new type.
        value: of a property, or the SQL text of a DEFAULT.
        existing_rows: the constant that a new column with a DEFAULT gets in the rows that are there.
        if_exists: whether a column or constraint to drop may be missing.
    """

    kind: str
    name: str = ""
    value: str | None = None
    path: tuple[str, ...] = ()
    column: StructType | None = None
    nullable: bool = True
    comment: str | None = None
    position: Position | None = None
    if_exists: bool = False
    existing_rows: SparkExpression | None = None
    constraint: TableConstraint | None = None

    @property
    def type(self) -> DataType:
        """The new type of a column that is added, or whose type changes."""
        assert self.column is not None, "the change tells a type"
        return self.column.fields[0].dataType


@dataclass(frozen=True, slots=True)
class AlterRequest:
    """A table and its changes."""

    catalog: CatalogSettings
    namespace: tuple[str, ...]
    name: str
    changes: tuple[Change, ...]
    options: Mapping[str, str] = field(default_factory=dict)
    by_path: bool = False


@operation("table.alter")
def alter(request: AlterRequest, call: Call) -> LoadReply:
    """Applies the changes; returns the changed table."""
    table = TableName(request.catalog, request.namespace, request.name, request.options, request.by_path)
    place = find(table)
    newest = None if place is None else find_table(place.location())
    if newest is None:
        return LoadReply(False)
    if any(change.kind in _CONSTRAINTS for change in request.changes):
        _change_constraints(newest, request.changes)
    elif any(change.existing_rows is not None for change in request.changes):
        add_columns_with_defaults(newest, request.changes)
    elif len({change.kind in _PROPERTIES for change in request.changes}) > 1:
        raise UnsupportedFeatureError("columns and properties cannot be changed at once", feature="ALTER TABLE")
    else:
        change_table(newest, request.changes)
    return load(LoadRequest(request.catalog, request.namespace, request.name, request.options, request.by_path), call)


def _change_constraints(table: Dataset | PartitionedDataset, changes: Sequence[Change]) -> None:
    """Adds or drops a CHECK constraint.

    Raises:
        UnsupportedFeatureError: another kind of constraint, or several changes at once.
        NotFoundError: there is no constraint to drop.
        Others as `add_check`.
    """
    if len(changes) > 1:
        raise UnsupportedFeatureError("a constraint cannot be changed together with others", feature="ALTER TABLE")
    change = changes[0]
    if change.constraint is not None:
        table.add_check(change.constraint.name, change.constraint.required_condition())
    elif change.name.lower() in map(str.lower, checks_of(table.lance_schema)) or not change.if_exists:
        table.drop_check(change.name)


def add_columns_with_defaults(table: Dataset | PartitionedDataset, changes: Sequence[Change]) -> None:
    """Adds columns in one version; those with a DEFAULT have its value in the rows that are there.

    Raises:
        InvalidInputError: a column is there already, or must not be null.
        UnsupportedFeatureError: a DEFAULT that cannot be kept, or other changes in the same statement.
        Others as `ColumnVerbs.add_columns`.
    """
    fields, values = [], []
    for change in changes:
        _check_appended(change)
        field = _column_type(change, table.properties)
        entries = {COMMENT: change.comment, DEFAULT: change.value and checked_default(field.name, change.value)}
        value = _existing_value(change, field)
        entries[EXISTING_VALUE] = None if value is None else value.to_sql()
        known = {key: text.encode() for key, text in entries.items() if text}
        fields.append(field.with_metadata({**(field.metadata or {}), **known}))
        values.append(pa.nulls(1, field.type) if value is None else constant(value, field.type))
    schema = pa.schema(fields)

    def constants(batch: pa.RecordBatch) -> pa.RecordBatch:
        places = np.zeros(batch.num_rows, np.int64)
        return pa.RecordBatch.from_arrays([take(value, places) for value in values], schema=schema)

    table.add_columns(constants, read_columns=table.lance_schema.names()[:1], schema=schema)


def _check_appended(change: Change) -> None:
    name = _text(change.path)
    if change.kind != "add" or len(change.path) > 1 or change.position is not None:
        raise UnsupportedFeatureError(
            f"column {name}: ADD COLUMN with a DEFAULT adds columns after the others, not inside of structs; add and "
            "move columns by statements of their own",
            feature="ADD COLUMN with DEFAULT",
        )
    if not change.nullable:
        raise InvalidInputError(f"column {name!r}: other writers may leave out a new column; leave NOT NULL out")


def _existing_value(change: Change, field: pa.Field) -> Literal | None:
    """The value that a new column has in the rows that are there; None for NULL."""
    value = None if change.existing_rows is None else to_literal(change.existing_rows)
    if change.existing_rows is not None and value is None:
        raise UnsupportedFeatureError(
            f"column {field.name!r}: a DEFAULT of type {field.type} is not filled in for the rows that are there; add "
            "the column without it, UPDATE the rows, and ALTER COLUMN ... SET DEFAULT",
            feature="ADD COLUMN with DEFAULT",
        )
    return None if value is None or value.value is None else value


def _check_known(changes: Sequence[Change], schema: LanceSchema, present: Mapping[str, str]) -> None:
    """Rejects changes that are unsupported or invalid, of a table that has the properties `present`.

    Raises:
        InvalidInputError: a property has an invalid value.
        UnsupportedFeatureError: a change is not supported.
    """
    for change in changes:
        if change.kind == "other":
            text = f"tables know no change of the kind {change.name}"
            raise UnsupportedFeatureError(text, feature=f"ALTER TABLE: {change.name}")
        if change.kind == _SET and change.name == "location":
            raise UnsupportedFeatureError(
                "a table stays where it is; CALL system.register_table gives a name to one that is elsewhere",
                feature="SET LOCATION",
            )
    properties = {change.name: change.value or "" for change in changes if change.kind == _SET}
    check_set_properties(properties, present)
    check_zone_columns(schema, properties.get(AUTO_ZONEMAP))
    check_clustering(schema, properties.get(CLUSTERING_COLUMNS))
    dropped = {change.path for change in changes if change.kind == "drop"}
    if dropped >= {(name,) for name in schema.names()} and any(change.kind == "add" for change in changes):
        raise UnsupportedFeatureError(
            "REPLACE COLUMNS would drop the values of all columns; use ADD, DROP, RENAME and ALTER COLUMN",
            feature="REPLACE COLUMNS",
        )


@dataclass(frozen=True, slots=True)
class EvolveRequest(AlterRequest):
    """A table, and the new columns of the rows of a statement.

    Attributes:
        handle: the table with the new columns that the statement requested before.
        inserts_blobs: whether the statement only inserts, and the table has blob columns.
    """

    handle: TableHandle | None = None
    inserts_blobs: bool = False


@operation("table.evolve")
def evolve(request: EvolveRequest, _call: Call) -> LoadReply:
    """The table as written by a statement WITH SCHEMA EVOLUTION: its new columns are committed together with the rows,
    in one version.
    """
    place = find(TableName(request.catalog, request.namespace, request.name, request.options, request.by_path))
    if place is None:
        return LoadReply(False)
    # Columns that the statement brought before are not in the version.
    earlier = None if request.handle is None else request.handle.evolved_schema()
    table = find_table(place.location()) if request.handle is None else replace(request.handle, evolved=None).dataset()
    if table is None:
        return LoadReply(False)
    edit = _edit(table.properties, request.changes)

    def edit_again(schema: LanceSchema, first_id: int) -> LanceSchema:
        if earlier is None:
            return edit(schema, first_id)
        return edit(earlier, max(first_id, earlier.max_field_id + 1))

    planned = table.with_edited_columns(edit_again)
    return LoadReply(True, describe_evolving(place, planned, inserts_blobs=request.inserts_blobs))


def change_table(table: Dataset | PartitionedDataset, changes: Sequence[Change]) -> Dataset | PartitionedDataset:
    """The version with the changes of properties, or of columns, applied in order.

    Raises:
        NotFoundError: there is no such column.
        InvalidInputError: a change is invalid.
        UnsupportedFeatureError: a change is not supported, or the type of a column is changed together with others.
    """
    _check_known(changes, table.lance_schema, table.properties)
    if any(change.kind in _PROPERTIES for change in changes):
        return _change_properties(table, changes)
    converted = [change for change in changes if change.kind == "type" and _changes_type(table.lance_schema, change)]
    if not converted:
        return table.edit_columns(_edit(table.properties, changes))
    if len(changes) > 1:
        raise UnsupportedFeatureError(
            "a statement that changes the type of a column cannot change anything else", feature="ALTER COLUMN"
        )
    path = _text(converted[0].path)
    return table.alter_column(path, data_type=_arrow_type(converted[0], path).type)


def _edit(config: Mapping[str, str], changes: Sequence[Change]) -> Edit:
    columns = {change.path[0]: _column_type(change, config) for change in changes if change.kind == "add"}
    return lambda schema, first_id: _edited(schema, first_id, changes, columns)


def _change_properties(table: Dataset | PartitionedDataset, changes: Sequence[Change]) -> Dataset | PartitionedDataset:
    """The version with other properties, and other metadata of columns that properties name.

    Raises:
        InvalidInputError: a property is invalid for its column, or defines a partitioned table.
    """
    entries = _wanted(changes)
    _check_defaults(table.properties, entries)
    return table.update_properties(entries, lambda schema: _field_metadata(schema, entries, table.properties))


def _check_defaults(config: Mapping[str, str], wanted: Mapping[str, str | None]) -> None:
    merged = {**config, **wanted}
    TableDefaults.of({name: value for name, value in merged.items() if value is not None})


def _wanted(changes: Sequence[Change]) -> dict[str, str | None]:
    return {change.name: change.value if change.kind == _SET else None for change in changes}


def _field_metadata(
    schema: LanceSchema, wanted: Mapping[str, str | None], config: Mapping[str, str]
) -> dict[FieldId, dict[str, str | None]]:
    """The changed metadata entries of columns, from properties.

    Raises:
        InvalidInputError: a property is invalid for its column.
    """
    fields: dict[FieldId, dict[str, str | None]] = {}
    for name, value in wanted.items():
        of_column = split_name(name.lower())
        known = None if of_column is None else _named(schema, of_column[0])
        if of_column is None or known is None:
            continue  # A property of the table, or of a new column.
        key = metadata_key(of_column[1])
        if key is None and value is not None and config.get(name) != value:
            raise InvalidInputError(f"{name}: {known.name!r} has its type; properties shape that of new columns only")
        if value is not None and key is not None:
            apply({of_column[0]: {of_column[1]: value}}, pa.schema([to_arrow_field(known)]))
        if key is not None and known.metadata.get(key) != (None if value is None else value.encode()):
            fields.setdefault(known.id, {})[key] = value
    return fields


def _named(schema: LanceSchema, folded: str) -> Field | None:
    found = [item for item in schema.fields if item.name.lower() == folded]
    return found[0] if len(found) == 1 else None


def _changes_type(schema: LanceSchema, change: Change) -> bool:
    path = _text(change.path)
    old, new = to_arrow_field(evolution.field_at(schema, path)), _arrow_type(change, path)
    if has_collation(old) or has_collation(new):
        before = to_spark_schema(pa.schema([old])).fields[0].dataType.simpleString()
        if before != change.type.simpleString():
            raise UnsupportedFeatureError(
                f"column {path} is {before}, and a collation cannot be changed; add a column of the other type and "
                "UPDATE it",
                feature="ALTER COLUMN with a collation",
            )
    return not is_same_for_spark(old.type, new.type)


def _arrow_type(change: Change, name: str) -> pa.Field:
    spark = StructType([StructField(name, change.type, change.nullable)])
    return table_types(written_schema(spark), None).field(0)


def _column_type(change: Change, config: Mapping[str, str]) -> pa.Field:
    """A new column, in the form that the table's properties require."""
    name = change.path[-1]
    plain = _arrow_type(change, name)
    if len(change.path) > 1:
        return plain
    asked: dict[str, str] = {}
    for key, value in config.items():
        of_column = split_name(key.lower())
        if of_column is not None and of_column[0] == name.lower():
            asked[of_column[1]] = value
    return apply({name.lower(): asked}, pa.schema([plain])).field(0) if asked else plain


def _edited(
    schema: LanceSchema, first_id: int, changes: Sequence[Change], columns: Mapping[str, pa.Field]
) -> LanceSchema:
    for change in changes:
        if change.kind == "add":
            given = columns[change.path[0]] if len(change.path) == 1 else _arrow_type(change, change.path[-1])
            schema = _with_column(schema, first_id, change, given)
            first_id = max(first_id, *(node.id + 1 for node in schema.walk()))
        elif not (change.kind == "drop" and change.if_exists and not _has(schema, change.path)):
            schema = _changed(schema, change)
    return schema


def _with_column(schema: LanceSchema, first_id: int, change: Change, given: pa.Field) -> LanceSchema:
    if not change.nullable:
        raise InvalidInputError(
            f"column {_text(change.path)!r} would be null in the rows that are there; leave NOT NULL out"
        )
    if _has(schema, change.path):
        raise InvalidInputError(f"there is a column {_text(change.path)!r} already")
    if change.comment:
        given = given.with_metadata({**(given.metadata or {}), COMMENT: change.comment})
    new = evolution.as_nested(schema, _text(change.path), given)
    schema = evolution.with_added(schema, pa.schema([new]), first_id).schema
    return schema if change.position is None else _moved(schema, change.path, change.position)


def _changed(schema: LanceSchema, change: Change) -> LanceSchema:
    path = _text(change.path)
    if change.kind == "drop":
        return evolution.without(schema, [path])
    if change.kind == "rename":
        return evolution.renamed(schema, {path: change.name})
    if change.kind == "nullable":
        return evolution.replaced(schema, path, lambda old: replace(old, nullable=change.nullable))
    if change.kind == "comment":
        return evolution.replaced(schema, path, lambda old: _commented(old, change.comment))
    if change.kind == "position":
        return _moved(schema, change.path, change.position or Position())
    if change.kind == "default":
        text = checked_default(path, change.value) if change.value else None
        return evolution.replaced(schema, path, lambda old: with_metadata_entries(old, {DEFAULT.decode(): text}))
    if change.kind == "type":
        return evolution.replaced(schema, path, lambda old: _retyped(old, change, path))
    raise InvalidInputError(f"unknown change {change.kind!r} of a table")


def _retyped(old: Field, change: Change, path: str) -> Field:
    """`old` with a type that is the same in the files."""
    return with_longer_text(old, change.type, path) if isinstance(change.type, _TEXTS) else old


def _commented(old: Field, comment: str | None) -> Field:
    rest = {key: value for key, value in old.metadata.items() if key != COMMENT}
    return with_metadata(old, {**rest, COMMENT: comment.encode()} if comment else rest)


def _moved(schema: LanceSchema, names: tuple[str, ...], position: Position) -> LanceSchema:
    if len(names) == 1:
        return LanceSchema(_in_order(schema.fields, names[0], position), schema.metadata)
    return evolution.replaced(
        schema, _text(names[:-1]), lambda old: old.with_children(_in_order(old.children, names[-1], position))
    )


def _in_order(siblings: Sequence[Field], name: str, position: Position) -> tuple[Field, ...]:
    rest = [item for item in siblings if item.name != name]
    known = [item.name for item in rest]
    if position.after is not None and position.after not in known:
        raise NotFoundError(f"there is no column {position.after!r} beside {name!r}")
    place = 0 if position.after is None else known.index(position.after) + 1
    return (*rest[:place], *(item for item in siblings if item.name == name), *rest[place:])


def _has(schema: LanceSchema, path: Sequence[str]) -> bool:
    try:
        evolution.field_at(schema, _text(path))
    except NotFoundError:
        return False
    return True


def _text(names: Sequence[str]) -> str:
    return ".".join(quote_name(name) for name in names)
