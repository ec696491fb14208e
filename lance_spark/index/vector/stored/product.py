"""PQ: a vector in sub-vectors, each as the number of the nearest of its codewords."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from google.protobuf.message import DecodeError

from lance_spark._proto import index_details_pb2
from lance_spark.cached import cached_property
from lance_spark.errors import CorruptFileError
from lance_spark.index.files import IndexFile
from lance_spark.index.vector.ivf import IvfModel, Partitions, storage_metadata, tensor
from lance_spark.index.vector.metrics import Float32Array, Metric, Vectors
from lance_spark.index.vector.storage import GraphNodes, Partition, Parts, Scorer, UInt64Array, VectorStorage
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.vector.vector_codes import codeword_table, sums_of_codewords
from lance_spark.kernels.vector.vector_graph import CODEWORDS

_MAX_SUB_VECTORS = 1 << 16


@dataclass(frozen=True)
class ProductStorage(VectorStorage):
    """A storage file of codes.

    Attributes:
        codebook: float32[m, k, d / m].
        num_bits: of a code, 4 or 8.
        is_transposed: whether a partition has all codes of a sub-vector one after the other.
    """

    codebook: Float32Array = field(default_factory=lambda: np.empty((0, 0, 0), np.float32))
    num_bits: int = 8
    is_transposed: bool = True

    @classmethod
    def of(cls, file: IndexFile, model: IvfModel) -> VectorStorage:
        described = storage_metadata(file)
        num_bits, num_sub_vectors = described.get("nbits"), described.get("num_sub_vectors")
        shape = codebook_shape(num_bits, num_sub_vectors, model.centroids.shape[1])
        if shape is None:
            raise file.damaged(f"a product quantizer has {num_bits} bits and {num_sub_vectors} sub-vectors")
        codebook = _codebook(file, described, shape)
        partitions = Partitions.read(file, len(model.centroids))
        is_transposed = described.get("transposed") is True
        return cls(file, model, partitions, codebook=codebook, num_bits=int(num_bits or 0), is_transposed=is_transposed)

    @property
    def code_bytes(self) -> int:
        """Bytes of the codes of a row."""
        return len(self.codebook) * self.num_bits // 8

    def column_types(self) -> dict[str, pa.DataType]:
        return {"__pq_code": pa.list_(pa.uint8(), self.code_bytes)}

    def partition(self, number: int, row_ids: UInt64Array, columns: Sequence[npt.NDArray[Any]]) -> Partition:
        found = columns[0]
        by_byte = found.reshape(self.code_bytes, len(row_ids)) if self.is_transposed else found.T
        return Partition(row_ids, self.arranged(by_byte))

    @cached_property
    def words(self) -> Float32Array:
        """float32[m, d / m, k]: the codebook as kernels read it."""
        return np.ascontiguousarray(self.codebook.transpose(0, 2, 1))

    @cached_property
    def residual_centroids(self) -> Float32Array:
        """float32[p, d]: what is taken off the query before it is compared with codes."""
        return np.ascontiguousarray(self.model.centroids, np.float32)

    def arranged(self, by_byte: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
        """One byte for each code, of [bytes of a row, n]: row by row if a graph is walked, else by sub-vectors."""
        codes = by_byte
        if self.num_bits == 4:
            codes = np.empty((2 * len(by_byte), by_byte.shape[1]), np.uint8)
            codes[0::2], codes[1::2] = by_byte & 15, by_byte >> 4
        return np.ascontiguousarray(codes.T if self.model.has_graph else codes)

    def scorer(self, query: Vectors) -> Scorer:
        return _ProductScorer(self, np.ascontiguousarray(query, np.float32))


@dataclass(frozen=True)
class _ProductScorer(Scorer):
    storage: ProductStorage
    query: Float32Array

    def distances(self, parts: Parts, count: int | None = None) -> Float32Array:
        storage = self.storage
        addresses = parts.addresses
        kept: list[npt.NDArray[np.uint8]] = []
        if storage.model.has_graph:
            kept += [np.ascontiguousarray(part.payload.T) for part in parts.partitions]
            addresses = np.array([address_of(codes) for codes in kept], np.int64)
        centroids, (num_sub_vectors, num_codewords, width) = storage.residual_centroids, storage.codebook.shape
        of_parts = address_of(centroids) + np.array(parts.numbers, np.int64) * centroids.strides[0]
        table, out = np.empty((num_sub_vectors, num_codewords), np.float32), np.empty(parts.num_rows, np.float32)
        is_dot = storage.metric is Metric.DOT
        status = sums_of_codewords(
            address_of(addresses),
            address_of(parts.lengths),
            len(addresses),
            address_of(self.query),
            address_of(of_parts),
            address_of(storage.words),
            num_sub_vectors,
            num_codewords,
            width,
            int(is_dot),
            address_of(table),
            address_of(out),
        )
        if status:
            raise CorruptFileError("a code of a product quantizer has no codeword")
        return out + np.float32(1) if is_dot else out

    def nodes(self, number: int, rows: Partition) -> GraphNodes:
        table = self._table(number)
        padded = np.zeros((len(table), 256), np.float32)
        padded[:, : table.shape[1]] = table
        offset = float(self.storage.metric is Metric.DOT)
        return GraphNodes(CODEWORDS, rows.payload, len(table), padded, offset=offset)

    def _table(self, number: int) -> Float32Array:
        """float32[m, k]: what each codeword of each sub-vector adds to the distance."""
        storage = self.storage
        table = np.empty(storage.codebook.shape[:2], np.float32)
        codeword_table(
            address_of(self.query),
            address_of(storage.residual_centroids[number]),
            address_of(storage.words),
            *storage.codebook.shape,
            int(storage.metric is Metric.DOT),
            address_of(table),
        )
        return table


def codebook_shape(num_bits: object, num_sub_vectors: object, dimension: int) -> tuple[int, int, int] | None:
    """(sub-vectors, codewords, values of a sub-vector); None if vectors of `dimension` cannot be coded so.

    >>> codebook_shape(8, 4, 32)
    (4, 256, 8)
    """
    if num_bits not in (4, 8) or type(num_sub_vectors) is not int or not 0 < num_sub_vectors <= _MAX_SUB_VECTORS:
        return None
    if dimension % num_sub_vectors or (num_bits == 4 and num_sub_vectors % 2):
        return None
    return num_sub_vectors, 256 if num_bits == 8 else 16, dimension // num_sub_vectors


def _codebook(file: IndexFile, described: dict[str, Any], shape: tuple[int, int, int]) -> Float32Array:
    position = described.get("codebook_position")
    if type(position) is not int:
        raise file.damaged("a product quantizer does not say where its codebook is")
    try:
        message = index_details_pb2.Tensor.FromString(file.global_buffer(position))
    except DecodeError as error:
        raise file.damaged(f"a codebook cannot be parsed: {error}") from error
    # The tensor's shape says [codewords, dimension]; its bytes are [sub-vectors, codewords, values].
    values = tensor(file, message)
    if values.size != shape[0] * shape[1] * shape[2]:
        raise file.damaged(f"a codebook has {values.size} values, expected {shape}")
    return np.ascontiguousarray(values.astype(np.float32).reshape(shape))
