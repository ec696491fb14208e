"""Shreds Arrow arrays into the parts of one leaf column: repetition levels, null codes and visible values.

A page has two levels per slot (see `layouts.repdef`), and which of its layers can be null or empty is a property of
the page, which consists of many arrays. So shredding an array writes *codes* independent of the page: with the
top-level field at depth 0 a null at depth d is ``2 * d + 1`` and an empty list there ``2 * d + 2``. `Shredded.levels`
converts the codes of a page to its definition levels.

>>> shredded = shred(pa.array([[7, None], None, [], [8]]), (0,))
>>> shredded.reps.tolist(), shredded.codes.tolist(), shredded.values.to_pylist()
([1, 0, 1, 1, 1], [0, 3, 1, 2, 0], [7, None, 8])
>>> levels = shredded.levels()
>>> [layer.name for layer in levels.scheme.layers], levels.defs.tolist()
(['NULLABLE_ITEM', 'NULL_AND_EMPTY_LIST'], [0, 1, 2, 3, 0])

Values masked by nulls are not written: those under a null list or below a null struct's list are omitted, and those
under a null item are cleared when the leaf becomes a block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.errors import InvalidInputError
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.layouts import shred as kernels
from lance_spark.layouts.arrow_take import take
from lance_spark.layouts.repdef import LevelScheme, RepDefLayer
from lance_spark.schema.field import Field
from lance_spark.schema.logical_type import is_list

Uint16Array: TypeAlias = npt.NDArray[np.uint16]


@dataclass(frozen=True, slots=True)
class Levels:
    """The levels of a page.

    Attributes:
        scheme: the page's layers and the meaning of the levels.
        num_rows: `Page.length` of the wire format.
        num_items: level slots, including placeholders.
        num_visible_items: slots with a value.
        reps: uint16[num_items], or None if there is no list.
        defs: uint16[num_items], or None if every slot is a valid value.
    """

    scheme: LevelScheme
    num_rows: int
    num_items: int
    num_visible_items: int
    reps: Uint16Array | None
    defs: Uint16Array | None


@dataclass(frozen=True, slots=True)
class Shredded:
    """Some rows of a leaf column.

    Attributes:
        lists: for every depth of the path, the top-level field first, whether it is a list.
        present: bit c is set if some item has code c.
        num_rows: rows (times the dimension of a fixed-size list of structs).
        num_items: level slots.
        reps: uint16[num_items], or None if there is no list.
        codes: uint16[num_items], or None if all are 0.
        values: the visible slots of the leaf, one per slot that is not a placeholder; null wherever the code is not 0.
    """

    lists: tuple[bool, ...]
    present: int
    num_rows: int
    num_items: int
    reps: Uint16Array | None
    codes: Uint16Array | None
    values: pa.Array

    def levels(self, always_present: int = 0) -> Levels:
        """The levels of a page of these rows; the codes in `always_present` always get a level."""
        if always_present & ~self.present:
            present, codes = self.present | always_present, self.codes_or_zeros()
            return replace(self, present=present, codes=codes).levels()
        numbering = _numbering(self.lists, self.present)
        defs = self.codes
        if self.codes is not None and self.present & ~numbering.same:
            defs = np.empty_like(self.codes)
            kernels.recode(address_of(self.codes), len(defs), address_of(numbering.table), address_of(defs))
        return Levels(numbering.scheme, self.num_rows, self.num_items, len(self.values), self.reps, defs)

    @staticmethod
    def concat(pieces: Sequence[Shredded]) -> Shredded:
        """Concatenates the rows of `pieces`, which belong to one column.

        Raises:
            pa.ArrowInvalid: the values do not fit into one array (string offsets, dictionary indices).
        """
        if len(pieces) == 1:
            return pieces[0]
        first = pieces[0]
        present = 0
        for piece in pieces:
            present |= piece.present
        return Shredded(
            first.lists,
            present,
            sum(piece.num_rows for piece in pieces),
            sum(piece.num_items for piece in pieces),
            None if first.reps is None else np.concatenate([piece.reps for piece in pieces if piece.reps is not None]),
            np.concatenate([piece.codes_or_zeros() for piece in pieces]) if present else None,
            pa.concat_arrays([piece.values for piece in pieces]),
        )

    def codes_or_zeros(self) -> Uint16Array:
        """uint16[num_items]."""
        return np.zeros(self.num_items, np.uint16) if self.codes is None else self.codes


@dataclass(frozen=True, slots=True)
class _Numbering:
    """The definition levels of the codes of a page.

    Attributes:
        table: the level of each code.
        same: the codes equal to their level, as bits.
    """

    scheme: LevelScheme
    table: Uint16Array
    same: int


@lru_cache(maxsize=256)
def _numbering(lists: tuple[bool, ...], present: int) -> _Numbering:
    layers = []
    table = np.zeros(2 * len(lists) + 1, np.uint16)
    level = 0
    for depth in reversed(range(len(lists))):
        null = _has_nulls(lists, present, depth)
        empty = bool(present >> (2 * depth + 2) & 1)
        layers.append(_LAYERS[lists[depth], null, empty])
        if null:
            table[2 * depth + 1] = level = level + 1
        if empty:
            table[2 * depth + 2] = level = level + 1
    same = sum(1 << code for code in np.flatnonzero(table == np.arange(len(table))).tolist())
    return _Numbering(LevelScheme.of(tuple(layers)), table, same)


def _has_nulls(lists: tuple[bool, ...], present: int, depth: int) -> bool:
    """Whether the layer has nulls. Values below a null struct count, though their level is that of the struct.

    The reference library's reader needs that for non-nullable fields: it makes such values null too.
    """
    null = bool(present >> (2 * depth + 1) & 1)
    above = depth - 1
    while above >= 0 and not lists[above] and not null:
        null = bool(present >> (2 * above + 1) & 1)
        above -= 1
    return null


_LAYERS = {
    (False, False, False): RepDefLayer.ALL_VALID_ITEM,
    (False, True, False): RepDefLayer.NULLABLE_ITEM,
    (True, False, False): RepDefLayer.ALL_VALID_LIST,
    (True, True, False): RepDefLayer.NULLABLE_LIST,
    (True, False, True): RepDefLayer.EMPTYABLE_LIST,
    (True, True, True): RepDefLayer.NULL_AND_EMPTY_LIST,
}


def shred(array: pa.Array, steps: Sequence[int]) -> Shredded:
    """Shreds the leaf that is reached from a top-level field through child `steps[i]` at depth i.

    The item of a list and the entries of a map are child 0.

    Offsets of Arrow slices are respected. The values are a view of the array if nulls mask no values.

    Raises:
        InvalidInputError: the offsets of a list decrease or are out of bounds.
    """
    array = storage_of(array)
    if not steps and array.null_count == 0 and not isinstance(array, pa.DictionaryArray):
        return Shredded((False,), 0, len(array), len(array), None, None, array)
    walk = _Walk(_num_lists(array.type, steps), len(array))
    for step in steps:
        array = walk.step(array, step)
    return walk.finish(array)


def storage_of(array: pa.Array) -> pa.Array:
    """The storage of an extension array; any other array itself."""
    while isinstance(array, pa.ExtensionArray):
        array = array.storage
    return array


def _storage_type(dtype: pa.DataType) -> pa.DataType:
    while isinstance(dtype, pa.BaseExtensionType):
        dtype = dtype.storage_type
    return dtype


def _num_lists(dtype: pa.DataType, steps: Sequence[int]) -> int:
    count = 0
    for step in steps:
        dtype = _storage_type(dtype)
        count += _is_list(dtype)
        dtype = dtype.field(step).type if pa.types.is_struct(dtype) else _item_type(dtype)
    return count


def _is_list(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_list(dtype) or pa.types.is_large_list(dtype) or pa.types.is_map(dtype))


def _item_type(dtype: pa.DataType) -> pa.DataType:
    if pa.types.is_map(dtype):
        return pa.struct([dtype.key_field, dtype.item_field])
    return dtype.value_type


class _Walk:
    """Processes the items of a path, layer by layer from the row inward."""

    def __init__(self, num_lists: int, num_rows: int) -> None:
        self.num_lists = num_lists
        self.num_rows = num_rows
        self.num_items = num_rows
        self.lists: list[bool] = []
        self.lists_passed = 0
        self.open_above = 0
        self.present = 0
        self.reps: Uint16Array | None = None
        self.codes: Uint16Array | None = None

    @property
    def null_code(self) -> int:
        return 2 * len(self.lists) + 1

    def step(self, array: pa.Array, step: int) -> pa.Array:
        """Processes the layer of `array` and returns its child `step`, one value per open item."""
        array = storage_of(array)
        if pa.types.is_struct(array.type):
            self.mark_nulls(array)
            # `struct_field` propagates the struct's nulls to the child, so that masked values count as null.
            return pc.struct_field(array, [step]) if array.null_count else array.field(step)
        if pa.types.is_fixed_size_list(array.type):
            return self.repeat(array)
        return self.open_lists(array)

    def finish(self, leaf: pa.Array) -> Shredded:
        leaf = without_null_entries(storage_of(leaf))
        self.mark_nulls(leaf)
        return Shredded(tuple(self.lists), self.present, self.num_rows, self.num_items, self.reps, self.codes, leaf)

    def mark_nulls(self, array: pa.Array) -> None:
        """Processes an item layer."""
        nulls = 0
        validity, bit_offset = _validity(array)
        all_null = pa.types.is_null(array.type)
        if validity and self.codes is None:
            self.codes = np.empty(self.num_items, np.uint16)
            kernels.first_nulls(validity, bit_offset, len(array), self.null_code, address_of(self.codes))
            nulls = array.null_count
        elif validity or (all_null and len(array)):
            if self.codes is None:
                self.codes = np.zeros(self.num_items, np.uint16)
            nulls = kernels.mark_nulls(
                address_of(self.codes), self.num_items, self.open_above, validity, bit_offset, self.null_code
            )
        if nulls:
            self.present |= 1 << self.null_code
        self.lists.append(False)

    def repeat(self, array: pa.FixedSizeListArray) -> pa.Array:
        """Processes a fixed-size list of structs: an item layer whose levels are repeated for each child slot."""
        self.mark_nulls(array)
        dimension = array.type.list_size
        self.num_items *= dimension
        self.num_rows *= dimension
        if self.codes is not None:
            self.codes = np.repeat(self.codes, dimension)
        child = array.values.slice(array.offset * dimension, len(array) * dimension)
        if array.null_count == 0:
            return child
        rows = pa.array(np.repeat(np.asarray(array.is_valid()), dimension))
        return pc.if_else(rows, child, pa.scalar(None, child.type))

    def open_lists(self, array: pa.Array) -> pa.Array:
        """Processes a list layer."""
        validity, bit_offset = _validity(array)
        wide = pa.types.is_large_list(array.type)
        offsets = array.buffers()[1].address + array.offset * (8 if wide else 4) if len(array) else 0
        codes = 0 if self.codes is None else address_of(self.codes)
        measured = np.empty(4, np.int64)
        if kernels.measure_lists(
            codes,
            self.num_items,
            self.open_above,
            validity,
            bit_offset,
            offsets,
            wide,
            len(array),
            address_of(measured),
        ):
            raise InvalidInputError("the offsets of a list array fall; validate the array")
        num_items, nulls, empties, hidden = measured.tolist()
        start, stop = _value_range(array, wide)
        reps = 0 if self.reps is None else address_of(self.reps)
        inner_rep = self.num_lists - self.lists_passed - 1
        out_reps = np.full(num_items, inner_rep, np.uint16)
        out_codes = np.zeros(num_items, np.uint16) if self.codes is not None or nulls or empties else None
        out_slots = np.empty(stop - start - hidden, np.int64) if hidden else None
        kernels.expand_lists(
            reps, codes, self.num_items, self.open_above, validity, bit_offset, offsets, wide, self.num_lists,
            self.null_code, address_of(out_reps), 0 if out_codes is None else address_of(out_codes),
            0 if out_slots is None else address_of(out_slots),
        )  # fmt: skip
        self.present |= (nulls > 0) << self.null_code | (empties > 0) << (self.null_code + 1)
        self.reps, self.codes, self.num_items = out_reps, out_codes, num_items
        self.open_above = self.null_code + 1
        self.lists_passed += 1
        self.lists.append(True)
        if out_slots is not None:
            return take(array.values, out_slots)
        return array.values.slice(start, stop - start)


def _value_range(array: pa.Array, wide: bool) -> tuple[int, int]:
    """The range of values from the first to the last list of `array`, validated."""
    if len(array) == 0:
        return 0, 0
    entry = 8 if wide else 4
    ends = [
        int.from_bytes(array.buffers()[1].slice((array.offset + i) * entry, entry).to_pybytes(), "little", signed=True)
        for i in (0, len(array))
    ]
    if not 0 <= ends[0] <= ends[1] <= len(array.values):
        raise InvalidInputError("the offsets of a list array leave its values; validate the array")
    return ends[0], ends[1]


def _validity(array: pa.Array) -> tuple[int, int]:
    """Address of the validity bitmap and index of the first bit; address 0 without nulls."""
    if pa.types.is_null(array.type) or array.null_count == 0:
        return 0, 0
    return array.buffers()[0].address, array.offset


def without_null_entries(array: pa.Array) -> pa.Array:
    """Replaces a null in the dictionary by null indices."""
    if not pa.types.is_dictionary(array.type) or array.dictionary.null_count == 0:
        return array
    return pc.dictionary_encode(array.dictionary_decode()).cast(array.type)


def lasting_codes(path: Sequence[Field]) -> int:
    """The codes that must have a level in every page of a column, even if they do not occur.

    The reference library (14.0.2) fails to read columns whose pages differ in their layers if a nullable struct is the
    direct parent of a list, even if it wrote them itself. So there the layers follow the schema, not the page.
    """
    if len(path) == 1:
        return 0
    lists = [_is_list_field(field) for field in path]
    below_null = False
    for field, opens in zip(path, lists, strict=True):
        if opens and below_null:
            break
        below_null = not opens and (below_null or field.nullable)
    else:
        return 0
    codes = 0
    for depth, field in enumerate(path):
        codes |= field.nullable << (2 * depth + 1) | lists[depth] << (2 * depth + 2)
    return codes


def _is_list_field(field: Field) -> bool:
    return is_list(field.logical_type) or field.logical_type == "map"
