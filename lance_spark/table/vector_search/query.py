"""A vector query, validated against the column that it searches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

from lance_spark.errors import InvalidInputError
from lance_spark.index.vector.metrics import Metric, Vectors
from lance_spark.index.vector.nearest import DistanceRange
from lance_spark.table.vector_search.defaults import DEFAULT_K

DISTANCE = "_distance"
QUERY_INDEX = "query_index"

_NUMPY_TYPES: dict[pa.DataType, Any] = {
    pa.float16(): np.float16,
    pa.float32(): np.float32,
    pa.float64(): np.float64,
    pa.uint8(): np.uint8,
}


@dataclass(frozen=True)
class VectorColumn:
    """A column that can be searched.

    Attributes:
        name: as the user wrote it.
        dtype: numpy's type of the values.
        dimension: values of a vector.
        is_multivector: whether a row has a list of vectors.
    """

    name: str
    dtype: npt.DTypeLike
    dimension: int
    is_multivector: bool

    @classmethod
    def of(cls, name: str, arrow_type: pa.DataType) -> VectorColumn:
        """The column `name` of an Arrow type.

        Raises:
            InvalidInputError: it has no vectors that can be compared.
        """
        is_list = pt.is_list(arrow_type) or pt.is_large_list(arrow_type)
        vector = arrow_type.value_type if is_list else arrow_type
        if not pt.is_fixed_size_list(vector) or vector.value_type not in _NUMPY_TYPES or vector.list_size < 1:
            raise InvalidInputError(
                f"column {name} is {arrow_type}, not a vector: a fixed_size_list of float16, float32, float64 or uint8"
            )
        return cls(name, _NUMPY_TYPES[vector.value_type], vector.list_size, is_list)

    @property
    def is_bits(self) -> bool:
        """Whether vectors are bits in bytes, to be compared by hamming alone."""
        return np.dtype(self.dtype) == np.uint8

    def metric(self, name: str | None) -> Metric:
        """The metric of a name, the column's default for None.

        Raises:
            InvalidInputError: there is no such metric for this column.
        """
        if name is None:
            return Metric.HAMMING if self.is_bits else Metric.L2
        metric = Metric.named(name)
        if (metric is Metric.HAMMING) != self.is_bits:
            kind = "uint8 vectors, which have hamming only" if self.is_bits else "float vectors, which have no hamming"
            raise InvalidInputError(f"column {self.name} has {kind}; the metric asked for is {metric.value}")
        return metric

    def vectors(self, query: Any) -> tuple[Vectors, bool]:
        """(the query as [m, d] of the column's type, whether these are several queries).

        Raises:
            InvalidInputError: it is no vector of numbers of the column's dimension.
        """
        values = _numbers(query)
        rows = values.reshape(1, -1) if values.ndim == 1 else values
        if values.ndim not in (1, 2) or rows.shape[0] == 0 or rows.shape[1] != self.dimension:
            shape = " x ".join(map(str, values.shape))
            raise InvalidInputError(
                f"the query has {shape} values, the vectors of column {self.name} have {self.dimension}"
            )
        if self.is_bits and not bool(((rows >= 0) & (rows <= 255)).all()):
            raise InvalidInputError(f"column {self.name} has uint8 vectors; the query has values outside 0 to 255")
        is_batch = values.ndim == 2 and not self.is_multivector
        if rows.dtype == self.dtype and rows.flags.carray:
            return rows, is_batch
        with np.errstate(over="ignore", invalid="ignore"):
            return rows.astype(self.dtype), is_batch


def _numbers(query: Any) -> npt.NDArray[Any]:
    if isinstance(query, pa.FixedSizeListArray) and not query.null_count and not query.flatten().null_count:
        vectors: npt.NDArray[Any] = query.flatten().to_numpy(zero_copy_only=False).reshape(len(query), -1)
        return vectors
    if isinstance(query, (pa.Array, pa.ChunkedArray)):
        query = query.to_pylist()
    elif isinstance(query, pa.Scalar):
        query = query.as_py()
    try:
        values: npt.NDArray[Any] = np.asarray(query)
    except ValueError as error:
        raise InvalidInputError("the query is not a vector: its rows differ in length") from error
    if values.dtype.kind not in "fiu":
        raise InvalidInputError(f"the query is not a vector of numbers but {str(query)[:80]}")
    return values


@dataclass(frozen=True)
class VectorQuery:
    """A search.

    Attributes:
        column: where.
        vectors: [m, d] of the column's type: m queries, or the m vectors of one query of a column of multivectors.
        is_batch: whether the result says which query a row belongs to.
        k: rows of the result, of each query, at most.
        metric: how distance is measured.
        within: the distances that count.
        metric_is_default: whether the user named none; then that of an index can be taken.
    """

    column: VectorColumn
    vectors: Vectors
    is_batch: bool
    k: int
    metric: Metric
    within: DistanceRange
    metric_is_default: bool

    @classmethod
    def of(
        cls,
        column: VectorColumn,
        query: Any,
        *,
        k: int = DEFAULT_K,
        metric: str | None = None,
        distance_range: Sequence[float | None] | None = None,
    ) -> VectorQuery:
        """The search for `query`.

        Raises:
            InvalidInputError: an argument is invalid for the column.
        """
        if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 1:
            raise InvalidInputError(f"k is {k!r}; it must be a whole number of at least 1")
        if distance_range is not None and len(distance_range) != 2:
            raise InvalidInputError("a distance range has two ends, each of which can be None")
        vectors, is_batch = column.vectors(query)
        within = DistanceRange(*distance_range) if distance_range is not None else DistanceRange()
        return cls(column, vectors, is_batch, int(k), column.metric(metric), within, metric is None)

    def with_metric(self, metric: Metric) -> VectorQuery:
        """The same search by a metric that was chosen."""
        return VectorQuery(self.column, self.vectors, self.is_batch, self.k, metric, self.within, False)

    @property
    def queries(self) -> list[Vectors]:
        """The vectors of each query: [1, d], or [m, d] of a column of multivectors."""
        return [self.vectors] if self.column.is_multivector else [row.reshape(1, -1) for row in self.vectors]
