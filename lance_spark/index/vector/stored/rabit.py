"""RQ (RaBitQ): rotated residuals as a few bits a dimension, with factors that turn a product into a distance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark.cached import cached_property
from lance_spark.errors import UnsupportedFeatureError
from lance_spark.index.files import IndexFile
from lance_spark.index.vector.ivf import IvfModel, Partitions, storage_metadata
from lance_spark.index.vector.metrics import Float32Array, Metric, Vectors
from lance_spark.index.vector.rotation import rotated, sign_flips
from lance_spark.index.vector.storage import GraphNodes, Partition, Parts, Scorer, UInt64Array, VectorStorage
from lance_spark.index.vector.stored.rabit_codes import (
    MAX_BITS,
    PACKED_BITS,
    magnitude_bytes,
    packed_sign_panels,
    sign_panels,
    sign_rows,
    unpacked_codes,
)
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.vector.rabitq import code_distances

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
        if dimension % 8:
            raise file.damaged(f"codes of {dimension} dimensions, which do not fill bytes")
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

    @property
    def has_bounds(self) -> bool:
        """Whether signs are compared first, to rule rows out: beside magnitudes of one byte."""
        return 1 < self.num_bits < MAX_BITS

    @cached_property
    def flips(self) -> Float32Array:
        """float32[4, d]: the rotation."""
        return sign_flips(self.signs, self.model.centroids.shape[1])

    @cached_property
    def float_centroids(self) -> Float32Array:
        """float32[p, d]: the centroids."""
        return self.model.centroids.astype(np.float32, copy=False)

    def column_types(self) -> dict[str, pa.DataType]:
        dimension = self.model.centroids.shape[1]
        names, types = ["__add_factors", "__scale_factors"], {"_rabit_codes": pa.list_(pa.uint8(), dimension // 8)}
        if self.num_bits > 1:
            types["__blocked_ex_codes"] = pa.list_(pa.uint8(), magnitude_bytes(dimension, self.num_bits))
            names = ["__add_factors_ex", "__scale_factors_ex"]
        if self.has_bounds:
            names += ["__add_factors", "__scale_factors", "__error_factors"]
        return types | dict.fromkeys(names, pa.float32())

    def partition(self, number: int, row_ids: UInt64Array, columns: Sequence[npt.NDArray[Any]]) -> Partition:
        signs, factors = columns[0], columns[1:]
        panels = packed_sign_panels(signs) if self.is_packed else sign_panels(signs)
        magnitudes = None
        if self.num_bits > 1:
            magnitudes, factors = columns[1], columns[2:]
        codes = magnitudes
        if codes is None or self.num_bits != PACKED_BITS:
            codes = np.ascontiguousarray(unpacked_codes(sign_rows(panels, *signs.shape), magnitudes, self.num_bits))
        stored = np.empty((len(factors), len(row_ids)), np.float32)
        for place, factor in enumerate(factors):
            stored[place] = factor
        return Partition(row_ids, codes, (stored, panels) if self.has_bounds else (stored,))

    def scorer(self, query: Vectors) -> Scorer:
        wanted = query.astype(np.float32)
        return _RabitScorer(self, wanted, rotated(wanted[None], self.flips)[0])


@dataclass(frozen=True)
class _RabitScorer(Scorer):
    storage: RabitStorage
    query: Float32Array
    rotated: Float32Array

    def distances(self, parts: Parts, count: int | None = None) -> Float32Array:
        # Codes stand for the middle of their interval; so the sum of the query is taken off once.
        middle = float(np.float32((1 << self.storage.num_bits) - 1) / 2 * self.rotated.sum())
        terms, kept, dimension = self._terms(parts.numbers), list(parts.partitions), len(self.rotated)
        if self.storage.num_bits == MAX_BITS:
            return self._of_wide_codes(parts, terms, middle)
        panels, factors = parts.addresses, np.array([part.addresses_of_factors[0] for part in kept], np.int64)
        if self.storage.has_bounds:
            panels = np.array([part.addresses_of_factors[1] for part in kept], np.int64)
        out = np.empty(parts.num_rows, np.float32)
        code_distances(
            address_of(parts.addresses),
            address_of(panels),
            address_of(factors),
            address_of(parts.lengths),
            len(kept),
            dimension,
            address_of(self.rotated),
            middle,
            address_of(terms),
            count if count is not None and self.storage.has_bounds else 0,
            self.storage.num_bits == PACKED_BITS,
            address_of(out),
        )
        return out

    def _terms(self, numbers: Sequence[int]) -> Float32Array:
        """float32[p, 3]: for each partition (offset, share, the distance of the query to the centroid)."""
        centroids = self.storage.float_centroids[[*numbers]]
        differences = self.query - centroids
        squares = np.einsum("ij,ij->i", differences, differences)
        if self.storage.metric is not Metric.DOT:
            return np.stack([squares, np.ones_like(squares), np.sqrt(squares)], axis=1)
        lengths, similarity = np.einsum("ij,ij->i", centroids, centroids), centroids @ self.query
        share = np.divide(similarity, lengths, out=np.zeros_like(lengths), where=lengths > 0)
        return np.stack([1 - similarity - share, share, np.sqrt(squares)], axis=1)

    def _of_wide_codes(self, parts: Parts, terms: Float32Array, middle: float) -> Float32Array:
        """Same as `distances`, for codes of two bytes."""
        product = np.concatenate([part.payload.astype(np.float32) @ self.rotated for part in parts.partitions])
        added, scale = np.concatenate([part.factors[0] for part in parts.partitions], axis=1)
        found: Float32Array = parts.each(terms[:, 0]) + parts.each(terms[:, 1]) * added
        found += scale * (product - np.float32(middle))
        return found

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
