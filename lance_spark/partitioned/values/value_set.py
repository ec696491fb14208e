"""Sets of values of one column: those that match a filter, and those of a partition.

A set is a list of half-open intervals of *keys*, and whether it contains NULL. Keys are plain Python values in the
sort order of filters (see `key_space`): integer ticks for numbers, dates and times; text and bytes unchanged.

>>> small, large = between(None, 5), between(10, None)
>>> union([small, large]).intervals, intersection([small, between(3, 12)]).intervals
(((None, 5), (10, None)), ((3, 5),))
>>> complement(small)
ValueSet(intervals=((5, None),), has_null=True)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

Key: TypeAlias = "int | str | bytes"
Interval: TypeAlias = "tuple[Any, Any]"
"""[low, high); None for no bound on that side. The keys of one column have one type."""


@dataclass(frozen=True, slots=True)
class ValueSet:
    """Values of one column. Create it with the functions of this module, which keep intervals disjoint and sorted."""

    intervals: tuple[Interval, ...]
    has_null: bool

    @property
    def is_empty(self) -> bool:
        """Whether the set has no value, not even NULL."""
        return not self.intervals and not self.has_null

    @property
    def has_all_values(self) -> bool:
        """Whether the set contains all values other than NULL."""
        return self.intervals == ((None, None),)

    @property
    def is_all(self) -> bool:
        """Whether the set contains all values and NULL."""
        return self.has_null and self.has_all_values


NOTHING = ValueSet((), False)
ONLY_NULL = ValueSet((), True)
ALL_VALUES = ValueSet(((None, None),), False)
EVERYTHING = ValueSet(((None, None),), True)


def between(low: Key | None, high: Key | None) -> ValueSet:
    """The values in [low, high), without NULL."""
    return of_intervals([(low, high)])


def of_intervals(intervals: Iterable[Interval], *, has_null: bool = False) -> ValueSet:
    """The union of the intervals, which may be empty, overlapping and in any order."""
    merged: list[Interval] = []
    real = [(low, high) for low, high in intervals if low is None or high is None or low < high]
    # None sorts before all lows; the second part is compared only if both are not None.
    for low, high in sorted(real, key=lambda interval: (interval[0] is not None, interval[0])) if real else []:
        if merged and (merged[-1][1] is None or low is None or low <= merged[-1][1]):
            before = merged[-1]
            merged[-1] = (before[0], None if before[1] is None or high is None else max(before[1], high))
        else:
            merged.append((low, high))
    return ValueSet(tuple(merged), has_null)


def union(sets: Sequence[ValueSet]) -> ValueSet:
    """The values in any of the sets."""
    return of_intervals(
        (interval for values in sets for interval in values.intervals), has_null=any(values.has_null for values in sets)
    )


def intersection(sets: Sequence[ValueSet]) -> ValueSet:
    """The values in all of the sets; everything for no sets."""
    result = EVERYTHING
    for values in sets:
        result = ValueSet(_overlap(result.intervals, values.intervals), result.has_null and values.has_null)
    return result


def _overlap(left: tuple[Interval, ...], right: tuple[Interval, ...]) -> tuple[Interval, ...]:
    overlap: list[Interval] = []
    i = j = 0
    while i < len(left) and j < len(right):
        low = _later(left[i][0], right[j][0])
        high = _earlier(left[i][1], right[j][1])
        if low is None or high is None or low < high:
            overlap.append((low, high))
        if high == left[i][1]:
            i += 1
        else:
            j += 1
    return tuple(overlap)


def _later(left: Any, right: Any) -> Any:
    return right if left is None else left if right is None else max(left, right)


def _earlier(left: Any, right: Any) -> Any:
    return right if left is None else left if right is None else min(left, right)


def complement(values: ValueSet) -> ValueSet:
    """The values that are not in the set, including NULL if the set does not contain it."""
    gaps: list[Interval] = []
    low: Any = None
    for index, interval in enumerate(values.intervals):
        if index or interval[0] is not None:
            gaps.append((low, interval[0]))
        low = interval[1]
    if not values.intervals or low is not None:
        gaps.append((low, None))
    return ValueSet(tuple(gaps), not values.has_null)


def without_null(values: ValueSet) -> ValueSet:
    """The same set without NULL."""
    return ValueSet(values.intervals, False)


def mapped(values: ValueSet, low: Callable[[Any], Any], high: Callable[[Any], Any]) -> ValueSet:
    """The set with bounds mapped by `low(bound)` and `high(bound)` where there are bounds; NULL is unchanged."""
    return of_intervals(
        [(None if a is None else low(a), None if b is None else high(b)) for a, b in values.intervals],
        has_null=values.has_null,
    )


def coarsened(values: ValueSet, limit: int) -> ValueSet:
    """A superset of the set with at most `limit` intervals.

    For numbers the smallest gaps are closed; texts, which have no distance, are grouped evenly.
    """
    intervals = values.intervals
    if len(intervals) <= limit:
        return values
    if isinstance(intervals[1][0], int):
        gaps = sorted(range(1, len(intervals)), key=lambda at: intervals[at][0] - intervals[at - 1][1], reverse=True)
        starts = [0, *sorted(gaps[: limit - 1])]
    else:
        starts = [group * len(intervals) // limit for group in range(limit)]
    ends = [*(start - 1 for start in starts[1:]), len(intervals) - 1]
    merged = ((intervals[start][0], intervals[end][1]) for start, end in zip(starts, ends, strict=True))
    return of_intervals(merged, has_null=values.has_null)
