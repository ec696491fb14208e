"""Rows of a leaf below structs and lists, picked out of the chunks of a file in memory by one call of a kernel.

That is possible for values of fixed width, strings, and indices into dictionaries, whose chunks are not compressed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark.cached import cached_property
from lance_spark.encodings.base import MiniBlockEncoding
from lance_spark.encodings.blocks import Block, FixedWidthBlock, Int64Array, VariableWidthBlock
from lance_spark.encodings.fsst import Fsst
from lance_spark.encodings.variable import Variable
from lance_spark.errors import CorruptFileError
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.layouts.picked_levels import SCRATCH_LEVELS
from lance_spark.kernels.layouts.picked_rows import FORM_NUMBERS, STRINGS, pick_list_rows, pick_rows
from lance_spark.kernels.layouts.single_rows import NO_LEVELS, PACKED_LEVELS, RUNS
from lance_spark.layouts.in_memory.dictionary_rows import INDEX_TYPES
from lance_spark.layouts.in_memory.fixed_width import FixedWidth
from lance_spark.layouts.in_memory.listed_values import ListedValues
from lance_spark.layouts.in_memory.page_tables import LARGE_SIZES, SMALL_SIZES, level_bits
from lance_spark.layouts.in_memory.single_rows import kind_of_values
from lance_spark.layouts.in_memory.string_rows import address_of_symbols, copied_strings
from lance_spark.layouts.leaf.arrays import Leaf, block_leaf, check_count
from lance_spark.layouts.leaf.values import is_variable
from lance_spark.layouts.mini_block.chunks import RowIndex
from lance_spark.layouts.mini_block.layout import Decoder
from lance_spark.layouts.repdef import LevelScheme
from lance_spark.layouts.unravel import SlotLevels, unravel

_SPARE_SLOTS = 64
"""Room beyond what rows of average length need; where it is not enough, they are picked once more."""


@dataclass(frozen=True)
class RowPicker:
    """Picks rows of a run.

    Attributes:
        decoder, index, bases: see `PreparedRun`.
        form: int64[FORM_NUMBERS], see there.
        words: the values of fixed width, or the indices into the dictionary; None for strings.
        symbols: to which `form` refers, if strings are compressed.
    """

    decoder: Decoder
    index: RowIndex | None
    bases: Int64Array
    form: Int64Array
    words: FixedWidth | None
    symbols: dict[bytes, npt.NDArray[np.uint8]]

    @classmethod
    def of(cls, decoder: Decoder, index: RowIndex | None, bases: Int64Array) -> RowPicker | None:
        """None if the kernels do not know an encoding of the run."""
        layout = decoder.layout
        rep_bits, def_bits = level_bits(layout.rep_compression), level_bits(layout.def_compression)
        if rep_bits is None or def_bits is None or layout.has_lists == (rep_bits == NO_LEVELS):
            return None
        if layout.has_lists and PACKED_LEVELS in (rep_bits, def_bits):
            return None
        data_type = decoder.path.nodes[0].data_type
        symbols: dict[bytes, npt.NDArray[np.uint8]] = {}
        encoding: MiniBlockEncoding = layout.value_compression
        words, kind, width, address = None, STRINGS, 0, 0
        if layout.dictionary is None and is_variable(data_type):
            if isinstance(encoding, Fsst):
                address, encoding = address_of_symbols(encoding.symbol_table, symbols), encoding.values
            if not isinstance(encoding, Variable):
                return None
            width = encoding.bits_per_offset // 8
        else:
            found = _words(encoding, (data_type,) if layout.dictionary is None else INDEX_TYPES)
            if found is None:
                return None
            words, kind = found
            width = words.value_bits // 8
        scheme = LevelScheme.of(layout.layers)
        size_bytes = LARGE_SIZES if layout.has_large_chunk else SMALL_SIZES
        form = size_bytes, rep_bits, def_bits, kind, width, scheme.max_rep, scheme.max_visible_def, address
        assert len(form) == FORM_NUMBERS
        return cls(decoder, index, bases, np.array(form, np.int64), words, symbols)

    @property
    def num_chunks(self) -> int:
        """The chunks of the run."""
        return len(self.decoder.table)

    def read(self, data: pa.Buffer, rows: Int64Array) -> pa.Array | None:
        """The path array of `rows` (int64[n], in any order) of the file `data`; None if strings may be large.

        Raises:
            CorruptFileError: there is no such row, or a chunk contradicts itself.
        """
        picked = self._all_picked(data, rows)
        leaf = self._leaf(picked)
        if leaf is None:
            return None
        levels = [each[: picked.num_slots] for each in picked.levels]
        repetition = levels[0] if self.index is not None else None
        definition = levels[-1] if self.decoder.layout.def_compression is not None else None
        slots = SlotLevels(repetition, definition, picked.num_slots)
        return unravel(self.decoder.path, LevelScheme.of(self.decoder.layout.layers), slots, leaf)

    def listed(self, data: pa.Buffer, rows: Int64Array) -> ListedValues | None:
        """The values of `rows` (int64[n], in any order) of a leaf whose rows are lists, without Arrow's arrays.

        None if one of the lists or values is null, a list is empty, values have a dictionary, or strings may be large.

        Raises:
            CorruptFileError: as `read`.
        """
        layout = self.decoder.layout
        if self.index is None or layout.dictionary is not None or LevelScheme.of(layout.layers).max_rep > 1:
            return None
        picked = self._all_picked(data, rows)
        count = picked.num_slots
        if picked.num_values < count or (layout.def_compression is not None and picked.levels[-1][:count].any()):
            return None
        starts = picked.levels[0][:count].nonzero()[0]
        block = self._block(picked)
        return None if block is None else ListedValues.of(block, starts, len(rows))

    def _all_picked(self, data: pa.Buffer, rows: Int64Array) -> _Picked:
        room = len(rows) if self.index is None else _SPARE_SLOTS + int(len(rows) * self._slots_per_row)
        picked = self._picked(data, rows, room)
        return self._picked(data, rows, picked.num_slots) if picked.num_slots > room else picked

    @cached_property
    def _slots_per_row(self) -> float:
        """Room for each row: the slots of a row of average length, and a quarter more."""
        return 1 + 1.25 * int(self.decoder.table.ends[-1]) / self.decoder.num_rows

    @cached_property
    def _tables(self) -> tuple[int, ...]:
        index = self.index
        lists = () if index is None else (address_of(index.begun), address_of(index.finished))
        return address_of(self.bases), self.decoder.table.address, *lists, self.num_chunks, address_of(self.form)

    def _picked(self, data: pa.Buffer, rows: Int64Array, room: int) -> _Picked:
        """The slots of `rows`; if there is no room for them, only their number."""
        dictionary, words = self.decoder.dictionary, self.words
        has_definition = self.decoder.layout.def_compression is not None
        levels = [np.empty(room, np.uint16) for _ in range((self.index is not None) + has_definition)]
        found = np.empty((3, room if words is None else 0), np.int64)
        values = None if words is None else _room_for(words, room)
        owners = np.empty(room if dictionary is not None and dictionary.is_joined else 0, np.int64)
        totals = np.empty(2, np.int64)
        targets = (
            address_of(levels[-1]) if has_definition else 0,
            address_of(found) if values is None else values.address,
            address_of(owners) if len(owners) else 0,
            address_of(totals),
        )
        wanted = data.address, *self._tables, address_of(rows), len(rows)
        if self.index is None:
            count = pick_rows(*wanted, *targets)
        else:
            scratch = np.empty((2, SCRATCH_LEVELS), np.uint16)
            count = pick_list_rows(*wanted, address_of(scratch), room, address_of(levels[0]), *targets)
        if count < 0:
            raise CorruptFileError("mini-block: a chunk contradicts itself or its rows")
        return _Picked(count, levels, found, values, owners, *totals.tolist())

    def _block(self, picked: _Picked) -> FixedWidthBlock | VariableWidthBlock | None:
        """The values, or the indices into the dictionary; None if strings may be large."""
        num_values = picked.num_values
        if self.words is None or picked.values is None:
            data_type = self.decoder.path.nodes[0].data_type
            are_compressed = bool(self.symbols)
            return copied_strings(picked.found, num_values, picked.most_bytes, data_type, are_compressed=are_compressed)
        values = picked.values.slice(0, (num_values * self.words.value_bits + 7) // 8)
        return FixedWidthBlock(values, self.words.value_bits, num_values)

    def _leaf(self, picked: _Picked) -> Leaf | None:
        num_values, dictionary = picked.num_values, self.decoder.dictionary
        block = self._block(picked)
        if block is None:
            return None
        if self.words is None:
            return block_leaf(block, self.decoder.path.nodes[0].data_type)
        if dictionary is None:
            return _leaf_of_words(self.words, block.data, num_values)
        indices: Block = block
        if dictionary.is_joined:
            indices = dictionary.joined_indices(indices, picked.owners[:num_values])
        return dictionary.leaf(indices)


class _Picked(NamedTuple):
    """Result of a kernel that picks rows; see `kernels.layouts.picked_rows`."""

    num_slots: int
    levels: list[npt.NDArray[np.uint16]]
    found: Int64Array
    values: pa.Buffer | None
    owners: Int64Array
    num_values: int
    most_bytes: int


def _words(encoding: MiniBlockEncoding, types: Sequence[pa.DataType]) -> tuple[FixedWidth, int] | None:
    """The first of `types` whose values are encoded so, and their kind."""
    for data_type in types:
        words = FixedWidth.of_type(data_type)
        kind = None if words is None else kind_of_values(encoding, words)
        if words is not None and kind is not None:
            return None if kind == RUNS else (words, kind)
    return None


def _room_for(words: FixedWidth, count: int) -> pa.Buffer:
    """Memory for values; bits are 0."""
    if words.value_bits == 1:
        return pa.py_buffer(np.zeros((count + 7) // 8, np.uint8))
    return pa.allocate_buffer(count * words.value_bits // 8)


def _leaf_of_words(words: FixedWidth, values: pa.Buffer, num_values: int) -> Leaf:
    def build(validity: pa.Buffer | None, count: int) -> pa.Array:
        check_count(num_values, count)
        return words.array(values, num_values, validity)

    return build
