"""Which values are the same: against a comparison value by value, for arrays of all types, sliced and dirty."""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lance_spark.table.row_level.value_equality import equal_values
from tests.support.strategies import arrays


def exact(value: object) -> object:
    """A value of Python in a form that tells bits apart and compares at any depth."""
    if isinstance(value, float):
        return struct.pack("<d", value)
    if isinstance(value, np.floating):
        return value.tobytes()
    if isinstance(value, (list, tuple)):
        return [exact(item) for item in value]
    if isinstance(value, dict):
        return {key: exact(item) for key, item in value.items()}
    return value


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(arrays(max_length=30), st.integers(0, 5), st.data())
def test_against_python(array: pa.Array, shift: int, data: st.DataObject) -> None:
    left = array
    places = data.draw(st.lists(st.integers(0, max(len(array) - 1, 0)), min_size=len(array), max_size=len(array)))
    picked = [place if number % 2 else number for number, place in enumerate(places)]
    right = pa.concat_arrays([array.slice(place, 1) for place in picked]) if len(array) else array
    one, other = exact(left.to_pylist()), exact(right.to_pylist())
    assert isinstance(one, list)
    assert isinstance(other, list)
    expected = [a == b for a, b in zip(one, other, strict=True)]
    assert equal_values(left, right).tolist() == expected
    assert equal_values(left.slice(shift), right.slice(shift)).tolist() == expected[shift:]


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ([1, None, None, 3], [1, None, 2, 4], [True, True, False, False]),
        ([[1], [], None, [1, 2], [None]], [[1], None, None, [2, 1], [None]], [True, False, True, False, True]),
        ([{"a": None}, {"a": 1}, None], [None, {"a": 1}, None], [False, True, True]),
        ([0.0, 1.5], [-0.0, 1.5], [False, True]),
        ([], [], []),
    ],
)
def test_examples(left: list[object], right: list[object], expected: list[bool]) -> None:
    whole = pa.array([*left, *right])
    assert equal_values(whole[: len(left)], whole[len(left) :]).tolist() == expected


def test_dictionaries_and_extensions() -> None:
    words = pa.array(["a", "b", None, "a"])
    other = pa.array(["b", "b", None, "a"])
    assert equal_values(words.dictionary_encode(), words.dictionary_encode()).all()
    mixed = pa.concat_arrays([words.dictionary_encode(), other.dictionary_encode()])
    assert equal_values(mixed[:4], mixed[4:]).tolist() == [False, True, True, True]
    ids = pa.array([bytes(16), None], pa.uuid())
    assert equal_values(ids, ids).tolist() == [True, True]
