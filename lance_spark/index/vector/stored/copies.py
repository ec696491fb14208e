"""Copies of partitions in another form, which are made when a partition is compared a second time."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lance_spark.index.vector.storage import Partition, Parts, VectorStorage
from lance_spark.storage.cache import cached_parts, shared

_MAX_DIMENSION = 1 << 15
"""Sums of squared bytes of more values would leave 32 bits."""


class Copy(NamedTuple):
    """A copy of a partition: its arrays and their addresses."""

    arrays: tuple[npt.NDArray[Any], ...]
    addresses: tuple[int, ...]

    @property
    def num_bytes(self) -> int:
        """Bytes of its arrays."""
        return sum(array.nbytes for array in self.arrays)


@dataclass(frozen=True)
class CopiedStorage(VectorStorage):
    """Vectors or codes that are compared in another form than the stored one.

    Attributes:
        _compared: numbers of the partitions that were compared before.
    """

    _compared: set[int] = field(default_factory=set, repr=False, compare=False)

    @property
    @abstractmethod
    def bytes_of_value(self) -> int:
        """Bytes of a value and its copy; 0 if there are no copies."""

    @abstractmethod
    def copied(self, number: int, rows: Partition) -> Copy:
        """The copy of partition `number`, without arrays if it cannot have one."""

    @cached_property
    def has_copies(self) -> bool:
        """Whether there are copies: if the cache has room for all partitions and their copies."""
        dimension = self.model.centroids.shape[1]
        num_values = int(self.partitions.lengths.sum()) * dimension
        fits = dimension <= _MAX_DIMENSION and self.bytes_of_value * num_values <= 3 * shared.max_bytes // 4
        return fits and self.bytes_of_value > 0

    def addresses_of_copies(self, parts: Parts, number: int) -> npt.NDArray[np.int64] | None:
        """int64[p, number]: the addresses of the copy of each partition, 0 for one that was not compared before and
        may never be again; None if no partition has a copy."""
        copies = self.copies(parts)
        if not any(copies):
            return None
        return np.array([(0,) * number if copy is None else copy.addresses for copy in copies], np.int64)

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
