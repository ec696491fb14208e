"""Equality of Arrow data to the bit: NaN equals the same NaN, -0.0 is not 0.0, nulls and empty lists are told apart."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

_INTEGERS = {2: pa.uint16(), 4: pa.uint32(), 8: pa.uint64()}


def assert_tables_equal(actual: pa.Table, expected: pa.Table) -> None:
    """Same columns in the same order, same types, same rows in the same order, to the bit."""
    assert actual.column_names == expected.column_names
    assert actual.num_rows == expected.num_rows
    for name in expected.column_names:
        assert_arrays_equal(actual[name], expected[name], name)


def assert_arrays_equal(
    actual: pa.Array | pa.ChunkedArray, expected: pa.Array | pa.ChunkedArray, where: str = ""
) -> None:
    """Two columns are the same to the bit; `where` names them in the message."""
    left, right = _combined(actual), _combined(expected)
    assert left.type == right.type, f"{where}: type {left.type} instead of {right.type}"
    assert len(left) == len(right), f"{where}: {len(left)} values instead of {len(right)}"
    _compare(left, right, where)


def _combined(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    return (
        pa.concat_arrays([_without_null_items(chunk) for chunk in array.chunks])
        if isinstance(array, pa.ChunkedArray) and array.num_chunks > 0
        # Not array([], type): before pyarrow 26 that changes the index type of some dictionaries, and refuses others.
        else (pa.nulls(0, array.type) if isinstance(array, pa.ChunkedArray) else array)
    )


def _without_null_items(array: pa.Array) -> pa.Array:
    """The same values where no dictionary holds a null, which Arrow cannot join with others."""
    dtype = array.type
    if pa.types.is_dictionary(dtype) and array.dictionary.null_count:
        return pc.dictionary_encode(array.dictionary_decode()).cast(dtype)
    if pa.types.is_list(dtype) or pa.types.is_large_list(dtype):
        items = _without_null_items(array.values)
        return pa.Array.from_buffers(dtype, len(array), array.buffers()[:2], offset=array.offset, children=[items])
    if pa.types.is_struct(dtype) and dtype.num_fields:
        members = [_without_null_items(array.field(number)) for number in range(dtype.num_fields)]
        return pa.StructArray.from_arrays(members, fields=list(dtype), mask=array.is_null())
    return array


def _compare(left: pa.Array, right: pa.Array, where: str) -> None:
    differing = pc.indices_nonzero(pc.not_equal(left.is_null(), right.is_null()))
    assert len(differing) == 0, f"{where}: null in one only at {differing.to_pylist()[:5]}"
    dtype = left.type
    if pa.types.is_null(dtype):
        return
    if left.null_count:
        left, right = left.drop_null(), right.drop_null()
    if pa.types.is_floating(dtype):
        as_integer = _INTEGERS[dtype.bit_width // 8]
        left, right = left.view(as_integer), right.view(as_integer)
    elif pa.types.is_dictionary(dtype):
        left, right = left.dictionary_decode(), right.dictionary_decode()
    if pa.types.is_struct(dtype):
        for index, field in enumerate(dtype):
            _compare(left.field(index), right.field(index), f"{where}.{field.name}")
    elif pa.types.is_fixed_size_list(dtype):
        _compare(left.flatten(), right.flatten(), f"{where}[]")
    elif pa.types.is_map(dtype) or pa.types.is_list(dtype) or pa.types.is_large_list(dtype):
        _compare_lists(left, right, where)
    else:
        _compare_values(left, right, where)


def _compare_lists(left: pa.Array, right: pa.Array, where: str) -> None:
    if pa.types.is_map(left.type):
        entry = pa.list_(pa.struct([left.type.key_field, left.type.item_field]))
        left, right = left.cast(entry), right.cast(entry)
    _compare_values(pc.list_value_length(left), pc.list_value_length(right), f"{where} (length)")
    _compare(left.flatten(), right.flatten(), f"{where}[]")


def _compare_values(left: pa.Array, right: pa.Array, where: str) -> None:
    if left.equals(right):
        return
    pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
    for index, (ours, theirs) in enumerate(pairs):
        assert ours == theirs, f"{where}: value {index} (nulls not counted) is {ours!r} instead of {theirs!r}"
    raise AssertionError(f"{where}: arrays differ")
