"""The form of a page: the places of its values in its file, for reads of few rows.

A page layout whose single rows can be found is a `PickableLayout` and names the form of each page; all else about such
reads is in `lance_spark.layouts.prepared`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable
from typing import NamedTuple, Protocol

import pyarrow as pa

from lance_spark.encodings.base import BlockEncoding, ValueForm
from lance_spark.encodings.blocks import FixedWidthBlock, Int64Array, VariableWidthBlock
from lance_spark.kernels.layouts.pick_levels import NO_LEVELS
from lance_spark.layouts.base import EncodedBuffer, EncodedPage, PageLayout
from lance_spark.layouts.leaf.arrays import PageDictionary
from lance_spark.layouts.mini_block.chunks import ChunkTable, RowIndex
from lance_spark.layouts.path import LeafPath
from lance_spark.layouts.repdef import RepDefLayer

NO_BUFFER = EncodedBuffer(0, 0)


class Run(Protocol):
    """Pages of a leaf, one behind the other."""

    @property
    def num_rows(self) -> int:
        """Rows of all pages."""
        ...

    @property
    def num_bytes(self) -> int:
        """Memory of the tables and the dictionary, in bytes."""
        ...

    @property
    def table(self) -> ChunkTable:
        """The chunks of all pages."""
        ...

    @property
    def most_rows(self) -> int:
        """Up to this many rows side by side, `pick` takes less time than decoding them; 0 if it never does."""
        ...

    def pick(self, data: pa.Buffer, rows: Int64Array) -> pa.Array | None:
        """The path array of `rows` (int64[n], at least one, in any order) of the pages in `data`.

        None if strings may be large.

        Raises:
            CorruptFileError: there is no such row, or a page contradicts itself.
        """
        ...

    def listed(self, data: pa.Buffer, rows: Int64Array) -> ListedValues | None:
        """The values of `rows` (int64[n], in any order) of a leaf whose rows are lists.

        None if one of the lists or values is null, a list is empty, values have a dictionary or are compressed, or
        strings may be large. Raises as `pick`.
        """
        ...


class ChunkLayout(Protocol):
    """A layout with chunks that can be decoded."""

    def join_key(self, wanted: int, num_rows: int) -> Hashable:
        """See `PageLayout.join_key`."""
        ...

    def run(
        self,
        path: LeafPath,
        num_rows: int,
        table: ChunkTable,
        index: RowIndex | None,
        dictionary: PageDictionary | None,
    ) -> Run:
        """Pages of this layout in memory.

        Args:
            table: the chunks of all pages.
            index: the rows of each chunk, if there are lists.
        """
        ...


class ListedValues(NamedTuple):
    """Lists without nulls, of which none is empty, without Arrow's arrays.

    Attributes:
        values: of all lists, one list behind the other.
        bounds: int64[n + 1], where the values of each list begin and end.
    """

    values: FixedWidthBlock | VariableWidthBlock
    bounds: Int64Array


class PageForm(NamedTuple):
    """See the module; numbers as `kernels.layouts.pick` reads them.

    Attributes:
        layout: CHUNKS, ZIPPED, BARE or REPEATED.
        layers: from the innermost outward.
        values: of all values, or of the indices into the dictionary; None if all are null.
        num_values: of CHUNKS those in the chunks; of others the rows of the page.
        data: the chunks, slots or values.
        size_bytes: bytes of a size in a chunk, or of a control word.
        rep_bits, def_bits: of a level; of ZIPPED plain numbers of bits.
        words: the chunk words.
        side_data: of CHUNKS the repetition index, of ZIPPED the index of rows; of BARE the validity bits, or the bytes
            of strings. None if there is none.
        side_bytes: of ZIPPED bytes of an entry of the index; of BARE those of all strings.
        adjustment: what is added to the ends of null strings (BARE).
        constant: the one value (REPEATED).
        dictionary, num_dictionary_items, dictionary_data: its encoding, its number of values and its bytes.
        decoded_by: the layout, where chunks have to be decoded for each row (CHUNKS).
    """

    layout: int
    layers: tuple[RepDefLayer, ...]
    values: ValueForm | None
    num_values: int
    data: EncodedBuffer = NO_BUFFER
    size_bytes: int = 0
    rep_bits: int = NO_LEVELS
    def_bits: int = NO_LEVELS
    words: EncodedBuffer = NO_BUFFER
    side_data: EncodedBuffer | None = None
    side_bytes: int = 0
    adjustment: int = 0
    constant: bytes | None = None
    dictionary: BlockEncoding | None = None
    num_dictionary_items: int = 0
    dictionary_data: EncodedBuffer = NO_BUFFER
    decoded_by: ChunkLayout | None = None

    @property
    def has_lists(self) -> bool:
        """Whether rows are lists."""
        return any(layer.is_list for layer in self.layers)


class PickableLayout(PageLayout):
    """A layout whose pages can have a form."""

    @abstractmethod
    def form(self, page: EncodedPage) -> PageForm | None:
        """The form of a page of this layout; None if its encodings do not allow to find single values."""
