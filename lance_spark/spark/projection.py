"""Projects a table's schema to a Spark schema."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import replace

from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from lance_spark.errors import NotFoundError
from lance_spark.schema.columns import is_blob
from lance_spark.schema.field import Field, LanceSchema


def narrow(schema: LanceSchema, asked: StructType, known: Iterable[str] = ()) -> LanceSchema:
    """The fields of `schema` in `asked`, in its order, at every level.

    Args:
        known: names of additional columns that are not fields of the schema.

    Raises:
        NotFoundError: the table has no such column or nested field.
    """
    skipped = set(known) - set(schema.names())
    wanted = StructType([field for field in asked.fields if field.name not in skipped])
    return LanceSchema(_children(schema.fields, wanted, ""), schema.metadata)


def _children(fields: tuple[Field, ...], asked: StructType, path: str) -> tuple[Field, ...]:
    by_name = {field.name: field for field in fields}
    kept = []
    for wanted in asked.fields:
        name = f"{path}{wanted.name}"
        if wanted.name not in by_name:
            near = difflib.get_close_matches(wanted.name, by_name, n=1)
            hint = f"; did you mean {path}{near[0]}?" if near else ""
            raise NotFoundError(f"the table has no column {name}{hint}")
        kept.append(_narrow(by_name[wanted.name], wanted.dataType, f"{name}."))
    return tuple(kept)


def _narrow(field: Field, asked: DataType, path: str) -> Field:
    if not field.children or is_blob(field):
        return field
    if isinstance(asked, StructType) and field.logical_type == "struct":
        return field.with_children(_children(field.children, asked, path))
    if isinstance(asked, ArrayType) and len(field.children) == 1:
        return field.with_children((_narrow(field.children[0], asked.elementType, path),))
    if isinstance(asked, MapType) and field.logical_type == "map":
        entries = field.children[0]
        key, value = entries.children
        return field.with_children((replace(entries, children=(key, _narrow(value, asked.valueType, path))),))
    return field
