"""Copies of partitions in another form, which are made when a partition is compared a second time.

Vectors and codes that a mapped file has row by row are compared where they lie in it, so that only the copies take
memory.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lance_spark.cached import cached_property
from lance_spark.index.vector.aligned import owned
from lance_spark.index.vector.metrics import computed_type
from lance_spark.index.vector.storage import Partition, Parts, VectorStorage
from lance_spark.index.vector.vector_places import VectorPlaces
from lance_spark.schema.number_types import numpy_type
from lance_spark.storage.cache import cached_parts, has_free_etags, shared
from lance_spark.storage.meter import READS

_MAX_DIMENSION = 1 << 15
"""Sums of squared bytes of more values would leave 32 bits."""

_MAPPED_BYTES = 1 << 16
"""What a mapped file counts in the cache; it bounds the number of files that stay mapped."""


class Copy(NamedTuple):
    """A copy of a partition: its arrays and their addresses."""

    arrays: tuple[npt.NDArray[Any], ...]
    addresses: tuple[int, ...]

    @property
    def num_bytes(self) -> int:
        """Bytes of its arrays."""
        return sum(array.nbytes for array in self.arrays)


class Copies(NamedTuple):
    """The copies of some partitions.

    Attributes:
        addresses: int64[p, number of arrays]: of each, 0 for a partition without a copy.
        kept: what the addresses lead to. The cache can give it up while another thread reads.
    """

    addresses: npt.NDArray[np.int64]
    kept: Sequence[Copy | None]


@dataclass(frozen=True)
class CopiedStorage(VectorStorage):
    """Vectors or codes that are compared in another form than the stored one.

    Attributes:
        _compared: numbers of the partitions that were compared before.
    """

    _compared: set[int] = field(default_factory=set, repr=False, compare=False)

    @property
    @abstractmethod
    def has_bytes(self) -> bool:
        """Whether there can be copies, which have a byte a value."""

    @abstractmethod
    def copied(self, number: int, rows: Partition) -> Copy:
        """The copy of partition `number`, without arrays if it cannot have one."""

    @cached_property
    def has_copies(self) -> bool:
        """Whether there are copies: if the cache has room for all partitions and their copies."""
        dimension = self.model.centroids.shape[1]
        num_values = int(self.partitions.lengths.sum()) * dimension
        stored = 0 if self._places is not None else np.dtype(computed_type(self._stored_type[1])).itemsize
        fits = dimension <= _MAX_DIMENSION and (1 + stored) * num_values <= 3 * shared.max_bytes // 4
        return fits and self.has_bytes

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
        """Where the mapped file has the vectors or codes as they are compared; None if they have to be read."""
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
        found: list[Partition] = []
        for start, (ids,) in zip(starts, self._values(numbers, {}), strict=True):
            payload, is_mapped = self._places.array(start, start + len(ids), dtype)
            found.append(Partition(owned(ids), payload, is_mapped=is_mapped))
        # Nobody waits for memory.
        READS.add(len(found), sum([rows.payload.nbytes for rows in found]), 0.0)
        return found

    def located_copies(self, parts: Parts, number: int) -> Copies:
        """The copies of partitions, none of one that was not compared before and may never be again.

        Args:
            number: arrays of a copy.
        """
        copies = self.copies(parts)
        addresses = np.array([(0,) * number if copy is None else copy.addresses for copy in copies], np.int64)
        return Copies(addresses.reshape(len(copies), number), copies)

    def copies(self, parts: Parts) -> list[Copy | None]:
        """The copy of each partition, None for one that was not compared before and may never be again."""
        if not self.has_copies:
            return [None] * len(parts.numbers)
        return cached_parts(self._owner, "copies", parts.numbers, lambda missing: self._made(missing, parts))

    def _made(self, missing: Sequence[int], parts: Parts) -> list[tuple[Copy | None, int]]:
        rows = dict(zip(parts.numbers, parts.partitions, strict=True))
        made: list[tuple[Copy | None, int]] = []
        for number in missing:
            copy = self.copied(number, rows[number]) if number in self._compared else None
            made.append((copy, 0 if copy is None else copy.num_bytes))
        self._compared.update(missing)
        return made
