"""Results that are found again by the identity of the objects they were made of.

A version that is opened again has the same schema object, because manifests are cached, and plans of it ask for the
same projections. Where they get the same objects back, what files have prepared for these is found too.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Value = TypeVar("Value")

_COUNTED_TOGETHER = 8
"""That many more results, or as many as there are, may come before the sizes of all are asked for again, if they would
fit into a part of the room even as large as the largest one.
"""


class Remembered(Generic[Value]):
    """The last results of a function of immutable objects.

    Args:
        most: results that are kept.
        most_bytes: about how much memory they may take, with the next ones. All are given up where they take more.
        size_of: how much a result takes now, in bytes; asked for only where other results are made, and seldom where
            these are small.
    """

    def __init__(self, most: int = 64, *, most_bytes: int = 0, size_of: Callable[[Value], int] | None = None) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._size_of = size_of
        self._counted_at = 0
        # No lock: each operation on this dictionary is atomic.
        self._kept: dict[tuple[Hashable, ...], tuple[tuple[object, ...], Value]] = {}

    def get(self, objects: tuple[object, ...], rest: Hashable) -> Value | None:
        """The result for the same objects and an equal `rest`; None if it is not kept."""
        kept = self._kept.get((*map(id, objects), rest))
        return None if kept is None else kept[1]

    def __call__(self, objects: tuple[object, ...], rest: Hashable, make: Callable[[], Value]) -> Value:
        """The result for the same objects and an equal `rest`; from `make` if it is not kept."""
        key = (*map(id, objects), rest)
        kept = self._kept.get(key)
        if kept is not None:
            return kept[1]
        made = make()
        if len(self._kept) >= self._most or self._are_large():
            self._kept.clear()
            self._counted_at = 0
        # What is kept keeps its objects alive, so that no others can have their identity.
        self._kept[key] = (objects, made)
        return made

    def _are_large(self) -> bool:
        num_kept = len(self._kept)
        if self._size_of is None or num_kept < self._counted_at:
            # To ask all others takes longer than to open a small file.
            return False
        sizes = [self._size_of(value) for _, value in list(self._kept.values())]
        room = self._most_bytes - sum(sizes)
        fitting = room // (_COUNTED_TOGETHER * max(sizes, default=0) or room + 1)
        self._counted_at = num_kept + max(1, min(fitting, max(_COUNTED_TOGETHER, num_kept)))
        return room < 0
