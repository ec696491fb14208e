"""`lance_distance` of SQL, equal bit by bit to what the JVM computes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lance_spark.index.vector.metrics import Float32Array, Metric, distances
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.vector.ordered_distances import (
    ordered_cosine_f32,
    ordered_cosine_f64,
    ordered_dot_f32,
    ordered_dot_f64,
    ordered_l2_f32,
    ordered_l2_f64,
)

_KERNELS = {
    (Metric.L2, 4): ordered_l2_f32,
    (Metric.L2, 8): ordered_l2_f64,
    (Metric.DOT, 4): ordered_dot_f32,
    (Metric.DOT, 8): ordered_dot_f64,
    (Metric.COSINE, 4): ordered_cosine_f32,
    (Metric.COSINE, 8): ordered_cosine_f64,
}
_FLOATS = (pa.float16(), pa.float32(), pa.float64())


@dataclass(frozen=True)
class SqlDistance:
    """The distance of a column of vectors to a query.

    Attributes:
        metric: how it is measured.
        query: the values of the query, in double precision.
    """

    metric: Metric
    query: tuple[float, ...]

    @classmethod
    def of(cls, dtype: pa.DataType, metric: Metric, query: tuple[float, ...]) -> SqlDistance | None:
        """The distance of a column of type `dtype`; None if `lance_distance` fails for its rows, or for other columns
        than vectors."""
        if not pt.is_fixed_size_list(dtype) or dtype.list_size != len(query) or not query:
            return None
        if dtype.value_type == pa.uint8():
            is_byte = all(0 <= value <= 255 and value.is_integer() for value in query)
            return cls(metric, query) if metric is Metric.HAMMING and is_byte else None
        return cls(metric, query) if dtype.value_type in _FLOATS and metric is not Metric.HAMMING else None

    def described(self, column: str) -> str:
        """The call, without the query, for plans."""
        return f"lance_distance({column}, {self.metric.value})"

    def values(self, vectors: pa.Array) -> pa.Array:
        """float32: the distance of each of `vectors` (fixed_size_list), null where the vector is."""
        size = vectors.type.list_size
        items = vectors.values.slice(vectors.offset * size, len(vectors) * size)
        if items.null_count:
            items = pc.fill_null(items, 0)
        found = self._distances(items.to_numpy(zero_copy_only=False).reshape(len(vectors), size))
        null = vectors.is_null().to_numpy(zero_copy_only=False) if vectors.null_count else None
        return pa.array(found, pa.float32(), mask=null, from_pandas=False)

    def _distances(self, values: npt.NDArray[np.generic]) -> Float32Array:
        if self.metric is Metric.HAMMING:
            return distances(self.metric, values, np.array(self.query, np.uint8))
        dtype = np.float64 if values.dtype == np.float64 else np.float32
        rows = np.ascontiguousarray(values, dtype)
        with np.errstate(over="ignore"):
            wanted = np.array(self.query, np.float64).astype(dtype)
        out = np.empty(len(rows), dtype)
        arguments = (address_of(rows), len(rows), rows.shape[1], address_of(wanted), address_of(out))
        _KERNELS[self.metric, dtype().itemsize](*arguments)
        if self.metric is not Metric.L2:
            np.subtract(1, out, out=out)
        with np.errstate(over="ignore"):
            found: Float32Array = out.astype(np.float32, copy=False)
        return found
