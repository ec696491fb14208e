"""Coalesces byte ranges into reads, and slices the ranges out of the replies.

A request to an object store costs a round trip, whatever its size, and one connection is slower than several.
So ranges with small gaps between them are read together, and a long stretch is split into several parallel reads.
Nothing here does I/O.

With a gap limit of 10 bytes, the ranges 0..4 and 8..12 become one read and 100..104 another:

>>> policy = ReadPolicy(max_gap_bytes=10, max_read_bytes=50, num_threads=4)
>>> wanted = [ByteRange(100, 4), ByteRange(0, 4), ByteRange(8, 4)]
>>> stretches = plan_stretches(wanted, policy)
>>> [stretch.byte_range for stretch in stretches]
[ByteRange(start=0, length=12), ByteRange(start=100, length=4)]
>>> replies = [pa.py_buffer(bytes(range(12))), pa.py_buffer(b"last")]
>>> [buffer.to_pybytes() for buffer in slice_ranges(wanted, stretches, replies)]
[b'last', b'\\x00\\x01\\x02\\x03', b'\\x08\\t\\n\\x0b']
>>> cut(ByteRange(0, 120), policy)
[ByteRange(start=0, length=50), ByteRange(start=50, length=50), ByteRange(start=100, length=20)]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from lance_spark.errors import CorruptFileError
from lance_spark.storage.base import ByteRange


@dataclass(frozen=True, slots=True)
class ReadPolicy:
    """Limits for coalescing and splitting reads on a kind of store.

    Args:
        max_gap_bytes: the largest gap that is read and discarded rather than skipped with another request.
        max_read_bytes: a larger request is split.
        num_threads: the number of parallel requests of one call.
    """

    max_gap_bytes: int
    max_read_bytes: int
    num_threads: int


@dataclass(frozen=True, slots=True)
class Stretch:
    """A contiguous part of an object that holds some of the wanted ranges; `members` are their indices."""

    byte_range: ByteRange
    members: tuple[int, ...]


def plan_stretches(wanted: Sequence[ByteRange], policy: ReadPolicy) -> list[Stretch]:
    """The stretches to read, ordered by offset, without overlap; empty ranges are in none.

    A stretch spans gaps of up to `policy.max_gap_bytes` while it stays within `policy.max_read_bytes`, so that a
    slice of it keeps little else in memory. Only overlapping ranges, or a single long one, exceed that.
    """
    order = sorted((index for index in range(len(wanted)) if wanted[index].length), key=lambda i: wanted[i].start)
    stretches: list[Stretch] = []
    members: list[int] = []
    start = stop = 0
    for index in order:
        range_ = wanted[index]
        grown = max(stop, range_.stop)
        near = range_.start - stop <= policy.max_gap_bytes and grown - start <= policy.max_read_bytes
        if members and (near or range_.start < stop):
            stop = grown
            members.append(index)
            continue
        if members:
            stretches.append(Stretch(ByteRange(start, stop - start), tuple(members)))
        start, stop, members = range_.start, range_.stop, [index]
    if members:
        stretches.append(Stretch(ByteRange(start, stop - start), tuple(members)))
    return stretches


def cut(stretch: ByteRange, policy: ReadPolicy) -> list[ByteRange]:
    """`stretch` in pieces of at most `policy.max_read_bytes`."""
    step = policy.max_read_bytes
    return [ByteRange(start, min(step, stretch.stop - start)) for start in range(stretch.start, stretch.stop, step)]


def slice_ranges(
    wanted: Sequence[ByteRange], stretches: Sequence[Stretch], replies: Sequence[pa.Buffer]
) -> list[pa.Buffer]:
    """One buffer per wanted range, in order: views of the replies (one reply per stretch)."""
    empty = pa.py_buffer(b"")
    pieces = [empty] * len(wanted)
    for stretch, reply in zip(stretches, replies, strict=True):
        for index in stretch.members:
            range_ = wanted[index]
            pieces[index] = reply.slice(range_.start - stretch.byte_range.start, range_.length)
    return pieces


def require_inside(path: str, wanted: Sequence[ByteRange], size: int | None) -> None:
    """Checks that the ranges lie in an object of `size` bytes (None: size unknown, only signs are checked).

    Raises:
        CorruptFileError: one of them does not; ranges are read from files, so the file is inconsistent.
    """
    for range_ in wanted:
        if range_.start < 0 or range_.length < 0 or (size is not None and range_.stop > size):
            size_text = "" if size is None else f" of {size} bytes"
            raise CorruptFileError(
                f"bytes {range_.start}..{range_.stop} are wanted of an object{size_text} that does not have them",
                path=path,
                start=range_.start,
                length=range_.length,
            )
