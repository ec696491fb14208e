"""Values of single rows of a column whose pages have dictionaries, from a file in memory.

The indices are copied as numbers are (`single_rows`); the dictionaries were decoded once, one behind the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.encodings.blocks import Block, FixedWidthBlock, Int64Array
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.layouts.base import EncodedColumn, EncodedPage, Located, PageLayout
from lance_spark.layouts.in_memory.columns import MAX_PAGES
from lance_spark.layouts.in_memory.fixed_width import FixedWidth
from lance_spark.layouts.in_memory.page_tables import form_of_page, known_forms
from lance_spark.layouts.in_memory.single_rows import RowsOfColumn, SingleRows, kind_of_values
from lance_spark.layouts.leaf.arrays import PageDictionary
from lance_spark.layouts.mini_block.layout import MiniBlockLayout
from lance_spark.layouts.registry import parse_page

INDEX_TYPES = (pa.uint32(), pa.uint8(), pa.uint16(), pa.uint64())
"""What indices into dictionaries can be."""

_DICTIONARY = 2
"""The buffer of a mini-block page with its dictionary; its words and chunks are before it."""

_FEW_INDICES = 16
"""For so few, the texts of a dictionary are not all compared."""

_MAX_BYTES = 1 << 20
"""Of the dictionaries that are kept, in the file and decoded."""


@dataclass(frozen=True)
class DictionaryRows:
    """The pages of a column and their dictionaries.

    Attributes:
        indices: the pages without their dictionaries.
        dictionary: the values of all pages.
        page_ends: int64[n]: the rows up to the end of each page.
    """

    indices: SingleRows
    dictionary: PageDictionary
    page_ends: Int64Array

    @classmethod
    def of(cls, column: EncodedColumn, data_type: pa.DataType, data: pa.Buffer) -> DictionaryRows | None:
        """A column of the file `data`, which is a top-level field; None if it has pages of other kinds.

        A column that contradicts the format is left to the general way, as by `SingleRows`.
        """
        pages = [page for page in column.pages if page.num_rows]
        try:
            if not 0 < len(pages) <= MAX_PAGES or not _has_dictionary(parse_page(pages[0].type_url, pages[0].message)):
                return None
            parsed = [parse_page(page.type_url, page.message) for page in pages]
            layouts = [layout for layout in parsed if isinstance(layout, MiniBlockLayout)]
            if len(layouts) < len(pages):
                return None
            dictionary = dictionary_of_pages(pages, layouts, data_type, data)
            indices = None if dictionary is None else _indices(pages, layouts, data)
        except (CorruptFileError, UnsupportedFeatureError):
            return None
        if dictionary is None or indices is None or int(indices.chunks[3, -1]) != column.num_rows:
            return None
        return cls(indices, dictionary, np.cumsum([page.num_rows for page in pages], dtype=np.int64))

    @property
    def num_bytes(self) -> int:
        """Memory of the tables and the dictionary, in bytes."""
        return self.indices.num_bytes + int(self.dictionary.values.nbytes)

    @property
    def value_bits(self) -> int:
        """Bits of an index, which is copied for a value."""
        return self.indices.value_bits

    @property
    def values(self) -> FixedWidth:
        """Type of the indices, which are copied for values."""
        return self.indices.values

    def of_rows(self, data: pa.Buffer, rows: Int64Array) -> pa.Array | None:
        """The values of `rows` (int64[n], in any order); None as `SingleRows.taken`."""
        num_rows = len(rows)
        copied = self.indices.copied([RowsOfColumn(self.indices, data, rows)], num_rows)
        if copied is None:
            return None
        block: Block = FixedWidthBlock(copied[0], self.values.bits, num_rows)
        try:
            if self.dictionary.is_joined:
                block = self.dictionary.joined_indices(block, self.page_ends.searchsorted(rows, side="right"))
            return self.dictionary.leaf(block)(copied[1], num_rows)
        except CorruptFileError:
            return None

    def places_of(self, data: pa.Buffer, rows: Int64Array, text: str) -> Int64Array | None:
        """int64: the places among `rows` (int64[n]) of those that have a text; None as of `of_rows`, and if pages have
        dictionaries of their own.
        """
        if self.dictionary.is_joined:
            return None
        copied = self.indices.copied([RowsOfColumn(self.indices, data, rows)], len(rows))
        if copied is None:
            return None
        indices = np.frombuffer(copied[0], f"<u{self.values.bits // 8}", len(rows))
        if copied[1] is None:
            return self._with_text(indices, text)
        bits = np.unpackbits(np.frombuffer(copied[1], np.uint8), count=len(rows), bitorder="little")
        valid: Int64Array = bits.nonzero()[0]
        found = self._with_text(indices[valid], text)
        return None if found is None else valid[found]

    def _with_text(self, indices: npt.NDArray[np.unsignedinteger[Any]], text: str) -> Int64Array | None:
        """int64: the places among indices of those of a text; None if one is outside of the dictionary."""
        values = self.dictionary.values
        few = indices.tolist() if len(indices) <= _FEW_INDICES else [int(indices.max())]
        if max(few, default=0) >= len(values):
            return None
        if len(indices) <= _FEW_INDICES:
            return np.array([place for place, index in enumerate(few) if values[index].as_py() == text], np.int64)
        is_text: npt.NDArray[np.bool_] = pc.equal(values, text).fill_null(False).to_numpy(zero_copy_only=False)
        found: Int64Array = is_text[indices].nonzero()[0]
        return found


def _has_dictionary(layout: PageLayout) -> bool:
    return isinstance(layout, MiniBlockLayout) and layout.dictionary is not None


def dictionary_of_pages(
    pages: Sequence[EncodedPage], layouts: Sequence[MiniBlockLayout], data_type: pa.DataType, data: pa.Buffer
) -> PageDictionary | None:
    """The dictionaries of all pages; None if they are not alike, large, or not inside of the file.

    Args:
        data_type: of the values, or an Arrow dictionary of it.

    Raises:
        CorruptFileError: the bytes are inconsistent with the encoding or the type.
    """
    encoding = layouts[0].dictionary
    if encoding is None or any(layout.dictionary != encoding for layout in layouts):
        return None
    if len(pages) > 1 and pa.types.is_dictionary(data_type):
        # Each page gives an array with a dictionary of its own.
        return None
    if any(len(page.buffers) <= _DICTIONARY for page in pages):
        return None
    starts, sizes = zip(*[page.buffers[_DICTIONARY] for page in pages], strict=True)
    if sum(sizes) > _MAX_BYTES or min(starts) < 0 or min(sizes) < 0:
        return None
    if any(start + size > data.size for start, size in zip(starts, sizes, strict=True)):
        return None
    counts = np.array([layout.num_dictionary_items for layout in layouts], np.int64)
    located = Located(data, np.array(starts, np.int64))
    dictionary = PageDictionary.decode(encoding, counts, located, list(sizes), data_type)
    return dictionary if dictionary.values.nbytes <= _MAX_BYTES else None


def _indices(pages: Sequence[EncodedPage], layouts: Sequence[MiniBlockLayout], data: pa.Buffer) -> SingleRows | None:
    for index_type in INDEX_TYPES:
        values = FixedWidth(index_type, index_type.bit_width)
        forms = known_forms(
            [
                form_of_page(page, layout, kind_of_values(layout.value_compression, values), with_dictionary=True)
                for page, layout in zip(pages, layouts, strict=True)
            ]
        )
        if forms is not None:
            return SingleRows.of_forms(values, pages, forms, data)
    return None
