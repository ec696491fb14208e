"""Vectors of a column as matrices: which of them an index holds, and in which form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lance_spark.index.vector.metrics import Metric, Vectors
from lance_spark.schema.number_types import numpy_type

Float32Array = npt.NDArray[np.float32]
UInt64Array = npt.NDArray[np.uint64]

_BLOCK_ROWS = 1 << 16


@dataclass(frozen=True)
class VectorType:
    """The type of an indexed column.

    Attributes:
        values: numpy's type of the values.
        dimension: values of a vector.
        is_multivector: whether a row has a list of vectors.
    """

    values: np.dtype[Any]
    dimension: int
    is_multivector: bool

    @classmethod
    def of(cls, dtype: pa.DataType) -> VectorType | None:
        """The type of an Arrow type; None if its values are no vectors that can be indexed."""
        is_list = pt.is_list(dtype) or pt.is_large_list(dtype)
        vector = dtype.value_type if is_list else dtype
        if not pt.is_fixed_size_list(vector) or vector.list_size < 1:
            return None
        value = vector.value_type
        if not (pt.is_floating(value) or (pt.is_uint8(value) and not is_list)):
            return None
        return cls(numpy_type(value), vector.list_size, is_list)

    @property
    def is_bits(self) -> bool:
        """Whether vectors are bits in bytes."""
        return self.values == np.uint8


@dataclass(frozen=True)
class VectorRows:
    """The vectors that an index holds.

    Attributes:
        vectors: [n, d] of the column's type, C-contiguous, finite; of length 1 for cosine.
        ids: uint64[n]: their row ids; a row with several vectors occurs several times.
    """

    vectors: Vectors
    ids: UInt64Array

    @classmethod
    def of(cls, values: pa.Array, ids: UInt64Array, kind: VectorType, metric: Metric) -> VectorRows:
        """The vectors of rows without nulls, NaN and infinity, and for cosine without zero vectors.

        Args:
            values: of the column.
            ids: uint64[n]: of the rows.
        """
        if kind.is_multivector:
            ids = ids[pc.list_parent_indices(values).to_numpy()]
            values = values.flatten()
        valid = values.is_valid().to_numpy(zero_copy_only=False)
        vectors = _matrix(values, kind)
        if not kind.is_bits:
            valid &= _finite(vectors)
        if metric is Metric.COSINE:
            vectors, lengths = _normalized(vectors, valid)
            valid &= lengths > 0
        if not valid.all():
            vectors, ids = vectors[valid], ids[valid]
        return cls(np.ascontiguousarray(vectors), ids)

    def sample(self, count: int, seed: int) -> VectorRows:
        """`count` of the rows, or all of them if there are not more."""
        if len(self.ids) <= count:
            return self
        chosen = np.sort(np.random.default_rng(seed).choice(len(self.ids), count, replace=False))
        return VectorRows(self.vectors[chosen], self.ids[chosen])


def working_form(vectors: Vectors) -> Float32Array:
    """float32[n, w]: what is clustered: the values, or the bits of uint8 vectors as 0 and 1."""
    if vectors.dtype == np.uint8:
        return np.unpackbits(vectors, axis=1).astype(np.float32)
    return np.ascontiguousarray(vectors, np.float32)


def stored_form(centroids: Float32Array, dtype: np.dtype[Any]) -> Vectors:
    """Inverse of `working_form` for centroids, in a column's type: bits are those of the majority."""
    if dtype == np.uint8:
        return np.packbits(centroids > 0.5, axis=1)
    return centroids.astype(dtype)


def _matrix(values: pa.Array, kind: VectorType) -> Vectors:
    """[n, d]: nulls become 0."""
    width = kind.dimension
    items = values.values.slice(values.offset * width, len(values) * width)
    if items.null_count:
        items = items.fill_null(pa.scalar(0, items.type))
    matrix: Vectors = items.to_numpy(zero_copy_only=False).reshape(len(values), width)
    return matrix


def _finite(vectors: Vectors) -> npt.NDArray[np.bool_]:
    """bool[n]: which vectors have no NaN or infinity."""
    kept = np.empty(len(vectors), np.bool_)
    for start in range(0, len(vectors), _BLOCK_ROWS):
        block = vectors[start : start + _BLOCK_ROWS]
        # The sum of 0 * value is NaN where a value is none or infinite.
        with np.errstate(invalid="ignore"):
            kept[start : start + _BLOCK_ROWS] = ~np.isnan((block * block.dtype.type(0)).sum(axis=1))
    return kept


def _normalized(vectors: Vectors, valid: npt.NDArray[np.bool_]) -> tuple[Vectors, npt.NDArray[np.float64]]:
    """(vectors of length 1, their lengths before)."""
    unit = np.zeros_like(vectors)
    lengths = np.zeros(len(vectors), np.float64)
    for start in range(0, len(vectors), _BLOCK_ROWS):
        part = slice(start, start + _BLOCK_ROWS)
        block = np.where(valid[part, None], vectors[part], 0).astype(np.float64)
        lengths[part] = np.sqrt(np.einsum("ij,ij->i", block, block))
        unit[part] = block / np.where(lengths[part] > 0, lengths[part], 1)[:, None]
    return unit, lengths
