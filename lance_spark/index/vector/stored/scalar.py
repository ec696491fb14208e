"""SQ: each value as a byte."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark.cached import cached_property
from lance_spark.index.files import IndexFile
from lance_spark.index.vector.ivf import IvfModel, Partitions, storage_metadata
from lance_spark.index.vector.metrics import Float32Array, Metric, Vectors
from lance_spark.index.vector.storage import (
    GraphNodes,
    MappedStorage,
    Partition,
    Parts,
    Scorer,
    UInt64Array,
    VectorStorage,
)
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.vector.byte_estimates import byte_estimates, squared_lengths
from lance_spark.kernels.vector.vector_graph import CODES_DOT, CODES_SQUARED_L2


@dataclass(eq=False)
class ScalarPartition(Partition):
    """The codes of a partition, row by row."""

    @cached_property
    def squares(self) -> npt.NDArray[np.float64]:
        """float64[n]: the sums of the squared codes, computed at the first comparison of all rows."""
        squares = np.empty(len(self.row_ids))
        squared_lengths(self.address, *self.payload.shape, address_of(squares))
        return squares

    @property
    def num_bytes(self) -> int:
        return super().num_bytes + 8 * len(self.row_ids)


@dataclass(frozen=True)
class ScalarStorage(MappedStorage):
    """SQ: each value as a byte between two bounds that all dimensions share.

    Attributes:
        low: the value of the code 0.
        step: the difference between two codes.
    """

    low: float = 0.0
    step: float = 0.0

    @classmethod
    def of(cls, file: IndexFile, model: IvfModel) -> VectorStorage:
        bounds: Any = storage_metadata(file).get("bounds")
        try:
            low, high = float(bounds["start"]), float(bounds["end"])
        except (TypeError, KeyError, ValueError) as error:
            raise file.damaged("a scalar quantizer has no bounds") from error
        step = (high - low) / 255
        if not np.isfinite(low) or not np.isfinite(step) or step < 0:
            raise file.damaged(f"a scalar quantizer has the bounds {low} and {high}")
        return cls(file, model, Partitions.read(file, len(model.centroids)), low=low, step=step)

    def column_types(self) -> dict[str, pa.DataType]:
        return {"__sq_code": pa.list_(pa.uint8(), self.model.centroids.shape[1])}

    def partition(self, number: int, row_ids: UInt64Array, columns: Sequence[npt.NDArray[Any]]) -> Partition:
        return ScalarPartition(row_ids, np.ascontiguousarray(columns[0]))

    def scorer(self, query: Vectors) -> Scorer:
        if self.metric is Metric.DOT or not self.step:
            return _ScalarScorer(self, query.astype(np.float32))
        # Codes are rounded down: a value lies half a step above its code in the mean.
        return _ScalarScorer(self, ((query.astype(np.float64) - self.low) / self.step - 0.5).astype(np.float32))


@dataclass(frozen=True)
class _ScalarScorer(Scorer):
    """The query is compared in the scale of the codes."""

    storage: ScalarStorage
    query: Float32Array

    def distances(self, parts: Parts, count: int | None = None) -> Float32Array:
        is_dot = self.storage.metric is Metric.DOT
        out = np.empty(parts.num_rows, np.float32)
        partitions = cast("Sequence[ScalarPartition]", parts.partitions)
        squares = [] if is_dot else [rows.squares for rows in partitions]
        addresses_of_squares = np.array([address_of(array) for array in squares], np.int64)
        byte_estimates(
            address_of(parts.addresses),
            address_of(addresses_of_squares),
            address_of(parts.lengths),
            len(parts.lengths),
            len(self.query),
            address_of(self.query),
            is_dot,
            address_of(out),
        )
        step = self.storage.step
        if is_dot:
            out = out * np.float32(-step) + np.float32(1 - self.storage.low * float(self.query.sum()))
        else:
            out *= np.float32(step * step)
        return out

    def nodes(self, number: int, rows: Partition) -> GraphNodes:
        codes = rows.payload
        step, width = self.storage.step, codes.shape[1]
        if self.storage.metric is Metric.DOT:
            offset = 1 - self.storage.low * float(self.query.sum())
            return GraphNodes(CODES_DOT, codes, width, self.query, step, offset)
        return GraphNodes(CODES_SQUARED_L2, codes, width, self.query, step * step)
