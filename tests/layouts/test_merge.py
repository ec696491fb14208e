"""Merging parts of a field: of one file's leaves, and of several files."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lance_spark.errors import CorruptFileError
from lance_spark.layouts.merge import merge_columns, merge_paths
from lance_spark.layouts.path import LeafPath
from lance_spark.schema.arrow import from_arrow_schema, to_arrow_type
from lance_spark.schema.columns import paths
from lance_spark.schema.field import Field
from tests.support import arrays
from tests.support.equality import assert_arrays_equal


def field_of(dtype: pa.DataType) -> Field:
    [field] = from_arrow_schema(pa.schema([pa.field("x", dtype)])).fields
    return field


def path_array(array: pa.Array, path: LeafPath, depth: int) -> pa.Array:
    """The part of `array` on the way to one leaf; `depth` counts the fields above."""
    if depth == 0:
        return array
    node = path.nodes[depth]
    below = path.nodes[depth - 1]
    dtype = node.data_type
    if pa.types.is_struct(dtype):
        child = path_array(array.field(below.field.name), path, depth - 1)
        return pa.StructArray.from_arrays([child], fields=list(dtype), mask=array.is_null())
    values = array.values
    if pa.types.is_fixed_size_list(dtype):
        values = values.slice(array.offset * dtype.list_size, len(array) * dtype.list_size)
        mask = pa.py_buffer(np.packbits(np.asarray(array.is_valid()), bitorder="little"))
        return pa.Array.from_buffers(dtype, len(array), [mask], children=[path_array(values, path, depth - 1)])
    child = path_array(values, path, depth - 1)
    validity = pa.py_buffer(np.packbits(np.asarray(array.is_valid()), bitorder="little"))
    offsets = pa.py_buffer(np.asarray(array.offsets))
    return pa.Array.from_buffers(dtype, len(array), [validity, offsets], children=[child])


def split(array: pa.Array) -> tuple[Field, list[pa.Array]]:
    """(field, its path arrays, one a leaf)."""
    field = field_of(array.type)
    leaf_paths = [LeafPath.of(path) for path in paths(field)]
    return field, [path_array(array, path, len(path.nodes) - 1) for path in leaf_paths]


@pytest.mark.parametrize("name", arrays.nested_table(1, 0).column_names)
@pytest.mark.parametrize("share", [0.0, 0.4])
def test_leaves_of_a_field(name: str, share: float) -> None:
    whole = arrays.nested_table(200, share)[name].combine_chunks()
    for array in (whole, whole.slice(13, 150), whole.slice(5, 0)):
        field, parts = split(array)
        merged = merge_paths(field, parts, len(array))
        merged.validate(full=True)
        assert_arrays_equal(merged, array)


def test_chunks_that_end_at_different_rows() -> None:
    whole = arrays.nested_table(200, 0.3)["deep"].combine_chunks()
    field, parts = split(whole)
    cuts = [[], [70], [3, 70, 199]]
    columns = []
    for part, ends in zip(parts, cuts, strict=False):
        starts = [0, *ends]
        columns.append(pa.chunked_array([part.slice(a, b - a) for a, b in zip(starts, [*ends, 200], strict=True)]))
    merged = merge_columns(field, columns, 200)
    assert [len(chunk) for chunk in merged.chunks] == [3, 67, 129, 1]
    assert_arrays_equal(merged, whole)


def test_a_single_part_is_not_copied() -> None:
    array = pa.array([{"a": 1}, None])
    column = pa.chunked_array([array])
    assert merge_columns(field_of(array.type), [column], 2) is column
    assert merge_paths(field_of(array.type), [array], 2) is array


def test_what_nobody_holds_is_null() -> None:
    dtype = pa.struct(
        [("a", pa.int64()), ("b", pa.string()), ("l", pa.list_(pa.struct([("c", pa.int8()), ("d", pa.int8())])))]
    )
    field = field_of(dtype)
    assert merge_paths(field, [], 3).equals(pa.nulls(3, dtype))
    assert merge_columns(field, [], 3).to_pylist() == [None] * 3
    assert merge_columns(field, [], 0).type == dtype
    held = pa.array(
        [{"a": 1, "l": [{"d": 5}]}, None],
        pa.struct([("a", pa.int64()), ("l", pa.list_(pa.struct([("d", pa.int8())])))]),
    )
    merged = merge_paths(field, [held], 2)
    assert merged.type == dtype
    assert merged.to_pylist() == [{"a": 1, "b": None, "l": [{"c": None, "d": 5}]}, None]


def test_subtrees_of_several_files() -> None:
    dtype = pa.struct([("a", pa.int64()), ("s", pa.struct([("x", pa.int64()), ("y", pa.int64())]))])
    first = pa.array(
        [{"a": 1, "s": {"y": 3}}, {"a": 2, "s": None}],
        pa.struct([("a", pa.int64()), ("s", pa.struct([("y", pa.int64())]))]),
    )
    second = pa.array([{"s": {"x": 7}}, {"s": None}], pa.struct([("s", pa.struct([("x", pa.int64())]))]))
    merged = merge_paths(field_of(dtype), [first, second], 2)
    assert merged.to_pylist() == [{"a": 1, "s": {"x": 7, "y": 3}}, {"a": 2, "s": None}]


def test_maps_of_required_keys() -> None:
    dtype = pa.map_(pa.string(), pa.int32())
    field = field_of(dtype)
    keys = pa.array([[{"key": "a"}, {"key": None}]], pa.list_(pa.struct([("key", pa.string())])))
    values = pa.array([[{"value": 1}, {"value": 2}]], pa.list_(pa.struct([("value", pa.int32())])))
    with pytest.raises(CorruptFileError, match="null keys"):
        merge_paths(field, [keys, values], 1)


@pytest.mark.parametrize("other", [[[{"b": 1}], [{"b": 1}]], [[{"b": 1}, {"b": 2}, {"b": 3}]]])
def test_parts_that_contradict_each_other(other: list[list[dict[str, int]]]) -> None:
    field = field_of(pa.list_(pa.struct([("a", pa.int64()), ("b", pa.int64())])))
    one = pa.array([[{"a": 1}, {"a": 2}], [{"a": 3}]])
    with pytest.raises(CorruptFileError, match="differ"):
        merge_paths(field, [one, pa.array(other)], 2)


def test_a_leaf_twice() -> None:
    field = field_of(pa.struct([("a", pa.int64()), ("b", pa.int64())]))
    one = pa.array([{"a": 1}])
    with pytest.raises(CorruptFileError, match="twice"):
        merge_paths(field, [one, one], 1)


def test_types_keep_the_metadata_of_their_fields() -> None:
    dtype = pa.struct([pa.field("a", pa.int64(), metadata={"k": "v"}), pa.field("b", pa.int64())])
    field = field_of(dtype)
    merged = merge_paths(field, [pa.array([{"a": 1}]), pa.array([{"b": 2}])], 1)
    assert merged.type.equals(to_arrow_type(field), check_metadata=True)
    assert merged.type.field("a").metadata == {b"k": b"v"}


@pytest.mark.parametrize("nested", [False, True])
def test_members_of_other_names_are_damage(nested: bool) -> None:
    """As in a file whose description of a blob was damaged. A cast of pyarrow makes nulls, or raises a TypeError."""
    dtype = pa.struct([("position", pa.uint64()), ("size", pa.uint64())])
    field = field_of(pa.struct([pa.field("s", dtype, metadata={"packed": "true"})]))
    damaged = pa.array([{"postion": 1, "size": 2}], pa.struct([("postion", pa.uint64()), ("size", pa.uint64())]))
    stored = pa.StructArray.from_arrays([damaged], ["s"])
    with pytest.raises(CorruptFileError, match=r"field 's' is stored as struct<postion.*, not as struct<position"):
        merge_paths(field if nested else field.children[0], [stored if nested else damaged], 1)


def test_errors_of_pyarrow_name_the_field() -> None:
    values = pa.array(["no number"])
    with pytest.raises(
        CorruptFileError, match=r"values of field 'x' are not of the type that the schema says: .*number"
    ):
        merge_paths(field_of(pa.int64()), [values], 1)
