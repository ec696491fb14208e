"""The keys of a type: its values as Python values, in the sort order of filters.

| type | key |
|---|---|
| integers, decimals, dates, times, timestamps, durations | whole ticks (`expr.grid`) |
| booleans | 0 and 1 |
| floats | the rank of the double: -0.0 and 0.0 have the same, NaN the highest |
| strings, binaries | `str` (by code points, which is the order of UTF-8), `bytes` |

>>> space_of(pa.decimal128(5, 2)).cuts(pa.scalar(1.505))    # x < 1.505 is x <= 1.50, and no value equals it
(151, 151)
>>> space_of(pa.string()).cuts(pa.scalar("ab"))             # 'ab\\0' is the first text after 'ab'
('ab', 'ab\\x00')
"""

from __future__ import annotations

import math
import struct
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from lance_spark.expr.comparison import scalar_as_double
from lance_spark.expr.grid import EXACT_FAMILIES, grid_of, threshold
from lance_spark.expr.values import NUMBERS, Family, family_of, plain
from lance_spark.partitioned.values.value_set import Interval, Key, ValueSet, of_intervals


class KeySpace(ABC):
    """The keys of one plain type.

    Args:
        type: the plain type (`expr.values.plain`).
        lowest: the first key.
        highest: the last key; None if every key has a successor.
    """

    def __init__(self, type_: pa.DataType, lowest: Key, highest: int | None) -> None:
        self.type = type_
        self.lowest: Any = lowest
        self.highest = highest

    def accepts(self, family: Family | None) -> bool:
        """Whether values compare with constants of that family without conversion."""
        return family is family_of(self.type)

    @abstractmethod
    def cuts(self, constant: pa.Scalar) -> tuple[Any, Any]:
        """Keys (a, b): `x < constant` is [.., a), `x <= constant` [.., b) and `x = constant` [a, b)."""

    @abstractmethod
    def successor(self, key: Any) -> Any:
        """The next key."""

    @abstractmethod
    def value(self, key: Any) -> object:
        """The value of a key, in the form that Arrow accepts for the type."""

    def scalar(self, key: Key) -> pa.Scalar:
        """The value of a key."""
        return pa.scalar(self.value(key), self.type)

    def array(self, keys: Sequence[Key | None]) -> pa.Array:
        """The values of keys, null for None."""
        return pa.array([None if key is None else self.value(key) for key in keys], self.type)

    def normalized(self, values: ValueSet) -> ValueSet:
        """The same set, without bounds at the limits of the type's range."""
        return of_intervals(map(self._normalized, values.intervals), has_null=values.has_null)

    def _normalized(self, interval: Interval) -> Interval:
        low, high = interval
        if high is not None and high <= self.lowest:
            return self.lowest, self.lowest
        if low is not None and self.highest is not None and low > self.highest:
            return self.highest, self.highest
        at_end = high is None or (self.highest is not None and high > self.highest)
        return None if low is None or low <= self.lowest else low, None if at_end else high

    def points(self, values: ValueSet, limit: int) -> list[Key | None] | None:
        """The keys of the set, None for NULL; None if there are more than `limit`."""
        keys: list[Key | None] = [None] if values.has_null else []
        for low, high in values.intervals:
            points = self._interval_points(low, high, limit - len(keys))
            if points is None:
                return None
            keys += points
        return keys

    def _interval_points(self, low: Any, high: Any, limit: int) -> list[Any] | None:
        if high is None and self.highest is None:
            return None
        key = self.lowest if low is None else low
        keys: list[Any] = []
        while key < high if high is not None else key <= self.highest:
            if len(keys) >= limit:
                return None
            keys.append(key)
            key = self.successor(key)
        return keys


class _TickSpace(KeySpace):
    def __init__(self, type_: pa.DataType) -> None:
        self._grid = grid_of(type_)
        super().__init__(type_, self._grid.lowest, self._grid.highest)

    def accepts(self, family: Family | None) -> bool:
        own = family_of(self.type)
        return family is own or (own in NUMBERS and family in NUMBERS)

    def cuts(self, constant: pa.Scalar) -> tuple[Any, Any]:
        if family_of(constant.type) is Family.FLOAT and math.isnan(constant.as_py()):
            # Every number is less than NaN.
            return self._grid.highest + 1, self._grid.highest + 1
        limits = threshold(self.type, constant)
        return limits.below + 1, limits.upto + 1

    def successor(self, key: Any) -> Any:
        return key + 1

    def value(self, key: Any) -> object:
        return self._grid.value(key)


class _BooleanSpace(KeySpace):
    def __init__(self, type_: pa.DataType) -> None:
        super().__init__(type_, 0, 1)

    def cuts(self, constant: pa.Scalar) -> tuple[Any, Any]:
        key = int(constant.as_py())
        return key, key + 1

    def successor(self, key: Any) -> Any:
        return key + 1

    def value(self, key: Any) -> object:
        return bool(key)


INFINITY_RANK = 0x7FF0000000000000
"""The rank of infinity; the next one is the rank of NaN."""


def rank_of(value: float) -> int:
    """The position of a double in the order of filters, 0 for 0.0.

    >>> rank_of(-0.0), rank_of(5e-324), rank_of(-5e-324), rank_of(math.nan) - rank_of(math.inf)
    (0, 1, -1, 1)
    """
    if math.isnan(value):
        return INFINITY_RANK + 1
    (bits,) = struct.unpack("<q", struct.pack("<d", value))
    return int(bits) if bits >= 0 else -(bits + (1 << 63))


class _FloatSpace(KeySpace):
    def __init__(self, type_: pa.DataType) -> None:
        super().__init__(type_, -INFINITY_RANK, INFINITY_RANK + 1)

    def accepts(self, family: Family | None) -> bool:
        return family in NUMBERS

    def cuts(self, constant: pa.Scalar) -> tuple[Any, Any]:
        value = scalar_as_double(constant)
        assert value is not None  # only constants that are not null come here
        rank = rank_of(value)
        return rank, rank + 1

    def successor(self, key: Any) -> Any:
        return key + 1

    def value(self, key: Any) -> object:
        if key > INFINITY_RANK:
            return math.nan
        (value,) = struct.unpack("<d", struct.pack("<q", abs(key)))
        return math.copysign(value, key)

    def scalar(self, key: Key) -> pa.Scalar:
        # A double between two floats is not a value of a narrower column, but can be one of its bounds.
        return pa.scalar(self.value(key), pa.float64())


class _TextSpace(KeySpace):
    def __init__(self, type_: pa.DataType) -> None:
        is_text = family_of(type_) is Family.STRING
        self._after: Any = "\0" if is_text else b"\0"
        super().__init__(type_, "" if is_text else b"", None)

    def cuts(self, constant: pa.Scalar) -> tuple[Any, Any]:
        key = constant.as_py()
        return key, key + self._after

    def successor(self, key: Any) -> Any:
        return key + self._after

    def value(self, key: Any) -> object:
        return key

    def _interval_points(self, low: Any, high: Any, limit: int) -> list[Any] | None:
        # There are infinitely many texts between two texts, except between a text and its successor.
        key = self.lowest if low is None else low
        is_run = high is not None and high.startswith(key) and not high[len(key) :].strip(self._after)
        return super()._interval_points(low, high, limit) if is_run else None


_SPACES: dict[Family, type[_BooleanSpace | _FloatSpace | _TextSpace]] = {
    Family.BOOLEAN: _BooleanSpace,
    Family.FLOAT: _FloatSpace,
    Family.STRING: _TextSpace,
    Family.BINARY: _TextSpace,
}


def space_of(type_: pa.DataType) -> KeySpace | None:
    """The keys of a type of any layout; None for nested types, calendar intervals and the null type."""
    plain_type = plain_type_of(type_)
    family = family_of(plain_type)
    if family in EXACT_FAMILIES:
        return _TickSpace(plain_type)
    return _SPACES[family](plain_type) if family in _SPACES else None


def plain_type_of(type_: pa.DataType) -> pa.DataType:
    """The type that values of `type_` have under evaluation."""
    return plain(pa.nulls(0, type_)).type


def prefix_interval(prefix: str) -> Interval:
    """The texts that start with `prefix`.

    >>> prefix_interval("ab"), prefix_interval("a\\U0010ffff"), prefix_interval("\\ud7ff")
    (('ab', 'ac'), ('a\\U0010ffff', 'b'), ('\\ud7ff', '\\ue000'))
    """
    stem = prefix.rstrip("\U0010ffff")
    if not stem:
        return prefix or None, None
    following = ord(stem[-1]) + 1
    # Surrogates are not characters of UTF-8.
    last = "\ue000" if 0xD800 <= following < 0xE000 else chr(following)
    return prefix, stem[:-1] + last
