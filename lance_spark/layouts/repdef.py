"""Repetition and definition levels: the encoding of lists and nulls of a column (`lance.encodings21.RepDefLayer`).

A page lists its `layers` from the innermost outward: one *item* layer for the leaf and for every struct above it, one
*list* layer for every list or map. Definition levels are numbered in the same order, so level 0 is a valid value,
followed by the innermost null: **the reverse of Parquet**. A repetition level is the number of list layers, counted
from the innermost, at which a new list begins; a row begins where it equals the number of list layers. Null and empty
lists have a *placeholder* slot with levels but no value.

A worked example, ``list<int32>`` with null items, null lists and empty lists:

>>> layers = (RepDefLayer.NULLABLE_ITEM, RepDefLayer.NULL_AND_EMPTY_LIST)
>>> scheme = LevelScheme.of(layers)
>>> scheme.max_rep, scheme.max_def, scheme.max_visible_def
(1, 3, 1)

Level 1 is a null item, 2 a null list and 3 an empty list. The rows ``[7, null], null, [], [8]`` are

====  ====  =====  ====================================
rep   def   value  meaning
====  ====  =====  ====================================
1     0     7      a row begins with 7
0     1     any    a null item: it has a slot and a value
1     2     none   a null list: a placeholder
1     3     none   an empty list: a placeholder
1     0     8      a row begins with 8
====  ====  =====  ====================================
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from lance_spark.errors import CorruptFileError


class RepDefLayer(IntEnum):
    """One layer of a page's structure (wire enum `lance.encodings21.RepDefLayer`)."""

    ALL_VALID_ITEM = 1
    ALL_VALID_LIST = 2
    NULLABLE_ITEM = 3
    NULLABLE_LIST = 4
    EMPTYABLE_LIST = 5
    NULL_AND_EMPTY_LIST = 6

    @property
    def is_list(self) -> bool:
        return self not in (RepDefLayer.ALL_VALID_ITEM, RepDefLayer.NULLABLE_ITEM)

    @property
    def has_null(self) -> bool:
        return self in (RepDefLayer.NULLABLE_ITEM, RepDefLayer.NULLABLE_LIST, RepDefLayer.NULL_AND_EMPTY_LIST)

    @property
    def has_empty(self) -> bool:
        return self in (RepDefLayer.EMPTYABLE_LIST, RepDefLayer.NULL_AND_EMPTY_LIST)

    @property
    def num_levels(self) -> int:
        """The number of definition levels of this layer."""
        return _NUM_LEVELS[self]


_NUM_LEVELS = {layer: int(layer.has_null) + int(layer.has_empty) for layer in RepDefLayer}


@dataclass(frozen=True, slots=True)
class LevelScheme:
    """The meaning of a page's levels.

    Attributes:
        layers: from the innermost outward.
        max_rep: number of list layers.
        max_def: the largest definition level.
        max_visible_def: the largest definition level of a slot with a value; larger ones are placeholders.
    """

    layers: tuple[RepDefLayer, ...]
    max_rep: int
    max_def: int
    max_visible_def: int

    @classmethod
    def of(cls, layers: tuple[RepDefLayer, ...]) -> LevelScheme:
        """The scheme of `layers`, innermost first."""
        max_rep = sum(layer.is_list for layer in layers)
        max_def = sum(layer.num_levels for layer in layers)
        visible = 0
        for layer in layers:
            if layer.is_list:
                break
            visible += layer.num_levels
        return cls(layers, max_rep, max_def, visible)


def layers_from_wire(numbers: Iterable[int]) -> tuple[RepDefLayer, ...]:
    """The layers of a layout message.

    Raises:
        CorruptFileError: an unknown layer number, or no layers.
    """
    try:
        layers = tuple(RepDefLayer(number) for number in numbers)
    except ValueError as error:
        raise CorruptFileError(f"unknown layer in a page layout: {error}") from error
    if not layers:
        raise CorruptFileError("a page layout has no layers")
    return layers


def layers_to_wire(layers: tuple[RepDefLayer, ...]) -> list[Any]:
    """The numbers of `layers`, for a layout message."""
    return [int(layer) for layer in layers]
