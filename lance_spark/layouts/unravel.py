"""Levels and the values of a leaf to an Arrow array: the opposite of shredding (see `lance_spark.layouts.repdef`).

The layers of a page are walked from the innermost outward. An *item* layer reads off which slots are valid; a *list*
layer turns the slots where a list begins into offsets, and only those slots go on to the next layer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark.encodings.base import BlockEncoding
from lance_spark.encodings.blocks import Chunks, FixedWidthBlock
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.kernels import levels as kernels
from lance_spark.kernels.addresses import address_of
from lance_spark.layouts.path import LeafPath, NodeKind, PathNode
from lance_spark.layouts.repdef import LevelScheme, RepDefLayer

LevelArray: TypeAlias = npt.NDArray[np.uint16]

MAX_ITEMS = 2**31 - 1
"""Most slots of a page: list offsets have 32 bits."""


@dataclass(frozen=True, slots=True)
class SlotLevels:
    """The levels of `num_slots` slots; None where the page has no such levels (all of them are 0)."""

    repetition: LevelArray | None
    definition: LevelArray | None
    num_slots: int


def decode_levels(encoding: BlockEncoding, chunks: Chunks) -> LevelArray:
    """The levels of chunks, one after the other.

    Raises:
        CorruptFileError: the bytes contradict the encoding, or are no levels.
    """
    block = encoding.decode_blocks(chunks)
    if not isinstance(block, FixedWidthBlock) or block.bits_per_value != 16 or block.num_values != chunks.total_values:
        raise CorruptFileError("levels are not encoded as 16-bit values")
    if block.data.size < 2 * block.num_values:
        raise CorruptFileError("levels end too early")
    return np.frombuffer(block.data, np.uint16, block.num_values)


def slot_levels(repetition: LevelArray | None, definition: LevelArray | None, num_slots: int) -> SlotLevels:
    """Levels that belong together; `num_slots` is the number of slots if there are none of either kind.

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
        scheme: what the levels mean; its layers match the path.
        levels: the levels, in whole rows.
        leaf: makes the leaf array from its validity (None: all valid) and its number of visible slots.

    Raises:
        CorruptFileError: the levels contradict the scheme, or the scheme the path.
    """
    check_layers(path, scheme)
    state = _State(scheme, levels)
    validity = state.item(0, nullable=path.nodes[0].field.nullable)
    array = leaf(validity, state.num_visible)
    for depth, node in enumerate(path.nodes[1:], start=1):
        array = _WRAPPERS[node.kind](state, depth, node, array)
    state.finish()
    return array


def check_layers(path: LeafPath, scheme: LevelScheme) -> None:
    """Compares the layers of a page with the schema.

    Raises:
        CorruptFileError: a list in one is no list in the other.
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
    """The slots of the layer that comes next."""

    def __init__(self, scheme: LevelScheme, levels: SlotLevels) -> None:
        if levels.num_slots > MAX_ITEMS:
            raise CorruptFileError(f"a page claims {levels.num_slots} slots")
        if scheme.max_rep > 0 and levels.repetition is None:
            raise CorruptFileError("a page of lists has no repetition levels")
        self.layers = scheme.layers
        self.max_def = scheme.max_def
        self.repetition = levels.repetition
        self.definition = levels.definition
        self.consumed = 0
        self.lists_left = scheme.max_rep
        self.num_slots = levels.num_slots
        self._enter(0)

    def _enter(self, depth: int) -> None:
        """Finds the visible slots of the layers from `depth` to the next list layer."""
        self.visible_max = self.consumed
        for layer in self.layers[depth:]:
            if layer.is_list:
                break
            self.visible_max += layer.num_levels
        self.visible = self.definition
        self.num_visible = self.num_slots
        if self.definition is not None and self.visible_max < self.max_def:
            visible = np.empty(self.num_slots, np.uint16)
            self.num_visible = kernels.visible_levels(
                address_of(self.definition), self.num_slots, self.visible_max, address_of(visible)
            )
            self.visible = visible[: self.num_visible]

    def item(self, depth: int, *, nullable: bool) -> pa.Buffer | None:
        """Validity of the visible slots at an item layer, None if all are valid."""
        layer = self.layers[depth]
        limit = self.consumed
        self.consumed += layer.num_levels
        # A slot that an outer null hides is null here too, unless the schema has no place for that.
        if self.visible is None or limit == self.visible_max or not (layer.has_null or nullable):
            return None
        bitmap = pa.allocate_buffer((self.num_visible + 7) // 8)
        status = kernels.validity_bitmap(
            address_of(self.visible), self.num_visible, limit, self.visible_max, bitmap.address
        )
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
        num_starts = int(np.count_nonzero(self.repetition))
        if self.definition is None or self.max_def == inner_visible:
            result = self._offsets_only(num_starts)
        else:
            result = self._offsets_and_validity(depth, inner_visible, num_starts)
        self.lists_left -= 1
        self._enter(depth + 1)
        if result[2] != self.num_visible:
            raise CorruptFileError("the levels of a page contradict each other")
        return result

    def _offsets_only(self, num_starts: int) -> tuple[pa.Buffer, pa.Buffer | None, int]:
        assert self.repetition is not None
        offsets = pa.allocate_buffer((num_starts + 1) * 4)
        following = np.empty(num_starts, np.uint16) if self.lists_left > 1 else None
        status = kernels.list_offsets(
            address_of(self.repetition),
            self.num_slots,
            self.lists_left,
            num_starts,
            offsets.address,
            0 if following is None else address_of(following),
        )
        if status < 0:
            raise CorruptFileError("the repetition levels of a page contradict its layers")
        self.repetition, self.definition, self.num_slots = following, None, num_starts
        return offsets, None, num_starts

    def _offsets_and_validity(
        self, depth: int, inner_visible: int, num_starts: int
    ) -> tuple[pa.Buffer, pa.Buffer | None, int]:
        assert self.repetition is not None
        assert self.definition is not None
        layer = self.layers[depth]
        outer_visible = self.consumed + sum(item.num_levels for item in _items_after(self.layers, depth))
        offsets = pa.allocate_buffer((num_starts + 1) * 4)
        valid = np.empty(num_starts, np.uint8)
        repetition = np.empty(num_starts, np.uint16)
        definition = np.empty(num_starts, np.uint16)
        num_lists = kernels.list_layer(
            address_of(self.repetition),
            address_of(self.definition),
            self.num_slots,
            self.lists_left,
            inner_visible,
            self.consumed if layer.has_empty else -1,
            outer_visible,
            num_starts,
            offsets.address,
            address_of(valid),
            address_of(repetition),
            address_of(definition),
            self.num_visible,
            self.max_def,
        )
        if num_lists < 0:
            raise CorruptFileError("the levels of a page contradict its layers")
        self.repetition, self.definition, self.num_slots = repetition, definition, num_starts
        validity = None
        if inner_visible + int(layer.has_empty) < outer_visible:
            validity = pa.py_buffer(np.packbits(valid[:num_lists], bitorder="little"))
        return offsets.slice(0, (num_lists + 1) * 4), validity, num_lists

    def fold(self, dimension: int) -> None:
        """Keeps one slot a fixed-size list: all slots of a list say the same from here on."""
        if self.num_slots % dimension:
            raise CorruptFileError("a page ends inside of a fixed-size list")
        self.num_slots //= dimension
        self.num_visible = self.num_slots
        if self.definition is not None:
            self.definition = np.ascontiguousarray(self.definition[::dimension])
            self.visible = self.definition

    def finish(self) -> None:
        """Checks that no slot is left over."""
        if self.num_slots != self.num_visible:
            raise CorruptFileError("the levels of a page contradict its layers")


def _items_after(layers: tuple[RepDefLayer, ...], depth: int) -> list[RepDefLayer]:
    items = []
    for layer in layers[depth + 1 :]:
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
