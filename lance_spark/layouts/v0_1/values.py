"""Values of a 0.1 file (Lance file format specification, version 0.1).

========================  =======================================================================================
fixed width               the values back to back, booleans as bits; decimals, fixed-size lists and binaries too
string, binary            n + 1 int64 positions in the file; value i is from position i to position i + 1
list                      rows + 1 int32 (large lists: int64) offsets into the item page of the same row group
dictionary                indices as a fixed-width page; the values are once in the file (`Field.dictionary`)
struct                    nothing
========================  =======================================================================================

The format has no validity: a null of fixed width was written as 0, a null list as an empty one. A string or binary
value without bytes is null in a nullable column, as the reference library reads it, and empty in any other.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping

import numpy as np
import pyarrow as pa

from lance_spark.encodings.blocks import Int64Array
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.layouts.arrow_take import take
from lance_spark.layouts.arrow_values import null_rows
from lance_spark.layouts.base import Answer, FieldReads, FileRange, FileRequest, RowRanges, side_by_side
from lance_spark.layouts.checked_values import checked
from lance_spark.layouts.v0_1.row_groups import Page, RowGroups
from lance_spark.schema import logical_type as lt
from lance_spark.schema.arrow import to_arrow_type
from lance_spark.schema.field import Field, FieldId

ArrayReads = Generator[list[FileRequest], list[Answer], pa.Array]

_MAX_SPAN_RATIO = 16
"""Rows of a group with at most this average distance are read with all rows between them."""

_OFFSET_TYPES = {
    pa.string().id: np.int32,
    pa.binary().id: np.int32,
    pa.large_string().id: np.int64,
    pa.large_binary().id: np.int64,
}


def read_field(field: Field, known: Mapping[FieldId, Field], groups: RowGroups, rows: RowRanges) -> FieldReads:
    """The values of a top-level `field` at `rows` of the file, one chunk per span of rows.

    Args:
        known: the fields of the file's own schema, with the positions of dictionaries. Any other field is null.

    Raises:
        CorruptFileError: the file violates the format.
        UnsupportedFeatureError: a type that the format does not support.
    """
    dictionaries = yield from _read_dictionaries(field, known)
    reads = []
    for group, wanted in groups.touched(rows):
        values = _GroupValues(group, groups, known, dictionaries)
        reads += [_read_span(values, field, span) for span in _spans(wanted)]
    arrays = yield from side_by_side(reads)
    return pa.chunked_array(arrays, to_arrow_type(field))


def _spans(rows: RowRanges) -> list[RowRanges]:
    """`rows` split into spans, each read from its first row to its last one."""
    first, last = int(rows.starts[0]), int(rows.stops[-1])
    if len(rows.starts) == 1 or last - first <= rows.num_rows * _MAX_SPAN_RATIO:
        return [rows]
    return [RowRanges.of(start, stop) for start, stop in zip(rows.starts.tolist(), rows.stops.tolist(), strict=True)]


def _read_span(values: _GroupValues, field: Field, rows: RowRanges) -> ArrayReads:
    first, last = int(rows.starts[0]), int(rows.stops[-1])
    array = yield from values.read(field, first, last)
    return array if len(rows.starts) == 1 else take(array, rows.indices() - first)


def _read_dictionaries(
    field: Field, known: Mapping[FieldId, Field]
) -> Generator[list[FileRequest], list[Answer], dict[FieldId, pa.Array]]:
    """The values of the dictionary columns below `field`, by field id."""
    wanted = [node for node in field.walk() if lt.is_dictionary(node.logical_type) and node.id in known]
    arrays = yield from side_by_side([_read_dictionary(node, known[node.id]) for node in wanted])
    return {node.id: array for node, array in zip(wanted, arrays, strict=True)}


def _read_dictionary(field: Field, described: Field) -> ArrayReads:
    location = described.dictionary
    if location is None:
        raise CorruptFileError(f"the values of dictionary {field.name!r} have no place in the file")
    value_type = to_arrow_type(field).value_type
    page = Page(location.offset, location.length)
    if value_type.id in _OFFSET_TYPES:
        return (yield from _read_variable_width(page, value_type, 0, page.num_items, nullable=field.nullable))
    return (yield from _read_fixed_width(page, value_type, 0, page.num_items))


class _GroupValues:
    """Reads the values of one row group; rows and items are relative to the group."""

    def __init__(
        self, group: int, groups: RowGroups, known: Mapping[FieldId, Field], dictionaries: Mapping[FieldId, pa.Array]
    ) -> None:
        self._group = group
        self._groups = groups
        self._known = known
        self._dictionaries = dictionaries

    def read(self, field: Field, start: int, stop: int) -> ArrayReads:
        """Values `start` to `stop` of `field`."""
        data_type = to_arrow_type(field)
        if stop - start > self._groups.max_items:
            raise CorruptFileError(f"field {field.name!r} claims {stop - start} values, more than the file has bits")
        if field.id not in self._known or pa.types.is_null(data_type):
            return null_rows(stop - start, data_type)
        if field.logical_type == "struct":
            return (yield from self._read_struct(field, data_type, start, stop))
        page = self._groups.page(field.id, self._group)
        if page is None or page.num_items < 0:
            raise CorruptFileError(f"the page table has no page of field {field.name!r} in row group {self._group}")
        if lt.is_list(field.logical_type):
            return (yield from self._read_list(field, data_type, page, start, stop))
        if field.children:
            raise UnsupportedFeatureError(
                f"field {field.name!r} of type {field.logical_type!r} cannot be read from files of version 0.1",
                feature=f"logical type {field.logical_type} in files of version 0.1",
            )
        if pa.types.is_dictionary(data_type):
            return (yield from self._read_indices(field, data_type, page, start, stop))
        if data_type.id in _OFFSET_TYPES:
            return (yield from _read_variable_width(page, data_type, start, stop, nullable=field.nullable))
        return (yield from _read_fixed_width(page, data_type, start, stop))

    def _read_struct(self, field: Field, data_type: pa.DataType, start: int, stop: int) -> ArrayReads:
        children = yield from side_by_side([self.read(child, start, stop) for child in field.children])
        return pa.Array.from_buffers(data_type, stop - start, [None], children=children)

    def _read_list(self, field: Field, data_type: pa.DataType, page: Page, start: int, stop: int) -> ArrayReads:
        width = 8 if pa.types.is_large_list(data_type) else 4
        _check_items(page.num_items - 1, stop)
        (data,) = yield [FileRange(page.position + start * width, (stop - start + 1) * width)]
        offsets = np.frombuffer(data, "<i8" if width == 8 else "<i4").astype(np.int64)
        _check_ascending(offsets, "a list")
        items = yield from self.read(field.children[0], int(offsets[0]), int(offsets[-1]))
        rebased = pa.py_buffer((offsets - offsets[0]).astype(np.int64 if width == 8 else np.int32))
        return pa.Array.from_buffers(data_type, stop - start, [None, rebased], children=[items])

    def _read_indices(self, field: Field, data_type: pa.DataType, page: Page, start: int, stop: int) -> ArrayReads:
        values = self._dictionaries[field.id]
        indices = yield from _read_fixed_width(page, data_type.index_type, start, stop)
        numbers = indices.to_numpy()
        if len(numbers) and (int(numbers.min()) < 0 or int(numbers.max()) >= len(values)):
            raise CorruptFileError(f"an index leaves the {len(values)} values of dictionary {field.name!r}")
        return pa.DictionaryArray.from_arrays(indices, values, ordered=data_type.ordered)


def _read_fixed_width(page: Page, data_type: pa.DataType, start: int, stop: int) -> ArrayReads:
    """Values `start` to `stop` of a page of fixed width."""
    _check_items(page.num_items, stop)
    bits = _bits_per_value(data_type)
    first_byte = start * bits // 8
    num_bytes = (stop * bits + 7) // 8 - first_byte
    (data,) = yield [FileRange(page.position + first_byte, num_bytes)]
    skipped = start - first_byte * 8 // bits if bits < 8 else 0
    length = stop - start + skipped
    if pa.types.is_fixed_size_list(data_type):
        return _fixed_size_list(data, data_type, length)
    return checked(pa.Array.from_buffers(data_type, length, [None, data])).slice(skipped)


def _fixed_size_list(data: pa.Buffer, data_type: pa.DataType, length: int) -> pa.Array:
    item_type, num_items = data_type.value_type, length * data_type.list_size
    if pa.types.is_fixed_size_list(item_type):
        items = _fixed_size_list(data, item_type, num_items)
    else:
        items = checked(pa.Array.from_buffers(item_type, num_items, [None, data]))
    return pa.Array.from_buffers(data_type, length, [None], children=[items])


def _bits_per_value(data_type: pa.DataType) -> int:
    if not pa.types.is_fixed_size_list(data_type):
        return int(data_type.bit_width)
    bits: int = data_type.list_size * _bits_per_value(data_type.value_type)
    if bits % 8 or bits == 0:
        raise UnsupportedFeatureError(
            f"lists of type {data_type} cannot be read from files of version 0.1: their values take {bits} bits",
            feature="fixed-size lists of booleans in files of version 0.1",
        )
    return bits


def _read_variable_width(page: Page, data_type: pa.DataType, start: int, stop: int, *, nullable: bool) -> ArrayReads:
    """Values `start` to `stop` of a page of strings or binaries."""
    _check_items(page.num_items, stop)
    (data,) = yield [FileRange(page.position + start * 8, (stop - start + 1) * 8)]
    positions = np.frombuffer(data, "<i8")
    _check_ascending(positions, "a string")
    first, num_bytes = int(positions[0]), int(positions[-1] - positions[0])
    dtype = _OFFSET_TYPES[data_type.id]
    if dtype == np.int32 and num_bytes > np.iinfo(np.int32).max:
        raise CorruptFileError(f"{num_bytes} bytes of values in a page of a type with 32-bit offsets")
    (values,) = yield [FileRange(first, num_bytes)]
    offsets = positions - first
    validity = None
    if nullable:
        validity = pa.py_buffer(np.packbits(offsets[1:] > offsets[:-1], bitorder="little"))
    buffers = [validity, pa.py_buffer(offsets.astype(dtype)), values]
    return checked(pa.Array.from_buffers(data_type, stop - start, buffers))


def _check_items(num_items: int, stop: int) -> None:
    if stop > num_items:
        raise CorruptFileError(f"a page of {num_items} values has no value {stop - 1}")


def _check_ascending(offsets: Int64Array, what: str) -> None:
    if int(offsets[0]) < 0 or bool((np.diff(offsets) < 0).any()):
        raise CorruptFileError(f"the offsets of {what} are negative or do not ascend")
