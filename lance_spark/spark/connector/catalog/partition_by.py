"""PARTITIONED BY: converts Spark's transforms to partition fields."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql.types import StringType

from lance_spark.errors import InvalidInputError, UnsupportedFeatureError
from lance_spark.partitioned.partition_by import EXPRESSION, TransformCall, partition_fields
from lance_spark.partitioned.save import PartitionBy
from lance_spark.partitioned.spec import PartitionSpec
from lance_spark.schema.field import LanceSchema
from lance_spark.schema.projection import quoted
from lance_spark.spark.connector.scan.partition_keys import SparkTransform, spark_transforms
from lance_spark.spark.predicates import SparkExpression

_CLUSTER_BY = "cluster_by"
_OTHER_CLAUSES = {
    "sorted_bucket": "buckets are not sorted; leave SORTED BY out, or write PARTITIONED BY (bucket(16, id))",
}
"""Clauses that Spark turns into transforms."""


def fields_of_statement(transforms: Sequence[SparkExpression]) -> list[PartitionBy]:
    """The fields of the spec of a statement. Raises as `partition_fields`."""
    return partition_fields([_call(expression) for expression in transforms])


def clustering_of_statement(transforms: Sequence[SparkExpression]) -> tuple[list[SparkExpression], str | None]:
    """(the transforms that are partition fields, the columns of CLUSTER BY as a property has them)."""
    fields = [item for item in transforms if item.transform != _CLUSTER_BY]
    columns = [
        _path(child.column)
        for item in transforms
        for child in (item.children if item.transform == _CLUSTER_BY else ())
        if child.column is not None
    ]
    return fields, ", ".join(columns) if columns else None


def _path(names: Sequence[str]) -> str:
    """A path as text; backticks only where they are needed."""
    return ".".join(name if re.fullmatch(r"\w+", name) else quoted((name,)) for name in names)


def _call(expression: SparkExpression) -> TransformCall:
    name = expression.transform or "?"
    if name in _OTHER_CLAUSES:
        raise UnsupportedFeatureError(_OTHER_CLAUSES[name], feature=name)
    return TransformCall(name, tuple(_argument(name, child) for child in expression.children))


def _argument(name: str, child: SparkExpression) -> tuple[str, ...] | int | str:
    if child.column is not None:
        return child.column
    if isinstance(child.type, StringType) and child.literal is not None:
        return child.literal
    text = child.literal or ""
    if not (text.isascii() and text.isdigit()):
        raise InvalidInputError(f"{name} takes columns, and a number that is not negative")
    return int(text)


@dataclass(frozen=True, slots=True)
class ShownExpression(SparkTransform):
    """A partition field that is an expression; `text` is the first argument."""

    text: str = ""


def shown_fields(spec: PartitionSpec, schema: LanceSchema) -> list[SparkTransform]:
    """The partitioning for DESCRIBE and SHOW CREATE TABLE, without fields of dropped columns."""
    found: list[SparkTransform] = []
    for field in spec.fields:
        paths = [path for path in field.source_columns(schema) if path is not None]
        if field.expression is None:
            found += spark_transforms(PartitionSpec(spec.id, (field,)), schema)
        elif len(paths) == len(field.source_ids):
            found.append(ShownExpression(EXPRESSION, tuple(paths), text=field.expression))
    return found
