"""Packs fragments into Spark's input partitions: small ones share a partition, large ones are split by rows.

A partition contains only its fragments, as `lance.table.DataFragment` bytes; the common part (schema, base paths,
credentials) is sent once, with the reader. There can be 100,000 fragments, so what is known of each is in columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyroaring
from pyspark.sql.datasource import InputPartition

from lance_spark.spark.options.options import DEFAULT_PARTITION_BYTES
from lance_spark.spark.projected_sizes import ProjectedSizes
from lance_spark.table.bases import Bases
from lance_spark.table.reading.fragment_reader import FragmentReader
from lance_spark.table.reading.index_candidates import live_rows
from lance_spark.table.reading.opened_version import OpenedVersion
from lance_spark.table.reading.selection import FragmentRows
from lance_spark.table.rows.fragment import DataFragment, FragmentList

BYTES_PER_ROW = 4
"""The smallest row size reported to Spark, however well columns are packed: Spark decides by it what to broadcast."""

_SMALLEST_TASK_BYTES = 4 << 20
"""The minimum size of a task that is worth its overhead."""

_BLOCK_ROWS = 1024
"""About this many values of a column are decoded to read one of them."""

MAX_CANDIDATE_BYTES = 1 << 18
"""A fragment with a larger bitmap of candidates is read completely."""

_MAX_PIECES = 1 << 16
"""The largest number of pieces of one fragment: a manifest can claim any file size."""

UNKNOWN_BYTES_PER_ROW = 64
"""Assumed for files of unknown size (those of old writers)."""


class SizedFragment(NamedTuple):
    """A fragment, or some of its rows, in the planner.

    Attributes:
        place: of the fragment among those of its split.
        physical_rows: number of rows, including deleted ones.
        size_bytes: what the read accesses: its share of the files, and values of blobs. None if unknown.
        start: the offset of the first row.
        candidates: the rows to read, as a serialized bitmap of offsets; None for all. Deleted ones can be among them.
        num_candidates: how many they are.
        blob_bytes: of `size_bytes`, values of blobs.
    """

    place: int
    physical_rows: int
    size_bytes: int | None
    start: int = 0
    candidates: bytes | None = None
    num_candidates: int | None = None
    blob_bytes: int = 0

    @property
    def rows_to_read(self) -> int:
        """Number of rows to read, deleted ones included."""
        return self.physical_rows if self.num_candidates is None else self.num_candidates

    @property
    def estimated_bytes(self) -> int:
        """The approximate size of the read."""
        return self.rows_to_read * UNKNOWN_BYTES_PER_ROW if self.size_bytes is None else self.size_bytes

    def only(self, offsets: pyroaring.BitMap) -> SizedFragment:
        """Its rows with these offsets, one or more."""
        blocks = len(np.unique(np.array(offsets.to_array(), np.int64) // _BLOCK_ROWS))
        share = min(1.0, blocks * _BLOCK_ROWS / max(1, self.physical_rows))
        # Blobs are read value by value, other columns block by block.
        blobs = self.blob_bytes * len(offsets) // max(1, self.physical_rows)
        size = None if self.size_bytes is None else int((self.size_bytes - self.blob_bytes) * share) + 1 + blobs
        start = offsets.min()
        rows = offsets.max() + 1 - start
        return SizedFragment(self.place, rows, size, start, offsets.serialize(), len(offsets), blobs)

    def part(self, start: int, stop: int) -> SizedFragment:
        """Its physical rows [start, stop), limited to the existing ones."""
        start, stop = max(start, self.start), min(stop, self.start + self.physical_rows)
        rows = max(0, stop - start)
        size, blobs = self.size_bytes, self.blob_bytes
        if rows < self.physical_rows:
            size = None if size is None else -(-size * rows // self.physical_rows)
            blobs = blobs * rows // self.physical_rows
        return SizedFragment(self.place, rows, size, start, blob_bytes=blobs)


@dataclass(frozen=True, slots=True)
class SizedRows:
    """Rows of fragments of one split, in pieces: each of one fragment.

    Attributes:
        fragments: all of the split.
        places: int64[n], of the fragment of each piece among them.
        starts, stops: int64[n], its physical rows [start, stop), deleted ones included.
        rows_to_read: int64[n], how many of them are read.
        size_bytes: float64[n], whole numbers: about how much the read accesses.
        candidates: the rows to read, as a serialized bitmap of offsets; None for all. Deleted ones can be among them.
        is_size_known: whether the manifest has the size of each file.
    """

    fragments: FragmentList
    places: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    stops: npt.NDArray[np.int64]
    rows_to_read: npt.NDArray[np.int64]
    size_bytes: npt.NDArray[np.float64]
    candidates: tuple[bytes | None, ...]
    is_size_known: bool = True

    @classmethod
    def of(cls, fragments: FragmentList, pieces: Sequence[SizedFragment]) -> SizedRows:
        """The pieces as columns."""
        starts = np.array([piece.start for piece in pieces], np.int64)
        return cls(
            fragments,
            np.array([piece.place for piece in pieces], np.int64),
            starts,
            starts + np.array([piece.physical_rows for piece in pieces], np.int64),
            np.array([piece.rows_to_read for piece in pieces], np.int64),
            np.array([piece.estimated_bytes for piece in pieces], np.float64),
            tuple(piece.candidates for piece in pieces),
            all(piece.size_bytes is not None for piece in pieces),
        )

    @classmethod
    def joined(cls, parts: Sequence[SizedRows]) -> SizedRows:
        """The pieces of several, one or more, of the same split."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            parts[0].fragments,
            np.concatenate([part.places for part in parts]),
            np.concatenate([part.starts for part in parts]),
            np.concatenate([part.stops for part in parts]),
            np.concatenate([part.rows_to_read for part in parts]),
            np.concatenate([part.size_bytes for part in parts]),
            tuple(item for part in parts for item in part.candidates),
            all(part.is_size_known for part in parts),
        )

    def __len__(self) -> int:
        return len(self.places)

    @property
    def total_bytes(self) -> int:
        """The approximate size of a read of all pieces."""
        return int(self.size_bytes.sum())

    def part(self, first: int, last: int) -> SizedRows:
        """The pieces number `first` to `last`, the latter left out."""
        return self._with(slice(first, last), self.candidates[first:last])

    def of_fragments(self, places: npt.NDArray[np.int64]) -> SizedRows:
        """The pieces of the fragments at some places."""
        kept = np.flatnonzero(np.isin(self.places, places))
        return self._with(kept, tuple(self.candidates[number] for number in kept.tolist()))

    def _with(self, kept: slice | npt.NDArray[np.int64], candidates: tuple[bytes | None, ...]) -> SizedRows:
        columns = (self.places, self.starts, self.stops, self.rows_to_read)
        places, starts, stops, rows = (column[kept] for column in columns)
        return SizedRows(
            self.fragments, places, starts, stops, rows, self.size_bytes[kept], candidates, self.is_size_known
        )

    def divided(self, target_bytes: int) -> SizedRows:
        """The same rows, with several pieces of about `target_bytes` for a larger one."""
        sizes, rows = self.size_bytes, self.stops - self.starts
        counts = np.clip(np.rint(sizes / target_bytes), 1, np.clip(rows, 1, _MAX_PIECES)).astype(np.int64)
        if (counts == 1).all():
            return self
        number = np.repeat(np.arange(len(self)), counts)
        index = np.arange(len(number)) - np.repeat(np.cumsum(counts) - counts, counts)
        # rows * index // count, which would not fit into 64 bits.
        least, more = np.divmod(rows, counts)
        starts, stops = (
            self.starts[number] + least[number] * bound + more[number] * bound // counts[number]
            for bound in (index, index + 1)
        )
        candidates = tuple(self.candidates[place] for place in number.tolist())
        places, size_bytes = self.places[number], np.floor_divide(sizes, counts)[number]
        rows = stops - starts
        return SizedRows(self.fragments, places, starts, stops, rows, size_bytes, candidates, self.is_size_known)

    def slices(self) -> FragmentSlices:
        """The rows for a task."""
        return FragmentSlices(
            tuple(map(self.fragments.to_bytes, self.places.tolist())),
            tuple(self.starts.tolist()),
            tuple(self.stops.tolist()),
            self.candidates,
        )


class SizedSplit:
    """The fragments of a split in the planner of a scan.

    Args:
        fragments: of the split.
        bases: where their files are.
        sizes: of the columns that are read.
    """

    def __init__(self, fragments: FragmentList, bases: Bases, sizes: ProjectedSizes) -> None:
        self._fragments = fragments
        self._bases = bases
        self._rows = fragments.sizes.physical_rows
        self._size_bytes = sizes.of(fragments.sizes)
        self._blobs_of_row = sizes.blobs.total

    def rows(self, start: int, stop: int) -> SizedRows:
        """The rows of the fragments at the places [start, stop). Files are opened where the manifest lacks counts.

        Raises:
            CorruptFileError: such a file is corrupt.
            StorageError: the store failed.
        """
        rows = self._rows[start:stop]
        if not rows.all():
            rows = np.array([self._num_rows(place) for place in range(start, stop)], np.int64)
        places, starts = np.arange(start, stop), np.zeros(stop - start, np.int64)
        sizes = self._size_bytes[start:stop]
        is_known = not np.isnan(sizes).any()
        if not is_known:
            sizes = np.where(np.isnan(sizes), rows * UNKNOWN_BYTES_PER_ROW, sizes)
        return SizedRows(self._fragments, places, starts, rows, rows, sizes, (None,) * len(rows), is_known)

    def fragment(self, place: int) -> SizedFragment:
        """The fragment at a place. Raises as `rows`."""
        size, rows = float(self._size_bytes[place]), self._num_rows(place)
        size_bytes = None if np.isnan(size) else int(size)
        return SizedFragment(place, rows, size_bytes, blob_bytes=int(rows * self._blobs_of_row))

    def _num_rows(self, place: int) -> int:
        known = int(self._rows[place])
        return known or FragmentReader(self._fragments[place], self._bases).num_rows


class FragmentSlices(NamedTuple):
    """Physical rows [start, stop) of fragments, counting deleted ones, for one task.

    Attributes:
        fragments: the serialized fragment of each slice.
        candidates: which of its rows to read, as a serialized bitmap of offsets; None for all.
    """

    fragments: tuple[bytes, ...]
    starts: tuple[int, ...]
    stops: tuple[int, ...]
    candidates: tuple[bytes | None, ...]

    def rows(self, version: OpenedVersion) -> Iterator[FragmentRows]:
        """The rows to read of each slice: if they are not all, without deleted ones.

        Raises:
            CorruptFileError: a fragment violates the format.
        """
        for message, start, stop, candidates in zip(
            self.fragments, self.starts, self.stops, self.candidates, strict=True
        ):
            fragment = DataFragment.from_bytes(message)
            if candidates is None:
                yield FragmentRows(fragment, start=start, stop=stop)
            else:
                rows = live_rows(fragment, version, pyroaring.BitMap.deserialize(candidates))
                offsets = np.array(rows.to_array(), np.int64)
                first, last = np.searchsorted(offsets, (start, stop)).tolist()
                yield FragmentRows(fragment, offsets[first:last])


class LanceInputPartition(InputPartition):
    """The work of one task."""

    def __init__(self, slices: FragmentSlices) -> None:
        super().__init__(None)
        self.slices = slices


def task_bytes(asked: int, total: int, parallelism: int) -> int:
    """The target bytes per task for `total` bytes: the user's value, or else at most what gives every core a task."""
    if asked != DEFAULT_PARTITION_BYTES:
        return asked
    return min(asked, max(_SMALLEST_TASK_BYTES, -(-total // max(1, parallelism))))


def plan_partitions(rows: SizedRows, target_bytes: int) -> list[SizedRows]:
    """Parts of about `target_bytes` that contain every physical row of `rows` once, in order."""
    # Allow 12.5 % overshoot rather than a tiny straggler task.
    most = target_bytes + target_bytes // 8
    if rows.total_bytes <= most:
        return [rows] if len(rows) else []
    pieces = rows.divided(target_bytes)
    ends = np.cumsum(pieces.size_bytes)
    parts, first, done = [], 0, 0.0
    while first < len(pieces):
        stop = max(first + 1, int(np.searchsorted(ends, done + most, side="right")))
        parts.append(pieces.part(first, stop))
        first, done = stop, float(ends[stop - 1])
    return parts


def packed_neighbours(sizes: Sequence[float], target: int) -> tuple[tuple[int, ...], ...]:
    """Groups of the indexes of adjacent items, each of a total size of about `target`."""
    coalesced_tasks: list[list[int]] = []
    room = 0.0
    for number, size in enumerate(sizes):
        if not coalesced_tasks or size > room:
            coalesced_tasks.append([])
            room = float(target)
        coalesced_tasks[-1].append(number)
        room -= size
    return tuple(map(tuple, coalesced_tasks))
