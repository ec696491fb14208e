"""`identity`: the source value itself. Floats have a single zero and a single NaN, each in one partition."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.errors import InvalidInputError
from lance_spark.expr.literals import Literal, literal
from lance_spark.expr.nodes import Column, ComparisonOp, Expr, Not
from lance_spark.partitioned.transforms.base import SourceColumn, Transform
from lance_spark.partitioned.values.conditions import all_of, any_of, compared, is_in
from lance_spark.partitioned.values.key_space import KeySpace, plain_type_of, space_of
from lance_spark.partitioned.values.value_set import (
    ALL_VALUES,
    ONLY_NULL,
    Interval,
    ValueSet,
    between,
    coarsened,
    complement,
    without_null,
)

MAX_RANGES = 64
"""The maximum number of ranges in one condition; the closest ones are merged."""


@dataclass(frozen=True, slots=True)
class Identity(Transform):
    """The source value, unmodified."""

    name = "identity"

    @classmethod
    def from_json(cls, members: Mapping[str, Any]) -> Identity:
        return cls()

    def check_sources(self, sources: Sequence[pa.DataType]) -> None:
        super(Identity, self).check_sources(sources)
        if space_of(sources[0]) is None and not pa.types.is_null(sources[0]):
            raise InvalidInputError(f"transform {self.name} takes no column of type {sources[0]}")

    def result_type(self, sources: Sequence[pa.DataType]) -> pa.DataType:
        self.check_sources(sources)
        return value_type(sources[0])

    def apply(self, *columns: pa.Array) -> pa.Array:
        (column,) = columns
        type_ = self.result_type([column.type])
        return one_zero_one_nan(unwrapped(column).cast(type_))

    def derived_expression(self, sources: Sequence[pa.DataType]) -> str:
        return "col0"

    def filter_expression(
        self, columns: Sequence[Column], sources: Sequence[pa.DataType], time_zone: str
    ) -> Expr | None:
        # A partition of 0.0 also contains -0.0, which functions distinguish (converted to text, for example).
        return None if pa.types.is_floating(value_type(sources[0])) else columns[0]

    def _project_values(self, source: SourceColumn, partition: Column) -> Expr | None:
        return in_value_set(partition, source.space, source.values)

    def domain(self, value: pa.Scalar, source: pa.DataType) -> ValueSet:
        space = space_of(source)
        if not value.is_valid:
            return ONLY_NULL
        return ALL_VALUES if space is None else space.normalized(between(*space.cuts(literal(value).scalar())))


def value_type(source: pa.DataType) -> pa.DataType:
    """The type of a column's values, without dictionaries, views and extensions."""
    while isinstance(source, pa.BaseExtensionType) or pa.types.is_dictionary(source):
        source = source.value_type if pa.types.is_dictionary(source) else source.storage_type
    if pa.types.is_run_end_encoded(source) or pa.types.is_string_view(source) or pa.types.is_binary_view(source):
        return plain_type_of(source)
    return source


def unwrapped(values: pa.Array) -> pa.Array:
    """Values without dictionaries, run-end encoding and extensions."""
    while isinstance(values, pa.ExtensionArray) or pa.types.is_dictionary(values.type):
        values = values.storage if isinstance(values, pa.ExtensionArray) else values.dictionary_decode()
    return pc.run_end_decode(values) if pa.types.is_run_end_encoded(values.type) else values


def one_zero_one_nan(values: pa.Array) -> pa.Array:
    """Floats with -0.0 as 0.0 and a single NaN; other values unchanged."""
    if not pa.types.is_floating(values.type):
        return values
    doubles = pc.add(values.cast(pa.float64()), 0.0)
    return pc.if_else(pc.is_nan(doubles), pa.scalar(math.nan), doubles).cast(values.type, safe=False)


def in_value_set(partition: Expr, space: KeySpace, values: ValueSet) -> Expr | None:
    """The condition that a column of the type of `space` has a value of the set (except for NULL)."""
    points, ranges = _points_and_ranges(space, values)
    if len(ranges) > 1:
        # All values except a few: the complement is shorter.
        missing, others = _points_and_ranges(space, without_null(complement(values)))
        if missing and not others:
            return _not_in(partition, missing)
    if len(ranges) > MAX_RANGES:
        ranges = list(coarsened(ValueSet(tuple(ranges), False), MAX_RANGES).intervals)
    conditions = [
        all_of([_bound(partition, ComparisonOp.GE, space, low), _bound(partition, ComparisonOp.LT, space, high)])
        for low, high in ranges
    ]
    try:
        return any_of([is_in(partition, points), *conditions])
    except InvalidInputError:
        # A timestamp out of the range of literals.
        return None


def _points_and_ranges(space: KeySpace, values: ValueSet) -> tuple[list[pa.Scalar], list[Interval]]:
    points: list[pa.Scalar] = []
    ranges: list[Interval] = []
    for low, high in values.intervals:
        if low is not None and high is not None and high == space.successor(low):
            points.append(space.scalar(low))
        else:
            ranges.append((low, high))
    return points, ranges


def _not_in(partition: Expr, points: Sequence[pa.Scalar]) -> Expr | None:
    try:
        return Not(is_in(partition, points))
    except InvalidInputError:
        # A timestamp out of the range of literals.
        return None


def _bound(partition: Expr, op: ComparisonOp, space: KeySpace, key: Any) -> Expr | None:
    if key is None:
        return None
    if op is ComparisonOp.LT and isinstance(key, int):
        # The last value below is in the type's range, but the bound itself may not be.
        op, key = ComparisonOp.LE, key - 1
    try:
        value: Literal = literal(space.scalar(key))
    except InvalidInputError:
        return None
    return compared(partition, op, value)
