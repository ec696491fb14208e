"""IVF: vectors in partitions, each around a centroid; a search reads the partitions whose centroids are nearest.

`index.idx` has the centroids, `auxiliary.idx` the vectors or codes, partition by partition. Both say in which global
buffer their `IVF` message lies.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from google.protobuf.message import DecodeError

from lance_spark._proto import index_details_pb2
from lance_spark.cached import cached_property
from lance_spark.errors import UnsupportedFeatureError
from lance_spark.index.files import IndexFile, IndexFiles
from lance_spark.index.vector.metrics import Block, Float32Array, Metric, Vectors, block_of, distances_of_block

Int64Array = npt.NDArray[np.int64]

MODEL_FILE = "index.idx"
STORAGE_FILE = "auxiliary.idx"
KINDS = ("IVF_FLAT", "IVF_PQ", "IVF_SQ", "IVF_RQ", "IVF_HNSW_FLAT", "IVF_HNSW_PQ", "IVF_HNSW_SQ")
"""The kinds of index that are read."""

_TENSOR_TYPES: dict[int, Any] = {
    index_details_pb2.Tensor.FLOAT16: np.float16,
    index_details_pb2.Tensor.FLOAT32: np.float32,
    index_details_pb2.Tensor.FLOAT64: np.float64,
    index_details_pb2.Tensor.UINT8: np.uint8,
}


@dataclass(frozen=True)
class IvfModel:
    """Centroids and metric that choose the partitions.

    Attributes:
        kind: of the index, such as ``IVF_PQ``.
        metric: of the index.
        centroids: [p, d].
    """

    kind: str
    metric: Metric
    centroids: Vectors

    @property
    def has_graph(self) -> bool:
        """Whether the rows of a partition are the nodes of a graph."""
        return "_HNSW_" in self.kind

    @classmethod
    def read(cls, files: IndexFiles, dimension: int) -> IvfModel:
        """The model of a segment for vectors of `dimension` values.

        Raises:
            LanceError: the file is missing or broken, or of a kind that is not read.
        """
        file = files.open(MODEL_FILE)
        described = json_object(file, "lance:index")
        kind, metric = str(described.get("type")), str(described.get("distance_type"))
        if kind not in KINDS:
            raise UnsupportedFeatureError(f"vector indexes of type {kind} are not read")
        message = ivf_message(file)
        if message.HasField("centroids_tensor"):
            centroids = tensor(file, message.centroids_tensor)
        else:
            centroids = np.array(message.centroids, np.float32)
        if centroids.size == 0 or centroids.size % dimension:
            raise file.damaged(f"{centroids.size} values are no centroids of {dimension} values")
        return cls(kind, Metric.named(metric), centroids.reshape(-1, dimension))

    @cached_property
    def _block(self) -> Block:
        return block_of(self.centroids)

    def distances(self, query: Vectors) -> Float32Array:
        """float32[p]: from the query (normalized for cosine) to each centroid."""
        metric = Metric.L2 if self.metric is Metric.COSINE else self.metric
        return distances_of_block(metric, self._block, query.astype(self.centroids.dtype, copy=False))


@dataclass(frozen=True)
class Partitions:
    """Ranges of the partitions' rows in the storage file.

    Attributes:
        offsets: int64[p], the first row.
        lengths: int64[p], the number of rows.
    """

    offsets: Int64Array
    lengths: Int64Array

    @classmethod
    def read(cls, file: IndexFile, num_partitions: int) -> Partitions:
        """The partitions of a storage file.

        Raises:
            CorruptFileError: they are not as many as expected or leave the file.
        """
        message = ivf_message(file)
        num_rows = file.num_rows
        offsets = np.array(message.offsets, np.uint64)
        lengths = np.array(message.lengths, np.int64)
        if len(offsets) != num_partitions or len(lengths) != num_partitions:
            raise file.damaged(f"{len(offsets)} and {len(lengths)} partitions where the index has {num_partitions}")
        if bool((offsets > num_rows).any()):
            raise file.damaged(f"a partition begins behind the {num_rows} rows")
        starts = offsets.astype(np.int64)
        if bool((starts + lengths > num_rows).any()):
            raise file.damaged(f"a partition leaves the {num_rows} rows")
        return cls(starts, lengths)


def tensor(file: IndexFile, message: index_details_pb2.Tensor) -> Vectors:
    """The values of a tensor in the shape that it has.

    Raises:
        CorruptFileError: its bytes do not fit its shape.
        UnsupportedFeatureError: values of a type that is not read.
    """
    dtype = _TENSOR_TYPES.get(message.data_type)
    if dtype is None:
        raise UnsupportedFeatureError(f"tensors of type {message.data_type} are not read")
    shape = [int(size) for size in message.shape]
    num_values = 1
    for size in shape:
        num_values *= size
    if num_values * np.dtype(dtype).itemsize != len(message.data):
        raise file.damaged(f"a tensor of shape {shape} has {len(message.data)} bytes")
    values: Vectors = np.frombuffer(message.data, np.dtype(dtype).newbyteorder("<")).astype(dtype).reshape(shape)
    return values


def ivf_message(file: IndexFile) -> index_details_pb2.IVF:
    """The `IVF` message of a file.

    Raises:
        CorruptFileError: there is none.
    """
    data = file.buffer_named_by("lance:ivf")
    if data is None:
        raise file.damaged("a file of a vector index does not say where its partitions are")
    try:
        return index_details_pb2.IVF.FromString(data)
    except DecodeError as error:
        raise file.damaged(f"the partitions of a vector index cannot be parsed: {error}") from error


def json_object(file: IndexFile, key: str) -> dict[str, Any]:
    """The JSON object in an entry of a file's metadata.

    Raises:
        CorruptFileError: there is none.
    """
    try:
        found = json.loads(file.metadata[key])
    except (KeyError, ValueError, RecursionError) as error:
        raise file.damaged(f"{key} is no JSON") from error
    if not isinstance(found, dict):
        raise file.damaged(f"{key} is no JSON object")
    return found


def storage_metadata(file: IndexFile) -> dict[str, Any]:
    """Description of the codes of a storage file: JSON in a list of strings.

    Raises:
        CorruptFileError: it is not that.
    """
    try:
        (text,) = json.loads(file.metadata["storage_metadata"])
        found = json.loads(text)
    except (KeyError, ValueError, TypeError, RecursionError) as error:
        raise file.damaged("storage_metadata is no list of one JSON text") from error
    if not isinstance(found, dict):
        raise file.damaged("storage_metadata is no JSON object")
    return found
