"""Filters that Spark knows only while a query runs: values that the other side of a join has (dynamic pruning).

They are hints: whatever a scan does not make use of, the join looks at. So they are taken only where they pay, for
columns that choose partitions or fragments, and not with more values than are worth to be sent to every task.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from lance_spark.expr.literals import FALSE
from lance_spark.expr.nodes import Expr, conjunction
from lance_spark.namespace.partition_spec import PartitionSpec
from lance_spark.schema.field import LanceSchema
from lance_spark.spark.bridge.expressions import SparkExpression, to_filter
from lance_spark.spark.types import is_lossless

MAX_VALUES = 10_000
"""A filter with more values is left out."""


def source_columns(specs: Iterable[PartitionSpec], schema: LanceSchema) -> list[str]:
    """The columns whose values choose partitions, but those inside of structs."""
    found: dict[str, None] = {}
    for spec in specs:
        for field in spec.fields:
            for path in field.source_columns(schema) if field.transform is not None else ():
                if path is not None and len(path) == 1:
                    found[path[0]] = None
    return list(found)


def filter_columns(candidates: Iterable[str], filterable: pa.Schema, columns: Sequence[str]) -> tuple[str, ...]:
    """Those of `candidates` that a scan of `columns` can be filtered by as Spark compares them."""
    return tuple(name for name in candidates if name in columns and is_lossless(filterable.field(name).type))


def runtime_filter(predicates: Sequence[SparkExpression], filterable: pa.Schema) -> Expr | None:
    """A filter that keeps all rows that all of `predicates` keep; None if it would keep everything."""
    terms = [_term(predicate, filterable) for predicate in predicates]
    return conjunction(tuple(term for term in terms if term is not None))


def _term(predicate: SparkExpression, filterable: pa.Schema) -> Expr | None:
    if predicate.name == "IN" and len(predicate.children) == 1:
        return FALSE  # The other side has no rows.
    return None if len(predicate.children) > MAX_VALUES else to_filter(predicate, filterable)
