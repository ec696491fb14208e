"""Builds segments of vector indexes; `index.vector` describes the files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from lance_spark._proto import index_details_pb2
from lance_spark.errors import InvalidInputError, UnsupportedFeatureError
from lance_spark.index.builders.base import (
    IndexBuilder,
    IndexedRows,
    OldSegment,
    Parameters,
    ValuesOfRows,
    positive_number,
)
from lance_spark.index.builders.output import SegmentOutput
from lance_spark.index.files import IndexFiles
from lance_spark.index.vector.building.balance import VectorsOfRows, merged_rows
from lance_spark.index.vector.building.codecs import codec_of
from lance_spark.index.vector.building.kinds import VectorIndexKind, kind_in_details, vector_index_kind
from lance_spark.index.vector.building.model import GraphParameters, VectorModel
from lance_spark.index.vector.building.segment_files import (
    StoredRows,
    coded_rows,
    partition_sizes,
    read_rows_of_segment,
    write_segment_files,
)
from lance_spark.index.vector.building.training import TrainingParameters, train
from lance_spark.index.vector.building.vectors import VectorRows, VectorType
from lance_spark.index.vector.metrics import Metric

_COMMON: Mapping[str, object] = {
    "metric": None,
    "num_partitions": None,
    "target_partition_size": None,
    "sample_rate": 256,
    "max_iters": 50,
    "ivf_centroids": None,
    "seed": 0,
    "model": None,
}
_GRAPH: Mapping[str, object] = {"m": 20, "ef_construction": 150, "max_level": 7, "prefetch_distance": 2}
_PRODUCT: Mapping[str, object] = {"num_sub_vectors": None, "num_bits": 8, "pq_codebook": None}
_METRICS = {Metric.L2: 0, Metric.COSINE: 1, Metric.DOT: 2, Metric.HAMMING: 3}
_LEAST = {"sample_rate": 2, "m": 4}


class VectorBuilder(IndexBuilder):
    """Vector indexes of all kinds. This class stands for all of them; subclasses are one kind each.

    The parameter `model` is a trained `VectorModel`: segments with one are built by it, those without train their own.
    """

    index_type = VectorIndexKind

    def __init__(self, dtype: pa.DataType, parameters: Parameters) -> None:
        super().__init__(dtype, parameters)
        found = VectorType.of(dtype)
        if found is None:
            raise InvalidInputError(f"{dtype} is no type of vectors that can be indexed")
        self._type = found
        model = self.parameters["model"]
        self._model = model if isinstance(model, VectorModel) else None
        self._training = self._training_parameters()
        self._vectors_of: VectorsOfRows | None = None

    @classmethod
    def of_segment(cls, details: bytes, files: IndexFiles) -> type[IndexBuilder]:
        kind = kind_in_details(details) or VectorModel.kind_of(files)
        if kind not in VECTOR_BUILDERS:
            raise UnsupportedFeatureError(f"vector indexes of type {kind} are not built")
        return VECTOR_BUILDERS[kind]

    @classmethod
    def supports(cls, dtype: pa.DataType) -> bool:
        found = VectorType.of(dtype)
        if cls.index_type is VectorIndexKind:
            return False
        return found is not None and (not found.is_bits or cls.index_type.type_name.endswith("FLAT"))

    @classmethod
    def version(cls, *, stable_row_ids: bool) -> int:
        return 2 if cls.index_type.type_name == "IVF_RQ" else 1

    @classmethod
    def checked(cls, parameters: Parameters) -> dict[str, object]:
        named = {"metric" if name == "distance_type" else name: value for name, value in parameters.items()}
        if len(named) < len(parameters):
            raise InvalidInputError("metric and distance_type are the same parameter; give one of them")
        return super().checked({name: value for name, value in named.items() if value is not None})

    @classmethod
    def _value(cls, name: str, value: object) -> object:
        if name == "metric":
            return Metric.named(value) if isinstance(value, str) else Metric.named(repr(value))
        if name in ("ivf_centroids", "pq_codebook"):
            return _numbers(name, value)
        if name == "model":
            if not isinstance(value, VectorModel):
                raise InvalidInputError("model is a trained model of an index segment; leave it out")
            return value
        if name in ("seed", "prefetch_distance") and value in (0, "0"):
            return 0
        number = positive_number(cls.index_type.type_name, name, value)
        if number < _LEAST.get(name, 1):
            raise InvalidInputError(f"{name} is {number}; it must be at least {_LEAST[name]}")
        return number

    def details(self) -> bytes:
        training = self._training
        message = index_details_pb2.VectorIndexDetails(metric_type=_METRICS[training.metric])  # type: ignore[arg-type]
        if training.target_partition_size:
            message.target_partition_size = training.target_partition_size
        if training.graph is not None:
            graph = message.hnsw_index_config
            graph.max_connections, graph.construction_ef = training.graph.m, training.graph.ef_construction
            graph.max_level = training.graph.max_level
        codes = training.codes.lower()
        getattr(message, codes).SetInParent()
        if codes != "flat":
            getattr(message, codes).num_bits = training.num_bits
        if codes == "pq":
            message.pq.num_sub_vectors = training.num_sub_vectors
        message.runtime_hints["lance.ivf.sample_rate"] = str(training.sample_rate)
        message.runtime_hints["lance.ivf.max_iters"] = str(training.max_iters)
        return message.SerializeToString(deterministic=True)

    @classmethod
    def described_parameters(cls, details: bytes) -> dict[str, object]:
        message = index_details_pb2.VectorIndexDetails.FromString(details)
        found = _defined(message)
        for name, key in (("sample_rate", "lance.ivf.sample_rate"), ("max_iters", "lance.ivf.max_iters")):
            text = message.runtime_hints.get(key, "")
            if text.isascii() and text.isdigit() and _LEAST.get(name, 1) <= int(text) < 1 << 31:
                found[name] = int(text)
        if message.target_partition_size:
            found["target_partition_size"] = message.target_partition_size
        return found

    @classmethod
    def parameters_of(cls, details: bytes, files: IndexFiles) -> dict[str, object]:
        found = cls.described_parameters(details)
        if files.is_empty:
            return found
        model = VectorModel.read(files)
        found |= {"metric": model.metric, "num_partitions": len(model.centroids), "model": model}
        if model.codebook is not None:
            found["num_sub_vectors"] = len(model.codebook)
        if "num_bits" in cls.defaults:
            found["num_bits"] = model.num_bits
        if model.graph is not None:
            names = (name for name in _GRAPH if getattr(model.graph, name) is not None)
            found |= {name: getattr(model.graph, name) for name in names}
        return found

    @classmethod
    def statistics(cls, files: IndexFiles, dtype: pa.DataType) -> dict[str, object]:
        if files.is_empty:
            return {"num_partitions": 0, "partitions": []}
        model = VectorModel.read(files)
        sizes = partition_sizes(files, len(model.centroids))
        return {
            "index_type": model.kind,
            "metric_type": model.metric.value,
            "num_partitions": len(sizes),
            "partitions": [{"size": size} for size in sizes],
            "loss": model.loss,
            "sub_index": codec_of(model).description(),
        }

    def sample_rows(self, num_rows: int) -> int:
        return 0 if self._model is not None else self._training.sample_rows(num_rows)

    def trained(self, sample: IndexedRows, num_rows: int) -> IndexBuilder:
        vectors = self._rows(sample)
        # A row can have several vectors, or none.
        num_vectors = round(num_rows * len(vectors.ids) / max(1, len(sample.ids)))
        model = self._model or train(self._training, vectors, num_vectors)
        return type(self)(self.dtype, {**self.parameters, "model": model})

    def shared_parameters(self) -> dict[str, object]:
        return {} if self._model is None else {"model": self._model}

    def untrained(self) -> IndexBuilder:
        return type(self)(self.dtype, {**self.parameters, "model": None})

    def train(self, rows: IndexedRows, output: SegmentOutput) -> None:
        vectors = self._rows(rows)
        if not len(vectors.ids):
            return
        model = self._model or train(self._training, vectors, len(vectors.ids))
        if model is not None:
            write_segment_files(model, coded_rows(model, vectors), output)

    def train_batches(self, batches: Iterator[IndexedRows], output: SegmentOutput) -> None:
        model = self._model
        if model is None:
            super().train_batches(batches, output)
            return
        # Vectors are coded as they come: codes take a small part of their memory.
        parts = [coded_rows(model, found) for found in map(self._rows, batches) if len(found.ids)]
        if parts:
            write_segment_files(model, StoredRows.joined(parts), output)

    def merge(self, old: Sequence[OldSegment], rows: IndexedRows, output: SegmentOutput) -> None:
        filled = [segment for segment in old if not segment.files.is_empty]
        if not filled:
            self.train(rows, output)
            return
        models = [VectorModel.read(segment.files) for segment in filled]
        model = models[-1]
        if not all(model.has_codes_of(other) for other in models):
            raise UnsupportedFeatureError("segments with different models are not merged")
        parts = []
        for segment in filled:
            found = read_rows_of_segment(segment.files, model)
            kept, ids = segment.mapping(found.ids)
            parts.append(_with_ids(found.taken(kept), ids))
        model, joined = merged_rows(model, StoredRows.joined(parts), self._rows(rows), self._training, self._vectors_of)
        write_segment_files(model, joined, output)

    def merge_batches(self, old: Sequence[OldSegment], batches: Iterator[IndexedRows], output: SegmentOutput) -> None:
        if all(segment.files.is_empty for segment in old):
            self.train_batches(batches, output)
        else:
            super().merge_batches(old, batches, output)

    def rebalancing(self, values: ValuesOfRows) -> IndexBuilder:
        made = type(self)(self.dtype, self.parameters)
        made._vectors_of = lambda ids: made._rows(values(ids))
        return made

    def _rows(self, rows: IndexedRows) -> VectorRows:
        return VectorRows.of(rows.values, rows.ids, self._type, self._training.metric)

    def _training_parameters(self) -> TrainingParameters:
        kind, given = self.index_type.type_name, self.parameters
        metric = given["metric"] or (Metric.HAMMING if self._type.is_bits else Metric.L2)
        assert isinstance(metric, Metric)
        if (metric is Metric.HAMMING) != self._type.is_bits:
            raise InvalidInputError(f"vectors of {self._type.values} cannot be indexed by {metric.value}")
        if self._type.is_multivector and metric is not Metric.COSINE:
            raise InvalidInputError(f"lists of vectors are indexed by cosine only, not by {metric.value}")
        if kind == "IVF_RQ" and self._type.dimension % 8:
            raise InvalidInputError(f"IVF_RQ is for vectors of 8, 16, 24 ... values, not of {self._type.dimension}")
        return TrainingParameters(
            kind=kind,
            metric=metric,
            num_partitions=_number(given, "num_partitions"),
            target_partition_size=_number(given, "target_partition_size"),
            sample_rate=_required(given, "sample_rate"),
            max_iters=_required(given, "max_iters"),
            num_bits=self._num_bits(),
            num_sub_vectors=self._num_sub_vectors(),
            centroids=self._centroids(),
            codebook=self._codebook(),
            graph=_graph_parameters(given) if "HNSW" in kind else None,
            seed=_required(given, "seed"),
        )

    def _num_bits(self) -> int:
        num_bits, name = _number(self.parameters, "num_bits") or 8, self.index_type.type_name
        allowed = (4, 8) if name.endswith("PQ") else range(1, 10) if name.endswith("RQ") else (8,)
        if num_bits not in allowed:
            raise InvalidInputError(f"num_bits of {name} is {num_bits}; choose one of {', '.join(map(str, allowed))}")
        return num_bits

    def _num_sub_vectors(self) -> int:
        if not self.index_type.type_name.endswith("PQ"):
            return 0
        dimension, count = self._type.dimension, _number(self.parameters, "num_sub_vectors")
        if count is None:
            count = next((dimension // width for width in (16, 8) if dimension % width == 0), None)
        if count is None:
            raise InvalidInputError(f"give num_sub_vectors: it must divide the {dimension} values of a vector")
        if dimension % count or (self._num_bits() == 4 and count % 2):
            rule = " and be even with num_bits 4" if self._num_bits() == 4 else ""
            raise InvalidInputError(f"num_sub_vectors is {count}; it must divide the dimension {dimension}{rule}")
        return count

    def _centroids(self) -> Any:
        found = self.parameters["ivf_centroids"]
        if found is None:
            return None
        assert isinstance(found, np.ndarray)
        if found.size == 0 or found.size % self._type.dimension:
            raise InvalidInputError(f"ivf_centroids has {found.size} values, no vectors of {self._type.dimension}")
        return np.ascontiguousarray(found.reshape(-1, self._type.dimension), self._type.values)

    def _codebook(self) -> Any:
        found = self.parameters.get("pq_codebook")
        if found is None:
            return None
        assert isinstance(found, np.ndarray)
        count, num_bits = self._num_sub_vectors(), self._num_bits()
        shape = (count, 1 << num_bits, self._type.dimension // count)
        if found.size != shape[0] * shape[1] * shape[2]:
            raise InvalidInputError(f"pq_codebook has {found.size} values, expected an array of {shape}")
        if self.parameters["ivf_centroids"] is None:
            raise InvalidInputError("a pq_codebook fits the centroids it was trained with; give ivf_centroids too")
        return np.ascontiguousarray(found.reshape(shape), self._type.values).astype(np.float32)


def _with_ids(rows: StoredRows, ids: Any) -> StoredRows:
    return StoredRows(ids, rows.labels, rows.columns)


def _defined(message: index_details_pb2.VectorIndexDetails) -> dict[str, object]:
    """The parameters of a segment without files."""
    found: dict[str, object] = {}
    found["metric"] = next(metric for metric, number in _METRICS.items() if number == message.metric_type)
    if message.HasField("pq"):
        found |= {"num_bits": message.pq.num_bits or 8, "num_sub_vectors": message.pq.num_sub_vectors or None}
    if message.HasField("rq") and message.rq.num_bits:
        found["num_bits"] = message.rq.num_bits
    if message.HasField("hnsw_index_config"):
        graph = message.hnsw_index_config
        given = {"m": graph.max_connections, "ef_construction": graph.construction_ef, "max_level": graph.max_level}
        found |= {name: value for name, value in given.items() if value}
    return found


def _graph_parameters(given: Parameters) -> GraphParameters:
    found = GraphParameters(*(_required(given, name) for name in ("m", "ef_construction", "max_level")))
    if found.ef_construction < found.m:
        raise InvalidInputError(f"ef_construction is {found.ef_construction}; it must be at least m, {found.m}")
    return GraphParameters(found.m, found.ef_construction, found.max_level, _number(given, "prefetch_distance"))


def _number(given: Parameters, name: str) -> int | None:
    value = given.get(name)
    assert value is None or isinstance(value, int)
    return value


def _required(given: Parameters, name: str) -> int:
    value = _number(given, name)
    assert value is not None
    return value


def _numbers(name: str, value: object) -> Any:
    if isinstance(value, (pa.Array, pa.ChunkedArray)):
        value = value.to_pylist()
    try:
        found = np.asarray(value)
    except ValueError as error:
        raise InvalidInputError(f"{name} is no array of numbers: its rows differ in length") from error
    if found.dtype.kind not in "fiu":
        raise InvalidInputError(f"{name} is no array of numbers")
    return found


class IvfFlatBuilder(VectorBuilder):
    """IVF_FLAT."""

    index_type = vector_index_kind("IVF_FLAT")
    defaults: ClassVar[Mapping[str, object]] = _COMMON


class IvfPqBuilder(VectorBuilder):
    """IVF_PQ."""

    index_type = vector_index_kind("IVF_PQ")
    defaults: ClassVar[Mapping[str, object]] = {**_COMMON, **_PRODUCT}


class IvfSqBuilder(VectorBuilder):
    """IVF_SQ."""

    index_type = vector_index_kind("IVF_SQ")
    defaults: ClassVar[Mapping[str, object]] = {**_COMMON, "num_bits": 8}


class IvfRqBuilder(VectorBuilder):
    """IVF_RQ."""

    index_type = vector_index_kind("IVF_RQ")
    defaults: ClassVar[Mapping[str, object]] = {**_COMMON, "num_bits": 5}


class IvfHnswFlatBuilder(VectorBuilder):
    """IVF_HNSW_FLAT."""

    index_type = vector_index_kind("IVF_HNSW_FLAT")
    defaults: ClassVar[Mapping[str, object]] = {**_COMMON, **_GRAPH}


class IvfHnswPqBuilder(VectorBuilder):
    """IVF_HNSW_PQ."""

    index_type = vector_index_kind("IVF_HNSW_PQ")
    defaults: ClassVar[Mapping[str, object]] = {**_COMMON, **_GRAPH, **_PRODUCT}


class IvfHnswSqBuilder(VectorBuilder):
    """IVF_HNSW_SQ."""

    index_type = vector_index_kind("IVF_HNSW_SQ")
    defaults: ClassVar[Mapping[str, object]] = {**_COMMON, **_GRAPH, "num_bits": 8}


_ALL = (
    IvfFlatBuilder,
    IvfPqBuilder,
    IvfSqBuilder,
    IvfRqBuilder,
    IvfHnswFlatBuilder,
    IvfHnswPqBuilder,
    IvfHnswSqBuilder,
)
VECTOR_BUILDERS: Mapping[str, type[VectorBuilder]] = {builder.index_type.type_name: builder for builder in _ALL}
