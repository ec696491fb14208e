"""`multi_bucket`: the hash of several columns together, into N buckets: `abs(murmur3_multi(col0, col1, ...)) % N`.

Nulls are skipped by the hash, so `(1, NULL)` and `(NULL, 1)` share a bucket; if all are null the result is NULL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lance_spark.errors import InvalidInputError
from lance_spark.expr.nodes import Column, Expr
from lance_spark.partitioned.transforms.base import Reducer, Source, Transform, integer_parameter
from lance_spark.partitioned.transforms.bucket import MAX_BUCKETS, bucket_reducer, buckets, point_rows
from lance_spark.partitioned.values.conditions import is_in_array
from lance_spark.partitioned.values.hashing import check_hashable, murmur3_multi


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

    def project(self, sources: Sequence[Source], partition: Column) -> Expr | None:
        rows = point_rows(sources)
        return None if rows is None else is_in_array(partition, self.apply(*rows))

    def reducer(self, other: Transform) -> Reducer | None:
        return bucket_reducer(self.num_buckets, other.num_buckets) if isinstance(other, MultiBucket) else None
