"""RQ: RaBitQ codes, the signs of a rotated residual and, with more than one bit, the magnitudes of its values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark.index.vector.building.codec import Codec, Columns
from lance_spark.index.vector.building.rabit_packing import packed_magnitudes, packed_signs, unpacked_signs
from lance_spark.index.vector.metrics import Metric, Vectors
from lance_spark.index.vector.rotation import rotated, sign_flips
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.vector.rabitq import encode

Float32Array = npt.NDArray[np.float32]
Float64Array = npt.NDArray[np.float64]
Int32Array = npt.NDArray[np.int32]

_BLOCK_ROWS = 1 << 14
_CONFIDENCE = 1.9
"""How many standard deviations the bound of an estimate is away."""

_CODES = "_rabit_codes"
_EX_CODES = "__blocked_ex_codes"


class RabitCodec(Codec):
    """RQ. Estimates of distances are ``add + scale * (code · query)``; the factors of each row are stored."""

    def types(self) -> dict[str, pa.DataType]:
        dimension, ex_bits = self._model.centroids.shape[1], self._model.num_bits - 1
        found = {_CODES: pa.list_(pa.uint8(), dimension // 8)}
        found |= dict.fromkeys(("__add_factors", "__scale_factors", "__error_factors"), pa.float32())
        if ex_bits:
            found[_EX_CODES] = pa.list_(pa.uint8(), -(-dimension // 64) * 8 * ex_bits)
            found |= dict.fromkeys(("__add_factors_ex", "__scale_factors_ex"), pa.float32())
        return found

    def encoded(self, vectors: Vectors, labels: Int32Array) -> Columns:
        centroids = self._model.centroids.astype(np.float32)
        turned = rotated(centroids, self._flips)
        parts = [
            self._block(vectors[start : start + _BLOCK_ROWS], labels[start : start + _BLOCK_ROWS], centroids, turned)
            for start in range(0, max(len(vectors), 1), _BLOCK_ROWS)
        ]
        return {name: np.concatenate([part[name] for part in parts]) for name in self.types()}

    def description(self) -> dict[str, Any]:
        return {
            "rotate_mat_position": None,
            "fast_rotation_signs": list(self._signs),
            "rotation_type": "fast",
            "code_dim": self._model.centroids.shape[1],
            "num_bits": self._model.num_bits,
            "packed": True,
            "query_estimator": "raw_query",
        }

    def packed(self, columns: Columns) -> Columns:
        return {**columns, _CODES: packed_signs(columns[_CODES])}

    def unpacked(self, columns: Columns, description: Mapping[str, Any]) -> Columns:
        if description.get("packed") is not True:
            return columns
        return {**columns, _CODES: unpacked_signs(columns[_CODES])}

    @property
    def _signs(self) -> bytes:
        assert self._model.signs is not None
        return self._model.signs

    @property
    def _flips(self) -> Float32Array:
        return sign_flips(self._signs, self._model.centroids.shape[1])

    def _block(self, vectors: Vectors, labels: Int32Array, centroids: Float32Array, turned: Float32Array) -> Columns:
        residuals = rotated(vectors.astype(np.float32, copy=False) - centroids[labels], self._flips)
        (num_rows, dimension), ex_bits = residuals.shape, self._model.num_bits - 1
        signs, codes = np.empty((num_rows, dimension // 8), np.uint8), np.empty(residuals.shape, np.uint8)
        sums = np.empty((num_rows, 6), np.float64)
        owners = np.ascontiguousarray(labels, np.int32)
        addresses = [address_of(array) for array in (turned, owners, signs, codes, sums)]
        encode(address_of(residuals), num_rows, dimension, ex_bits, *addresses)
        square, between, of_signs, center_signs, of_codes, center_codes = sums.T
        add, scale, error = self._factors(square, between, of_signs, center_signs, dimension)
        columns: dict[str, npt.NDArray[Any]] = {
            _CODES: signs,
            "__add_factors": add,
            "__scale_factors": scale,
            "__error_factors": error,
        }
        if ex_bits:
            columns[_EX_CODES] = packed_magnitudes(codes, ex_bits)
            factors = self._factors(square, between, of_codes, center_codes, dimension)
            columns["__add_factors_ex"], columns["__scale_factors_ex"], _ = factors
        return columns

    def _factors(
        self,
        square: Float64Array,
        between: Float64Array,
        product: Float64Array,
        of_center: Float64Array,
        dimension: int,
    ) -> list[Float32Array]:
        """The summand, the factor and the bound of the error of each row's estimates, from the products (float64[n])
        of residuals with themselves, of residuals and centroids, of residuals and codes, of centroids and codes."""
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(product > 0, square / product, 0)
            spread = np.where(product > 0, square * dimension / 4 / product**2 - 1, 0)
        bound = _CONFIDENCE * np.sqrt(square) * np.sqrt(np.maximum(spread, 0) / max(dimension - 1, 1))
        if self._model.metric is Metric.DOT:
            return [found.astype(np.float32) for found in (1 - between + ratio * of_center, -ratio, bound)]
        return [found.astype(np.float32) for found in (square + 2 * ratio * of_center, -2 * ratio, 2 * bound)]
