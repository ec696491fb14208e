"""Levels of nested arrays, against examples worked out by hand from the format's rules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lance_spark.errors import InvalidInputError
from lance_spark.layouts.shred import Shredded, lasting_codes, shred
from lance_spark.schema.arrow import from_arrow_schema
from lance_spark.schema.columns import paths

INTS = pa.list_(pa.int32())
STRUCT = pa.struct([("a", pa.int32())])

# (rows, type, steps to the leaf) -> layers, rep, def, visible values
EXAMPLES: dict[
    str, tuple[list[Any], pa.DataType, tuple[int, ...], str, list[int] | None, list[int] | None, list[Any]]
] = {
    "flat": ([1, 2], pa.int32(), (), "ALL_VALID_ITEM", None, None, [1, 2]),
    "flat with null": ([1, None], pa.int32(), (), "NULLABLE_ITEM", None, [0, 1], [1, None]),
    "list": ([[1, 2], [3]], INTS, (0,), "ALL_VALID_ITEM ALL_VALID_LIST", [1, 0, 1], None, [1, 2, 3]),
    "list with nulls": (
        [[7, None], None, [], [8]],
        INTS,
        (0,),
        "NULLABLE_ITEM NULL_AND_EMPTY_LIST",
        [1, 0, 1, 1, 1],
        [0, 1, 2, 3, 0],
        [7, None, 8],
    ),
    "empty list only": ([[], [1]], INTS, (0,), "ALL_VALID_ITEM EMPTYABLE_LIST", [1, 1], [1, 0], [1]),
    "null list only": ([None, [1]], INTS, (0,), "ALL_VALID_ITEM NULLABLE_LIST", [1, 1], [1, 0], [1]),
    "struct": (
        [{"a": 1}, None, {"a": None}],
        STRUCT,
        (0,),
        "NULLABLE_ITEM NULLABLE_ITEM",
        None,
        [0, 2, 1],
        [1, None, None],
    ),
    "list of lists": (
        [[[1, 2], [3]], [], [[], None, [4]]],
        pa.list_(INTS),
        (0, 0),
        "ALL_VALID_ITEM NULL_AND_EMPTY_LIST EMPTYABLE_LIST",
        [2, 0, 1, 2, 2, 1, 1],
        [0, 0, 0, 3, 2, 1, 0],
        [1, 2, 3, 4],
    ),
    "list of structs": (
        [[{"a": 1}, None], None, [{"a": None}]],
        pa.list_(STRUCT),
        (0, 0),
        "NULLABLE_ITEM NULLABLE_ITEM NULLABLE_LIST",
        [1, 0, 1, 1],
        [0, 2, 3, 1],
        [1, None, None],
    ),
    # A null struct around a list is a placeholder, and makes the list layer one that can be null.
    "struct of lists": (
        [{"l": [1]}, None, {"l": []}],
        pa.struct([("l", INTS)]),
        (0, 0),
        "ALL_VALID_ITEM NULL_AND_EMPTY_LIST NULLABLE_ITEM",
        [1, 1, 1],
        [0, 3, 2],
        [1],
    ),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_worked_examples(name: str) -> None:
    rows, dtype, steps, layers, rep, definition, values = EXAMPLES[name]
    array = pa.array(rows, dtype)
    for given in (array, pa.array([*rows, *rows], dtype).slice(len(rows))):
        shredded = shred(given, steps)
        levels = shredded.levels()
        assert " ".join(layer.name for layer in levels.scheme.layers) == layers
        assert (None if levels.reps is None else levels.reps.tolist()) == rep
        assert (None if levels.defs is None else levels.defs.tolist()) == definition
        assert shredded.values.to_pylist() == values
        assert (levels.num_rows, levels.num_visible_items) == (len(rows), len(values))


def test_values_under_null_lists_are_left_out() -> None:
    lists = pa.ListArray.from_arrays(
        pa.array([2, 4, 6, 7], pa.int32()), pa.array(range(10)), mask=pa.array([False, True, False])
    )
    shredded = shred(lists, (0,))
    assert shredded.values.to_pylist() == [2, 3, 6]
    assert shredded.levels().defs.tolist() == [0, 0, 1, 0]


def test_values_under_null_structs_are_null() -> None:
    structs = pa.StructArray.from_arrays([pa.array([1, 2])], ["a"], mask=pa.array([False, True]))
    assert shred(structs, (0,)).values.to_pylist() == [1, None]


def test_lists_under_null_structs_are_left_out() -> None:
    lists = pa.array([[1], [2, 3], [4]])
    structs = pa.StructArray.from_arrays([lists], ["l"], mask=pa.array([False, True, False]))
    shredded = shred(structs, (0, 0))
    assert shredded.values.to_pylist() == [1, 4]
    assert shredded.levels().reps.tolist() == [1, 1, 1]


def test_null_entries_of_a_dictionary_are_nulls() -> None:
    values = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0], pa.int8()), pa.array(["a", None]))
    shredded = shred(values, ())
    assert shredded.codes.tolist() == [0, 1, 0]
    assert shredded.values.type == values.type


def test_fixed_size_lists_of_structs_have_one_slot_an_item() -> None:
    array = pa.array([[{"a": 1}, None], None], pa.list_(STRUCT, 2))
    levels = shred(array, (0, 0)).levels()
    assert levels.num_rows == 4
    assert levels.defs.tolist() == [0, 2, 3, 3]


def test_concat_gives_the_levels_of_the_whole() -> None:
    whole = pa.array([[1], None, [], [2, None]] * 5, INTS)
    for cut in range(len(whole)):
        pieces = [shred(whole.slice(0, cut), (0,)), shred(whole.slice(cut), (0,))]
        joined, expected = Shredded.concat(pieces).levels(), shred(whole, (0,)).levels()
        assert joined.scheme == expected.scheme
        assert joined.reps.tolist() == expected.reps.tolist()
        assert joined.defs.tolist() == expected.defs.tolist()


def test_levels_that_last() -> None:
    """Below a struct that can be null directly around a list every page has the schema's layers."""

    def codes(dtype: pa.DataType) -> int:
        (field,) = from_arrow_schema(pa.schema([("c", dtype)])).fields
        return lasting_codes(paths(field)[0])

    assert codes(pa.int32()) == codes(STRUCT) == codes(INTS) == codes(pa.list_(STRUCT)) == codes(pa.list_(INTS)) == 0
    assert codes(pa.struct([("l", INTS)])) == 1 << 1 | 1 << 3 | 1 << 4 | 1 << 5
    assert shred(pa.array([{"l": [1]}]), (0, 0)).levels(1 << 1 | 1 << 3).scheme.max_def == 2


@pytest.mark.parametrize("offsets", [[0, 3, 1], [0, 7, 3]])
def test_offsets_that_are_no_offsets(offsets: list[int]) -> None:
    buffers = [None, pa.py_buffer(np.array(offsets, np.int32).tobytes())]
    array = pa.Array.from_buffers(INTS, 2, buffers, children=[pa.array([1, 2, 3], pa.int32())])
    with pytest.raises(InvalidInputError, match="offsets"):
        shred(array, (0,))
