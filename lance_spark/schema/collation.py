"""Collations of Spark: strings that Spark compares by other rules than their bytes, by the metadata of their field.

Lance has no collations. Everything below Spark, and other libraries, compares bytes.
"""

from __future__ import annotations

from lance_spark.schema.field import Field

COLLATION = b"lance-spark:collation"
"""The key of a field's metadata for the name of its collation, such as ``UTF8_LCASE``."""


def has_collation(field: Field) -> bool:
    """Whether Spark compares values of a field, or of one below it, by other rules than their bytes."""
    return COLLATION.decode() in field.metadata or any(map(has_collation, field.children))
