"""Trained models of vector indexes: centroids, codebook or bounds, and the parameters of graphs."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from google.protobuf.message import DecodeError

from lance_spark._proto import index_details_pb2
from lance_spark.errors import UnsupportedFeatureError
from lance_spark.index.files import IndexFile, IndexFiles
from lance_spark.index.vector.ivf import (
    MODEL_FILE,
    STORAGE_FILE,
    ivf_message,
    json_object,
    storage_metadata,
    tensor,
)
from lance_spark.index.vector.metrics import Metric, Vectors

Float32Array = npt.NDArray[np.float32]

_TENSOR_TYPES = {
    np.dtype(np.float16): index_details_pb2.Tensor.FLOAT16,
    np.dtype(np.float32): index_details_pb2.Tensor.FLOAT32,
    np.dtype(np.float64): index_details_pb2.Tensor.FLOAT64,
    np.dtype(np.uint8): index_details_pb2.Tensor.UINT8,
}


@dataclass(frozen=True)
class GraphParameters:
    """Build parameters of the graphs of HNSW kinds.

    Attributes:
        m: links of a node on levels above the lowest one, which has twice as many.
        ef_construction: candidates that are looked at for the links of a node.
        max_level: levels at most.
        prefetch_distance: a hint to readers; None for none.
    """

    m: int = 20
    ef_construction: int = 150
    max_level: int = 7
    prefetch_distance: int | None = 2


@dataclass(frozen=True)
class VectorModel:
    """A trained model; it can be pickled.

    Attributes:
        kind: such as ``IVF_PQ``.
        metric: of the index.
        centroids: [p, d] of the column's type.
        loss: the sum of distances of the sample to its centroids; None if not known.
        codebook: PQ: float32[m, k, s], the k codewords of each of m sub-vectors.
        num_bits: bits of a code.
        bounds: SQ: the values that the codes 0 and 255 stand for.
        signs: RQ: bytes, four rounds of sign flips.
        graph: HNSW kinds.
    """

    kind: str
    metric: Metric
    centroids: Vectors
    loss: float | None = None
    codebook: Float32Array | None = None
    num_bits: int = 8
    bounds: tuple[float, float] | None = None
    signs: bytes | None = None
    graph: GraphParameters | None = None

    @property
    def codes(self) -> str:
        """Kind of stored codes: FLAT, PQ, SQ or RQ."""
        return self.kind.rsplit("_", 1)[-1]

    @property
    def uses_residuals(self) -> bool:
        """Whether codes are of the difference between a vector and its centroid."""
        return self.codes == "RQ" or (self.codes == "PQ" and self.metric is not Metric.DOT)

    def has_codes_of(self, other: VectorModel) -> bool:
        """Whether the codes of a vector in a partition are the same under both models."""
        return (
            self.kind == other.kind
            and self.metric is other.metric
            and self.num_bits == other.num_bits
            and self.bounds == other.bounds
            and self.signs == other.signs
            and np.array_equal(self.centroids, other.centroids)
            and _equal(self.codebook, other.codebook)
        )

    def partition_message(self, lengths: list[int] | None = None) -> index_details_pb2.IVF:
        """The `IVF` message of the model's file: centroids, and rows of each partition (None: no rows)."""
        message = index_details_pb2.IVF(centroids_tensor=tensor_message(self.centroids))
        set_lengths(message, lengths or [0] * len(self.centroids))
        if self.loss is not None:
            message.loss = self.loss
        return message

    @classmethod
    def kind_of(cls, files: IndexFiles) -> str:
        """The kind of a segment.

        Raises:
            LanceError: a file is missing or broken.
        """
        return str(json_object(files.open(MODEL_FILE), "lance:index").get("type"))

    @classmethod
    def read(cls, files: IndexFiles) -> VectorModel:
        """The model of a segment.

        Raises:
            LanceError: a file is missing or broken.
        """
        file = files.open(MODEL_FILE)
        described = json_object(file, "lance:index")
        kind, metric = str(described.get("type")), Metric.named(str(described.get("distance_type")))
        message = ivf_message(file)
        if not message.HasField("centroids_tensor"):
            raise UnsupportedFeatureError("a vector index without a tensor of centroids is not extended")
        centroids = tensor(file, message.centroids_tensor)
        if centroids.ndim != 2 or not centroids.size:
            raise file.damaged(f"an index has centroids of shape {centroids.shape}")
        model = cls(kind, metric, centroids, message.loss if message.HasField("loss") else None)
        return _with_codes(replace(model, graph=_graph(file, kind)), files.open(STORAGE_FILE))


def set_lengths(message: index_details_pb2.IVF, lengths: list[int]) -> None:
    """Sets the rows of each partition, which lie one after the other."""
    starts = np.cumsum([0, *lengths[:-1]]).tolist() if sum(lengths) else [0] * len(lengths)
    message.offsets.extend(starts)
    message.lengths.extend(lengths)


def tensor_message(values: npt.NDArray[Any], shape: tuple[int, ...] | None = None) -> index_details_pb2.Tensor:
    """Values as a `Tensor`, with another shape than they have if `shape` is given."""
    data = np.ascontiguousarray(values, values.dtype.newbyteorder("<")).tobytes()
    return index_details_pb2.Tensor(data_type=_TENSOR_TYPES[values.dtype], shape=shape or values.shape, data=data)


def _equal(one: Float32Array | None, other: Float32Array | None) -> bool:
    return one is other if one is None or other is None else bool(np.array_equal(one, other))


def _graph(file: IndexFile, kind: str) -> GraphParameters | None:
    if "HNSW" not in kind:
        return None
    found = GraphParameters()
    for text in _graph_texts(file):
        parameters = text.get("params", {})
        values = {name: parameters.get(name) for name in ("m", "ef_construction", "max_level")}
        if all(type(value) is int and 0 < value < 1 << 16 for value in values.values()):
            return replace(found, **values)
    return found


def _graph_texts(file: IndexFile) -> list[dict[str, Any]]:
    try:
        texts = json.loads(file.metadata.get("lance:hnsw", "[]"))
        return [json.loads(text) for text in texts if text]
    except (ValueError, TypeError, RecursionError) as error:
        raise file.damaged("the graphs of a vector index are not described by JSON") from error


def _with_codes(model: VectorModel, file: IndexFile) -> VectorModel:
    described = storage_metadata(file)
    if model.codes == "FLAT":
        return model
    if model.codes == "SQ":
        return replace(model, bounds=_bounds(file, described))
    num_bits = described.get("nbits" if model.codes == "PQ" else "num_bits")
    if type(num_bits) is not int or not 0 < num_bits <= 9:
        raise file.damaged(f"codes of {num_bits} bits")
    if model.codes == "PQ":
        return replace(model, num_bits=num_bits, codebook=_codebook(model, file, described, num_bits))
    if described.get("rotation_type") != "fast" or described.get("query_estimator") != "raw_query":
        raise UnsupportedFeatureError("an IVF_RQ index of an older release is not extended")
    if described.get("layered"):
        raise UnsupportedFeatureError("an IVF_RQ index of a newer layout is not extended")
    signs = described.get("fast_rotation_signs")
    if not isinstance(signs, list) or len(signs) != 4 * (-(-model.centroids.shape[1] // 8)):
        raise file.damaged("an IVF_RQ index has no signs of its rotation")
    return replace(model, num_bits=num_bits, signs=bytes(signs))


def _bounds(file: IndexFile, described: dict[str, Any]) -> tuple[float, float]:
    bounds = described.get("bounds")
    try:
        found = float(bounds["start"]), float(bounds["end"])  # type: ignore[index]
    except (TypeError, KeyError, ValueError) as error:
        raise file.damaged("a scalar quantizer has no bounds") from error
    if not np.isfinite(found).all() or found[0] > found[1]:
        raise file.damaged(f"a scalar quantizer has the bounds {found}")
    return found


def _codebook(model: VectorModel, file: IndexFile, described: dict[str, Any], num_bits: int) -> Float32Array:
    position, num_sub_vectors = described.get("codebook_position"), described.get("num_sub_vectors")
    dimension = model.centroids.shape[1]
    if type(position) is not int or type(num_sub_vectors) is not int or num_bits not in (4, 8):
        raise file.damaged("a product quantizer does not describe its codebook")
    if num_sub_vectors < 1 or dimension % num_sub_vectors:
        raise file.damaged(f"vectors of {dimension} values have no {num_sub_vectors} sub-vectors")
    try:
        message = index_details_pb2.Tensor.FromString(file.global_buffer(position))
    except DecodeError as error:
        raise file.damaged(f"a codebook cannot be parsed: {error}") from error
    values = tensor(file, message)
    if values.size != dimension << num_bits:
        raise file.damaged(f"a codebook of {values.size} values does not fit {dimension} values of {num_bits} bits")
    return values.astype(np.float32).reshape(num_sub_vectors, 1 << num_bits, dimension // num_sub_vectors)
