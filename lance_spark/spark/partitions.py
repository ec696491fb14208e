"""Packs fragments into Spark's input partitions: small ones share a partition, large ones are split by rows.

A partition contains only its fragments, as `lance.table.DataFragment` bytes; the common part (schema, base paths,
credentials) is sent once, with the reader.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyroaring
from pyspark.sql.datasource import InputPartition

from lance_spark.file_version import FileVersion
from lance_spark.schema.arrow import to_arrow_type
from lance_spark.schema.columns import column_fields, is_blob, is_leaf
from lance_spark.schema.field import Field, FieldId, LanceSchema
from lance_spark.spark.options.options import DEFAULT_PARTITION_BYTES
from lance_spark.table.bases import Bases
from lance_spark.table.reading.fragment_reader import FragmentReader
from lance_spark.table.reading.index_candidates import live_rows
from lance_spark.table.reading.scan import FragmentRows
from lance_spark.table.reading.selectivity import BlobBytes
from lance_spark.table.rows.fragment import DataFile, DataFragment, FragmentList

BYTES_PER_ROW = 4
"""The smallest row size reported to Spark, however well columns are packed: Spark decides by it what to broadcast."""

_OTHER_WIDTH = 20.0
"""Assumed for a value of variable width."""

_STRUCTURE_WIDTH = 1.0
"""The assumed width of the columns of structs and lists in 2.0 files."""

_SMALLEST_TASK_BYTES = 4 << 20
"""The minimum size of a task that is worth its overhead."""

_BLOCK_ROWS = 1024
"""About this many values of a column are decoded to read one of them."""

MAX_CANDIDATE_BYTES = 1 << 18
"""A fragment with a larger bitmap of candidates is read completely."""

UNKNOWN_BYTES_PER_ROW = 64
"""Assumed for files of unknown size (those of old writers)."""


class SizedFragment(NamedTuple):
    """A fragment, or a range of its rows, in the planner.

    Attributes:
        physical_rows: number of rows, including deleted ones.
        size_bytes: what the read accesses: its share of the files, and values of blobs. None if unknown.
        blob_bytes: of these, values of blobs.
        start: the offset of the first row.
        candidates: the rows to read, as a serialized bitmap of offsets; None for all. Deleted ones can be among them.
        num_candidates: how many they are.
    """

    fragment: bytes
    physical_rows: int
    size_bytes: int | None
    start: int = 0
    candidates: bytes | None = None
    num_candidates: int | None = None
    blob_bytes: int = 0

    @property
    def rows_to_read(self) -> int:
        """How many rows are read, deleted ones included."""
        return self.physical_rows if self.num_candidates is None else self.num_candidates

    def only(self, offsets: pyroaring.BitMap) -> SizedFragment:
        """Its rows with these offsets, one or more."""
        blocks = len(np.unique(np.array(offsets.to_array(), np.int64) // _BLOCK_ROWS))
        share = min(1.0, blocks * _BLOCK_ROWS / max(1, self.physical_rows))
        # Blobs are read value by value, other columns block by block.
        blobs = self.blob_bytes * len(offsets) // max(1, self.physical_rows)
        size = None if self.size_bytes is None else int((self.size_bytes - self.blob_bytes) * share) + 1 + blobs
        start = offsets.min()
        rows = offsets.max() + 1 - start
        return SizedFragment(self.fragment, rows, size, start, offsets.serialize(), len(offsets), blobs)

    def part(self, start: int, stop: int) -> SizedFragment:
        """Its physical rows [start, stop), limited to the existing ones."""
        start, stop = max(start, self.start), min(stop, self.start + self.physical_rows)
        rows = max(0, stop - start)
        size, blobs = self.size_bytes, self.blob_bytes
        if rows < self.physical_rows:
            size = None if size is None else -(-size * rows // self.physical_rows)
            blobs = blobs * rows // self.physical_rows
        return SizedFragment(self.fragment, rows, size, start, blob_bytes=blobs)


def sized(fragments: FragmentList, fragment: DataFragment, bases: Bases, sizes: ProjectedSizes) -> SizedFragment:
    """`fragment`, mostly one of `fragments`, for the planner of a scan."""
    rows = fragment.physical_rows
    if rows is None:
        rows = FragmentReader(fragment, bases).num_rows
    blob_bytes = int(rows * sizes.blobs.total)
    return SizedFragment(fragments.to_bytes(fragment), rows, sizes.of(fragment), blob_bytes=blob_bytes)


class ProjectedSizes:
    """Estimates the size of a projected read from the manifest: the size of each file and its columns.

    A column's share of a file is proportional to the width of its values: a text is more than 10 % of a file of ten
    columns.

    Args:
        schema: the table's schema.
        projection: the columns to read.
        blobs: the average size of the blobs of a row, where their bytes are read.

    Attributes:
        blobs: as given.
    """

    def __init__(self, schema: LanceSchema, projection: LanceSchema, blobs: BlobBytes | None = None) -> None:
        self._schema = schema
        self._projection = projection
        self.blobs = blobs or BlobBytes()
        self._blob_ids = {node.id for node in schema.walk() if is_blob(node)}
        self._widths: dict[tuple[tuple[FieldId, ...], FileVersion], tuple[float, float]] = {}

    def of(self, fragment: DataFragment) -> int | None:
        """Bytes of the fragment; None if the size of a file is not in the manifest."""
        total = (fragment.physical_rows or 0) * self.blobs.total
        for file in fragment.files:
            if file.size_bytes is None:
                return None
            inline = self._inline_bytes(fragment, file)
            read, whole = self._widths_of(file)
            others = max(0.0, file.size_bytes - inline) * (read / whole if whole else 0.0)
            # Blobs are estimated: an excess must not make other columns vanish.
            total += max(others, (fragment.physical_rows or 0) * read) if inline else others
        return int(total)

    def _inline_bytes(self, fragment: DataFragment, file: DataFile) -> float:
        """About how much of `file` is values of blobs, which are counted by themselves where they are read."""
        if not self.blobs.inline or self._blob_ids.isdisjoint(file.fields):
            return 0.0
        return (fragment.physical_rows or 0) * self.blobs.inline

    def _widths_of(self, file: DataFile) -> tuple[float, float]:
        """The widths of the values of a row that are read of `file`, and of all in it."""
        key = (file.fields, file.version)
        if key not in self._widths:
            widths = {field.id: _width(field) for field in column_fields(self._schema.fields, file.version)}
            owners = {field.id for field in column_fields(self._projection.fields, file.version)}
            whole = sum(widths.get(field_id, _OTHER_WIDTH) for field_id in file.fields)
            read = sum(widths.get(field_id, _OTHER_WIDTH) for field_id in owners.intersection(file.fields))
            self._widths[key] = (read, whole)
        return self._widths[key]


def _width(field: Field) -> float:
    if field.children and not is_leaf(field):
        return _STRUCTURE_WIDTH
    dtype, count = to_arrow_type(field), 1
    while pa.types.is_fixed_size_list(dtype):
        dtype, count = dtype.value_type, count * dtype.list_size
    try:
        return count * float(dtype.bit_width) / 8
    except ValueError:  # Variable width.
        return _OTHER_WIDTH


class FragmentSlice(NamedTuple):
    """Physical rows [start, stop) of a fragment, counting deleted ones. Tuples, for there can be 100,000 in a plan.

    Attributes:
        candidates: which of them to read, as a serialized bitmap of offsets; None for all.
    """

    fragment: bytes
    start: int
    stop: int
    candidates: bytes | None = None

    def rows(self, bases: Bases) -> FragmentRows:
        """The rows to read: if they are not all, without deleted ones."""
        fragment = DataFragment.from_bytes(self.fragment)
        if self.candidates is None:
            return fragment, self.start, self.stop, None
        rows = live_rows(fragment, bases, pyroaring.BitMap.deserialize(self.candidates))
        return fragment, self.start, self.stop, np.array(rows.to_array(), np.int64)


class LanceInputPartition(InputPartition):
    """The work of one task.

    Attributes:
        size_bytes: about how much it reads.
    """

    def __init__(self, slices: tuple[FragmentSlice, ...], size_bytes: int = 0) -> None:
        super().__init__(None)
        self.slices = slices
        self.size_bytes = size_bytes


def estimated_bytes(fragment: SizedFragment) -> int:
    """The approximate size of a read of the fragment."""
    known = fragment.size_bytes
    return known if known is not None else fragment.rows_to_read * UNKNOWN_BYTES_PER_ROW


def task_bytes(asked: int, total: int, parallelism: int) -> int:
    """The target bytes per task for `total` bytes: the user's value, or else at most what gives every core a task."""
    if asked != DEFAULT_PARTITION_BYTES:
        return asked
    return min(asked, max(_SMALLEST_TASK_BYTES, -(-total // max(1, parallelism))))


def plan_partitions(fragments: Iterable[SizedFragment], target_bytes: int) -> list[LanceInputPartition]:
    """Partitions of about `target_bytes` that contain every physical row of `fragments` once, in order."""
    partitions: list[LanceInputPartition] = []
    pending: list[FragmentSlice] = []
    pending_bytes = 0
    for piece, size in _pieces(fragments, target_bytes):
        # Allow 12.5 % overshoot rather than a tiny straggler task.
        if pending and pending_bytes + size > target_bytes + target_bytes // 8:
            partitions.append(LanceInputPartition(tuple(pending), pending_bytes))
            pending, pending_bytes = [], 0
        pending.append(piece)
        pending_bytes += size
    if pending:
        partitions.append(LanceInputPartition(tuple(pending), pending_bytes))
    return partitions


def _pieces(fragments: Iterable[SizedFragment], target_bytes: int) -> Iterator[tuple[FragmentSlice, int]]:
    for fragment in fragments:
        rows, start = fragment.physical_rows, fragment.start
        size = estimated_bytes(fragment)
        count = max(1, min(rows, round(size / target_bytes)))
        if count == 1:
            yield FragmentSlice(fragment.fragment, start, start + rows, fragment.candidates), size
            continue
        bounds = [start + rows * index // count for index in range(count + 1)]
        for start, stop in pairwise(bounds):
            yield FragmentSlice(fragment.fragment, start, stop, fragment.candidates), size // count


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
