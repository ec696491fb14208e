"""Writers of the rows of a task, and what they give to the driver."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.encodings.blocks import Int64Array
from lance_spark.table.row_level.rewritten_rows import NO_ORIGIN, NewFragment
from lance_spark.table.rows.row_address import UInt64Array
from lance_spark.table.source import Split
from lance_spark.table.writing.identity import BoolArray, UsedByTask
from lance_spark.table.writing.row_pipeline import TaskRows

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True, slots=True)
class RowOrigins:
    """Rows of the version that was read which the rows of a batch were.

    Attributes:
        keys: the key of the split of each row, without a meaning for a new row; None in a plain table.
        addresses: uint64[n]: the address in that split, `NO_ORIGIN` for a new row.
    """

    keys: pa.Array | None
    addresses: UInt64Array

    @classmethod
    def of_split(cls, split: Split, addresses: UInt64Array) -> RowOrigins:
        """Rows at `addresses` (uint64[n]) of one split."""
        keys = None if split.key is None else pa.array([split.key] * len(addresses), pa.string())
        return cls(keys, addresses)

    def where(self, chosen: BoolArray) -> RowOrigins:
        """The origins of the rows for which `chosen` (bool[n]) is true."""
        keys = None if self.keys is None else self.keys.filter(pa.array(chosen))
        return RowOrigins(keys, self.addresses[chosen])

    def slice(self, start: int, length: int) -> RowOrigins:
        """The origins of `length` rows from `start` on."""
        keys = None if self.keys is None else self.keys.slice(start, length)
        return RowOrigins(keys, self.addresses[start : start + length])

    def within(self, key: str, places: Int64Array) -> UInt64Array:
        """uint64[k]: addresses of the rows at `places` (int64[k]) in one split; there a row of another is new."""
        assert self.keys is not None, "rows of a partitioned table have the keys of their partitions"
        stays = pc.fill_null(pc.equal(self.keys.take(pa.array(places)), key), False).to_numpy(zero_copy_only=False)
        addresses: UInt64Array = np.where(stays, self.addresses[places], np.uint64(NO_ORIGIN))
        return addresses


@dataclass(frozen=True, slots=True)
class WrittenSplit:
    """New fragments of one split, in row order and without ids. Travels from a task to the driver."""

    new: tuple[NewFragment, ...]


class RowWriter(ABC):
    """Writes the rows of a task. A context manager: an error inside removes everything that was written.

    Args:
        rows: completes and checks them.
    """

    def __init__(self, rows: TaskRows) -> None:
        self._rows = rows

    def write(self, batch: pa.RecordBatch, origins: RowOrigins | None = None) -> None:
        """Appends rows.

        Args:
            origins: which rows they were; None if all are new.

        Raises:
            InvalidInputError: the rows do not fit the table.
        """
        is_new = None if origins is None else origins.addresses == NO_ORIGIN
        self._write(self._rows(batch, is_new), origins)

    def used(self) -> UsedByTask | None:
        """The values of identity columns that new rows got; None if there are no such columns."""
        return self._rows.used()

    @abstractmethod
    def _write(self, batch: pa.RecordBatch, origins: RowOrigins | None) -> None:
        """Appends complete rows."""

    @abstractmethod
    def close(self) -> tuple[WrittenSplit, ...]:
        """Finishes all files; the splits that got rows."""

    @abstractmethod
    def abort(self) -> None:
        """Removes everything that was written."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: object) -> None:
        if kind is not None:
            self.abort()
