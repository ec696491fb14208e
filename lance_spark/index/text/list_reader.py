"""Reads posting lists and positions of some terms, all of them together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark.encodings.blocks import FixedWidthBlock, Int64Array, VariableWidthBlock
from lance_spark.index.files import IndexFile, require_no_nulls
from lance_spark.index.text.stored import BLOBS, StoredList, StoredPositions, blobs_of
from lance_spark.layouts.base import RowRanges
from lance_spark.layouts.page_form import ListedValues

_LISTS, _COUNTS, _POSITIONS, _STARTS = "_posting", "_length", "_compressed_position", "_position_block_offset"
_LIST_COLUMNS = {_LISTS: BLOBS, _COUNTS: pa.uint32()}
_POSITION_COLUMNS = {_POSITIONS: pa.large_binary(), _STARTS: pa.list_(pa.uint32())}


class ListReader:
    """Reads from the file of a partition with a row for each term.

    Args:
        block: documents of a full block.
        num_docs: of the partition.

    Raises:
        CorruptFileError: the file is damaged; from every method.
    """

    def __init__(self, file: IndexFile, block: int, num_docs: int) -> None:
        self._file = file
        self._block = block
        self._num_docs = num_docs

    def lists(self, terms: Sequence[int]) -> list[StoredList]:
        """The posting lists of ascending terms."""
        return self._lists(self._read(terms, _LIST_COLUMNS))

    def with_positions(self, terms: Sequence[int]) -> tuple[list[StoredList], list[StoredPositions]]:
        """The posting lists of ascending terms, and their positions, which are a shared stream."""
        columns = self._read(terms, _LIST_COLUMNS | _POSITION_COLUMNS)
        lists = self._lists(columns)
        data, ends = blobs_of(columns.arrays[_POSITIONS])
        starts = _numbers_of(columns.lists[_STARTS])
        bounds = columns.lists[_STARTS].bounds.tolist()
        found = []
        for number, (term, stored) in enumerate(zip(terms, lists, strict=True)):
            own = starts[bounds[number] : bounds[number + 1]]
            if len(own) != len(stored.ends) - 1:
                raise self._file.damaged(f"the positions of term {term} have {len(own)} blocks")
            own_data = data[ends[number] : ends[number + 1]]
            # Copies, because other terms share the memory.
            found.append(StoredPositions(own_data.copy(), own.copy()))
        return lists, found

    def _lists(self, columns: _Columns) -> list[StoredList]:
        file = self._file
        data, ends = _blobs_of_lists(columns.lists[_LISTS])
        bounds = columns.lists[_LISTS].bounds.tolist()
        found = []
        for number, count in enumerate(columns.arrays[_COUNTS].to_pylist()):
            own = ends[bounds[number] : bounds[number + 1] + 1]
            if count > self._num_docs or count == 0:
                raise file.damaged(f"a posting list of {count} documents")
            if len(own) - 1 != -(-count // self._block):
                raise file.damaged(f"a posting list of {count} documents in {len(own) - 1} blocks")
            found.append(StoredList(data[own[0] : own[-1]].copy(), own - own[0], count))
        return found

    def _read(self, terms: Sequence[int], types: Mapping[str, pa.DataType]) -> _Columns:
        """Some columns at the rows of some terms; those that are not in memory by one read."""
        rows = np.array(terms, np.int64)
        found = _Columns({}, {})
        held = self._file.rows_in_memory(types)
        if held is not None:
            for name, column in zip(types, held.columns, strict=True):
                if column is not None:
                    is_list = pa.types.is_list(types[name])
                    found.add(name, column.listed(held.data, rows) if is_list else column.pick(held.data, rows))
        missing = {name: dtype for name, dtype in types.items() if name not in found.lists and name not in found.arrays}
        if missing:
            arrays = self._file.columns(missing, RowRanges(rows, rows + 1))
            for name, array in zip(missing, arrays, strict=True):
                found.add(name, self._listed(array) if pa.types.is_list(array.type) else array)
        require_no_nulls(self._file, [*found.arrays.values()])
        return found

    def _listed(self, array: pa.ListArray) -> ListedValues:
        values = array.flatten()
        require_no_nulls(self._file, [array, values])
        bounds = np.zeros(len(array) + 1, np.int64)
        np.cumsum(array.value_lengths().to_numpy(), out=bounds[1:])
        if values.type == BLOBS.value_type:
            data, ends = blobs_of(values)
            return ListedValues(VariableWidthBlock(pa.py_buffer(ends), pa.py_buffer(data), 64, len(values)), bounds)
        return ListedValues(FixedWidthBlock(pa.py_buffer(values.to_numpy()), 32, len(values)), bounds)


class _Columns(NamedTuple):
    lists: dict[str, ListedValues]
    arrays: dict[str, pa.Array]

    def add(self, name: str, values: ListedValues | pa.Array | None) -> None:
        """Keeps the values of a column, if they are known."""
        if isinstance(values, ListedValues):
            self.lists[name] = values
        elif values is not None:
            self.arrays[name] = values


def _blobs_of_lists(lists: ListedValues) -> tuple[npt.NDArray[np.uint8], Int64Array]:
    """(all bytes, int64[n + 1]: where each value starts)."""
    values = lists.values
    assert isinstance(values, VariableWidthBlock)
    return np.frombuffer(values.data, np.uint8), np.frombuffer(values.offsets, np.int64, values.num_values + 1)


def _numbers_of(lists: ListedValues) -> npt.NDArray[np.uint32]:
    return np.frombuffer(lists.values.data, np.uint32, lists.values.num_values)
