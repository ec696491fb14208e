"""Generated columns: SQL expressions in the metadata of fields, whose value each row has in that column.

Lance has no such columns, so other libraries neither show nor compute them. All writers of this package do
(`table/writing/generated.py`).
"""

from __future__ import annotations

from lance_spark.schema.field import LanceSchema

GENERATED = "lance-spark:generated"
"""Field metadata of a top-level column: the SQL text of its value."""


def generated_of(schema: LanceSchema) -> dict[str, str]:
    """The expressions by the name of their column, in the order of columns."""
    return {
        field.name: field.metadata[GENERATED].decode("utf-8", "replace")
        for field in schema.fields
        if GENERATED in field.metadata
    }
