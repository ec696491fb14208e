"""Decoded leaf values whose validity is not known yet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark.encodings.base import BlockEncoding
from lance_spark.encodings.blocks import Block, Chunks, FixedWidthBlock, Int64Array
from lance_spark.errors import CorruptFileError
from lance_spark.layouts.arrow_values import block_to_array
from lance_spark.layouts.base import Located
from lance_spark.schema.number_types import numpy_type

Leaf: TypeAlias = Callable[[pa.Buffer | None, int], pa.Array]
"""Creates the leaf's array from the validity (None: all valid) and the number of values according to the levels."""

_INDEX_TYPES = {8: pa.uint8(), 16: pa.uint16(), 32: pa.uint32(), 64: pa.uint64()}


def _positions(places: npt.NDArray[np.unsignedinteger[npt.NBitBase]], validity: pa.Buffer | None) -> pa.Array:
    return pa.Array.from_buffers(_INDEX_TYPES[places.itemsize * 8], len(places), [validity, pa.py_buffer(places)])


def block_leaf(block: Block, data_type: pa.DataType) -> Leaf:
    """A leaf of decoded values."""

    def build(validity: pa.Buffer | None, num_values: int) -> pa.Array:
        check_count(block.num_values, num_values)
        return block_to_array(block, data_type, validity)

    return build


def check_count(held: int, wanted: int) -> None:
    """Compares the number of values of a page with that of its levels.

    Raises:
        CorruptFileError: they differ.
    """
    if held != wanted:
        raise CorruptFileError(f"a page holds {held} values, but its levels say {wanted}")


@dataclass(frozen=True, slots=True)
class PageDictionary:
    """The dictionary of a page, or those of a run of pages, one behind the other.

    Attributes:
        values: the values, decoded once.
        data_type: type of the leaf: that of the values, or an Arrow dictionary of it (only of one page).
        sizes: int64[n], the number of values of each page.
    """

    values: pa.Array
    data_type: pa.DataType
    sizes: Int64Array

    @classmethod
    def decode(
        cls,
        encoding: BlockEncoding,
        sizes: Int64Array,
        buffers: Located,
        buffer_sizes: list[int],
        data_type: pa.DataType,
    ) -> PageDictionary:
        """Decodes the dictionaries of pages with `sizes` values, in `buffers` of `buffer_sizes` bytes.

        Raises:
            CorruptFileError: the bytes are inconsistent with the encoding or the type.
        """
        value_type = data_type.value_type if pa.types.is_dictionary(data_type) else data_type
        block = encoding.decode_blocks(Chunks(*buffers, np.array(buffer_sizes, np.int64), sizes))
        check_count(block.num_values, int(sizes.sum()))
        return cls(block_to_array(block, value_type), data_type, sizes)

    @property
    def is_joined(self) -> bool:
        """Whether there are several pages."""
        return len(self.sizes) > 1

    def joined_indices(self, indices: Block, pages: Int64Array) -> Block:
        """Indices into the dictionaries of their pages as indices into `values`.

        Args:
            pages: int64[n], the page of each index.

        Raises:
            CorruptFileError: an index outside of its page's dictionary.
        """
        check_count(indices.num_values, len(pages))
        places = self._places(indices)
        sizes = self.sizes.astype(np.uint64)
        if bool((places >= sizes[pages]).any()):
            raise CorruptFileError("an index outside of the dictionary of its page")
        moved = (places + (np.cumsum(sizes) - sizes)[pages]).astype(np.uint32)
        return FixedWidthBlock(pa.py_buffer(moved), 32, len(moved))

    def leaf(self, indices: Block) -> Leaf:
        """The values of dictionary indices. Those of nulls must be valid indices too.

        Raises:
            CorruptFileError: (when called) an index outside of the dictionary.
        """
        import pyarrow.compute as pc

        def build(validity: pa.Buffer | None, num_values: int) -> pa.Array:
            check_count(indices.num_values, num_values)
            places = self._places(indices)
            if pa.types.is_dictionary(self.data_type):
                return self._dictionary_array(places, validity)
            return pc.take(self.values, _positions(places, validity), boundscheck=False)

        return build

    def encoded_leaf(self, indices: Block) -> Leaf:
        """The values of dictionary indices as an Arrow dictionary array; see `leaf`."""

        def build(validity: pa.Buffer | None, num_values: int) -> pa.Array:
            check_count(indices.num_values, num_values)
            return pa.DictionaryArray.from_arrays(_positions(self._places(indices), validity), self.values)

        return build

    def _places(self, indices: Block) -> npt.NDArray[np.unsignedinteger[npt.NBitBase]]:
        bits = indices.bits_per_value if isinstance(indices, FixedWidthBlock) else 0
        if bits not in _INDEX_TYPES:
            raise CorruptFileError(f"dictionary indices of {bits} bits")
        assert isinstance(indices, FixedWidthBlock)
        places = np.frombuffer(indices.data, f"<u{bits // 8}", indices.num_values)
        if len(places) and int(places.max()) >= len(self.values):
            raise CorruptFileError(f"index {places.max()} in a dictionary of {len(self.values)} values")
        return places

    def _dictionary_array(
        self, places: npt.NDArray[np.unsignedinteger[npt.NBitBase]], validity: pa.Buffer | None
    ) -> pa.Array:
        index_type = self.data_type.index_type
        if len(self.values) > np.iinfo(numpy_type(index_type)).max:
            raise CorruptFileError(f"a dictionary of {len(self.values)} values for indices of type {index_type}")
        data = pa.py_buffer(places.astype(numpy_type(index_type)))
        return pa.DictionaryArray.from_buffers(self.data_type, len(places), [validity, data], self.values)
