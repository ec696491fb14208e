"""Rows of a run of pages, in any order, by one call of a kernel.

The bytes are those of a mapped file, or of the spans of it that were fetched for these rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark.cached import cached_property
from lance_spark.encodings.blocks import Block, Chunks, FixedWidthBlock, Int64Array, VariableWidthBlock
from lance_spark.encodings.general import General
from lance_spark.errors import CorruptFileError
from lance_spark.kernels.compression.fsst import SLACK_BYTES
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.layouts.pick import copy_strings, pick
from lance_spark.kernels.layouts.pick_levels import MAX_CHUNK_LEVELS, SCRATCH_LEVELS
from lance_spark.layouts.arrow_take import take
from lance_spark.layouts.leaf.arrays import Leaf, PageDictionary, block_leaf, check_count
from lance_spark.layouts.mini_block.chunks import ChunkTable, RowIndex
from lance_spark.layouts.page_form import ListedValues, PageForm
from lance_spark.layouts.path import LeafPath
from lance_spark.layouts.prepared.forms import (
    Bytes,
    FixedWidth,
    has_levels,
    most_slots,
    page_table,
    scheme_of,
    stored_type,
)
from lance_spark.layouts.repdef import LevelScheme
from lance_spark.layouts.unravel import SlotLevels, unravel, visible_validity

_MAX_BYTES = 16 << 20
"""Maximum size of all strings that are copied at once; the memory is allocated for the most that they can have."""

_MOST_PICKED_BYTES = 1 << 19
"""Maximum size of rows side by side that are picked: decoding copies more than that faster, or not at all."""

_SPARE_SLOTS = 64
"""Room beyond what rows of average length need; where it is not enough, they are picked once more."""

_LARGE = (pa.large_string().id, pa.large_binary().id)


class _Picked(NamedTuple):
    """Results of the kernel.

    Attributes:
        num_slots, num_values: how many there are.
        repetition, definition: uint16[num_slots]; None if there are none.
        values: values of fixed width.
        strings: int64[3, room], byte strings.
        owners: int64[num_values], the page of each value, if pages have dictionaries of their own.
        most_bytes: the most bytes that strings can have.
    """

    num_slots: int
    num_values: int
    repetition: npt.NDArray[np.uint16] | None
    definition: npt.NDArray[np.uint16] | None
    values: pa.Buffer | None
    strings: Int64Array
    owners: Int64Array
    most_bytes: int


@dataclass(frozen=True)
class Picker:
    """Pages of one key (`forms.run_key`), of which rows are picked by a call of a kernel; a `page_form.Run`.

    Attributes:
        data_type: of the leaf.
        path: to the leaf; None for a leaf that is a top-level field.
        scheme: of the levels.
        stored: values, or indices into the dictionary; None for strings.
        pages: the table of `kernels.layouts.pick`, which refers to the memory of `held`.
        table: the chunks of all pages.
        index: the rows of each chunk, for lists in mini-block pages.
        num_rows: of all pages.
        has_definition: whether there are definition levels.
        dictionary: of all pages.
        compressed_by: the encoding by which each string is compressed alone.
        most_slots: how many slots side by side are picked at most; see `Run.most_rows`.
    """

    data_type: pa.DataType
    path: LeafPath | None
    scheme: LevelScheme
    stored: FixedWidth | None
    pages: Int64Array
    held: Sequence[Bytes]
    table: ChunkTable
    index: RowIndex | None
    num_rows: int
    has_definition: bool
    dictionary: PageDictionary | None
    compressed_by: General | None
    most_slots: int

    @classmethod
    def of(
        cls,
        forms: Sequence[PageForm],
        data_type: pa.DataType,
        path: LeafPath | None,
        table: ChunkTable,
        num_rows: int,
        index: RowIndex | None = None,
        dictionary: PageDictionary | None = None,
    ) -> Picker | None:
        """Pages with these forms, all of one key; None if they do not have values of the type."""
        try:
            stored = stored_type(forms, data_type)
        except ValueError:
            return None
        nested = path if path is not None and len(path.nodes) > 1 else None
        if nested is None and (len(forms[0].layers) > 1 or forms[0].has_lists):
            return None
        compressed_by = None if forms[0].values is None else forms[0].values.compressed_by
        has_definition = any(map(has_levels, forms))
        if compressed_by is not None and (has_definition or not isinstance(compressed_by, General)):
            return None
        pages, held = page_table(forms, stored)
        return cls(
            data_type, nested, scheme_of(forms), stored, pages,
            held, table, index, num_rows, has_definition, dictionary, compressed_by, most_slots(forms),
        )  # fmt: skip

    @property
    def num_bytes(self) -> int:
        tables = self.pages.nbytes + (5 if self.index is None else 7) * 8 * len(self.table)
        held = sum([each.nbytes for each in self.held])
        return tables + held + (0 if self.dictionary is None else int(self.dictionary.values.nbytes))

    @cached_property
    def most_rows(self) -> int:
        num_slots = max(int(self.table.ends[-1]), self.num_rows, 1)
        num_bytes = max(int(self.table.sizes.sum()), 1)
        return min(self.most_slots * self.num_rows // num_slots, _MOST_PICKED_BYTES * self.num_rows // num_bytes)

    def at(self, starts: Int64Array) -> Picker:
        """A copy over other memory, in which the chunks begin at `starts` (int64[chunks])."""
        return replace(self, table=self.table.at(starts))

    def pick(self, data: pa.Buffer, rows: Int64Array) -> pa.Array | None:
        if self.scheme.max_rep and len(rows) > len(self.table):
            # Rows that share a chunk find it unpacked.
            distinct, order = np.unique(rows, return_inverse=True)
            if len(distinct) < len(rows) or bool((order[1:] < order[:-1]).any()):
                found = self.pick(data, distinct)
                return None if found is None else take(found, order)
        picked = self._picked(data, rows)
        leaf = self._leaf(picked, data)
        if leaf is None:
            return None
        definition = picked.definition
        if definition is not None and not definition.any():
            definition = None
        if self.path is None and definition is None:
            return leaf(None, picked.num_slots)
        levels = SlotLevels(picked.repetition, definition, picked.num_slots)
        if self.path is None:
            return leaf(*visible_validity(self.scheme, levels))
        return unravel(self.path, self.scheme, levels, leaf)

    def listed(self, data: pa.Buffer, rows: Int64Array) -> ListedValues | None:
        if self.scheme.max_rep != 1 or self.dictionary is not None or self.compressed_by is not None:
            return None
        picked = self._picked(data, rows)
        if picked.repetition is None or picked.num_values < picked.num_slots:
            return None
        if picked.definition is not None and picked.definition.any():
            return None
        values = self._block(picked)
        if values is None:
            return None
        bounds = np.append(picked.repetition.nonzero()[0], picked.num_values)
        return ListedValues(values, bounds)

    @cached_property
    def _slots_per_row(self) -> float:
        """Room for each row: the slots of a row of average length, and a quarter more."""
        # The last chunk of a damaged page can claim any number of values.
        num_slots = min(int(self.table.ends[-1]), len(self.table) * MAX_CHUNK_LEVELS)
        return 1 + 1.25 * num_slots / max(self.num_rows, 1)

    @cached_property
    def _tables(self) -> tuple[int, ...]:
        index = self.index
        lists = (0, 0) if index is None else (address_of(index.begun), address_of(index.finished))
        pages = address_of(self.pages), self.pages.shape[1]
        scheme = self.scheme.max_rep, self.scheme.max_visible_def
        return *pages, self.table.address, *lists, len(self.table), *scheme

    def _picked(self, data: pa.Buffer, rows: Int64Array) -> _Picked:
        num_rows = len(rows)
        room = _SPARE_SLOTS + int(num_rows * self._slots_per_row) if self.scheme.max_rep else num_rows
        picked = self._picked_into(data, rows, room)
        return self._picked_into(data, rows, picked.num_slots) if picked.num_slots > room else picked

    def _picked_into(self, data: pa.Buffer, rows: Int64Array, room: int) -> _Picked:
        """The slots of `rows`; if there is no room for them, only their number."""
        stored, max_rep = self.stored, self.scheme.max_rep
        repetition = np.empty(room, np.uint16) if max_rep else None
        definition = np.empty(room, np.uint16) if self.has_definition else None
        scratch = np.empty((2, SCRATCH_LEVELS) if self.index is not None else 0, np.uint16)
        strings: Int64Array = np.empty((3, room if stored is None else 0), np.int64)
        values = None if stored is None else _room_for(stored, room)
        owners = np.empty(room if self.dictionary is not None and self.dictionary.is_joined else 0, np.int64)
        totals = np.empty(2, np.int64)
        count = pick(
            data.address, data.size, *self._tables, address_of(rows), len(rows), address_of(scratch), room,
            0 if repetition is None else address_of(repetition),
            0 if definition is None else address_of(definition),
            address_of(strings) if values is None else values.address,
            address_of(owners) if len(owners) else 0,
            address_of(totals),
        )  # fmt: skip
        if count < 0:
            raise CorruptFileError("a page contradicts itself or its rows")
        num_values, most = totals.tolist()
        repetition = None if repetition is None else repetition[:count]
        definition = None if definition is None else definition[:count]
        return _Picked(count, num_values, repetition, definition, values, strings, owners[:num_values], most)

    def _block(self, picked: _Picked) -> FixedWidthBlock | VariableWidthBlock | None:
        """The values, or the indices into the dictionary; None if strings may be large."""
        if self.stored is None or picked.values is None:
            return self._copied_strings(picked)
        bits, num_values = self.stored.value_bits, picked.num_values
        return FixedWidthBlock(picked.values.slice(0, (num_values * bits + 7) // 8), bits, num_values)

    def _copied_strings(self, picked: _Picked) -> VariableWidthBlock | None:
        if picked.most_bytes > _MAX_BYTES:
            return None
        are_compressed = len(self.held) > 0
        target = pa.allocate_buffer(picked.most_bytes + SLACK_BYTES, resizable=are_compressed)
        bits, count = self._offset_bits, picked.num_values
        offsets = pa.allocate_buffer((count + 1) * bits // 8)
        table = address_of(picked.strings), picked.strings.shape[1]
        size = copy_strings(*table, count, bits // 8, offsets.address, target.address)
        if size < 0:
            raise CorruptFileError("a string has a code without a symbol")
        if are_compressed:
            target.resize(size, shrink_to_fit=True)
        return VariableWidthBlock(offsets, target.slice(0, size), bits, count)

    def _decompressed(self, general: General, picked: _Picked, data: pa.Buffer) -> Block | None:
        """The strings, decompressed where they lie in the file."""
        if picked.most_bytes > _MAX_BYTES:
            return None
        starts, sizes, _ = picked.strings[:, : picked.num_values]
        slices = Chunks(data, starts - data.address, sizes, np.ones(len(sizes), np.int64))
        return general.decode_slices(slices, self._offset_bits)

    @property
    def _offset_bits(self) -> int:
        return 64 if self.data_type.id in _LARGE else 32

    def _leaf(self, picked: _Picked, data: pa.Buffer) -> Leaf | None:
        """The values of all visible slots; None if strings may be large."""
        block: Block | None
        if self.compressed_by is not None:
            block = self._decompressed(self.compressed_by, picked, data)
        else:
            block = self._block(picked)
        if block is None:
            return None
        if self.stored is None:
            return block_leaf(block, self.data_type)
        if self.dictionary is None:
            assert isinstance(block, FixedWidthBlock)
            return _leaf_of(self.stored, block.data, picked.num_values)
        if self.dictionary.is_joined:
            block = self.dictionary.joined_indices(block, picked.owners)
        return self.dictionary.leaf(block)


def _room_for(stored: FixedWidth, count: int) -> pa.Buffer:
    """Memory for values; bits are 0."""
    if stored.value_bits == 1:
        return pa.py_buffer(np.zeros((count + 7) // 8, np.uint8))
    return pa.allocate_buffer(count * stored.value_bits // 8)


def _leaf_of(stored: FixedWidth, values: pa.Buffer, num_values: int) -> Leaf:
    def build(validity: pa.Buffer | None, count: int) -> pa.Array:
        check_count(num_values, count)
        return stored.array(values, num_values, validity)

    return build
