"""IVF_PQ of the first version: one file, whose end says where the centroids, the codebook and the partitions are.

::

    for each partition: codes, row by row, then a u64 row id for each row
    u32 length, `Index`
    u64 position of the length, u16 0, u16 0 to 2, "LANC"
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from google.protobuf.message import DecodeError

from lance_spark._proto import index_details_pb2, vector_index_v1_pb2
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.index.files import IndexFile
from lance_spark.index.vector.ivf import IvfModel, Partitions, tensor
from lance_spark.index.vector.metrics import Float32Array, Metric
from lance_spark.index.vector.storage import Partition, UInt64Array
from lance_spark.index.vector.stored.product import ProductStorage, codebook_shape

_TRAILER = struct.Struct("<QHH4s")
_ROW_ID_BYTES = 8
_METRICS = {
    index_details_pb2.L2: Metric.L2,
    index_details_pb2.Cosine: Metric.COSINE,
    index_details_pb2.Dot: Metric.DOT,
}


@dataclass(frozen=True)
class LegacyStorage(ProductStorage):
    """The codes in a file of the first version.

    Attributes:
        content: the file up to the description.
    """

    content: bytes = b""

    @property
    def fixed_bytes(self) -> int:
        return super().fixed_bytes + len(self.content)

    def _read(self, numbers: Sequence[int]) -> list[Partition]:
        return [self._in_content(number) for number in numbers]

    def row_ids(self) -> Iterator[UInt64Array]:
        for number in range(len(self.partitions.lengths)):
            yield self._in_content(number).row_ids

    def _in_content(self, number: int) -> Partition:
        start, num_rows = int(self.partitions.offsets[number]), int(self.partitions.lengths[number])
        width = self.code_bytes
        ids_start = start + num_rows * width
        if ids_start + num_rows * _ROW_ID_BYTES > len(self.content):
            raise self.file.damaged(f"partition {number} of an index leaves its file")
        codes = np.frombuffer(self.content, np.uint8, num_rows * width, start).reshape(num_rows, width)
        ids = np.frombuffer(self.content, "<u8", num_rows, ids_start).astype(np.uint64)
        return Partition(ids, self.arranged(codes.T))


def is_legacy(content: bytes) -> bool:
    """Whether the end of a file is that of the first version."""
    if len(content) < _TRAILER.size:
        return False
    _, major, minor, magic = _TRAILER.unpack_from(content, len(content) - _TRAILER.size)
    return bool(magic == b"LANC" and major == 0 and minor <= 2)


class _LegacyFile(IndexFile):
    """A file without columns; it only says where an error was found."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._is_local = True

    def damaged(self, message: str) -> CorruptFileError:
        return CorruptFileError(message, path=self._path)


def open_legacy(path: str, content: bytes, dimension: int) -> LegacyStorage:
    """The storage in a file of the first version, for vectors of `dimension` values, with its model.

    Raises:
        CorruptFileError: it contradicts itself.
        UnsupportedFeatureError: an index of another kind.
    """
    file = _LegacyFile(path)
    position, *_ = _TRAILER.unpack_from(content, len(content) - _TRAILER.size)
    described = _described(file, content, position)
    stages = [stage.WhichOneof("stage") for stage in described.stages]
    if stages[:2] != ["ivf", "pq"] or described.dimension != dimension or described.metric_type not in _METRICS:
        raise UnsupportedFeatureError(
            f"an index of the first version with the stages {stages} for {described.dimension} dimensions is not read"
        )
    ivf, pq = described.stages[0].ivf, described.stages[1].pq
    shape = codebook_shape(pq.num_bits, pq.num_sub_vectors, dimension)
    if shape is None:
        raise file.damaged(f"a product quantizer has {pq.num_bits} bits and {pq.num_sub_vectors} sub-vectors")
    codebook = _values(file, pq, "codebook", shape[0] * shape[1] * shape[2])
    centroids = _values(file, ivf, "centroids", len(ivf.lengths) * dimension)
    model = IvfModel("IVF_PQ", _METRICS[described.metric_type], centroids.reshape(-1, dimension))
    return LegacyStorage(
        file,
        model,
        _partitions(file, ivf, len(content)),
        codebook=np.ascontiguousarray(codebook.reshape(shape)),
        num_bits=pq.num_bits,
        is_transposed=False,
        content=content[:position],
    )


def _described(file: IndexFile, content: bytes, position: int) -> vector_index_v1_pb2.VectorIndex:
    if position + 4 > len(content):
        raise file.damaged(f"an index says that its description is at {position}")
    (length,) = struct.unpack_from("<I", content, position)
    try:
        return vector_index_v1_pb2.Index.FromString(content[position + 4 : position + 4 + length]).vector_index
    except DecodeError as error:
        raise file.damaged(f"the description of an index cannot be parsed: {error}") from error


def _values(
    file: IndexFile,
    message: index_details_pb2.IVF | vector_index_v1_pb2.ProductQuantizer,
    name: str,
    expected: int,
) -> Float32Array:
    """float32: a tensor, which old files have as a list of numbers."""
    if message.HasField(f"{name}_tensor"):  # type: ignore[arg-type]
        values = tensor(file, getattr(message, f"{name}_tensor"))
    else:
        values = np.array(getattr(message, name), np.float32)
    if not expected or values.size != expected:
        raise file.damaged(f"an index has {values.size} values of its {name}, expected {expected}")
    return values.astype(np.float32).ravel()


def _partitions(file: IndexFile, message: index_details_pb2.IVF, num_bytes: int) -> Partitions:
    """Here offsets are in bytes."""
    offsets, lengths = np.array(message.offsets, np.uint64), np.array(message.lengths, np.int64)
    if len(offsets) != len(lengths) or bool((offsets > num_bytes).any()):
        raise file.damaged(f"a partition of an index begins behind its {num_bytes} bytes")
    return Partitions(offsets.astype(np.int64), lengths)
