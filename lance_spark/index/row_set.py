"""Sets of rows as index files store them: 64-bit numbers, grouped by their high 32 bits into Roaring bitmaps.

The numbers are row addresses (high bits: fragment id, low bits: offset in the fragment) or stable row ids.

Two serialized forms exist. An *address map* is ``u32 count`` and then, for each entry, ``u32 high, u32 size`` and a
portable 32-bit Roaring bitmap of `size` bytes; size 0 stands for every row of the fragment. A *treemap* is the portable
64-bit Roaring form: ``u64 count`` and then ``u32 high`` and a bitmap for each entry.

>>> one = RowSet.of_numbers(np.array([1, (7 << 32) + 2], np.uint64))
>>> two = RowSet.of_numbers(np.array([(7 << 32) + 3], np.uint64))
>>> sorted(one.union(two).part(7)), len(one.union(two)), sorted(one.part(9))
([2, 3], 3, [])
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyroaring

from lance_spark.errors import CorruptFileError

_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")
_ENTRY = struct.Struct("<II")
_HIGH_BITS = 32
_LOW_MASK = np.uint64((1 << _HIGH_BITS) - 1)

_FEW = 16
"""So few numbers are taken one by one."""


class RowSet:
    """An immutable set of 64-bit row numbers."""

    __slots__ = ("_parts",)

    def __init__(self, parts: Mapping[int, pyroaring.BitMap]) -> None:
        self._parts = {high: part for high, part in parts.items() if part}

    @classmethod
    def empty(cls) -> RowSet:
        """No rows."""
        return cls({})

    @classmethod
    def of_numbers(cls, numbers: npt.NDArray[np.uint64]) -> RowSet:
        """The set of `numbers` (uint64[n], any order)."""
        if len(numbers) <= _FEW:
            return cls._of_few(numbers.tolist())
        highs = (numbers >> np.uint64(_HIGH_BITS)).astype(np.int64)
        lows = (numbers & _LOW_MASK).astype(np.uint32)
        if (highs == highs[0]).all():
            return cls({int(highs[0]): _bitmap_of(lows)})
        order = np.argsort(highs, kind="stable")
        highs, lows = highs[order], lows[order]
        cuts = [0, *(np.flatnonzero(np.diff(highs)) + 1).tolist(), len(highs)]
        return cls({int(highs[first]): _bitmap_of(lows[first:last]) for first, last in pairwise(cuts)})

    @classmethod
    def _of_few(cls, numbers: Iterable[int]) -> RowSet:
        parts: dict[int, list[int]] = {}
        for number in numbers:
            parts.setdefault(number >> _HIGH_BITS, []).append(number & int(_LOW_MASK))
        found = cls.__new__(cls)
        found._parts = {high: pyroaring.BitMap(lows) for high, lows in parts.items()}
        return found

    @classmethod
    def of_address_map(cls, data: bytes, fragment_rows: Mapping[int, int]) -> RowSet:
        """The set that an address map holds.

        Args:
            fragment_rows: rows by fragment id, which an entry without a bitmap stands for.

        Raises:
            CorruptFileError: not an address map.
        """
        if len(data) < _U32.size:
            raise CorruptFileError(f"a row set has {len(data)} bytes")
        (count,) = _U32.unpack_from(data)
        position = _U32.size
        parts: dict[int, pyroaring.BitMap] = {}
        for _ in range(count):
            if position + _ENTRY.size > len(data):
                raise CorruptFileError(f"a row set of {len(data)} bytes claims {count} entries")
            high, size = _ENTRY.unpack_from(data, position)
            position += _ENTRY.size
            if position + size > len(data) or high in parts:
                raise CorruptFileError(f"entry {high} of a row set is repeated or has {size} bytes, too many")
            full = pyroaring.BitMap(range(fragment_rows.get(high, 0)))
            parts[high] = _bitmap(data[position : position + size]) if size else full
            position += size
        if position != len(data):
            raise CorruptFileError(f"a row set has {len(data) - position} bytes too many")
        return cls(parts)

    @classmethod
    def of_treemap(cls, data: bytes, max_rows: int) -> RowSet:
        """The set that a treemap holds, which has at most `max_rows` rows.

        Raises:
            CorruptFileError: not a treemap, or it has more rows.
        """
        return cls._of_treemap(read_treemap(data, max_rows))

    @classmethod
    def common_to_treemaps(cls, sets: Sequence[pyroaring.BitMap64], *, enough: int, most: int) -> RowSet | None:
        """A superset of the rows that all of some treemaps have; None if they are more than `most`.

        Args:
            enough: with so few rows left, the other treemaps are not looked at.
        """
        common, *others = sorted(sets, key=len)
        for treemap in others:
            if len(common) <= enough:
                break
            common = common & treemap
        return cls._of_treemap(common) if len(common) <= most else None

    @classmethod
    def _of_treemap(cls, treemap: pyroaring.BitMap64) -> RowSet:
        return cls.of_numbers(np.array(treemap.to_array(), np.uint64))

    def numbers(self) -> npt.NDArray[np.uint64]:
        """uint64[n]: the members, ascending."""
        parts = (
            np.array(self._parts[high].to_array(), np.uint64) | np.uint64(high << _HIGH_BITS)
            for high in sorted(self._parts)
        )
        return np.concatenate([np.empty(0, np.uint64), *parts])

    def part(self, high: int) -> pyroaring.BitMap:
        """The low 32 bits of the numbers with these high bits, as a bitmap that must not be changed."""
        return self._parts.get(high) or pyroaring.BitMap()

    def parts(self, highs: pyroaring.BitMap) -> dict[int, pyroaring.BitMap]:
        """`part` of those of some high bits that occur."""
        return {high: part for high, part in self._parts.items() if high in highs}

    @property
    def highs(self) -> tuple[int, ...]:
        """The high bits that occur."""
        return tuple(self._parts)

    def union(self, other: RowSet) -> RowSet:
        """The rows of either set."""
        return union_all((self, other))

    def intersection(self, other: RowSet) -> RowSet:
        """The rows of both sets."""
        shared = self._parts.keys() & other._parts.keys()
        return RowSet({high: self._parts[high] & other._parts[high] for high in shared})

    def difference(self, other: RowSet) -> RowSet:
        """The rows that `other` does not have."""
        return RowSet({high: part - other.part(high) for high, part in self._parts.items()})

    def __len__(self) -> int:
        return sum(map(len, self._parts.values()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RowSet) and self._parts == other._parts

    def __hash__(self) -> int:
        return hash(frozenset(self._parts))


def address_maps(numbers: npt.NDArray[np.uint64], bounds: Sequence[int]) -> list[bytes]:
    """The serialized address maps of several sets.

    Args:
        numbers: uint64[n]: the members of all sets, set after set, ascending and distinct in each.
        bounds: where in `numbers` each set begins, and where the last one ends.

    >>> found = address_maps(np.array([5, (1 << 32) + 2, 7], np.uint64), [0, 2, 3])
    >>> [RowSet.of_address_map(data, {}).numbers().tolist() for data in found]
    [[5, 4294967298], [7]]
    """
    return [
        b"".join([_U32.pack(len(parts)), *(_ENTRY.pack(high, len(data)) + data for high, data in parts)])
        for parts in _serialized_parts(numbers, bounds)
    ]


def treemap(parts: Mapping[int, pyroaring.BitMap]) -> bytes:
    """The serialized treemap of a set: the low 32 bits of its numbers by the high ones.

    >>> RowSet.of_treemap(treemap({1: pyroaring.BitMap([2]), 0: pyroaring.BitMap([5])}), max_rows=9).numbers().tolist()
    [5, 4294967298]
    """
    entries = (_U32.pack(high) + parts[high].serialize() for high in sorted(parts))
    return b"".join([_U64.pack(len(parts)), *entries])


def _serialized_parts(numbers: npt.NDArray[np.uint64], bounds: Sequence[int]) -> Iterator[list[tuple[int, bytes]]]:
    """(high bits, bitmap of the low ones) of each set."""
    highs = (numbers >> np.uint64(_HIGH_BITS)).astype(np.int64)
    lows = (numbers & _LOW_MASK).astype(np.uint32)
    breaks = np.flatnonzero(highs[1:] != highs[:-1]) + 1
    for start, stop in pairwise(bounds):
        inside = breaks[np.searchsorted(breaks, start, side="right") : np.searchsorted(breaks, stop)].tolist()
        cuts = [start, *inside, stop] if stop > start else []
        yield [(int(highs[first]), _bitmap_bytes(lows[first:last])) for first, last in pairwise(cuts)]


def _bitmap_of(values: npt.NDArray[np.uint32], *, optimize: bool = True) -> pyroaring.BitMap:
    # An array.array is taken over at once, an array of numpy value by value.
    numbers = array("I")
    numbers.frombytes(values.tobytes())
    return pyroaring.BitMap(numbers, optimize=optimize)


def _bitmap_bytes(values: npt.NDArray[np.uint32]) -> bytes:
    # As in the reference library, without run containers.
    data: bytes = _bitmap_of(values, optimize=False).serialize()
    return data


def union_all(sets: Iterable[RowSet]) -> RowSet:
    """The rows of any of `sets`."""
    parts: dict[int, list[pyroaring.BitMap]] = {}
    for rows in sets:
        for high, part in rows._parts.items():
            parts.setdefault(high, []).append(part)
    return RowSet(
        {high: found[0] if len(found) == 1 else pyroaring.BitMap.union(*found) for high, found in parts.items()}
    )


def read_treemap(data: bytes, max_rows: int) -> pyroaring.BitMap64:
    """The numbers of a treemap, which has at most `max_rows`.

    Raises:
        CorruptFileError: not a treemap, or it has more numbers.
    """
    if not data:
        raise CorruptFileError("a row set has no bytes")
    try:
        treemap = pyroaring.BitMap64.deserialize(data)
    except ValueError as error:
        raise CorruptFileError(f"not a 64-bit Roaring bitmap: {error}") from error
    if len(treemap) > max_rows:
        raise CorruptFileError(f"a row set of {len(treemap)} rows in an index of at most {max_rows}")
    return treemap


def _bitmap(data: bytes) -> pyroaring.BitMap:
    try:
        return pyroaring.BitMap.deserialize(data)
    except ValueError as error:
        raise CorruptFileError(f"not a Roaring bitmap: {error}") from error
