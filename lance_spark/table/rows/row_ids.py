"""Stable row ids of a fragment (`lance.table.RowIdSequence`, `U64Segment`).

A sequence lists the ids of the rows of a fragment in row order, including deleted rows, as segments: ranges, ranges
with holes, ranges with a bitmap of the values present, and arrays, sorted or not.

The bits of the bitmap start at the least significant bit of each byte. Range 3..14 with the bytes ``01 04`` holds
bit 0 of byte 0 and bit 2 of byte 1, that is 3 + 0 and 3 + 10:

>>> RangeWithBitmap(3, 14, bytes([0b00000001, 0b00000100])).at(np.array([0, 1])).tolist()
[3, 13]
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pyroaring
from google.protobuf.message import DecodeError

from lance_spark._proto import rowids_pb2
from lance_spark.encodings.blocks import Int64Array
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.index.row_set import RowSet
from lance_spark.table.rows.row_address import MAX_ROWS_PER_FRAGMENT, UInt64Array

_MAX_U64 = (1 << 64) - 1
_ListedT = TypeVar("_ListedT", bound="_Listed")


class U64Segment(ABC):
    """One segment. Its length is known without expanding the values, so that it can be checked first."""

    __slots__ = ()

    @property
    @abstractmethod
    def num_values(self) -> int: ...

    @abstractmethod
    def at(self, ranks: Int64Array) -> UInt64Array:
        """uint64[n]: the values with the ordinals `ranks` (int64[n], each below `num_values`)."""

    @property
    @abstractmethod
    def bounds(self) -> tuple[int, int]:
        """No value is less than the first, or greater than the second, if there are any."""

    @abstractmethod
    def ranks_of(self, values: UInt64Array) -> Int64Array:
        """int64[m]: the ordinals of those of `values` (uint64[n], ascending, inside of the bounds) that are there."""

    @abstractmethod
    def to_proto(self) -> rowids_pb2.U64Segment: ...


@dataclass(frozen=True, slots=True)
class _Spanned(U64Segment):
    """Values of [start, end), ascending."""

    start: int
    end: int

    @property
    def bounds(self) -> tuple[int, int]:
        return self.start, self.end - 1

    def _places(self, values: UInt64Array) -> Int64Array:
        places: Int64Array = (values - np.uint64(self.start)).astype(np.int64)
        return places


@dataclass(frozen=True, slots=True)
class Range(_Spanned):
    """The values of [start, end)."""

    @property
    def num_values(self) -> int:
        return self.end - self.start

    def ranks_of(self, values: UInt64Array) -> Int64Array:
        return self._places(values)

    def at(self, ranks: Int64Array) -> UInt64Array:
        return _plus(ranks.astype(np.uint64), self.start)

    def to_proto(self) -> rowids_pb2.U64Segment:
        return rowids_pb2.U64Segment(range=rowids_pb2.U64Segment.Range(start=self.start, end=self.end))

    @classmethod
    def from_proto(cls, message: rowids_pb2.U64Segment.Range) -> Range:
        return cls(*_checked_range(message.start, message.end))


@dataclass(frozen=True, slots=True)
class RangeWithHoles(_Spanned):
    """The values of [start, end) except `holes` (uint64[k], ascending, distinct, inside the range)."""

    holes: UInt64Array

    @property
    def num_values(self) -> int:
        return self.end - self.start - len(self.holes)

    def ranks_of(self, values: UInt64Array) -> Int64Array:
        holes_before = np.searchsorted(self.holes, values, "left")
        is_there = holes_before == np.searchsorted(self.holes, values, "right")
        ranks: Int64Array = self._places(values)[is_there] - holes_before[is_there]
        return ranks

    def at(self, ranks: Int64Array) -> UInt64Array:
        present_before = (self.holes - np.uint64(self.start)).astype(np.int64) - np.arange(len(self.holes))
        places = ranks + np.searchsorted(present_before, ranks, side="right")
        return _plus(places.astype(np.uint64), self.start)

    def to_proto(self) -> rowids_pb2.U64Segment:
        return rowids_pb2.U64Segment(
            range_with_holes=rowids_pb2.U64Segment.RangeWithHoles(
                start=self.start, end=self.end, holes=encode_array(self.holes)
            )
        )

    @classmethod
    def from_proto(cls, message: rowids_pb2.U64Segment.RangeWithHoles) -> RangeWithHoles:
        start, end = _checked_range(message.start, message.end)
        holes = np.sort(decode_array(message.holes))
        outside = len(holes) > 0 and (int(holes[0]) < start or int(holes[-1]) >= end)
        if outside or not bool((holes[1:] > holes[:-1]).all()):
            raise CorruptFileError(f"holes of the row ids {start}..{end} lie outside of them or twice")
        return cls(start, end, holes)


@dataclass(frozen=True, slots=True)
class RangeWithBitmap(_Spanned):
    """The values of [start, end) whose bit is set, least significant bit first."""

    bitmap: bytes

    @property
    def num_values(self) -> int:
        return int(np.count_nonzero(self._present()))

    def ranks_of(self, values: UInt64Array) -> Int64Array:
        places, present = self._places(values), self._present()
        inside = places[present[places] != 0]
        ranks: Int64Array = np.searchsorted(np.flatnonzero(present), inside)
        return ranks

    def at(self, ranks: Int64Array) -> UInt64Array:
        return _plus(np.flatnonzero(self._present())[ranks].astype(np.uint64), self.start)

    def _present(self) -> np.typing.NDArray[np.uint8]:
        slots = self.end - self.start
        return np.unpackbits(np.frombuffer(self.bitmap, np.uint8), bitorder="little", count=slots)

    def to_proto(self) -> rowids_pb2.U64Segment:
        return rowids_pb2.U64Segment(
            range_with_bitmap=rowids_pb2.U64Segment.RangeWithBitmap(start=self.start, end=self.end, bitmap=self.bitmap)
        )

    @classmethod
    def from_proto(cls, message: rowids_pb2.U64Segment.RangeWithBitmap) -> RangeWithBitmap:
        start, end = _checked_range(message.start, message.end)
        if (end - start + 7) // 8 > len(message.bitmap):
            raise CorruptFileError(f"the bitmap of the row ids {start}..{end} has only {len(message.bitmap)} bytes")
        return cls(start, end, message.bitmap)


@dataclass(frozen=True, slots=True)
class _Listed(U64Segment):
    """An explicit list of values."""

    array: UInt64Array

    @property
    def num_values(self) -> int:
        return len(self.array)

    @property
    def bounds(self) -> tuple[int, int]:
        return int(self.array.min()), int(self.array.max())

    def ranks_of(self, values: UInt64Array) -> Int64Array:
        own = self.array
        if bool((own[1:] > own[:-1]).all()):
            places = np.searchsorted(own, values)
            ranks: Int64Array = places[own[places] == values]
            return ranks
        # Of few values their places are found faster than an order of all of the own ones.
        places = np.minimum(np.searchsorted(values, own), len(values) - 1)
        return np.flatnonzero(values[places] == own)

    def at(self, ranks: Int64Array) -> UInt64Array:
        return self.array[ranks]

    @classmethod
    def from_proto(cls: type[_ListedT], message: rowids_pb2.EncodedU64Array) -> _ListedT:
        return cls(decode_array(message))


@dataclass(frozen=True, slots=True)
class SortedArray(_Listed):
    """Ascending values for which no other form is smaller."""

    def to_proto(self) -> rowids_pb2.U64Segment:
        return rowids_pb2.U64Segment(sorted_array=encode_array(self.array))


@dataclass(frozen=True, slots=True)
class Array(_Listed):
    """Values in any order."""

    def to_proto(self) -> rowids_pb2.U64Segment:
        return rowids_pb2.U64Segment(array=encode_array(self.array))


_SEGMENTS = {
    "range": Range,
    "range_with_holes": RangeWithHoles,
    "range_with_bitmap": RangeWithBitmap,
    "sorted_array": SortedArray,
    "array": Array,
}


def parse_segment(message: rowids_pb2.U64Segment) -> U64Segment:
    """The segment of a `U64Segment` message.

    Raises:
        CorruptFileError: the message is empty or inconsistent.
    """
    member = message.WhichOneof("segment")
    if member is None:
        raise CorruptFileError("a segment of row ids is of no known form")
    segment: U64Segment = _SEGMENTS[member].from_proto(getattr(message, member))  # type: ignore[attr-defined]
    return segment


@dataclass(frozen=True, slots=True)
class RowIdSequence:
    """The row ids of a fragment."""

    segments: tuple[U64Segment, ...]

    @classmethod
    def of_range(cls, start: int, count: int) -> RowIdSequence:
        """`count` consecutive ids from `start`, for new rows. Raises as `check_ids_left`."""
        check_ids_left(start, count)
        return cls((Range(start, start + count),))

    @classmethod
    def of_ids(cls, ids: UInt64Array) -> RowIdSequence:
        """The sequence of the existing `ids` (uint64[n]) of rewritten rows."""
        return cls(segments_of(ids))

    @classmethod
    def from_bytes(cls, data: bytes, num_rows: int | None = None) -> RowIdSequence:
        """The sequence of a fragment of `num_rows` rows (None: unknown).

        Raises:
            CorruptFileError: not a sequence, or its length does not match.
        """
        try:
            message = rowids_pb2.RowIdSequence.FromString(data)
        except DecodeError as error:
            raise CorruptFileError(f"not a sequence of row ids: {error}") from error
        sequence = cls(tuple(parse_segment(segment) for segment in message.segments))
        check_num_rows(sequence.num_rows, num_rows, "row ids")
        return sequence

    def to_bytes(self) -> bytes:
        message = rowids_pb2.RowIdSequence(segments=[segment.to_proto() for segment in self.segments])
        return message.SerializeToString(deterministic=True)

    @property
    def num_rows(self) -> int:
        return sum(segment.num_values for segment in self.segments)

    @property
    def largest(self) -> int:
        """The largest id, -1 if empty."""
        return max((_largest(segment) for segment in self.segments if segment.num_values), default=-1)

    def followed_by(self, start: int, count: int) -> RowIdSequence:
        """These rows followed by `count` rows with consecutive ids from `start`. Raises as `check_ids_left`."""
        check_ids_left(start, count)
        return RowIdSequence((*self.segments, Range(start, start + count))) if count else self

    def at(self, rows: Int64Array) -> UInt64Array:
        """uint64[n]: the ids of `rows` (int64[n], ascending, each below `num_rows`)."""
        ends = np.cumsum(np.array([segment.num_values for segment in self.segments], np.int64))
        cuts = [0, *np.searchsorted(rows, ends).tolist()]
        starts = [0, *ends.tolist()]
        parts = [
            segment.at(rows[cuts[number] : cuts[number + 1]] - starts[number])
            for number, segment in enumerate(self.segments)
            if cuts[number] < cuts[number + 1]
        ]
        return np.concatenate(parts) if parts else np.empty(0, np.uint64)

    def offsets_of(self, ids: RowSet) -> pyroaring.BitMap:
        """The rows of the fragment whose ids are in a set."""
        parts = [np.empty(0, np.int64)]
        first = 0
        for segment in self.segments:
            if segment.num_values:
                lowest, highest = segment.bounds
                candidates = _numbers_between(ids, lowest, highest + 1)
                parts.append(segment.ranks_of(candidates) + first if len(candidates) else candidates.astype(np.int64))
            first += segment.num_values
        return pyroaring.BitMap(np.concatenate(parts).astype(np.uint32))


def _numbers_between(ids: RowSet, start: int, end: int) -> UInt64Array:
    """uint64[n]: the members of a set in [start, end)."""
    parts = [np.empty(0, np.uint64)]
    for high in ids.highs:
        base = high << 32
        low, above = max(start - base, 0), min(end - base, 1 << 32)
        if low < above:
            inside = ids.part(high) & pyroaring.BitMap(range(low, above))
            parts.append(_plus(np.array(inside.to_array(), np.uint64), base))
    return np.concatenate(parts)


def check_ids_left(start: int, count: int) -> None:
    """Checks that `count` ids from `start` are available.

    Raises:
        UnsupportedFeatureError: they need more than 64 bits.
    """
    if start + count > _MAX_U64:
        raise UnsupportedFeatureError(
            f"the table has no stable row ids left: the next is {start}, and {count} rows need one; "
            "write its rows to a new table",
            feature="row ids beyond 64 bits",
        )


def _largest(segment: U64Segment) -> int:
    if isinstance(segment, _Listed):
        return int(segment.array.max())
    return int(segment.at(np.array([segment.num_values - 1], np.int64))[0])


def segments_of(values: UInt64Array) -> tuple[U64Segment, ...]:
    """The cheapest segments for `values` (uint64[n]) in their order.

    Rows rewritten from several fragments form ascending runs; each becomes its own segment unless it is short.

    >>> segments_of(np.concatenate([np.arange(40, 60), np.arange(20)]).astype(np.uint64))
    (Range(start=40, end=60), Range(start=0, end=20))
    """
    if len(values) == 0:
        return ()
    turns = np.flatnonzero(values[1:] <= values[:-1]) + 1
    if (len(turns) + 1) * _MIN_STRETCH > max(len(values), _MIN_STRETCH):
        return (_ascending(values) if len(turns) == 0 else Array(values),)
    return tuple(_ascending(stretch) for stretch in np.split(values, turns))


# The approximate overhead of a segment, in values of two bytes.
_MIN_STRETCH = 12


def _ascending(values: UInt64Array) -> U64Segment:
    """The cheapest segment of ascending, distinct `values`, at least one.

    The costs in bytes are those of the reference library's choice.
    """
    start, end = int(values[0]), int(values[-1]) + 1
    slots, count = end - start, len(values)
    if slots == count:
        return Range(start, end)
    with_holes, with_bitmap, sorted_array = 24 + 4 * (slots - count), 24 + (slots + 7) // 8, 24 + 2 * count
    cheapest = min(with_holes, with_bitmap, sorted_array)
    if cheapest == sorted_array:
        return SortedArray(values)
    present = np.zeros(slots, np.bool_)
    present[(values - np.uint64(start)).astype(np.int64)] = True
    if cheapest == with_bitmap:
        return RangeWithBitmap(start, end, np.packbits(present, bitorder="little").tobytes())
    return RangeWithHoles(start, end, _plus(np.flatnonzero(~present).astype(np.uint64), start))


def check_num_rows(found: int, expected: int | None, what: str) -> None:
    """Checks that a sequence has one entry per row.

    Raises:
        CorruptFileError: it does not, or it exceeds the maximum rows of a fragment.
    """
    if found > MAX_ROWS_PER_FRAGMENT or (expected is not None and found != expected):
        raise CorruptFileError(f"{found} {what} for a fragment of {expected} rows")


def decode_array(message: rowids_pb2.EncodedU64Array) -> UInt64Array:
    """uint64[n] from an `EncodedU64Array`.

    Raises:
        CorruptFileError: the length is not a multiple of the width, or a value needs more than 64 bits.
    """
    member = message.WhichOneof("array")
    if member is None:
        return np.empty(0, np.uint64)
    if member == "u64_array":
        return _little_endian(message.u64_array.values, 8)
    narrow = message.u16_array if member == "u16_array" else message.u32_array
    offsets = _little_endian(narrow.offsets, 2 if member == "u16_array" else 4)
    if len(offsets) and narrow.base + int(offsets.max()) > _MAX_U64:
        raise CorruptFileError(f"row ids from base {narrow.base} need more than 64 bits")
    return _plus(offsets, narrow.base)


def encode_array(values: UInt64Array) -> rowids_pb2.EncodedU64Array:
    """The narrowest `EncodedU64Array` for `values`."""
    base = int(values.min()) if len(values) else 0
    span = int(values.max()) - base if len(values) else 0
    offsets = values - np.uint64(base)
    if span < 1 << 16:
        narrow = rowids_pb2.EncodedU64Array.U16Array(base=base, offsets=offsets.astype("<u2").tobytes())
        return rowids_pb2.EncodedU64Array(u16_array=narrow)
    if span < 1 << 32:
        middle = rowids_pb2.EncodedU64Array.U32Array(base=base, offsets=offsets.astype("<u4").tobytes())
        return rowids_pb2.EncodedU64Array(u32_array=middle)
    wide = rowids_pb2.EncodedU64Array.U64Array(values=values.astype("<u8").tobytes())
    return rowids_pb2.EncodedU64Array(u64_array=wide)


def _plus(values: UInt64Array, base: int) -> UInt64Array:
    total: UInt64Array = values + np.uint64(base)
    return total


def _little_endian(data: bytes, width: int) -> UInt64Array:
    if len(data) % width:
        raise CorruptFileError(f"{len(data)} bytes are no array of {width}-byte row ids")
    return np.frombuffer(data, f"<u{width}").astype(np.uint64)


def _checked_range(start: int, end: int) -> tuple[int, int]:
    if start > end:
        raise CorruptFileError(f"{start}..{end} is no range of row ids")
    return start, end
