"""Base class of the codecs, which store the vectors of a segment."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark.errors import UnsupportedFeatureError
from lance_spark.index.vector.building.model import VectorModel
from lance_spark.index.vector.metrics import Vectors

Columns = Mapping[str, npt.NDArray[Any]]
"""By name: [n] or [n, w]."""
Float32Array = npt.NDArray[np.float32]
Int32Array = npt.NDArray[np.int32]


class Codec(ABC):
    """Stores vectors.

    Args:
        model: what they are coded with.
    """

    is_nullable = True
    """Whether the columns are declared nullable, as the reference library does for codes."""

    def __init__(self, model: VectorModel) -> None:
        self._model = model

    @abstractmethod
    def types(self) -> dict[str, pa.DataType]:
        """The columns of the file besides row ids."""

    @abstractmethod
    def encoded(self, vectors: Vectors, labels: Int32Array) -> Columns:
        """The columns of vectors, a row for each.

        Args:
            vectors: [n, d] of the column's type, of length 1 for cosine.
            labels: int32[n]: their partitions.
        """

    def compared(self, columns: Columns) -> tuple[Vectors, float]:
        """([n, w] of float32 or uint8: what the distances between stored rows of a partition are computed from; what
        these are multiplied by).

        Raises:
            UnsupportedFeatureError: no graphs are built over this kind of codes.
        """
        raise UnsupportedFeatureError(f"graphs over {self._model.codes} codes are not built")

    @abstractmethod
    def description(self) -> dict[str, Any]:
        """The metadata of the storage file. Its global buffers begin with number 2."""

    def buffers(self) -> list[bytes]:
        """Global buffers of the file."""
        return []

    def packed(self, columns: Columns) -> Columns:
        """The columns of a partition as files have them."""
        return columns

    def unpacked(self, columns: Columns, description: Mapping[str, Any]) -> Columns:
        """Inverse of `packed` for a file with this description."""
        return columns
