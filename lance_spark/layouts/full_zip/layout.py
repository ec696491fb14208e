"""Full-zip pages: large values, each preceded by its levels (`lance.encodings21.FullZipLayout`).

Buffer 0 has for each slot a *control word* of 1, 2 or 4 bytes, ``(rep << bits_def) | def`` (none if the page has no
levels), and then the value. The placeholder of a null or empty list is only a control word. Values of fixed width are
stored for nulls too, booleans as bytes; one of variable width is preceded by its length, and a null has neither length
nor bytes.

Buffer 1, the row index, exists if rows differ in size: ``num_rows + 1`` offsets into buffer 0, each in 1, 2, 4 or 8
bytes, the fewest possible. `num_items` counts all slots here, `num_visible_items` those with a value.

The slots of the binary values ``b"ab", null`` with 32-bit lengths::

    00 02000000 6162    control word 0 (valid), length, bytes
    01                  control word 1 (null)

A page is read completely, or only the slots of some rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from lance_spark._proto import encodings_v2_1_pb2 as pb
from lance_spark.encodings.base import PerValueEncoding
from lance_spark.encodings.blocks import Block, FixedWidthBlock, Int64Array, VariableWidthBlock
from lance_spark.encodings.registry import parse
from lance_spark.errors import CorruptFileError
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.layouts import full_zip as kernels
from lance_spark.kernels.layouts.pick import ZIPPED
from lance_spark.kernels.layouts.pick_values import STRINGS
from lance_spark.layouts.base import EncodedPage, Page, Reads, RowRanges
from lance_spark.layouts.leaf.arrays import Leaf, block_leaf
from lance_spark.layouts.page_form import PageForm, PickableLayout
from lance_spark.layouts.read_spans import ReadSpans, gathered
from lance_spark.layouts.registry import register
from lance_spark.layouts.repdef import LevelScheme, RepDefLayer, layers_from_wire, layers_to_wire
from lance_spark.layouts.unravel import SlotLevels, unravel

_MAX_NARROW_OFFSET = 2**31 - 1


@register
@dataclass(frozen=True, slots=True)
class FullZipLayout(PickableLayout):
    """The fields of the wire message. Exactly one of `bits_per_value` and `bits_per_offset` is set."""

    wire_name: ClassVar[str] = "full_zip_layout"
    value_compression: PerValueEncoding
    layers: tuple[RepDefLayer, ...]
    num_items: int
    num_visible_items: int
    bits_rep: int = 0
    bits_def: int = 0
    bits_per_value: int | None = None
    bits_per_offset: int | None = None

    @classmethod
    def from_proto(cls, message: Any) -> FullZipLayout:
        details = message.WhichOneof("details")
        layout = cls(
            parse(message.value_compression, PerValueEncoding),
            layers_from_wire(message.layers),
            message.num_items,
            message.num_visible_items,
            message.bits_rep,
            message.bits_def,
            message.bits_per_value if details == "bits_per_value" else None,
            message.bits_per_offset if details == "bits_per_offset" else None,
        )
        if details is None or layout.bits_per_offset not in (None, 32, 64):
            raise CorruptFileError("full-zip: neither a width of values nor a width of lengths")
        if layout.bits_per_value is not None and layout.bits_per_value % 8:
            raise CorruptFileError(f"full-zip: values of {layout.bits_per_value} bits are not whole bytes")
        if layout.bits_rep > 16 or layout.bits_def > 16:
            raise CorruptFileError(f"full-zip: levels of {layout.bits_rep} and {layout.bits_def} bits")
        return layout

    def to_proto(self) -> Any:
        message = pb.FullZipLayout(
            bits_rep=self.bits_rep,
            bits_def=self.bits_def,
            num_items=self.num_items,
            num_visible_items=self.num_visible_items,
            value_compression=self.value_compression.to_proto(),
            layers=layers_to_wire(self.layers),
        )
        if self.bits_per_value is not None:
            message.bits_per_value = self.bits_per_value
        if self.bits_per_offset is not None:
            message.bits_per_offset = self.bits_per_offset
        return pb.PageLayout(full_zip_layout=message)

    @property
    def control_bytes(self) -> int:
        """Bytes of a control word."""
        bits = self.bits_rep + self.bits_def
        return 0 if bits == 0 else 1 if bits <= 8 else 2 if bits <= 16 else 4

    def form(self, page: EncodedPage) -> PageForm | None:
        values = self.value_compression.value_form
        if values is None or (self.bits_rep > 0) != any(layer.is_list for layer in self.layers):
            return None
        if self.bits_def and self.layers == (RepDefLayer.ALL_VALID_ITEM,):
            return None
        data, *indices = page.buffers or (None,)
        if data is None or len(indices) > 1 or (self.bits_rep == 0 and self.num_items != page.num_rows):
            return None
        form = PageForm(
            ZIPPED, self.layers, values, page.num_rows, data, self.control_bytes, self.bits_rep, self.bits_def
        )  # fmt: skip
        if self.bits_per_value is not None and not indices:
            stride = self.control_bytes + self.bits_per_value // 8
            fits = values.bits * values.items == self.bits_per_value and data.size == page.num_rows * stride
            return form if fits and not form.has_lists else None
        if self.bits_per_offset is not None:
            form = form._replace(values=values._replace(bits=self.bits_per_offset))
        if not indices or (values.kind == STRINGS) != (self.bits_per_offset is not None):
            return None
        width = indices[0].size // (page.num_rows + 1)
        if width not in (1, 2, 4, 8) or width * (page.num_rows + 1) != indices[0].size:
            return None
        return form._replace(side_data=indices[0], side_bytes=width)

    def read(self, page: Page, rows: RowRanges) -> Reads[pa.Array]:
        return read_full_zip(self, page, rows)


def read_full_zip(layout: FullZipLayout, page: Page, rows: RowRanges) -> Reads[pa.Array]:
    """See `PageLayout.read`.

    A complete page is read in one round. Rows of equal size are located by arithmetic, others through the row index,
    which takes an extra round.
    """
    scheme = LevelScheme.of(layout.layers)
    if rows.is_all(page.num_rows):
        [data] = yield [page.whole(0)]
    else:
        # A page of fixed-size lists of structs counts their items as rows.
        slots = RowRanges(rows.starts * page.path.slots_per_row, rows.stops * page.path.slots_per_row)
        if layout.bits_per_value is not None and scheme.max_rep == 0:
            stride = layout.control_bytes + layout.bits_per_value // 8
            starts, stops = slots.starts * stride, slots.stops * stride
        else:
            starts, stops = yield from _read_row_index(page, slots)
        spans = ReadSpans.plan(starts, stops)
        [answer] = yield spans.slices(0)
        buffer, places = spans.located(answer)
        data = gathered(buffer, places, stops - starts)
    num_slots = rows.num_rows * page.path.slots_per_row
    if layout.control_bytes == 0 and layout.bits_per_value is not None:
        return _flat(layout, page, scheme, data, num_slots)
    counts = _scan(layout, scheme, data)
    if rows.is_all(page.num_rows) and counts[:2] != (layout.num_items, layout.num_visible_items):
        raise CorruptFileError(f"full-zip: {counts[0]} slots with {counts[1]} values contradict the page layout")
    return _unzip(layout, page, scheme, data, counts)


def _read_row_index(page: Page, rows: RowRanges) -> Reads[tuple[Int64Array, Int64Array]]:
    """(start, stop) of each range of rows in the zipped data.

    The first and the last entry are read too and must be 0 and the size of the data, so that an index whose position
    is wrong by some entries gives an error instead of wrong rows.
    """
    num_rows = page.num_rows * page.path.slots_per_row
    size = page.whole(1).length
    width = size // (num_rows + 1)
    if width not in (1, 2, 4, 8) or width * (num_rows + 1) != size:
        raise CorruptFileError(f"full-zip: a row index of {size} bytes for {num_rows} rows")
    # Two extra ranges without rows read the first and the last entry.
    before, after = int(rows.starts[0] > 0), int(rows.stops[-1] < num_rows)
    first_rows = np.concatenate([[0] * before, rows.starts, [num_rows] * after]).astype(np.int64)
    last_rows = np.concatenate([[0] * before, rows.stops, [num_rows] * after]).astype(np.int64)
    # The end of a range is the entry after its last row.
    spans = ReadSpans.plan(first_rows * width, (last_rows + 1) * width)
    [answer] = yield spans.slices(1)
    data, places = spans.located(answer)
    ends = places + (last_rows - first_rows) * width
    entry = np.full(len(places), width, np.int64)
    starts = np.frombuffer(gathered(data, places, entry), f"<u{width}")
    stops = np.frombuffer(gathered(data, ends, entry), f"<u{width}")
    falls = bool((starts > stops).any() or (starts[1:] < stops[:-1]).any())
    if falls or int(starts[0]) != 0 or int(stops[-1]) != page.buffer_sizes[0]:
        raise CorruptFileError("full-zip: the row index falls, or does not go from the start to the end of the page")
    chosen = slice(before, before + len(rows.starts))
    return starts[chosen].astype(np.int64), stops[chosen].astype(np.int64)


def _flat(layout: FullZipLayout, page: Page, scheme: LevelScheme, data: pa.Buffer, num_slots: int) -> pa.Array:
    """Values of fixed width without levels: the page has Arrow's layout."""
    assert layout.bits_per_value is not None
    if data.size != num_slots * layout.bits_per_value // 8:
        raise CorruptFileError(f"full-zip: {data.size} bytes for {num_slots} values of {layout.bits_per_value} bits")
    values = layout.value_compression.decode_values(FixedWidthBlock(data, layout.bits_per_value, num_slots))
    leaf = _leaf(values, page.path.nodes[0].data_type)
    return unravel(page.path, scheme, SlotLevels(None, None, num_slots), leaf)


def _unzip(
    layout: FullZipLayout, page: Page, scheme: LevelScheme, data: pa.Buffer, counts: tuple[int, int, int]
) -> pa.Array:
    """Separates control words, lengths and values."""
    num_slots, num_values, num_bytes = counts
    repetition = np.empty(num_slots, np.uint16) if scheme.max_rep else None
    definition = np.empty(num_slots, np.uint16) if scheme.max_def else None
    addresses = (
        0 if repetition is None else address_of(repetition),
        0 if definition is None else address_of(definition),
    )
    target = pa.allocate_buffer(num_bytes)
    control = (layout.control_bytes, layout.bits_def, scheme.max_visible_def)
    block: FixedWidthBlock | VariableWidthBlock
    if layout.bits_per_value is not None:
        kernels.unzip_fixed(
            data.address, num_slots, *control, layout.bits_per_value // 8, *addresses, target.address
        )  # fmt: skip
        block = FixedWidthBlock(target, layout.bits_per_value, num_values)
    else:
        assert layout.bits_per_offset is not None
        wide = layout.bits_per_offset == 64 or num_bytes > _MAX_NARROW_OFFSET
        bits = 64 if wide else 32
        offsets = pa.allocate_buffer((num_values + 1) * bits // 8)
        length_bytes = layout.bits_per_offset // 8
        kernels.unzip_variable(
            data.address, num_slots, *control, length_bytes, *addresses, wide, offsets.address, target.address
        )
        block = VariableWidthBlock(offsets, target, bits, num_values)
    values = layout.value_compression.decode_values(block)
    leaf = _leaf(values, page.path.nodes[0].data_type)
    return unravel(page.path, scheme, SlotLevels(repetition, definition, num_slots), leaf)


def _leaf(values: Block, data_type: pa.DataType) -> Leaf:
    """The leaf of decoded values. Each boolean has a byte: only whole bytes can be zipped."""
    if isinstance(values, FixedWidthBlock) and values.bits_per_value == 8 and pa.types.is_boolean(data_type):
        bits = np.packbits(np.frombuffer(values.data, np.uint8, values.num_values), bitorder="little")
        values = FixedWidthBlock(pa.py_buffer(bits), 1, values.num_values)
    return block_leaf(values, data_type)


def _scan(layout: FullZipLayout, scheme: LevelScheme, data: pa.Buffer) -> tuple[int, int, int]:
    """(slots, values, bytes of values) in `data`."""
    value_bytes = 0 if layout.bits_per_value is None else layout.bits_per_value // 8
    length_bytes = 0 if layout.bits_per_offset is None else layout.bits_per_offset // 8
    counts = np.zeros(3, np.int64)
    status = kernels.scan_slots(
        data.address,
        data.size,
        layout.control_bytes,
        layout.bits_def,
        scheme.max_rep,
        scheme.max_def,
        scheme.max_visible_def,
        value_bytes,
        length_bytes,
        address_of(counts),
    )
    if status < 0:
        raise CorruptFileError("full-zip: a slot contradicts the layers of its page or leaves the page")
    num_slots, num_values, num_bytes = (int(count) for count in counts)
    return num_slots, num_values, num_bytes
