"""The columns that the config of a table, or an option of a write, names for zone maps.

>>> column_names("id, `a.b`.c")
['id', '`a.b`.c']
"""

from __future__ import annotations

import pyarrow.types as pt

from lance_spark.errors import InvalidInputError, NotFoundError
from lance_spark.index.builders.zone_map import ZoneMapBuilder
from lance_spark.schema.arrow import to_arrow_type
from lance_spark.schema.field import Field, LanceSchema
from lance_spark.schema.projection import quoted
from lance_spark.table.indexes.definition import define_beside

AUTO_ZONEMAP = "lance.auto_zonemap"
ALL_COLUMNS = "*"
ZONEMAP = "ZONEMAP"


def zone_columns(schema: LanceSchema, text: str) -> list[str]:
    """The columns of this schema, as paths, that `text` names and that can have zone maps.

    Raises:
        InvalidInputError: a name is empty.
    """
    if text.strip() != ALL_COLUMNS:
        return [name for name in column_names(text) if _problem(schema, name) is None]
    return [quoted((field.name,)) for field in schema.fields if not field.children and _is_fixed(field)]


def zone_problems(schema: LanceSchema, text: str) -> list[str]:
    """Why columns that `text` names cannot have zone maps, a sentence each. Raises as `zone_columns`."""
    names = [] if text.strip() == ALL_COLUMNS else column_names(text)
    return [problem for name in names if (problem := _problem(schema, name)) is not None]


def check_zone_columns(schema: LanceSchema, text: str | None) -> None:
    """Passes if columns of this schema that `text` names can have zone maps.

    Args:
        text: as in the config; None and nothing name no columns.

    Raises:
        InvalidInputError: a name is empty, or the type of a column has no zone maps.
        NotFoundError: no such column.
    """
    if text is not None and text.strip() not in ("", ALL_COLUMNS):
        for column in column_names(text):
            define_beside((), schema, column, ZONEMAP, None, {})


def column_names(text: str) -> list[str]:
    """The paths of a list with commas.

    Raises:
        InvalidInputError: one is empty.
    """
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise InvalidInputError(f"{AUTO_ZONEMAP} is {text!r}; write columns with commas between them, or {ALL_COLUMNS}")
    return names


def _is_fixed(field: Field) -> bool:
    dtype = to_arrow_type(field)
    return ZoneMapBuilder.supports(dtype) and bool(pt.is_primitive(dtype) or pt.is_decimal(dtype))


def _problem(schema: LanceSchema, column: str) -> str | None:
    try:
        define_beside((), schema, column, ZONEMAP, None, {})
    except (InvalidInputError, NotFoundError) as error:
        return str(error)
    return None
