"""Converts values between the Arrow types of a table and those that Spark exchanges."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lance_spark.errors import InvalidInputError
from lance_spark.expr.temporal import to_unit
from lance_spark.spark.types.descriptions import is_description_type
from lance_spark.spark.types.geometry import convert_geo
from lance_spark.spark.types.json_columns import convert_json
from lance_spark.spark.types.schemas import has_nanoseconds, is_lossless
from lance_spark.spark.types.uuids import convert_uuids
from lance_spark.spark.types.variants import convert_variant
from lance_spark.table.reading.decoding.rows import no_columns

Leaf = Callable[[pa.Array, pa.DataType], pa.Array]
"""Converts an array that is not nested."""


def to_spark_batch(batch: pa.RecordBatch, target: pa.Schema) -> pa.RecordBatch:
    """`batch` in the Arrow types that Spark expects for its schema (`target`, the same names in the same order).

    Raises:
        InvalidInputError: a value out of the range of Spark's type, such as a second beyond the range of microseconds.
    """
    return convert_batch(batch, target, to_spark_value)


def from_spark_batch(batch: pa.RecordBatch, target: pa.Schema) -> pa.RecordBatch:
    """`batch` from Spark in the types of the table (`target` has the same names, in any order).

    Raises:
        InvalidInputError: a value out of the range of the table's type; the message names the column.
    """
    return convert_batch(batch.select(target.names), target, _to_table)


def convert_batch(batch: pa.RecordBatch, target: pa.Schema, leaf: Leaf) -> pa.RecordBatch:
    """`batch` in the types of `target`, leaves converted by `leaf`; descriptions of blobs as they are.

    Raises:
        InvalidInputError: a value out of the range of the type of `target`; the message names the column.
    """
    arrays = []
    for index, field in enumerate(target):
        try:
            arrays.append(convert(batch.column(index), field.type, leaf))
        except _WrongLengthError as error:
            row = _row(batch, error.place) if pt.is_fixed_size_list(field.type) else "a row"
            raise InvalidInputError(
                f"column {field.name} takes lists of {error.size} items, and {row} has one of {error.length}; write "
                f"lists of {error.size}, or NULL"
            ) from None
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            given = batch.column(index).type
            raise InvalidInputError(
                f"column {field.name} has a value of type {given} that {field.type} cannot hold: {error}"
            ) from error
    if not arrays:
        return no_columns(batch.num_rows)
    fields = _fields_of(arrays, target)
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields, metadata=target.metadata))


def _fields_of(arrays: Iterable[pa.Array], target: Iterable[pa.Field]) -> list[pa.Field]:
    """The fields of `target`, those of blobs in the form that `arrays` have them."""
    return [field.with_type(array.type) for array, field in zip(arrays, target, strict=True)]


def to_spark_value(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Values as in Spark: nanoseconds as microseconds (rounded down), date64 as days."""
    if has_nanoseconds(array.type):
        micros = pa.timestamp("us", array.type.tz) if pt.is_timestamp(array.type) else pa.duration("us")
        return to_unit(array, micros).cast(target)
    if pt.is_time64(array.type) and array.type.unit == "ns":
        return to_unit(to_unit(array, pa.time64("us")), target)
    if pt.is_date64(array.type):
        return pc.floor_temporal(array, unit="day").cast(target)
    return array if array.type == target else array.cast(target)


def _to_table(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Values in the table's type; nothing is truncated."""
    if array.type == target:
        return array
    if pt.is_dictionary(target):
        # Arrow only casts to dictionaries of strings.
        encoded = _to_table(array, target.value_type).dictionary_encode()
        indices = encoded.indices.cast(target.index_type)
        return pa.DictionaryArray.from_arrays(indices, encoded.dictionary, ordered=target.ordered)
    if pt.is_float16(target):
        return _to_float16(array)
    return array.cast(target)


def _to_float16(array: pa.Array) -> pa.Array:
    halves = array.cast(pa.float16())
    # Arrow converts numbers that are too large to infinities.
    too_large = pc.and_(pc.is_finite(array), pc.is_inf(halves.cast(pa.float32())))
    if pc.any(too_large).as_py():
        value = array.filter(too_large)[0].as_py()
        raise pa.ArrowInvalid(f"{value!r} is beyond the range of float16")
    return halves


def convert(array: pa.Array, target: pa.DataType, leaf: Leaf) -> pa.Array:
    """`array` as `target`, at every level of nesting.

    Raises:
        pyarrow.ArrowInvalid: a value out of the range of `target`.
    """
    if array.type == target and (leaf is _to_table or is_lossless(target)):
        return array
    if pt.is_large_binary(target) and is_description_type(array.type):
        return array  # The writer copies the bytes.
    if pt.is_dictionary(array.type):
        return convert(array.dictionary_decode(), target, leaf)
    geometries = convert_geo(array, target)
    if geometries is not None:
        return geometries
    texts = convert_json(array, target)
    if texts is None:
        texts = convert_uuids(array, target)
    if texts is not None:
        return texts
    variants = convert_variant(array, target)
    if variants is not None:
        return variants
    if pt.is_struct(target):
        children = [convert(array.field(child.name), child.type, leaf) for child in target]
        mask = array.is_null() if array.null_count else None
        if not children:
            return array.cast(target)
        return pa.StructArray.from_arrays(children, fields=_fields_of(children, target), mask=mask)
    if pt.is_map(target):
        return _convert_map(array, target, leaf)
    if pt.is_list(target) or pt.is_large_list(target):
        return _convert_list(array, target, leaf)
    if pt.is_fixed_size_list(target):
        return _with_fixed_size(_convert_list(array, pa.list_(target.value_field), leaf), target)
    return leaf(array, target)


class _WrongLengthError(Exception):
    """A list of `length` items, at `place` of an array, for a type with lists of `size` items."""

    def __init__(self, size: int, length: int, place: int) -> None:
        super().__init__(size, length, place)
        self.size, self.length, self.place = size, length, place


def _row(batch: pa.RecordBatch, row: int) -> str:
    """A row of a batch for a message, with the first of its values that are short to write."""
    named = [(field.name, batch.column(place)[row]) for place, field in enumerate(batch.schema)]
    shown = [f"{name} = {str(value)[:40]}" for name, value in named if not pt.is_nested(value.type)][:3]
    return f"row {row} of its batch" + (f" ({', '.join(shown)})" if shown else "")


def _with_fixed_size(array: pa.Array, target: pa.DataType) -> pa.Array:
    """A list array as fixed-size lists; Arrow's own cast crashes on arrays whose lists are all null.

    Raises:
        _WrongLengthError: a list that is not null has another length.
    """
    size, offsets = target.list_size, array.offsets.to_numpy().astype(np.int64)
    is_valid = array.is_valid().to_numpy(zero_copy_only=False)
    lengths = np.diff(offsets)
    wrong = np.flatnonzero(is_valid & (lengths != size))
    if len(wrong):
        raise _WrongLengthError(size, int(lengths[wrong[0]]), int(wrong[0]))
    items = array.values
    if array.null_count:
        # Every list, also a null one, has slots for its items.
        places = offsets[:-1, None] + np.arange(size)
        items = items.take(pa.array(places.ravel(), pa.int64(), mask=np.repeat(~is_valid, size)))
    return pa.Array.from_buffers(target, len(array), [_validity(array)], children=[items])


def _validity(array: pa.Array) -> pa.Buffer | None:
    return array.is_valid().buffers()[1] if array.null_count else None


def _convert_map(array: pa.Array, target: pa.DataType, leaf: Leaf) -> pa.Array:
    offsets = array.offsets.to_numpy()
    start, length = int(offsets[0]), int(offsets[-1] - offsets[0])
    children = [
        convert(array.keys.slice(start, length), target.key_type, leaf),
        convert(array.items.slice(start, length), target.item_type, leaf),
    ]
    entries = pa.StructArray.from_arrays(children, fields=[target.key_field, target.item_field])
    buffers = [_validity(array), pa.py_buffer((offsets - start).astype(np.int32))]
    return pa.Array.from_buffers(target, len(array), buffers, children=[entries])


def _convert_list(array: pa.Array, target: pa.DataType, leaf: Leaf) -> pa.Array:
    if pt.is_fixed_size_list(array.type):
        size = array.type.list_size
        offsets = np.arange(len(array) + 1, dtype=np.int64) * size
        items = array.values.slice(array.offset * size, len(array) * size)
    else:
        offsets = array.offsets.to_numpy()
        items = array.values.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
        offsets = offsets - offsets[0]
    width = np.int64 if pt.is_large_list(target) else np.int32
    if offsets[-1] > np.iinfo(width).max:
        raise pa.ArrowInvalid(f"{offsets[-1]} items in one batch; read or write fewer rows at a time")
    buffers = [_validity(array), pa.py_buffer(offsets.astype(width))]
    return pa.Array.from_buffers(target, len(array), buffers, children=[convert(items, target.value_type, leaf)])
