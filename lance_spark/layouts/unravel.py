"""Converts levels and leaf values to an Arrow array: the inverse of shredding (see `lance_spark.layouts.repdef`).

The layers of a page are processed from the innermost outward. An *item* layer determines which slots are valid; a
*list* layer converts the slots where a list begins to offsets, and only those slots continue to the next layer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark.encodings.base import BlockEncoding
from lance_spark.encodings.blocks import Block, Chunks, FixedWidthBlock
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.layouts import levels as kernels
from lance_spark.layouts.path import LeafPath, NodeKind, PathNode
from lance_spark.layouts.repdef import LevelScheme, RepDefLayer

LevelArray: TypeAlias = npt.NDArray[np.uint16]

MAX_ITEMS = 2**31 - 1
"""Maximum slots of a page: list offsets have 32 bits."""


@dataclass(frozen=True, slots=True)
class SlotLevels:
    """The levels of `num_slots` slots; None where the page has no such levels (all of them are 0)."""

    repetition: LevelArray | None
    definition: LevelArray | None
    num_slots: int


def decode_levels(encoding: BlockEncoding, chunks: Chunks) -> LevelArray:
    """The levels of consecutive chunks.

    Raises:
        CorruptFileError: the bytes are inconsistent with the encoding, or not levels.
    """
    return _levels_of(encoding.decode_blocks(chunks), chunks.total_values)


def _levels_of(block: Block, num_levels: int) -> LevelArray:
    if not isinstance(block, FixedWidthBlock) or block.bits_per_value != 16 or block.num_values != num_levels:
        raise CorruptFileError("levels are not encoded as 16-bit values")
    if block.data.size < 2 * block.num_values:
        raise CorruptFileError("levels end too early")
    return np.frombuffer(block.data, np.uint16, block.num_values)


def slot_levels(repetition: LevelArray | None, definition: LevelArray | None, num_slots: int) -> SlotLevels:
    """Combines both kinds of levels; `num_slots` is the number of slots if there are none of either kind.

    Raises:
        CorruptFileError: the two kinds differ in number.
    """
    lengths = {len(levels) for levels in (repetition, definition) if levels is not None}
    if len(lengths) > 1:
        raise CorruptFileError(f"{lengths.pop()} and {lengths.pop()} levels of the two kinds in one page")
    return SlotLevels(repetition, definition, lengths.pop() if lengths else num_slots)


def unravel(
    path: LeafPath, scheme: LevelScheme, levels: SlotLevels, leaf: Callable[[pa.Buffer | None, int], pa.Array]
) -> pa.Array:
    """The path array of all slots.

    Args:
        path: the fields of the column.
        scheme: the meaning of the levels; its layers match the path.
        levels: the levels of complete rows.
        leaf: creates the leaf array from its validity (None: all valid) and its number of visible slots.

    Raises:
        CorruptFileError: the levels violate the scheme, or the scheme does not match the path.
    """
    if len(path.nodes) == len(scheme.layers) == 1 and not (scheme.max_rep or scheme.max_def):
        # Values without nulls.
        return leaf(None, _checked_slots(levels))
    check_layers(path, scheme)
    state = _State(scheme, levels)
    validity = state.item(0, nullable=path.nodes[0].field.nullable)
    array = leaf(validity, state.num_visible)
    for depth, node in enumerate(path.nodes[1:], start=1):
        array = _WRAPPERS[node.kind](state, depth, node, array)
    state.finish()
    return array


def _checked_slots(levels: SlotLevels) -> int:
    if levels.num_slots > MAX_ITEMS:
        raise CorruptFileError(f"a page claims {levels.num_slots} slots")
    return levels.num_slots


def check_layers(path: LeafPath, scheme: LevelScheme) -> None:
    """Compares the layers of a page with the schema.

    Raises:
        CorruptFileError: lists in one do not match lists in the other.
        UnsupportedFeatureError: fixed-size lists of structs together with lists.
    """
    layers = scheme.layers
    lists = [node.kind in (NodeKind.LIST, NodeKind.LARGE_LIST) for node in path.nodes]
    if lists != [layer.is_list for layer in layers]:
        raise CorruptFileError("the layers of a page do not match the schema")
    if any(lists) and any(node.kind is NodeKind.FIXED_SIZE_LIST for node in path.nodes):
        raise UnsupportedFeatureError(
            "fixed-size lists of structs that hold or are held by lists are not supported",
            feature="fixed_size_list of struct with list",
        )


def visible_validity(scheme: LevelScheme, levels: SlotLevels) -> tuple[pa.Buffer | None, int]:
    """(validity of the visible slots at the innermost layer or None, number of visible slots).

    Raises:
        CorruptFileError: a level is out of bounds.
    """
    state = _State(scheme, levels)
    return state.item(0, nullable=True), state.num_visible


class _State:
    """The slots of the next layer."""

    def __init__(self, scheme: LevelScheme, levels: SlotLevels) -> None:
        _checked_slots(levels)
        if scheme.max_rep > 0 and levels.repetition is None:
            raise CorruptFileError("a page of lists has no repetition levels")
        self.layers = scheme.layers
        self.max_def = scheme.max_def
        self.repetition = levels.repetition
        self.definition = levels.definition if scheme.max_def else None
        self.consumed = 0
        self.lists_left = scheme.max_rep
        self.num_slots = levels.num_slots
        self._enter(0)
        self.num_visible = self.num_slots
        if self.definition is not None and self.visible_max < self.max_def:
            self.num_visible = kernels.count_visible(address_of(self.definition), self.num_slots, self.visible_max)

    def _enter(self, depth: int) -> None:
        """Starts with the item layers from `depth` to the next list layer."""
        self.visible_max = self.consumed + sum(layer.num_levels for layer in _items_from(self.layers, depth))
        self.visible: LevelArray | None = None

    def _visible_levels(self) -> LevelArray:
        """The definition levels without those of placeholders."""
        assert self.definition is not None
        if self.visible is None:
            self.visible = self.definition
            if self.num_visible < self.num_slots:
                visible = np.empty(self.num_slots, np.uint16)
                kernels.visible_levels(
                    address_of(self.definition), self.num_slots, self.visible_max, address_of(visible)
                )
                self.visible = visible[: self.num_visible]
        return self.visible

    def item(self, depth: int, *, nullable: bool) -> pa.Buffer | None:
        """Validity of the visible slots at an item layer, None if all are valid."""
        layer = self.layers[depth]
        limit = self.consumed
        self.consumed += layer.num_levels
        # A slot masked by an outer null is null here too, unless the field is not nullable.
        if self.definition is None or limit == self.visible_max or not (layer.has_null or nullable):
            return None
        levels = self._visible_levels()
        bitmap = pa.allocate_buffer((self.num_visible + 7) // 8)
        status = kernels.validity_bitmap(
            address_of(levels), self.num_visible, limit, self.visible_max, bitmap.address
        )  # fmt: skip
        if status < 0:
            raise CorruptFileError("a definition level is larger than the layers of its page allow")
        return bitmap

    def list_layer(self, depth: int) -> tuple[pa.Buffer, pa.Buffer | None, int]:
        """(int32 offsets, validity or None, number of lists) of a list layer."""
        layer = self.layers[depth]
        inner_visible = self.consumed
        self.consumed += layer.num_levels
        if self.repetition is None:
            raise CorruptFileError("a page of lists has no repetition levels")
        rep, num_slots = address_of(self.repetition), self.num_slots
        has_levels = self.definition is not None and self.max_def > inner_visible
        definition = address_of(self.definition) if has_levels and self.definition is not None else 0
        num_starts = int(np.count_nonzero(self.repetition))
        offsets = pa.allocate_buffer((num_starts + 1) * 4)
        definitions = np.empty(num_starts, np.uint16) if has_levels else None
        repetitions = np.empty(num_starts, np.uint16) if self.lists_left > 1 else None
        num_values = kernels.list_starts(
            rep, definition, num_slots, self.lists_left, self.max_def, inner_visible, offsets.address,
            *(0 if levels is None else address_of(levels) for levels in (definitions, repetitions)),
        )  # fmt: skip
        if num_values != self.num_visible:
            raise CorruptFileError("the levels of a page contradict its layers")
        self.definition, self.repetition, self.num_slots = definitions, repetitions, num_starts
        self.lists_left -= 1
        self._enter(depth + 1)
        num_lists = num_starts
        if has_levels and self.definition is not None and self.visible_max < self.max_def:
            num_lists = kernels.visible_offsets(
                offsets.address, address_of(self.definition), num_starts, self.visible_max
            )  # fmt: skip
        self.num_visible = num_lists
        validity = None
        if has_levels and inner_visible + int(layer.has_empty) < self.visible_max:
            validity = self._list_validity(inner_visible, self.consumed if layer.has_empty else inner_visible)
        return offsets.slice(0, (num_lists + 1) * 4), validity, num_lists

    def _list_validity(self, inner_visible: int, empty_level: int) -> pa.Buffer:
        levels = self._visible_levels()
        bitmap = pa.allocate_buffer((self.num_visible + 7) // 8)
        kernels.list_validity(address_of(levels), self.num_visible, inner_visible, empty_level, bitmap.address)
        return bitmap

    def fold(self, dimension: int) -> None:
        """Keeps one slot per fixed-size list: all slots of a list are equal from here on."""
        if self.num_slots % dimension:
            raise CorruptFileError("a page ends inside of a fixed-size list")
        self.num_slots //= dimension
        self.num_visible = self.num_slots
        if self.definition is not None:
            self.definition = np.ascontiguousarray(self.definition[::dimension])
            self.visible = None

    def finish(self) -> None:
        """Checks that all slots are consumed."""
        if self.num_slots != self.num_visible:
            raise CorruptFileError("the levels of a page contradict its layers")


def _items_from(layers: tuple[RepDefLayer, ...], depth: int) -> list[RepDefLayer]:
    """The item layers from `depth` to the next list layer."""
    items = []
    for layer in layers[depth:]:
        if layer.is_list:
            break
        items.append(layer)
    return items


def _struct(state: _State, depth: int, node: PathNode, child: pa.Array) -> pa.Array:
    validity = state.item(depth, nullable=node.field.nullable)
    return pa.Array.from_buffers(node.data_type, len(child), [validity], children=[child])


def _list(state: _State, depth: int, node: PathNode, child: pa.Array) -> pa.Array:
    offsets, validity, num_lists = state.list_layer(depth)
    return pa.Array.from_buffers(node.data_type, num_lists, [validity, offsets], children=[child])


def _large_list(state: _State, depth: int, node: PathNode, child: pa.Array) -> pa.Array:
    offsets, validity, num_lists = state.list_layer(depth)
    wide = pa.py_buffer(np.frombuffer(offsets, np.int32).astype(np.int64))
    return pa.Array.from_buffers(node.data_type, num_lists, [validity, wide], children=[child])


def _fixed_size_list(state: _State, depth: int, node: PathNode, child: pa.Array) -> pa.Array:
    state.fold(node.dimension)
    validity = state.item(depth, nullable=node.field.nullable)
    return pa.Array.from_buffers(node.data_type, state.num_visible, [validity], children=[child])


_WRAPPERS: dict[NodeKind, Callable[[_State, int, PathNode, pa.Array], pa.Array]] = {
    NodeKind.STRUCT: _struct,
    NodeKind.LIST: _list,
    NodeKind.LARGE_LIST: _large_list,
    NodeKind.FIXED_SIZE_LIST: _fixed_size_list,
}
