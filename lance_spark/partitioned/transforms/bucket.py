"""`bucket` and `multi_bucket`: the hash of one column, or of several together, into N buckets.

`bucket` is `abs(murmur3(col0)) % N`, `multi_bucket` is `abs(murmur3_multi(col0, col1, ...)) % N`. The
latter skips nulls, so `(1, NULL)` and `(NULL, 1)` share a bucket; if all are null the result is NULL.

The absolute value is computed in 64 bits, so that -2**31 has one. (Iceberg masks the sign instead: different buckets.)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from lance_spark.errors import InvalidInputError
from lance_spark.expr.nodes import Column, Expr
from lance_spark.partitioned.transforms.base import Keep, Reducer, SourceColumn, Transform, integer_parameter
from lance_spark.partitioned.values.conditions import is_in_array
from lance_spark.partitioned.values.hashing import check_hashable, murmur3, murmur3_multi
from lance_spark.partitioned.values.key_space import space_of

MAX_BUCKETS = 2**31 - 1
MAX_POINTS = 10_000
"""The number of values of a filter that are hashed; a filter with more is not projected."""


@dataclass(frozen=True, slots=True)
class Modulo(Reducer):
    """Reduces bucket numbers to `divisor` buckets, where `divisor` divides the number of buckets."""

    divisor: int

    def apply(self, values: pa.Array) -> pa.Array:
        nulls = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
        return pa.array(values.fill_null(0).to_numpy(zero_copy_only=False) % self.divisor, values.type, mask=nulls)


@dataclass(frozen=True, slots=True)
class Bucket(Transform):
    """The hash of one column modulo `num_buckets`."""

    num_buckets: int
    name = "bucket"

    @classmethod
    def from_json(cls, members: Mapping[str, Any]) -> Bucket:
        return cls(integer_parameter(members, "num_buckets", MAX_BUCKETS))

    def to_json(self) -> dict[str, Any]:
        return {"type": self.name, "num_buckets": self.num_buckets}

    def check_sources(self, sources: Sequence[pa.DataType]) -> None:
        super(Bucket, self).check_sources(sources)
        check_hashable(sources[0])

    def result_type(self, sources: Sequence[pa.DataType]) -> pa.DataType:
        self.check_sources(sources)
        return pa.int32()

    def apply(self, *columns: pa.Array) -> pa.Array:
        (column,) = columns
        return buckets(murmur3(column), self.num_buckets)

    def derived_expression(self, sources: Sequence[pa.DataType]) -> str:
        return f"abs(murmur3(col0)) % {self.num_buckets}"

    def _project_values(self, source: SourceColumn, partition: Column) -> Expr | None:
        space = source.space
        keys = space.points(source.values, MAX_POINTS)
        if keys is None:
            return None
        points = space.array([key for key in keys if key is not None])
        return is_in_array(partition, self.apply(points))

    def reducer(self, other: Transform) -> Reducer | None:
        return bucket_reducer(self.num_buckets, other.num_buckets) if isinstance(other, Bucket) else None


def buckets(hashes: pa.Int32Array, num_buckets: int) -> pa.Int32Array:
    """`abs(hash) % num_buckets`, null for null: int32."""
    nulls = hashes.is_null().to_numpy(zero_copy_only=False) if hashes.null_count else None
    wide = np.abs(hashes.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64))
    return pa.array((wide % num_buckets).astype(np.int32), mask=nulls)


def bucket_reducer(num_buckets: int, other: int) -> Reducer | None:
    """The reducer that makes `num_buckets` buckets comparable with `other` buckets; None without a common divisor."""
    common = math.gcd(num_buckets, other)
    if common == num_buckets:
        return Keep()
    return Modulo(common) if common > 1 else None


def point_rows(sources: Sequence[SourceColumn]) -> list[pa.Array] | None:
    """All combinations of the sources' values, one column per source; None if there are too many."""
    points: list[pa.Array] = []
    num_rows = 1
    for source in sources:
        space = space_of(source.type)
        # A dropped column may have had any value in the partitions.
        keys = None if space is None else space.points(source.values, MAX_POINTS // max(num_rows, 1))
        if space is None or keys is None:
            return None
        points.append(space.array(keys))
        num_rows *= len(keys)
    rows: list[pa.Array] = []
    repeats = num_rows
    for values in points:
        repeats = repeats // len(values) if len(values) else 0
        pattern = np.repeat(np.arange(len(values)), repeats)
        rows.append(values.take(pa.array(np.resize(pattern, num_rows), pa.int64())))
    return rows


@dataclass(frozen=True, slots=True)
class MultiBucket(Transform):
    """The hash of several columns together modulo `num_buckets`; nulls are skipped."""

    num_buckets: int
    name = "multi_bucket"

    @classmethod
    def from_json(cls, members: Mapping[str, Any]) -> MultiBucket:
        return cls(integer_parameter(members, "num_buckets", MAX_BUCKETS))

    def to_json(self) -> dict[str, Any]:
        return {"type": self.name, "num_buckets": self.num_buckets}

    def check_sources(self, sources: Sequence[pa.DataType]) -> None:
        if not sources:
            raise InvalidInputError(f"transform {self.name} takes one source column or more, got none")
        for source in sources:
            check_hashable(source)

    def result_type(self, sources: Sequence[pa.DataType]) -> pa.DataType:
        self.check_sources(sources)
        return pa.int32()

    def apply(self, *columns: pa.Array) -> pa.Array:
        return buckets(murmur3_multi(columns), self.num_buckets)

    def derived_expression(self, sources: Sequence[pa.DataType]) -> str:
        columns = ", ".join(f"col{position}" for position in range(len(sources)))
        return f"abs(murmur3_multi({columns})) % {self.num_buckets}"

    def project(self, sources: Sequence[SourceColumn], partition: Column) -> Expr | None:
        rows = point_rows(sources)
        return None if rows is None else is_in_array(partition, self.apply(*rows))

    def reducer(self, other: Transform) -> Reducer | None:
        return bucket_reducer(self.num_buckets, other.num_buckets) if isinstance(other, MultiBucket) else None
