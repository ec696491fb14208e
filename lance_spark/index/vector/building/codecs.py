"""Codecs that store the vectors of a segment: as they are, or as codes.

A codec turns vectors into columns of one row each, and columns of a partition into the form that files have, which for
some kinds mixes the rows of a partition.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark.index.vector.building import product
from lance_spark.index.vector.building.codec import Codec, Columns
from lance_spark.index.vector.building.model import VectorModel, tensor_message
from lance_spark.index.vector.building.rabit import RabitCodec
from lance_spark.index.vector.building.vectors import working_form
from lance_spark.index.vector.metrics import Metric, Vectors, computed_type
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.vector.hnsw_build import MAX_CODES
from lance_spark.kernels.vector.scalar_codes import scalar_codes_f32, scalar_codes_f64

Float32Array = npt.NDArray[np.float32]
Int32Array = npt.NDArray[np.int32]

_BLOCK_ROWS = 1 << 15


class FlatCodec(Codec):
    """The vectors themselves."""

    is_nullable = False

    def types(self) -> dict[str, pa.DataType]:
        centroids = self._model.centroids
        return {"flat": pa.list_(pa.from_numpy_dtype(centroids.dtype), centroids.shape[1])}

    def encoded(self, vectors: Vectors, labels: Int32Array) -> Columns:
        return {"flat": vectors}

    def compared(self, columns: Columns) -> tuple[Vectors, float]:
        return working_form(columns["flat"]), 1.0

    def description(self) -> dict[str, Any]:
        return {"dim": self._model.centroids.shape[1]}


class ScalarCodec(Codec):
    """SQ: each value as a byte between two bounds."""

    def types(self) -> dict[str, pa.DataType]:
        return {"__sq_code": pa.list_(pa.uint8(), self._model.centroids.shape[1])}

    def encoded(self, vectors: Vectors, labels: Int32Array) -> Columns:
        low, high = self._bounds()
        codes = np.zeros(vectors.shape, np.uint8)
        if high > low:
            encode = scalar_codes_f64 if vectors.dtype == np.float64 else scalar_codes_f32
            values = np.ascontiguousarray(vectors, computed_type(vectors.dtype))
            encode(address_of(values), values.size, low, high, address_of(codes))
        return {"__sq_code": codes}

    def compared(self, columns: Columns) -> tuple[Vectors, float]:
        low, high = self._bounds()
        step, codes = (high - low) / 255, columns["__sq_code"]
        if self._model.metric is not Metric.DOT and codes.shape[1] <= MAX_CODES:
            return codes, step * step
        return codes.astype(np.float32) * np.float32(step) + np.float32(low), 1.0

    def description(self) -> dict[str, Any]:
        low, high = self._bounds()
        return {"dim": self._model.centroids.shape[1], "num_bits": 8, "bounds": {"start": low, "end": high}}

    def _bounds(self) -> tuple[float, float]:
        assert self._model.bounds is not None
        return self._model.bounds


class ProductCodec(Codec):
    """PQ: each sub-vector as the number of its nearest codeword."""

    def types(self) -> dict[str, pa.DataType]:
        return {"__pq_code": pa.list_(pa.uint8(), len(self._codebook) * self._model.num_bits // 8)}

    def encoded(self, vectors: Vectors, labels: Int32Array) -> Columns:
        coded = [np.empty((0, self.types()["__pq_code"].list_size), np.uint8)]
        for start in range(0, len(vectors), _BLOCK_ROWS):
            part = slice(start, start + _BLOCK_ROWS)
            found = product.encode(self._coded_values(vectors[part], labels[part]), self._codebook)
            coded.append(product.packed(found, self._model.num_bits).T)
        return {"__pq_code": np.concatenate(coded)}

    def compared(self, columns: Columns) -> tuple[Vectors, float]:
        codes = product.unpacked(np.ascontiguousarray(columns["__pq_code"].T), self._model.num_bits)
        return product.decode(codes, self._codebook), 1.0

    def description(self) -> dict[str, Any]:
        return {
            "codebook_position": 2,
            "nbits": self._model.num_bits,
            "num_sub_vectors": len(self._codebook),
            "dimension": self._model.centroids.shape[1],
            "codebook_tensor": [],
            "transposed": True,
        }

    def buffers(self) -> list[bytes]:
        # The bytes are [sub-vectors, codewords, values], whatever the shape says.
        shape = (1 << self._model.num_bits, self._model.centroids.shape[1])
        values = self._codebook.astype(self._model.centroids.dtype)
        return [tensor_message(values, shape).SerializeToString(deterministic=True)]

    def packed(self, columns: Columns) -> Columns:
        codes = columns["__pq_code"]
        return {"__pq_code": np.ascontiguousarray(codes.T).reshape(codes.shape)}

    def unpacked(self, columns: Columns, description: Mapping[str, Any]) -> Columns:
        codes = columns["__pq_code"]
        if description.get("transposed") is not True:
            return columns
        return {"__pq_code": np.ascontiguousarray(codes.reshape(codes.shape[::-1]).T)}

    @property
    def _codebook(self) -> Float32Array:
        assert self._model.codebook is not None
        return self._model.codebook

    def _coded_values(self, vectors: Vectors, labels: Int32Array) -> Float32Array:
        values = np.ascontiguousarray(vectors, np.float32)
        if not self._model.uses_residuals:
            return values
        return values - self._model.centroids.astype(np.float32)[labels]


_CODECS: dict[str, type[Codec]] = {"FLAT": FlatCodec, "SQ": ScalarCodec, "PQ": ProductCodec, "RQ": RabitCodec}


def codec_of(model: VectorModel) -> Codec:
    """The codec of a model."""
    return _CODECS[model.codes](model)
