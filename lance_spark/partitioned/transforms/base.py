"""Partition transforms: functions from source columns to a partition value, and their inference rules.

A transform projects a filter on the source to the partition values (`project`), inclusively: no partition with a
matching row is excluded. In the other direction, `domain` returns the source values that a partition may contain.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from lance_spark.errors import InvalidInputError
from lance_spark.expr.literals import FALSE
from lance_spark.expr.nodes import Column, Expr
from lance_spark.partitioned.values.conditions import with_null
from lance_spark.partitioned.values.key_space import KeySpace, space_of
from lance_spark.partitioned.values.value_set import ALL_VALUES, EVERYTHING, ONLY_NULL, ValueSet


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """A source column in a filter.

    Args:
        type: its Arrow type; null for a dropped column.
        values: the possible values of matching rows.
    """

    type: pa.DataType
    values: ValueSet = EVERYTHING

    @property
    def space(self) -> KeySpace:
        """The keys of `values`.

        Raises:
            InvalidInputError: values of the type have no order.
        """
        space = space_of(self.type)
        if space is None:
            raise InvalidInputError(f"values of type {self.type} have no order")
        return space


class Reducer(ABC):
    """Maps partition values of one transform to values comparable with another's. Equal reducers do the same."""

    @abstractmethod
    def apply(self, values: pa.Array) -> pa.Array:
        """The coarser values, null for null."""


@dataclass(frozen=True, slots=True)
class Keep(Reducer):
    """Returns values unchanged."""

    def apply(self, values: pa.Array) -> pa.Array:
        return values


class Transform(ABC):
    """A partition transform (partitioning specification, Partition Transform); immutable."""

    __slots__ = ()

    name: ClassVar[str]
    """The `type` in JSON."""

    @classmethod
    @abstractmethod
    def from_json(cls, members: Mapping[str, Any]) -> Transform:
        """The transform of a JSON object whose `type` is this one; unknown members are ignored.

        Raises:
            InvalidInputError: a parameter is missing or out of range.
        """

    def to_json(self) -> dict[str, Any]:
        """The JSON object."""
        return {"type": self.name}

    def check_sources(self, sources: Sequence[pa.DataType]) -> None:
        """Checks that the transform supports columns of these types (null: a dropped column).

        Raises:
            InvalidInputError: it does not.
        """
        if len(sources) != 1:
            raise InvalidInputError(f"transform {self.name} takes one source column, got {len(sources)}")

    @abstractmethod
    def result_type(self, sources: Sequence[pa.DataType]) -> pa.DataType:
        """The type of the partition values; null if it is the type of a dropped source.

        Raises:
            InvalidInputError: as `check_sources`.
        """

    @abstractmethod
    def apply(self, *columns: pa.Array) -> pa.Array:
        """The partition value of each row, in the result type.

        Raises:
            InvalidInputError: the transform does not support a type.
        """

    @abstractmethod
    def derived_expression(self, sources: Sequence[pa.DataType]) -> str:
        """The transform as an expression in DataFusion's SQL on `col0`, `col1`..."""

    def filter_expression(
        self, columns: Sequence[Column], sources: Sequence[pa.DataType], time_zone: str
    ) -> Expr | None:
        """The same value as part of a filter; None if filters have no equivalent expression."""
        return None

    def project(self, sources: Sequence[SourceColumn], partition: Column) -> Expr | None:
        """A condition on the partition value that holds wherever rows have such source values; None: no restriction."""
        (source,) = sources
        if source.values.is_all:
            return None
        if not source.values.intervals:
            condition: Expr | None = FALSE
        else:
            condition = None if source.values.has_all_values else self._project_values(source, partition)
        return with_null(condition, source.values.has_null, partition)

    def _project_values(self, source: SourceColumn, partition: Column) -> Expr | None:
        """`project` for non-NULL values, which the transform maps to non-NULL values."""
        return None

    def domain(self, value: pa.Scalar, source: pa.DataType) -> ValueSet:
        """The source values that a partition with this value may contain (for one source column)."""
        return ALL_VALUES if value.is_valid else ONLY_NULL

    def reducer(self, other: Transform) -> Reducer | None:
        """The reducer that makes partition values comparable with those of `other`, for joins; None: there is none.

        Values that both sides reduce to the same value are equal wherever the source values are.
        """
        return Keep() if self == other else None


def integer_parameter(members: Mapping[str, Any], name: str, highest: int) -> int:
    """A parameter in 1..highest.

    Raises:
        InvalidInputError: it is missing or out of range.
    """
    value = members.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= highest:
        raise InvalidInputError(f"transform {members.get('type')} needs {name} from 1 to {highest}, got {value!r}")
    return value
