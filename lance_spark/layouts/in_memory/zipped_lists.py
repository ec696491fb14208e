"""Byte strings in the lists of single rows, copied out of full-zip pages of a file in memory by two calls of kernels.

Such are the posting lists of text indexes of the reference library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_spark.cached import cached_property
from lance_spark.encodings.blocks import Int64Array
from lance_spark.encodings.variable import Variable
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.layouts.zipped_lists import NUM_FIELDS, locate_zipped_lists
from lance_spark.layouts.arrow_values import block_to_array
from lance_spark.layouts.base import EncodedColumn, EncodedPage
from lance_spark.layouts.full_zip.layout import FullZipLayout
from lance_spark.layouts.in_memory.columns import MAX_PAGES
from lance_spark.layouts.in_memory.listed_values import ListedValues
from lance_spark.layouts.in_memory.string_rows import copied_strings, index_bytes
from lance_spark.layouts.leaf.values import is_variable
from lance_spark.layouts.path import LeafPath, NodeKind
from lance_spark.layouts.registry import parse_page
from lance_spark.schema.arrow import to_arrow_type
from lance_spark.schema.columns import paths
from lance_spark.schema.field import Field, FieldId

_SPARE_STRINGS = 64
"""Room beyond what rows of average length need; where it is not enough, they are located once more."""


@dataclass(frozen=True)
class ZippedLists:
    """The pages of a column of lists of strings or binaries.

    Attributes:
        path: from the strings to the lists.
        file_size: of the file, in bytes.
        pages: the table of `kernels.layouts.zipped_lists.locate_zipped_lists`.
        num_slots: of all pages.
    """

    path: LeafPath
    file_size: int
    pages: Int64Array
    num_slots: int

    @classmethod
    def of(cls, field: Field, columns: Mapping[FieldId, EncodedColumn], data: pa.Buffer) -> ZippedLists | None:
        """A top-level field of the file `data`; None if it is of another kind.

        A field that contradicts the format is left to the general way, as by `SingleRows`.

        Args:
            columns: of its leaves.
        """
        of_leaves = paths(field)
        column = columns.get(of_leaves[0][-1].id) if len(of_leaves) == 1 else None
        if column is None:
            return None
        pages = [page for page in column.pages if page.num_rows]
        try:
            path = LeafPath.of(of_leaves[0])
            layouts = [parse_page(page.type_url, page.message) for page in pages]
        except (CorruptFileError, UnsupportedFeatureError):
            return None
        if len(path.nodes) != 2 or path.nodes[1].kind not in (NodeKind.LIST, NodeKind.LARGE_LIST):
            return None
        is_whole = path.data_type.equals(to_arrow_type(field), check_metadata=True)
        if not is_whole or not is_variable(path.nodes[0].data_type) or not 0 < len(pages) <= MAX_PAGES:
            return None
        zipped = [layout for layout in layouts if isinstance(layout, FullZipLayout)]
        forms = [_form(page, layout, data) for page, layout in zip(pages, zipped, strict=False)]
        known = [form for form in forms if form is not None]
        if len(known) < len(pages):
            return None
        table = np.ascontiguousarray(np.array(known, np.int64).T)
        np.cumsum(table[NUM_FIELDS - 1], out=table[NUM_FIELDS - 1])
        if int(table[NUM_FIELDS - 1, -1]) != column.num_rows:
            return None
        return cls(path, data.size, table, sum([layout.num_items for layout in zipped]))

    @property
    def num_bytes(self) -> int:
        """Memory of the table, in bytes."""
        return self.pages.nbytes

    @property
    def num_rows(self) -> int:
        """Rows of the column."""
        return int(self.pages[NUM_FIELDS - 1, -1])

    @cached_property
    def value_bits(self) -> int:
        """About how many bits of the file are a row."""
        return 8 * int(self.pages[1].sum()) // self.num_rows

    def of_rows(self, data: pa.Buffer, rows: Int64Array) -> pa.Array | None:
        """The lists of `rows` (int64[n], in any order); None as of `listed`."""
        found = self.listed(data, rows)
        if found is None:
            return None
        data_type = self.path.data_type
        offset_type = np.int64 if self.path.nodes[1].kind is NodeKind.LARGE_LIST else np.int32
        offsets = pa.py_buffer(found.bounds.astype(offset_type))
        try:
            values = block_to_array(found.values, self.path.nodes[0].data_type)
        except CorruptFileError:
            return None
        return pa.Array.from_buffers(data_type, len(rows), [None, offsets], children=[values])

    def listed(self, data: pa.Buffer, rows: Int64Array) -> ListedValues | None:
        """The strings of `rows` (int64[n], in any order).

        None if the pages contradict themselves, there is no such row, a list or string is null, a list is empty, or the
        strings are large.
        """
        if data.size < self.file_size:
            return None
        starts, total = np.empty(len(rows), np.int64), np.empty(1, np.int64)
        room = _SPARE_STRINGS + len(rows) * self.num_slots // self.num_rows
        while True:
            # Not written where strings are not compressed.
            found = np.zeros((3, room), np.int64)
            count = locate_zipped_lists(
                data.address, address_of(self.pages), self.pages.shape[1], address_of(rows), len(rows), room,
                address_of(found), address_of(starts), address_of(total),
            )  # fmt: skip
            if count <= room:
                break
            room = count
        if count < 0:
            return None
        block = copied_strings(found, count, int(total[0]), self.path.nodes[0].data_type, are_compressed=False)
        return None if block is None else ListedValues.of(block, starts, len(rows))


def _form(page: EncodedPage, layout: FullZipLayout, data: pa.Buffer) -> Sequence[int] | None:
    """The column of a page in the table of pages; None if a kernel cannot find its strings."""
    is_list = len(layout.layers) == 2 and layout.layers[1].is_list and not layout.layers[0].is_list
    width = index_bytes(page, layout, data)
    if not is_list or layout.bits_rep < 1 or width == 0 or not isinstance(layout.value_compression, Variable):
        return None
    (start, size), (index, _) = page.buffers
    length_bytes = (layout.bits_per_offset or 0) // 8
    return start, size, index, width, layout.control_bytes, 1 << layout.bits_def, length_bytes, page.num_rows
