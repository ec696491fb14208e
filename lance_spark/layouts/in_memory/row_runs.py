"""Values of rows side by side of a column of a file in memory, for files that are asked once.

`SingleRows` lists the chunks of a column before the first read of it. That pays for columns that are read again and
again; a small file that is read as a whole, and a page of an index, are copied sooner by one walk over the chunks.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark.encodings.flat import Flat
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.kernels.bitpack import BLOCK_VALUES
from lance_spark.kernels.layouts.single_rows import NO_LEVELS, copy_run
from lance_spark.layouts.base import EncodedColumn, EncodedPage
from lance_spark.layouts.in_memory.fixed_width import FixedWidth
from lance_spark.layouts.in_memory.page_tables import Form, form_of_page
from lance_spark.layouts.in_memory.single_rows import form_of, kind_of_values
from lance_spark.layouts.mini_block.layout import MiniBlockLayout
from lance_spark.layouts.registry import parse_page

_INDICES = FixedWidth(pa.uint32(), 32)
"""What writers have as indices into dictionaries."""

_MAX_PACKED_BYTES = 8
_NO_BUFFERS = ((0, 0), (0, 0))


def run_of_rows(
    column: EncodedColumn, data_type: pa.DataType, data: pa.Buffer, first: int, num_rows: int
) -> pa.Array | None:
    """The values of `num_rows` rows, at least one, from number `first` on, of a top-level field of the file `data`.

    None if they are of no fixed width in whole bytes, can be null, lie in pages of other layouts than mini-blocks or
    one value, or contradict the format: then the general way reads them, or says what is wrong.
    """
    values = FixedWidth.of_type(data_type)
    width = 0 if values is None else values.value_bits // 8
    if values is None or not width or sum([page.num_rows for page in column.pages]) != column.num_rows:
        return None
    # A block of packed values is unpacked behind those that are wanted.
    target = pa.allocate_buffer((num_rows + (BLOCK_VALUES if width <= _MAX_PACKED_BYTES else 0)) * width)
    taken = 0
    try:
        for page in column.pages:
            wanted = min(page.num_rows - first, num_rows - taken)
            if wanted <= 0:
                first -= page.num_rows
                continue
            layout = parse_page(page.type_url, page.message)
            # Checks against abstract classes take as long as to copy a page.
            if type(layout) is MiniBlockLayout and layout.dictionary is not None:
                found = _looked_up(width, page, layout, data, first, wanted)
                if found is None or values.items > 1:
                    return None
                np.frombuffer(target, found.dtype, wanted, taken * width)[:] = found
            elif not _copied(page, form_of(values, page, layout), data, first, wanted, width, target, taken * width):
                return None
            taken, first = taken + wanted, 0
            if taken == num_rows:
                return values.array(target.slice(0, num_rows * width), num_rows, None)
    except (CorruptFileError, UnsupportedFeatureError):
        return None
    return None


def _copied(
    page: EncodedPage,
    form: Form | None,
    data: pa.Buffer,
    first: int,
    wanted: int,
    width: int,
    target: pa.Buffer,
    at: int,
) -> bool:
    """Whether the values of some rows of a page were copied to byte `at` of `target`."""
    if form is None or form[2] != NO_LEVELS:
        return False
    words, chunks = page.buffers[:2] or _NO_BUFFERS
    code: int = copy_run(
        data.address, data.size, form[0], form[1], *words, *chunks, page.num_rows, first, wanted, width,
        target.address + at,
    )  # fmt: skip
    return code == 0


def _looked_up(
    width: int, page: EncodedPage, layout: MiniBlockLayout, data: pa.Buffer, first: int, wanted: int
) -> npt.NDArray[np.void] | None:
    """The values of some rows of a page with a dictionary, of `width` bytes each."""
    encoding, count = layout.dictionary, layout.num_dictionary_items
    kind = kind_of_values(layout.value_compression, _INDICES)
    form = form_of_page(page, layout, kind, with_dictionary=True)
    if form is None or not isinstance(encoding, Flat) or encoding.bits_per_value != 8 * width:
        return None
    start, size = page.buffers[2]
    if start < 0 or size < count * width or start + size > data.size:
        return None
    target = pa.allocate_buffer((wanted + BLOCK_VALUES) * _INDICES.bits // 8)
    if not _copied(page, form, data, first, wanted, _INDICES.bits // 8, target, 0):
        return None
    indices = np.frombuffer(target, np.uint32, wanted)
    return np.frombuffer(data, f"V{width}", count, start)[indices] if int(indices.max()) < count else None
