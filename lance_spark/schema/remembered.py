"""Results that are found again by the identity of the objects they were made of.

A version that is opened again has the same schema object, because manifests are cached, and plans of it ask for the
same projections. Where they get the same objects back, what files have prepared for these is found too.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Value = TypeVar("Value")


class Remembered(Generic[Value]):
    """The last results of a function of immutable objects.

    Args:
        most: results that are kept.
    """

    def __init__(self, most: int = 64) -> None:
        self._most = most
        # No lock: each operation on this dictionary is atomic.
        self._kept: dict[tuple[Hashable, ...], tuple[tuple[object, ...], Value]] = {}

    def __call__(self, objects: tuple[object, ...], rest: Hashable, make: Callable[[], Value]) -> Value:
        """The result for the same objects and an equal `rest`; from `make` if it is not kept."""
        key = (*map(id, objects), rest)
        kept = self._kept.get(key)
        if kept is not None:
            return kept[1]
        made = make()
        if len(self._kept) >= self._most:
            self._kept.clear()
        # What is kept keeps its objects alive, so that no others can have their identity.
        self._kept[key] = (objects, made)
        return made
