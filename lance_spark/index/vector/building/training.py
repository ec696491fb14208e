"""Trains the model of a vector index from a sample."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from lance_spark.index.vector.building import kmeans, product
from lance_spark.index.vector.building.model import GraphParameters, VectorModel
from lance_spark.index.vector.building.vectors import VectorRows, stored_form, working_form
from lance_spark.index.vector.metrics import Metric, Vectors
from lance_spark.index.vector.rotation import random_signs

Float32Array = npt.NDArray[np.float32]

_TARGET_ROWS = {"IVF_FLAT": 4096, "IVF_PQ": 8192, "IVF_SQ": 8192, "IVF_RQ": 8192}
_TARGET_ROWS_OF_GRAPHS = 1 << 20
_MAX_DEFAULT_PARTITIONS = 4096


@dataclass(frozen=True)
class TrainingParameters:
    """Parameters of a vector index that a user can set.

    Attributes:
        kind: such as ``IVF_PQ``.
        metric: of the index.
        num_partitions: None for as many as the number of rows suggests.
        target_partition_size: rows of a partition if `num_partitions` is None; None for the default of the kind.
        sample_rate: vectors of the sample for each centroid or codeword.
        max_iters: iterations of k-means at most.
        num_sub_vectors: PQ.
        num_bits: bits of a code.
        centroids: [p, d]: taken in place of trained ones.
        codebook: PQ: float32[m, k, s], taken in place of a trained one.
        graph: HNSW kinds.
        seed: of everything that is chosen at random.
    """

    kind: str
    metric: Metric
    num_partitions: int | None = None
    target_partition_size: int | None = None
    sample_rate: int = 256
    max_iters: int = 50
    num_sub_vectors: int = 0
    num_bits: int = 8
    centroids: Vectors | None = None
    codebook: Float32Array | None = None
    graph: GraphParameters | None = None
    seed: int = 0

    @property
    def codes(self) -> str:
        """Kind of stored codes: FLAT, PQ, SQ or RQ."""
        return self.kind.rsplit("_", 1)[-1]

    @property
    def target_rows(self) -> int:
        """Target number of rows of a partition: set by the user, else the default of the kind."""
        return self.target_partition_size or _TARGET_ROWS.get(self.kind, _TARGET_ROWS_OF_GRAPHS)

    def partitions(self, num_rows: int) -> int:
        """The number of partitions of an index over this number of rows."""
        if self.centroids is not None:
            return len(self.centroids)
        if self.num_partitions is not None:
            return max(1, min(self.num_partitions, num_rows))
        return max(1, min(num_rows // self.target_rows, _MAX_DEFAULT_PARTITIONS, num_rows))

    def sample_rows(self, num_rows: int) -> int:
        """Number of vectors in the sample of a table with this number of rows."""
        of_codes = {"PQ": self.sample_rate << self.num_bits, "SQ": self.sample_rate << 8}.get(self.codes, 0)
        return min(num_rows, max(self.partitions(num_rows) * self.sample_rate, of_codes))

    @property
    def least_rows(self) -> int:
        """With fewer vectors there is nothing to train: the index is only defined."""
        return 1 << self.num_bits if self.codes == "PQ" and self.codebook is None else 1


def train(parameters: TrainingParameters, rows: VectorRows, num_rows: int) -> VectorModel | None:
    """The model of a sample; None if it has too few vectors.

    Args:
        rows: the sample.
        num_rows: vectors that are to be indexed, as far as is known.
    """
    if len(rows.ids) < parameters.least_rows:
        return None
    chosen = rows.sample(parameters.sample_rows(num_rows), parameters.seed)
    model = _with_centroids(parameters, chosen, num_rows)
    if parameters.codes == "PQ":
        codebook = parameters.codebook
        if codebook is None:
            codebook = _codebook(parameters, model, chosen)
        return replace(model, codebook=codebook, num_bits=parameters.num_bits)
    if parameters.codes == "SQ":
        own = chosen.sample(parameters.sample_rate << 8, parameters.seed)
        return replace(model, bounds=(float(own.vectors.min()), float(own.vectors.max())))
    if parameters.codes == "RQ":
        signs = random_signs(rows.vectors.shape[1], parameters.seed)
        return replace(model, signs=signs, num_bits=parameters.num_bits)
    return model


def assigned(model: VectorModel, vectors: Vectors) -> npt.NDArray[np.int32]:
    """int32[n]: the partition of each vector."""
    centroids = working_form(model.centroids)
    labels = [np.empty(0, np.int32)]
    for start in range(0, len(vectors), 1 << 15):
        block = working_form(vectors[start : start + (1 << 15)])
        labels.append(kmeans.assign(block, centroids, by_product=model.metric is Metric.DOT)[0])
    return np.concatenate(labels)


def _with_centroids(parameters: TrainingParameters, rows: VectorRows, num_rows: int) -> VectorModel:
    dtype = rows.vectors.dtype
    if parameters.centroids is not None:
        return VectorModel(parameters.kind, parameters.metric, parameters.centroids, graph=parameters.graph)
    count = parameters.partitions(num_rows)
    own = rows.sample(count * parameters.sample_rate, parameters.seed)
    found = kmeans.train(
        working_form(own.vectors),
        count,
        max_iters=parameters.max_iters,
        seed=parameters.seed,
        spherical=parameters.metric is Metric.DOT,
    )
    centroids = stored_form(found.centroids, dtype)
    return VectorModel(parameters.kind, parameters.metric, centroids, found.loss, graph=parameters.graph)


def _codebook(parameters: TrainingParameters, model: VectorModel, rows: VectorRows) -> Float32Array:
    own = rows.sample(parameters.sample_rate << parameters.num_bits, parameters.seed)
    values = working_form(own.vectors)
    if model.uses_residuals:
        values = values - model.centroids.astype(np.float32)[assigned(model, own.vectors)]
    codebook = product.train_codebook(
        values,
        parameters.num_sub_vectors,
        parameters.num_bits,
        max_iters=parameters.max_iters,
        seed=parameters.seed,
    )
    # As the files have it.
    stored: Float32Array = codebook.astype(rows.vectors.dtype).astype(np.float32)
    return stored
