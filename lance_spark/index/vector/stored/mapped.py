"""Vectors and codes that are compared where a mapped file has them row by row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lance_spark.cached import cached_property
from lance_spark.index.vector.aligned import owned
from lance_spark.index.vector.metrics import computed_type
from lance_spark.index.vector.storage import Partition, VectorStorage
from lance_spark.index.vector.vector_places import VectorPlaces
from lance_spark.schema.number_types import numpy_type
from lance_spark.storage.cache import has_free_etags
from lance_spark.storage.meter import READS

_MAPPED_BYTES = 1 << 16
"""Size of a mapped file in the cache; it bounds the number of files that stay mapped."""


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
