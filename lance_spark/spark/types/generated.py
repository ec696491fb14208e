"""Generated columns in Spark: CREATE TABLE gives the SQL text of their values, and Spark computes and checks these.

Spark evaluates the text, and a table can come from anywhere. So only expressions that the engine's own parser knows are
taken and handed over; the engine checks all rows again (`table/writing/checks.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from pyspark.sql.types import StructField, StructType, TimestampType

from lance_spark.errors import UnsupportedFeatureError
from lance_spark.expr.nodes import Column
from lance_spark.schema.field import LanceSchema
from lance_spark.schema.generated import generated_of
from lance_spark.spark.types.collations import is_collated
from lance_spark.spark.types.identities import is_identity
from lance_spark.table.writing.checks import parsed_generation

GENERATION_EXPRESSION = "GENERATION_EXPRESSION"
"""Spark's metadata of a generated column."""

_log = logging.getLogger(__name__)


def checked_generation(column: str, text: str) -> str:
    """The SQL text of a generated column that a user gives.

    Raises:
        UnsupportedFeatureError: the engine cannot enforce it.
    """
    parsed_generation(column, text)
    return text.strip()


def check_generated(columns: StructType) -> None:
    """Passes if the generated columns of a new table can be enforced.

    Raises:
        UnsupportedFeatureError: one cannot.
    """
    types = {field.name.lower(): field.dataType for field in columns.fields}
    identities = {field.name.lower() for field in columns.fields if is_identity(field)}
    for field in columns.fields:
        if GENERATION_EXPRESSION not in field.metadata:
            continue
        expression = parsed_generation(field.name, field.metadata[GENERATION_EXPRESSION])
        names = [field.name, *(node.path[0] for node in expression.walk() if isinstance(node, Column))]
        if any(name.lower() in identities for name in names):
            raise UnsupportedFeatureError(
                f"the generated column {field.name!r} is made of an identity column, whose values are not known when "
                "generated ones are computed",
                feature="generated columns of identity columns",
            )
        if any(is_collated(types.get(name.lower())) for name in names):
            raise UnsupportedFeatureError(
                f"the generated column {field.name!r} is made of strings with a collation, or is one, and values are "
                "compared by their bytes; use STRING",
                feature="generated columns with a collation",
            )
        if any(isinstance(types.get(name.lower()), TimestampType) for name in names):
            raise UnsupportedFeatureError(
                f"the generated column {field.name!r} is made of TIMESTAMP values, whose meaning depends on the time "
                "zone of the session; use TIMESTAMP_NTZ",
                feature="generated columns of TIMESTAMP",
            )


def with_expressions(columns: StructType, expressions: Mapping[str, str]) -> StructType:
    """Columns with expressions in Spark's metadata, for those that have none there."""
    return StructType(
        [
            StructField(
                field.name,
                field.dataType,
                field.nullable,
                {GENERATION_EXPRESSION: expressions[field.name], **field.metadata}
                if field.name in expressions
                else field.metadata,
            )
            for field in columns.fields
        ]
    )


def expressions_of(schema: LanceSchema) -> Mapping[str, str]:
    """The expressions that Spark may evaluate, by column; others stop writes, when the rows are checked."""
    found = {}
    for column, text in generated_of(schema).items():
        try:
            found[column] = checked_generation(column, text)
        except UnsupportedFeatureError as error:
            _log.warning("%s", error)
    return found
