"""Procedures for partition fields: each creates one version, which determines the partitioning of future rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql.types import ArrayType, IntegerType, LongType, StringType

from lance_spark.errors import InvalidInputError, NotFoundError
from lance_spark.partitioned.evolution import Edit, edit_partitioning
from lance_spark.partitioned.field import PartitionField, source_paths
from lance_spark.partitioned.partition_by import parse_transform, partition_fields
from lance_spark.partitioned.save import PartitionBy
from lance_spark.partitioned.table import PartitionedTable
from lance_spark.schema.field import LanceSchema
from lance_spark.schema.projection import parse_path
from lance_spark.spark.connector.procedures.procedure_types import TABLE, TEXT, Invocation, Parameter, Procedure
from lance_spark.spark.connector.scan.local_rows import LocalRows, row_type

_SPEC = row_type(version=LongType(), spec_id=IntegerType(), fields=ArrayType(StringType()))


def with_field(table: PartitionedTable, transform: str, name: str | None) -> list[PartitionField]:
    """The fields of the newest spec, followed by those of a transform.

    Raises:
        InvalidInputError: the table already has these fields, or they are invalid for its columns.
    """
    known = table.specs.current.fields
    return [*known, *_new(table, transform, name, known)]


def without_field(table: PartitionedTable, field: str) -> list[PartitionField]:
    """The fields of the newest spec except those that `field` names: the name of one, or a transform.

    Raises:
        NotFoundError: the table is not partitioned by them.
    """
    deleted = _meant(table, field)
    return [known for known in table.specs.current.fields if known not in deleted]


def with_other_field(table: PartitionedTable, field: str, transform: str, name: str | None) -> list[PartitionField]:
    """The fields of the newest spec, with those of a transform in the place of others. Raises as the other two."""
    deleted = _meant(table, field)
    rest = [known for known in table.specs.current.fields if known not in deleted]
    place = table.specs.current.fields.index(deleted[0])
    return [*rest[:place], *_new(table, transform, name, rest), *rest[place:]]


def _new(
    table: PartitionedTable, transform: str, name: str | None, known: Sequence[PartitionField]
) -> list[PartitionField]:
    """The fields of a transform that are not in `known`."""
    found = [field for field in _fields(table, transform, name) if field not in known]
    if not found:
        raise InvalidInputError(f"{table.root} is partitioned by {transform} already")
    return found


def _meant(table: PartitionedTable, text: str) -> list[PartitionField]:
    known = table.specs.current.fields
    name = text.strip()
    if name.startswith("`") and name.endswith("`") and len(parse_path(name)) == 1:
        (name,) = parse_path(name)
    named = [field for field in known if field.field_id == name]
    if named:
        return named
    try:
        found = _fields(table, text, None)
    except InvalidInputError as error:
        raise NotFoundError(f"{table.root} is not partitioned by {text}; {_listed(known)} ({error})") from error
    if any(field not in known for field in found):
        raise NotFoundError(f"{table.root} is not partitioned by {text}; {_listed(known)}")
    return found


def _listed(fields: Sequence[PartitionField]) -> str:
    return f"its partition fields are {', '.join(field.field_id for field in fields)}" if fields else "it has no fields"


def _fields(table: PartitionedTable, transform: str, name: str | None) -> list[PartitionField]:
    """The fields of a transform; a field that was in an earlier spec of the table keeps its identity."""
    wanted = partition_fields([parse_transform(transform)])
    if name is not None and len(wanted) > 1:
        raise InvalidInputError(f"{transform} is {len(wanted)} partition fields, so they cannot have one name")
    found: list[PartitionField] = []
    for item in wanted:
        made = _as_written(item, table.lance_schema).field(table.lance_schema)
        known = table.specs.existing_field(made)
        if known is not None and name not in (None, known.field_id):
            raise InvalidInputError(
                f"{transform} has the name {known.field_id!r} for ever, by an earlier spec; leave {name!r} out"
            )
        found.append(known or replace(made, field_id=name or _free(table, made.field_id)))
    return found


def _as_written(item: PartitionBy, schema: LanceSchema) -> PartitionBy:
    """`item` with the names of columns as the table spells them, if they are unambiguous."""
    names = [tuple(node.name for node in path) for path in source_paths(schema).values()]
    sources: list[tuple[str, ...]] = []
    for source in item.sources:
        path = (source,) if isinstance(source, str) else source
        folded = [part.lower() for part in path]
        same = [known for known in names if [part.lower() for part in known] == folded]
        sources.append(same[0] if path not in names and len(same) == 1 else path)
    return replace(item, sources=tuple(sources))


def _free(table: PartitionedTable, field_id: str) -> str:
    """`field_id`, with a number appended if another field of any spec has it: a name identifies one field for ever."""
    taken = {field.field_id for field in table.specs.fields_of_all()}
    number, name = 1, field_id
    while name in taken:
        number += 1
        name = f"{field_id}_{number}"
    return name


def _edit(call: Invocation, edit: Edit) -> LocalRows:
    made = edit_partitioning(call.partitioned_table(), edit)
    spec = made.specs.current
    return LocalRows.of(_SPEC, [(made.version, spec.id, [field.field_id for field in spec.fields])])


def _add(call: Invocation) -> LocalRows:
    transform, name = call.arguments.required("transform"), call.arguments.text("name")
    return _edit(call, lambda table: with_field(table, transform, name))


def _drop(call: Invocation) -> LocalRows:
    field = call.arguments.required("field")
    return _edit(call, lambda table: without_field(table, field))


def _replace(call: Invocation) -> LocalRows:
    field, transform = call.arguments.required("field"), call.arguments.required("transform")
    name = call.arguments.text("name")
    return _edit(call, lambda table: with_other_field(table, field, transform, name))


_TRANSFORM = Parameter("transform", TEXT, "as in PARTITIONED BY, such as bucket(16, id)", required=True)
_FIELD = Parameter("field", TEXT, "the name of a partition field, or its transform", required=True)
_NAME = Parameter("name", TEXT, "of the new field; made of columns and transform if it is left out")

PROCEDURES = (
    Procedure(
        "add_partition_field",
        "Partitions future rows by one field more; existing rows stay where they are.",
        (TABLE, _TRANSFORM, _NAME),
        _add,
        changes_table=True,
    ),
    Procedure(
        "drop_partition_field", "Partitions future rows by one field less.", (TABLE, _FIELD), _drop, changes_table=True
    ),
    Procedure(
        "replace_partition_field",
        "Partitions future rows by another field in place of one.",
        (TABLE, _FIELD, _TRANSFORM, _NAME),
        _replace,
        changes_table=True,
    ),
)
