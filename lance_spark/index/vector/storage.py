"""The vectors of a segment, as they are or as codes, and their distance to a query.

Distances of codes are estimates that put rows in order; the rows found are compared exactly afterwards.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark.cached import cached_property
from lance_spark.index.files import IndexFile
from lance_spark.index.vector.aligned import owned
from lance_spark.index.vector.chunked_columns import ChunkedColumn
from lance_spark.index.vector.ivf import IvfModel, Partitions
from lance_spark.index.vector.metrics import Float32Array, Int64Array, Metric, Vectors, computed_type
from lance_spark.index.vector.vector_places import VectorPlaces
from lance_spark.kernels.jit import address_of
from lance_spark.layouts.base import RowRanges
from lance_spark.schema.number_types import numpy_type
from lance_spark.storage.cache import cached_parts, has_free_etags
from lance_spark.storage.meter import READS

UInt64Array = npt.NDArray[np.uint64]

_ID_BYTES = 8

_MAPPED_BYTES = 1 << 16
"""Size of a mapped file in the cache; it bounds the number of files that stay mapped."""

_IDS_AT_ONCE = 1 << 22
"""About how many row ids are read at a time."""


@dataclass(eq=False)
class Partition:
    """The rows of a partition.

    Attributes:
        row_ids: uint64[n]; the same one more than once for a row with a list of vectors.
        payload: vectors or codes, in the order that the kernels of the kind need.
        factors: what a quantizer has beside the codes.
        is_mapped: whether the payload is a part of a mapped file.
    """

    row_ids: UInt64Array
    payload: npt.NDArray[Any]
    factors: tuple[npt.NDArray[Any], ...] = ()
    is_mapped: bool = False

    @cached_property
    def address(self) -> int:
        """Address of the payload."""
        return address_of(self.payload)

    @cached_property
    def ids_address(self) -> int:
        """Address of the row ids."""
        return address_of(self.row_ids)

    @cached_property
    def addresses_of_factors(self) -> tuple[int, ...]:
        """Addresses of the factors."""
        return tuple(address_of(array) for array in self.factors)

    def owned(self) -> Partition:
        """The same rows, in memory of their own: nothing else stays in memory with them."""
        factors = tuple([owned(array) for array in self.factors])
        return replace(self, row_ids=owned(self.row_ids), payload=owned(self.payload), factors=factors)

    @property
    def num_bytes(self) -> int:
        """Bytes of its arrays in memory."""
        payload = 0 if self.is_mapped else self.payload.nbytes
        return self.row_ids.nbytes + payload + sum(array.nbytes for array in self.factors)


@dataclass(frozen=True)
class Parts:
    """Some partitions, as kernels take them.

    Attributes:
        numbers: of the partitions.
        partitions: their rows.
        lengths: int64[p]: rows of each.
        addresses: int64[p]: of their payloads.
    """

    numbers: Sequence[int]
    partitions: Sequence[Partition]
    lengths: Int64Array
    addresses: Int64Array

    @classmethod
    def of(cls, numbers: Sequence[int], partitions: Sequence[Partition]) -> Parts:
        """These partitions."""
        lengths = np.array([len(part.row_ids) for part in partitions], np.int64)
        return cls(numbers, partitions, lengths, np.array([part.address for part in partitions], np.int64))

    @property
    def num_rows(self) -> int:
        """Rows of all partitions."""
        return int(np.add.reduce(self.lengths))

    def each(self, values: Vectors) -> Vectors:
        """[n]: for each row, the one of `values` ([p]) of its partition."""
        return np.repeat(values, self.lengths)


@dataclass(frozen=True)
class GraphNodes:
    """The rows of a partition as a walk through its graph compares them.

    Attributes:
        kind: a constant of `kernels.vector.vector_graph`.
        payload: vectors or codes, row by row.
        width: values or codes of a row.
        query: float32: what they are compared with.
        scale, offset: ``offset + scale * found`` is the distance that `Scorer.distances` has.
    """

    kind: int
    payload: npt.NDArray[Any]
    width: int
    query: Float32Array
    scale: float = 1.0
    offset: float = 0.0


class Scorer(ABC):
    """Compares one query with the rows of a segment."""

    @abstractmethod
    def distances(self, parts: Parts, count: int | None = None) -> Float32Array:
        """float32[n]: of the rows of some partitions, one after the other.

        Args:
            count: rows that are, by their bounds, not among that many nearest may have NaN; None for all distances.
        """

    @abstractmethod
    def nodes(self, number: int, rows: Partition) -> GraphNodes:
        """`rows`, which are those of partition `number`, for a walk."""


@dataclass(frozen=True)
class VectorStorage(ABC):
    """The storage file of a segment. Partitions that were read are cached until other values need the room.

    Attributes:
        file: the storage file.
        model: the centroids.
        partitions: where the rows of each partition are.
    """

    file: IndexFile
    model: IvfModel
    partitions: Partitions
    _owner: object = field(default_factory=object, repr=False, compare=False)

    @classmethod
    def of(cls, file: IndexFile, model: IvfModel) -> VectorStorage:
        """The storage in `file`.

        Raises:
            CorruptFileError: it contradicts itself or the model.
            UnsupportedFeatureError: codes of a kind that is not read.
        """
        return cls(file, model, Partitions.read(file, len(model.centroids)))

    @abstractmethod
    def scorer(self, query: Vectors) -> Scorer:
        """Scorer that compares `query` ([d], normalized for cosine) with the rows."""

    @abstractmethod
    def column_types(self) -> dict[str, pa.DataType]:
        """The columns beside the row ids, which have no nulls."""

    @abstractmethod
    def partition(self, number: int, row_ids: UInt64Array, columns: Sequence[npt.NDArray[Any]]) -> Partition:
        """Partition `number` with these values of `column_types`: [n], of lists [n, w]."""

    @property
    def fixed_bytes(self) -> int:
        """Bytes that it holds beside the partitions."""
        return self.partitions.offsets.nbytes + self.partitions.lengths.nbytes

    @cached_property
    def row_bytes(self) -> int:
        """About the bytes of a row in memory: its id and columns, and a byte a value of unpacked codes."""
        return _ID_BYTES + int(self.model.centroids.shape[1]) + self._stored_bytes

    @property
    def _stored_bytes(self) -> int:
        """Bytes of the columns of a row."""
        return sum([_byte_width(dtype) for dtype in self.column_types().values()])

    @cached_property
    def metric(self) -> Metric:
        """The metric by which payloads are compared: normalized vectors by l2."""
        return Metric.L2 if self.model.metric is Metric.COSINE else self.model.metric

    def rows(self, numbers: Sequence[int]) -> list[Partition]:
        """The rows of partitions; those that are not cached are read at once.

        Raises:
            CorruptFileError: columns are missing or contradict the format.
        """

        def make(missing: Sequence[int]) -> list[tuple[Partition, int]]:
            return [(partition, partition.num_bytes) for partition in self._read(missing)]

        return cached_parts(self._owner, "rows", numbers, make)

    def row_ids(self) -> Iterator[UInt64Array]:
        """The row ids of all partitions, those of some at a time."""
        filled = np.flatnonzero(self.partitions.lengths)
        groups = self.partitions.lengths[filled].cumsum() // _IDS_AT_ONCE
        for numbers in np.split(filled, np.flatnonzero(np.diff(groups)) + 1):
            for (ids,) in self._values(numbers.tolist(), {}) if len(numbers) else ():
                yield ids

    def _read(self, numbers: Sequence[int]) -> list[Partition]:
        """Some partitions, by one read: it costs as much for one as for many."""
        values = zip(numbers, self._values(numbers, self.column_types()), strict=True)
        return [self.partition(number, ids, columns).owned() for number, (ids, *columns) in values]

    def _values(
        self, numbers: Sequence[int], types: Mapping[str, pa.DataType]
    ) -> Iterator[tuple[npt.NDArray[Any], ...]]:
        """For each of some partitions its row ids and the values of the columns `types`."""
        starts, lengths = self.partitions.offsets[[*numbers]], self.partitions.lengths[[*numbers]]
        order = np.argsort(starts, kind="stable")
        order = order[lengths[order] > 0]
        ranges = RowRanges(starts[order], starts[order] + lengths[order])
        if bool((ranges.starts[1:] < ranges.stops[:-1]).any()):
            raise self.file.damaged("two partitions of an index have the same rows")
        all_types = {"_rowid": pa.uint64(), **types}
        found = self._copied(all_types, ranges, order.tolist()) if len(order) == len(numbers) else {}
        if decoded := {name: dtype for name, dtype in all_types.items() if name not in found}:
            places = np.zeros(len(numbers), np.int64)
            places[order] = np.cumsum(lengths[order]) - lengths[order]
            spans = list(zip(places.tolist(), (places + lengths).tolist(), strict=True))
            columns = self._columns(ranges, decoded)
            found |= {name: _pieces(column, spans) for name, column in zip(decoded, columns, strict=True)}
        return zip(*[found[name] for name in all_types], strict=True)

    def _copied(
        self, types: Mapping[str, pa.DataType], rows: RowRanges, order: Sequence[int]
    ) -> dict[str, list[npt.NDArray[Any]]]:
        """The values of columns that are copied from a mapped file, for each of some ranges: of ``rows[i]`` at
        ``order[i]``."""
        if not order or not has_free_etags(self.file.store):
            return {}
        found = {name: ChunkedColumn.of(self.file, name, dtype) for name, dtype in types.items()}
        columns = {name: column for name, column in found.items() if column is not None}
        row_bytes = sum([column.row_bytes for column in columns.values()])
        memory = self.file.in_memory(len(columns) * len(order), rows.num_rows * row_bytes)
        copied: dict[str, list[npt.NDArray[Any]]] = {}
        for name, column in columns.items() if memory is not None else ():
            values = column.read(memory, rows)
            if values is not None:
                of_place = dict(zip(order, values, strict=True))
                copied[name] = [of_place[place] for place in range(len(order))]
        return copied

    def _columns(self, rows: RowRanges, types: Mapping[str, pa.DataType]) -> list[pa.ChunkedArray]:
        columns = self.file.columns_in_chunks(types, rows)
        for column in columns:
            has_values = pa.types.is_fixed_size_list(column.type)
            if column.null_count or (has_values and any(chunk.values.null_count for chunk in column.chunks)):
                raise self.file.damaged("a vector index has nulls where it must have values")
        return columns


@dataclass(frozen=True)
class MappedStorage(VectorStorage):
    """Partitions with a column of vectors or codes, which stays in a mapped file if it can be compared there."""

    @property
    def fixed_bytes(self) -> int:
        return super().fixed_bytes + (0 if self._places is None else _MAPPED_BYTES)

    @property
    def _stored_type(self) -> tuple[str, np.dtype[Any]]:
        """(the name of the column of vectors or codes; the type of its values)."""
        ((name, column_type),) = self.column_types().items()
        return name, numpy_type(column_type.value_type)

    @cached_property
    def _places(self) -> VectorPlaces | None:
        """Places of the vectors or codes in the mapped file as they are compared; None if they have to be read."""
        file, (name, dtype) = self.file, self._stored_type
        if not has_free_etags(file.store) or computed_type(dtype) != dtype:
            return None
        if file.type_of(name) != self.column_types()[name]:
            return None
        dimension = self.model.centroids.shape[1]
        pages, width = file.encoded_pages(name), dimension * dtype.itemsize
        places = VectorPlaces.of(pages, file.num_rows, file.store, file.path, dimension, width)
        return places if places is not None and places.is_array(dtype) else None

    @property
    def _stored_bytes(self) -> int:
        return super()._stored_bytes if self._places is None else 0

    def _read(self, numbers: Sequence[int]) -> list[Partition]:
        if self._places is None:
            return super()._read(numbers)
        dtype, starts = self._stored_type[1], self.partitions.offsets[[*numbers]].tolist()
        partitions: list[Partition] = []
        for number, start, (ids,) in zip(numbers, starts, self._values(numbers, {}), strict=True):
            payload, is_mapped = self._places.array(start, start + len(ids), dtype)
            partitions.append(replace(self.partition(number, owned(ids), [payload]), is_mapped=is_mapped))
        # Mapped reads have no I/O wait.
        READS.add(len(partitions), sum([rows.payload.nbytes for rows in partitions]), 0.0)
        return partitions


def _pieces(column: pa.ChunkedArray, spans: Sequence[tuple[int, int]]) -> list[npt.NDArray[Any]]:
    """The rows of a column from each start to each stop; only those that lie in several chunks are copied."""
    if column.num_chunks == 1:
        values = _values(column.chunk(0))
        return [values[start:stop] for start, stop in spans]
    pieces: list[npt.NDArray[Any]] = []
    for start, stop in spans:
        chunks = [_values(chunk) for chunk in column.slice(start, stop - start).chunks]
        pieces.append(chunks[0] if len(chunks) == 1 else np.concatenate(chunks or [_values(pa.array([], column.type))]))
    return pieces


def _values(array: pa.Array) -> npt.NDArray[Any]:
    """The values of an array without nulls: [n], of lists [n, w]."""
    if not pa.types.is_fixed_size_list(array.type):
        plain: npt.NDArray[Any] = array.to_numpy()
        return plain
    width = array.type.list_size
    values = array.values.slice(array.offset * width, len(array) * width)
    found: npt.NDArray[Any] = values.to_numpy(zero_copy_only=False).reshape(len(array), width)
    return found


def _byte_width(dtype: pa.DataType) -> int:
    if pa.types.is_fixed_size_list(dtype):
        return int(dtype.list_size) * _byte_width(dtype.value_type)
    width: int = dtype.byte_width
    return width
