"""Identity columns in Spark: CREATE TABLE describes them, and tasks give new rows their values."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from lance_spark.errors import InvalidInputError, UnsupportedFeatureError
from lance_spark.schema.field import LanceSchema
from lance_spark.schema.generated import Identity, identities_of

_START, _STEP, _EXPLICIT = "identity.start", "identity.step", "identity.allowExplicitInsert"
"""Spark's metadata of an identity column."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SparkIdentity:
    """An identity column as Spark describes it.

    Attributes:
        nullable: whether it was declared without NOT NULL.
    """

    start: int
    step: int
    allows_explicit: bool
    nullable: bool


def new_identity(column: StructField) -> Identity | None:
    """The identity of a column that a user defines; None if it has none.

    Raises:
        InvalidInputError: a step of 0.
        UnsupportedFeatureError: the type is not INT or BIGINT.
    """
    if _START not in column.metadata:
        return None
    if not isinstance(column.dataType, (IntegerType, LongType)):
        raise UnsupportedFeatureError(
            f"the identity column {column.name!r} has type {column.dataType.simpleString()}; use INT or BIGINT",
            feature="types of identity columns",
        )
    metadata = column.metadata
    return Identity.new(int(metadata[_START]), int(metadata[_STEP]), allows_explicit=bool(metadata[_EXPLICIT]))


def is_identity(column: StructField) -> bool:
    """Whether a column that a user defines is an identity column."""
    return _START in column.metadata


def spark_identities(schema: LanceSchema) -> Mapping[str, SparkIdentity]:
    """The identity columns of a table by name. A description that is damaged stops writes only."""
    try:
        found = identities_of(schema)
    except InvalidInputError as error:
        _log.warning("%s", error)
        return {}
    nullable = {field.name: field.nullable for field in schema.fields}
    return {
        name: SparkIdentity(item.start, item.step, item.allows_explicit, nullable[name]) for name, item in found.items()
    }


def with_nullable(columns: StructType, filled: Collection[str]) -> StructType:
    """Columns as Spark has to see them: it refuses rows without a column that is NOT NULL, and tasks fill `filled`."""
    if not filled:
        return columns
    return StructType(
        [
            StructField(field.name, field.dataType, field.nullable or field.name in filled, field.metadata)
            for field in columns.fields
        ]
    )


def fixed_columns(identities: Mapping[str, SparkIdentity]) -> tuple[str, ...]:
    """The columns whose values no statement chooses."""
    return tuple(name for name, item in identities.items() if not item.allows_explicit)
