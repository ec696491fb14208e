"""The numbering of levels, and levels by hand to arrays."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.layouts.repdef import LevelScheme, layers_from_wire, layers_to_wire
from lance_spark.layouts.repdef import RepDefLayer as Layer
from lance_spark.layouts.unravel import SlotLevels, unravel
from tests.layouts.pages import path_of

ALL_LISTS = [Layer.ALL_VALID_LIST, Layer.NULLABLE_LIST, Layer.EMPTYABLE_LIST, Layer.NULL_AND_EMPTY_LIST]


def read(
    dtype: pa.DataType, layers: list[Layer], rep: list[int] | None, definition: list[int] | None, values: list[int]
) -> list[object]:
    """What levels and visible values say. Values under nulls are given as well."""
    scheme = LevelScheme.of(tuple(layers))
    arrays = [None if levels is None else np.array(levels, np.uint16) for levels in (rep, definition)]
    num_slots = max([len(levels) for levels in arrays if levels is not None], default=len(values))

    def leaf(validity: pa.Buffer | None, num_values: int) -> pa.Array:
        if num_values != len(values):
            raise CorruptFileError(f"{num_values} values")
        data = pa.py_buffer(np.array(values, np.int32))
        return pa.Array.from_buffers(pa.int32(), num_values, [validity, data])

    array = unravel(path_of(dtype), scheme, SlotLevels(*arrays, num_slots), leaf)
    array.validate(full=True)
    return array.to_pylist()


LIST = pa.list_(pa.int32())
STRUCT = pa.struct([("a", pa.int32())])


def test_lists() -> None:
    layers = [Layer.NULLABLE_ITEM, Layer.NULL_AND_EMPTY_LIST]
    got = read(LIST, layers, [1, 0, 1, 1, 1], [0, 1, 2, 3, 0], [7, -1, 8])
    assert got == [[7, None], None, [], [8]]


def test_list_kinds_number_their_levels() -> None:
    nullable = [Layer.ALL_VALID_ITEM, Layer.NULLABLE_LIST]
    assert read(LIST, nullable, [1, 1, 0], [1, 0, 0], [5, 6]) == [None, [5, 6]]
    emptyable = [Layer.ALL_VALID_ITEM, Layer.EMPTYABLE_LIST]
    assert read(LIST, emptyable, [1, 1, 0], [1, 0, 0], [5, 6]) == [[], [5, 6]]
    assert read(LIST, [Layer.ALL_VALID_ITEM, Layer.ALL_VALID_LIST], [1, 0, 1], None, [4, 5, 6]) == [[4, 5], [6]]


def test_a_null_struct_hides_what_is_below() -> None:
    assert read(STRUCT, [Layer.NULLABLE_ITEM] * 2, None, [0, 1, 2], [1, 2, 3]) == [{"a": 1}, {"a": None}, None]


def test_a_null_struct_outside_of_a_list() -> None:
    dtype = pa.struct([("l", LIST)])
    layers = [Layer.NULLABLE_ITEM, Layer.NULL_AND_EMPTY_LIST, Layer.NULLABLE_ITEM]
    got = read(dtype, layers, [1, 1, 1, 1, 0], [4, 2, 3, 0, 1], [9, -1])
    assert got == [None, {"l": None}, {"l": []}, {"l": [9, None]}]


def test_lists_of_lists() -> None:
    layers = [Layer.NULLABLE_ITEM, Layer.NULL_AND_EMPTY_LIST, Layer.NULL_AND_EMPTY_LIST]
    # Rows: null, [], [null, []], [[1, null], [2]]
    got = read(pa.list_(LIST), layers, [2, 2, 2, 1, 2, 0, 1], [4, 5, 2, 3, 0, 1, 0], [1, -1, 2])
    assert got == [None, [], [None, []], [[1, None], [2]]]


def test_lists_of_structs_of_lists() -> None:
    dtype = pa.list_(pa.struct([("l", LIST)]))
    layers = [Layer.ALL_VALID_ITEM, Layer.NULL_AND_EMPTY_LIST, Layer.NULLABLE_ITEM, Layer.NULL_AND_EMPTY_LIST]
    # Levels: 1 null and 2 empty inner list, 3 null struct, 4 null and 5 empty outer list.
    got = read(dtype, layers, [2, 2, 2, 1, 1, 1, 0], [4, 5, 3, 1, 2, 0, 0], [6, 7])
    assert got == [None, [], [None, {"l": None}, {"l": []}, {"l": [6, 7]}]]


def test_fixed_size_lists_of_structs() -> None:
    dtype = pa.list_(pa.struct([("a", pa.int32())]), 2)
    got = read(dtype, [Layer.NULLABLE_ITEM] * 3, None, [0, 1, 2, 0, 3, 3], [1, -1, -1, 4, -1, -1])
    assert got == [[{"a": 1}, {"a": None}], [None, {"a": 4}], None]


@pytest.mark.parametrize(
    ("rep", "definition", "values"),
    [
        ([0, 1], [0, 0], [1, 2]),  # the first slot begins no list
        ([2, 0], [0, 0], [1, 2]),  # a third level of lists
        ([1, 0], [0, 2], [1]),  # a placeholder inside of a list
        ([1, 1], [0, 9], [1]),  # a definition level of no layer
        ([1, 0], [0, 0], [1]),  # a value is missing
        ([1, 0], [0, 1], [1, 2, 3]),  # a value too many
        (None, [0, 0], [1, 2]),  # no repetition levels
    ],
)
def test_levels_that_contradict_the_layers(
    rep: list[int] | None, definition: list[int] | None, values: list[int]
) -> None:
    with pytest.raises(CorruptFileError):
        read(LIST, [Layer.NULLABLE_ITEM, Layer.NULL_AND_EMPTY_LIST], rep, definition, values)


def test_an_item_level_of_no_layer() -> None:
    with pytest.raises(CorruptFileError):
        read(STRUCT, [Layer.NULLABLE_ITEM] * 2, None, [0, 3], [1, 2])


def test_layers_that_contradict_the_schema() -> None:
    with pytest.raises(CorruptFileError):
        read(LIST, [Layer.NULLABLE_ITEM] * 2, None, None, [1])
    with pytest.raises(CorruptFileError):
        read(STRUCT, [Layer.NULLABLE_ITEM], None, None, [1])
    dtype = pa.list_(pa.list_(pa.struct([("a", pa.int32())]), 2))
    with pytest.raises(UnsupportedFeatureError):
        read(dtype, [Layer.ALL_VALID_ITEM] * 3 + [Layer.ALL_VALID_LIST], [1, 0], None, [1, 2])


def test_layers_of_the_wire() -> None:
    assert layers_from_wire([3, 6]) == (Layer.NULLABLE_ITEM, Layer.NULL_AND_EMPTY_LIST)
    assert layers_to_wire(layers_from_wire([1, 2, 3, 4, 5, 6])) == [1, 2, 3, 4, 5, 6]
    for numbers in ([], [0], [7]):
        with pytest.raises(CorruptFileError):
            layers_from_wire(numbers)


@pytest.mark.parametrize("inner", ALL_LISTS)
@pytest.mark.parametrize("outer", ALL_LISTS)
def test_scheme(inner: Layer, outer: Layer) -> None:
    scheme = LevelScheme.of((Layer.NULLABLE_ITEM, inner, Layer.NULLABLE_ITEM, outer))
    levels = {Layer.ALL_VALID_LIST: 0, Layer.NULLABLE_LIST: 1, Layer.EMPTYABLE_LIST: 1, Layer.NULL_AND_EMPTY_LIST: 2}
    assert (scheme.max_rep, scheme.max_visible_def) == (2, 1)
    assert scheme.max_def == 2 + levels[inner] + levels[outer]
