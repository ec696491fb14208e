"""LABEL_LIST answers array_contains as a scan does, null lists and null items included."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import InvalidInputError
from tests.index.comparisons import append, check, write

WITHOUT_NULL_ITEMS: list[list[str] | None] = [None, [], ["a"], ["b", "a"], ["b"], ["c", "c"], ["d", "b", "a"]]
WITH_NULL_ITEMS: list[list[str | None] | None] = [*WITHOUT_NULL_ITEMS, [None], ["a", None], [None, "b"]]

CONDITIONS = (
    ("array_contains(x, 'a')", "array_contains(x, 'a')"),
    ("array_has(x, 'b')", "array_has(x, 'b')"),
    ("array_contains(x, 'nothing')", "array_has(x, 'nothing')"),
    ("array_has_any(x, array('a', 'c'))", "array_has_any(x, ['a', 'c'])"),
    ("arrays_overlap(x, array('d', 'c'))", "array_has_any(x, ['d', 'c'])"),
    ("array_has_all(x, array('a', 'b'))", "array_has_all(x, ['a', 'b'])"),
    ("array_contains(x, 'a') AND id < 100", "array_has(x, 'a') AND id < 100"),
    ("array_contains(x, 'c') OR array_contains(x, 'd')", "array_has(x, 'c') OR array_has(x, 'd')"),
)
NEGATIONS = (
    ("NOT array_contains(x, 'a')", "NOT array_has(x, 'a')"),
    ("NOT array_has_any(x, array('a', 'c'))", "NOT array_has_any(x, ['a', 'c'])"),
    ("NOT array_has_all(x, array('a', 'b'))", "NOT array_has_all(x, ['a', 'b'])"),
    ("array_contains(x, 'b') AND NOT array_contains(x, 'a')", "array_has(x, 'b') AND NOT array_has(x, 'a')"),
)


def lists(values: list[list[str | None] | None], num_rows: int, *, large: bool = False) -> pa.Array:
    dtype = pa.large_list(pa.string()) if large else pa.list_(pa.string())
    return pa.array([values[number % len(values)] for number in range(num_rows)], dtype)


@pytest.mark.parametrize("stable_row_ids", [False, True], ids=["addresses", "stable_ids"])
@pytest.mark.parametrize("large", [False, True], ids=["list", "large_list"])
def test_answers_equal_a_scan(tmp_path: Path, stable_row_ids: bool, large: bool, warnings: list[str]) -> None:
    uri = str(tmp_path)
    column = lists(WITHOUT_NULL_ITEMS, 250, large=large)
    write(uri, {"x": column}, stable_row_ids=stable_row_ids).create_scalar_index("x", "LABEL_LIST")
    for ours, theirs in (*CONDITIONS, *NEGATIONS):
        check(uri, ours, reference=theirs, index="x_idx")
    append(uri, {"x": lists(WITHOUT_NULL_ITEMS, 30, large=large)}, first_id=1000)
    lance.dataset(uri).delete("id % 9 = 0 OR id BETWEEN 100 AND 160")
    lance.dataset(uri).update({"id": "id + 5000"}, where="id BETWEEN 20 AND 40")
    for ours, theirs in (*CONDITIONS, *NEGATIONS):
        check(uri, ours, reference=theirs)
    lance.dataset(uri).optimize.optimize_indices(num_indices_to_merge=0)
    lance.dataset(uri).optimize.compact_files()
    for ours, theirs in (*CONDITIONS, *NEGATIONS):
        check(uri, ours, reference=theirs, index="x_idx")
    assert warnings == []


def test_null_items_make_a_negation_unknown_as_in_spark(tmp_path: Path) -> None:
    """The reference library takes a null item for one that differs, so its negations find these rows too."""
    uri = str(tmp_path)
    write(uri, {"x": lists(WITH_NULL_ITEMS, 10)}).create_scalar_index("x", "LABEL_LIST")
    for ours, theirs in CONDITIONS:
        check(uri, ours, reference=theirs, index="x_idx")
    assert check(uri, "NOT array_contains(x, 'a')", reference="", index="x_idx") == [1, 4, 5]
    assert check(uri, "array_contains(x, 'a') IS NULL", reference="") == [0, 7, 9]


@pytest.mark.parametrize("stable_row_ids", [False, True], ids=["addresses", "stable_ids"])
def test_stale_lists_of_an_older_segment_are_not_found(tmp_path: Path, stable_row_ids: bool) -> None:
    uri = str(tmp_path)
    dataset = write(uri, {"x": lists([["old"]], 10)}, stable_row_ids=stable_row_ids)
    dataset.create_scalar_index("x", "LABEL_LIST")
    new = pa.table({"id": pa.array(range(3), pa.int64()), "x": lists([["new"]], 3)})
    dataset.merge_insert("id").when_matched_update_all().execute(new)
    lance.dataset(uri).optimize.optimize_indices(num_indices_to_merge=0)
    assert check(uri, "array_contains(x, 'old')", reference="array_has(x, 'old')") == list(range(3, 10))
    assert check(uri, "NOT array_contains(x, 'old')", reference="NOT array_has(x, 'old')") == [0, 1, 2]


@pytest.mark.parametrize("dtype", [pa.int32(), pa.float64(), pa.bool_(), pa.date32()])
def test_items_of_other_types_are_found(tmp_path: Path, dtype: pa.DataType) -> None:
    uri = str(tmp_path)
    values = [None, [], [1, 2], [2, 3], [1], [5, 0]]
    if dtype == pa.bool_():
        values = [value and [item > 1 for item in value] for value in values]
    column = pa.array(values * 5, pa.list_(pa.int32() if dtype == pa.date32() else dtype)).cast(pa.list_(dtype))
    write(uri, {"x": column}).create_scalar_index("x", "LABEL_LIST")
    constant = {pa.bool_(): "true", pa.date32(): "DATE '1970-01-03'"}.get(dtype, "2")
    theirs = {pa.float64(): "2.0"}.get(dtype, constant)
    check(uri, f"array_contains(x, {constant})", reference=f"array_has(x, {theirs})", index="x_idx")


def test_array_functions_refuse_what_they_do_not_take(tmp_path: Path) -> None:
    uri = str(tmp_path)
    write(uri, {"x": lists(WITHOUT_NULL_ITEMS, 10)})
    dataset = lance_spark.open(uri)
    for condition in (
        "array_contains(x, NULL)",
        "array_contains(x, id)",
        "array_contains(id, 1)",
        "array_contains(x, 1)",
        "array_has_any(x, 'a')",
        "array_has_any(x, array())",
        "array_has_all(x, array('a', NULL))",
        "array('a')",
    ):
        with pytest.raises(InvalidInputError):
            dataset.to_table(filter=condition)
