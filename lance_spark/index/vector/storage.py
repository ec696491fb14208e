"""The vectors of a segment, as they are or as codes, and their distance to a query.

Distances of codes are estimates that put rows in order; the rows found are compared exactly afterwards.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from google.protobuf.message import DecodeError

from lance_spark._proto import index_details_pb2
from lance_spark.index.files import IndexFile, IndexFiles
from lance_spark.index.vector.ivf import STORAGE_FILE, IvfModel, Partitions, storage_metadata, tensor
from lance_spark.index.vector.metrics import Float32Array, Metric, Vectors, distances
from lance_spark.layouts.base import RowRanges

UInt64Array = npt.NDArray[np.uint64]

_MAX_SUB_VECTORS = 1 << 16


@dataclass(frozen=True)
class Partition:
    """The rows of a partition.

    Attributes:
        row_ids: uint64[n]; the same one more than once for a row with a list of vectors.
        payload: [n, w]: vectors or codes.
    """

    row_ids: UInt64Array
    payload: npt.NDArray[Any]

    @property
    def num_bytes(self) -> int:
        return self.row_ids.nbytes + self.payload.nbytes


class VectorStorage(ABC):
    """The storage file of a segment.

    Args:
        files: of the segment.
        file: the storage file.
        model: the centroids.
    """

    def __init__(self, files: IndexFiles, file: IndexFile, model: IvfModel) -> None:
        self._files = files
        self._file = file
        self._model = model
        self.partitions = Partitions.read(file, len(model.centroids))

    @abstractmethod
    def _column(self) -> tuple[str, pa.DataType]:
        """Name and type of the column of vectors or codes."""

    @abstractmethod
    def distances(self, number: int, query: Vectors) -> Float32Array:
        """float32[n]: of the rows of a partition to the query (normalized for cosine)."""

    def rows(self, number: int) -> Partition:
        """The rows of partition `number`.

        Raises:
            CorruptFileError: columns are missing or contradict the format.
        """

        def make() -> tuple[Partition, int]:
            partition = self._read(number)
            return partition, partition.num_bytes

        return self._files.kept(STORAGE_FILE, f"partition {number}", make)

    def _read(self, number: int) -> Partition:
        name, dtype = self._column()
        start, length = int(self.partitions.offsets[number]), int(self.partitions.lengths[number])
        ids, payload = self._file.columns({"_rowid": pa.uint64(), name: dtype}, RowRanges.of(start, start + length))
        if ids.null_count or payload.null_count or payload.values.null_count:
            raise self._file.damaged("a vector index has nulls where it must have values")
        values = payload.values.slice(payload.offset * dtype.list_size, len(payload) * dtype.list_size)
        width = dtype.list_size
        return Partition(ids.to_numpy(), values.to_numpy(zero_copy_only=False).reshape(len(payload), width))


class FlatStorage(VectorStorage):
    """The vectors themselves, normalized for cosine."""

    def _column(self) -> tuple[str, pa.DataType]:
        centroids = self._model.centroids
        return "flat", pa.list_(pa.from_numpy_dtype(centroids.dtype), centroids.shape[1])

    def distances(self, number: int, query: Vectors) -> Float32Array:
        metric = Metric.L2 if self._model.metric is Metric.COSINE else self._model.metric
        vectors = self.rows(number).payload
        return distances(metric, vectors, query.astype(vectors.dtype))


class ScalarStorage(VectorStorage):
    """SQ: each value as a byte between two bounds that all dimensions share."""

    def __init__(self, files: IndexFiles, file: IndexFile, model: IvfModel) -> None:
        super().__init__(files, file, model)
        bounds = storage_metadata(file).get("bounds")
        try:
            self._low, high = float(bounds["start"]), float(bounds["end"])  # type: ignore[index]
        except (TypeError, KeyError, ValueError) as error:
            raise file.damaged("a scalar quantizer has no bounds") from error
        self._scale = (high - self._low) / 255
        if not np.isfinite(self._low) or not np.isfinite(self._scale) or self._scale < 0:
            raise file.damaged(f"a scalar quantizer has the bounds {self._low} and {high}")

    def _column(self) -> tuple[str, pa.DataType]:
        return "__sq_code", pa.list_(pa.uint8(), self._model.centroids.shape[1])

    def distances(self, number: int, query: Vectors) -> Float32Array:
        values = self.rows(number).payload.astype(np.float32) * np.float32(self._scale) + np.float32(self._low)
        metric = Metric.DOT if self._model.metric is Metric.DOT else Metric.L2
        return distances(metric, values, query.astype(np.float32))


class ProductStorage(VectorStorage):
    """PQ: a vector in sub-vectors, each as the number of the nearest of its codewords."""

    def __init__(self, files: IndexFiles, file: IndexFile, model: IvfModel) -> None:
        super().__init__(files, file, model)
        described = storage_metadata(file)
        num_bits = described.get("nbits")
        self._is_transposed = described.get("transposed") is True
        num_sub_vectors, dimension = described.get("num_sub_vectors"), model.centroids.shape[1]
        if num_bits not in (4, 8) or type(num_sub_vectors) is not int:
            raise file.damaged(f"a product quantizer has {num_bits} bits and {num_sub_vectors} sub-vectors")
        if not 0 < num_sub_vectors <= _MAX_SUB_VECTORS or dimension % num_sub_vectors:
            raise file.damaged(f"vectors of {dimension} values have no {num_sub_vectors} sub-vectors")
        if num_bits == 4 and num_sub_vectors % 2:
            raise file.damaged(f"{num_sub_vectors} sub-vectors of 4 bits do not fill bytes")
        self._num_bits: int = num_bits
        self._num_sub_vectors = num_sub_vectors
        self._codebook = self._read_codebook(described, dimension)

    def _read_codebook(self, described: dict[str, Any], dimension: int) -> npt.NDArray[np.float32]:
        position = described.get("codebook_position")
        if type(position) is not int:
            raise self._file.damaged("a product quantizer does not say where its codebook is")
        try:
            message = index_details_pb2.Tensor.FromString(self._file.global_buffer(position))
        except DecodeError as error:
            raise self._file.damaged(f"a codebook cannot be parsed: {error}") from error
        # The tensor's shape says [codewords, dimension]; its bytes are [sub-vectors, codewords, values].
        shape = (self._num_sub_vectors, 1 << self._num_bits, dimension // self._num_sub_vectors)
        values = tensor(self._file, message)
        if values.size != shape[0] * shape[1] * shape[2]:
            raise self._file.damaged(f"a codebook has {values.size} values, expected {shape}")
        return values.astype(np.float32).reshape(shape)

    def _column(self) -> tuple[str, pa.DataType]:
        return "__pq_code", pa.list_(pa.uint8(), self._num_sub_vectors * self._num_bits // 8)

    def distances(self, number: int, query: Vectors) -> Float32Array:
        codes = self.rows(number).payload
        num_rows, width = codes.shape
        if self._is_transposed:
            by_byte = codes.reshape(width, num_rows)
        else:
            by_byte = codes.T
        table = self._table(query, self._model.centroids[number])
        total = np.zeros(num_rows, np.float32)
        for place in range(width):
            if self._num_bits == 8:
                total += table[place].take(by_byte[place])
            else:
                total += table[2 * place].take(by_byte[place] & 15)
                total += table[2 * place + 1].take(by_byte[place] >> 4)
        return total

    def _table(self, query: Vectors, centroid: Vectors) -> npt.NDArray[np.float32]:
        """float32[m, k]: what each codeword of each sub-vector adds to the distance."""
        is_dot = self._model.metric is Metric.DOT
        residual = query.astype(np.float32) - (0 if is_dot else centroid.astype(np.float32))
        parts = residual.reshape(self._num_sub_vectors, 1, -1)
        if is_dot:
            # The constant 1 is added once instead of once a sub-vector.
            table: npt.NDArray[np.float32] = -(self._codebook * parts).sum(axis=2)
            table[0] += 1
            return table
        squares: npt.NDArray[np.float32] = np.square(self._codebook - parts).sum(axis=2)
        return squares


_STORAGES: dict[str, type[FlatStorage | ScalarStorage | ProductStorage]] = {
    "FLAT": FlatStorage,
    "SQ": ScalarStorage,
    "PQ": ProductStorage,
}


def open_storage(files: IndexFiles, model: IvfModel) -> VectorStorage:
    """The storage of a segment.

    Raises:
        LanceError: the file is missing or broken.
    """

    def make() -> tuple[VectorStorage, int]:
        kind = model.kind.rsplit("_", 1)[-1]
        return _STORAGES[kind](files, files.open(STORAGE_FILE), model), 0

    return files.kept(STORAGE_FILE, "vector storage", make)
