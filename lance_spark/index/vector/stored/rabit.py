"""RQ (RaBitQ): rotated residuals as a few bits a dimension, with factors that turn a product into a distance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark.errors import UnsupportedFeatureError
from lance_spark.index.files import IndexFile
from lance_spark.index.vector.ivf import IvfModel, Partitions, storage_metadata
from lance_spark.index.vector.metrics import Float32Array, Metric, Vectors
from lance_spark.index.vector.storage import GraphNodes, Partition, Parts, Scorer, VectorStorage, compared_codes, matrix
from lance_spark.index.vector.stored.rabit_codes import MAX_BITS, magnitude_bytes, rotated, unpacked_codes
from lance_spark.kernels.vector.vector_codes import dot_u8

_ROUNDS = 4


@dataclass(frozen=True)
class RabitStorage(VectorStorage):
    """A storage file of codes.

    Attributes:
        signs: uint8[4, ceil(d / 8)]: the rotation.
        num_bits: of a dimension, 1 to 9.
        is_packed: whether sign bits of 32 rows are interleaved.
    """

    signs: npt.NDArray[np.uint8] = field(default_factory=lambda: np.empty((0, 0), np.uint8))
    num_bits: int = 1
    is_packed: bool = True

    @classmethod
    def of(cls, file: IndexFile, model: IvfModel) -> VectorStorage:
        described = storage_metadata(file)
        dimension = model.centroids.shape[1]
        _require_known(file, described, dimension)
        try:
            signs = np.array(described.get("fast_rotation_signs"), np.uint8)
        except (TypeError, ValueError, OverflowError) as error:
            raise file.damaged("the signs of a rotation are no bytes") from error
        num_bits = described.get("num_bits")
        if signs.shape != (_ROUNDS * -(-dimension // 8),) or type(num_bits) is not int or not 1 <= num_bits <= MAX_BITS:
            raise file.damaged(f"{signs.size} bytes of signs and {num_bits} bits for {dimension} dimensions")
        partitions = Partitions.read(file, len(model.centroids))
        return cls(
            file,
            model,
            partitions,
            signs=signs.reshape(_ROUNDS, -1),
            num_bits=num_bits,
            is_packed=described.get("packed") is True,
        )

    def column_types(self) -> dict[str, pa.DataType]:
        dimension = self.model.centroids.shape[1]
        suffix = "_ex" if self.num_bits > 1 else ""
        types = {
            "_rabit_codes": pa.list_(pa.uint8(), dimension // 8),
            f"__add_factors{suffix}": pa.float32(),
            f"__scale_factors{suffix}": pa.float32(),
        }
        if suffix:
            types["__blocked_ex_codes"] = pa.list_(pa.uint8(), magnitude_bytes(dimension, self.num_bits))
        return types

    def partition(self, row_ids: npt.NDArray[np.uint64], columns: Sequence[pa.Array]) -> Partition:
        signs, added, scale, *magnitudes = columns
        magnitude = matrix(magnitudes[0]) if magnitudes else None
        codes = unpacked_codes(matrix(signs), magnitude, self.num_bits, packed=self.is_packed)
        return Partition(row_ids, np.ascontiguousarray(codes), (added.to_numpy(), scale.to_numpy()))

    def scorer(self, query: Vectors) -> Scorer:
        wanted = query.astype(np.float32)
        return _RabitScorer(self, wanted, np.ascontiguousarray(rotated(wanted, self.signs)))


@dataclass(frozen=True)
class _RabitScorer(Scorer):
    storage: RabitStorage
    query: Float32Array
    rotated: Float32Array

    def distances(self, parts: Parts) -> Float32Array:
        added, scale = (
            np.concatenate(factors) for factors in zip(*(part.factors for part in parts.partitions), strict=True)
        )
        # Codes stand for the middle of their interval; so the sum of the query is taken off once.
        middle = np.float32((1 << self.storage.num_bits) - 1) / 2
        product = self._products(parts) - middle * self.rotated.sum()
        centroids = self.storage.model.centroids[parts.numbers].astype(np.float32, copy=False)
        if self.storage.metric is Metric.DOT:
            squares = np.einsum("ij,ij->i", centroids, centroids)
            similarity = centroids @ self.query
            share = np.divide(similarity, squares, out=np.zeros_like(squares), where=squares > 0)
            found: Float32Array = parts.each(1 - similarity) + parts.each(share) * (added - 1) + scale * product
        else:
            differences = self.query - centroids
            found = added + scale * product + parts.each(np.einsum("ij,ij->i", differences, differences))
        return found.astype(np.float32, copy=False)

    def _products(self, parts: Parts) -> Float32Array:
        if self.storage.num_bits < MAX_BITS:
            return compared_codes(dot_u8, parts, self.rotated)
        return np.concatenate([part.payload.astype(np.float32) @ self.rotated for part in parts.partitions])

    def nodes(self, number: int, rows: Partition) -> GraphNodes:
        raise UnsupportedFeatureError("graphs over codes of RQ are not read")


def _require_known(file: IndexFile, described: dict[str, Any], dimension: int) -> None:
    """Nothing, if the codes are of the one kind that is read: other rotations and estimators are older or newer.

    Raises:
        UnsupportedFeatureError: they are not.
    """
    wanted = {"rotation_type": "fast", "query_estimator": "raw_query", "code_dim": dimension}
    for key, value in wanted.items():
        if described.get(key) != value:
            raise UnsupportedFeatureError(f"an IVF_RQ index with the {key} {described.get(key)!r} is not read")
    if described.get("layered") or file.has("__ex_codes"):
        raise UnsupportedFeatureError("an IVF_RQ index with layered or unblocked codes is not read")
