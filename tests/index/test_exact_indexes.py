"""BTREE and BITMAP give the answer of a scan, for every type and predicate."""

from __future__ import annotations

import datetime
import decimal
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance.indices import IndexConfig

import lance_spark
from tests.index.comparisons import append, check, check_all, repeated, with_decimals, write

INF, NAN = float("inf"), float("nan")
DAY = datetime.date(2024, 2, 27)
MOMENT = datetime.datetime(2024, 2, 27, 12)

VALUES: dict[str, tuple[pa.DataType, list[object], tuple[str, str, str]]] = {
    "int8": (pa.int8(), [None, -128, -1, 0, 1, 5, 127], ("-1", "5", "127")),
    "int32": (pa.int32(), [None, -(2**31), 0, 3, 3, 7, 2**31 - 1], ("0", "3", "7")),
    "int64": (pa.int64(), [*range(40), None], ("4", "17", "39")),
    "uint64": (pa.uint64(), [None, 0, 1, 2**63, 2**64 - 1], ("0", "1", "2")),
    "float32": (pa.float32(), [None, -INF, -2.5, 0.0, -0.0, 2.5, INF, NAN], ("-2.5", "0.0", "2.5")),
    "float64": (pa.float64(), [None, -INF, -2.5, 0.0, -0.0, 2.5, INF, NAN], ("-2.5", "0.0", "2.5")),
    "string": (pa.string(), [None, "", "a", "ab", "abc", "b", "ä", "日本"], ("''", "'ab'", "'ä'")),
    "large_string": (pa.large_string(), [None, "", "a", "ab", "b"], ("''", "'ab'", "'b'")),
    "bool": (pa.bool_(), [None, True, False, False], ("true", "false", "true")),
    "date": (
        pa.date32(),
        [None, *(DAY + datetime.timedelta(days=number) for number in range(9))],
        ("DATE '2024-02-27'", "DATE '2024-02-29'", "DATE '2024-03-03'"),
    ),
    "timestamp": (
        pa.timestamp("us"),
        [None, *(MOMENT + datetime.timedelta(hours=number) for number in range(9))],
        ("TIMESTAMP '2024-02-27 12:00:00'", "TIMESTAMP '2024-02-27 14:00:00'", "TIMESTAMP '2024-02-27 20:00:00'"),
    ),
    "decimal": (
        pa.decimal128(12, 2),
        [None, *(decimal.Decimal(number) / 4 for number in range(-4, 8))],
        ("-1.00", "0.25", "1.50"),
    ),
}

TEMPLATES = (
    "x = {0}",
    "x <> {1}",
    "x < {1}",
    "x <= {1}",
    "x > {1}",
    "x >= {1}",
    "x BETWEEN {0} AND {1}",
    "x NOT BETWEEN {0} AND {1}",
    "x IN ({0}, {2})",
    "x NOT IN ({0}, {2})",
    "x IS NULL",
    "x IS NOT NULL",
    "NOT (x > {0} AND x < {2})",
    "x = {0} OR x IS NULL",
    "x > {0} AND id < 150",
    "(x = {0} AND id > 20) OR (x = {1} AND id < 40)",
    "NOT (x = {0} OR id > 50)",
    "id IN (1, 2, 3) OR x < {1}",
)


def conditions(name: str) -> list[str]:
    constants = VALUES[name][2]
    made = [template.format(*constants) for template in TEMPLATES]
    if name == "bool":
        made = [condition for condition in made if not any(sign in condition for sign in ("<", ">", "BETWEEN"))]
        made += ["x", "NOT x", "x IS TRUE", "x IS NOT TRUE", "x = true AND id < 50"]
    if "string" in name:
        made += ["x LIKE 'a%'", "x LIKE 'a_'", "x LIKE '%b'", "x NOT LIKE 'a%'", "x LIKE ''", "x LIKE 'a%' OR id = 4"]
    return made


@pytest.mark.parametrize("stable_row_ids", [False, True], ids=["addresses", "stable_ids"])
@pytest.mark.parametrize("index_type", ["BTREE", "BITMAP"])
@pytest.mark.parametrize("name", VALUES)
def test_answers_equal_a_scan_for_every_type(
    tmp_path: Path, name: str, index_type: str, stable_row_ids: bool, warnings: list[str]
) -> None:
    dtype, values, _ = VALUES[name]
    uri = str(tmp_path)
    dataset = write(uri, {"x": repeated(values, 250, dtype)}, stable_row_ids=stable_row_ids)
    dataset.create_scalar_index("x", index_type)
    dataset.create_scalar_index("id", "BTREE")
    pairs = with_decimals(conditions(name)) if name == "decimal" else [(each, each) for each in conditions(name)]
    served = [pair for pair in pairs if not any(text in pair[0] for text in ("LIKE '%", "NOT LIKE", "LIKE ''"))]
    check_all(uri, served, "x_idx")
    dataset = lance.dataset(uri)
    dataset.delete("id % 3 = 0 OR id BETWEEN 100 AND 180")
    append(uri, {"x": repeated(values[::-1], 70, dtype)}, first_id=1000)
    check_all(uri, pairs)
    assert warnings == []


def paged_table(uri: str, *, stable_row_ids: bool = False) -> None:
    """A BTREE of many pages over numbers in random order with nulls, and a BITMAP."""
    numbers = [(number * 7919) % 2000 if number % 11 else None for number in range(2000)]
    dataset = write(
        uri,
        {"x": pa.array(numbers, pa.int64()), "k": repeated(["a", "b", None, "c"], 2000, pa.string())},
        rows_per_file=500,
        stable_row_ids=stable_row_ids,
    )
    dataset.create_scalar_index("x", IndexConfig("btree", {"zone_size": 50}))
    dataset.create_scalar_index("k", "BITMAP")


CONDITIONS = (
    "x = 500",
    "x IN (3, 700, 1999, 5000)",
    "x BETWEEN 100 AND 160",
    "x < 30",
    "x >= 1960",
    "x IS NULL AND k = 'a'",
    "x = 7 OR x IS NULL",
    "k = 'a' AND x < 300",
    "k <> 'a' AND x < 40",
    "NOT (k = 'a' OR x > 100)",
    "k = 'b' OR x = 10",
    "k IS NULL AND x IN (2, 6, 10)",
    "x + 1 = 500 AND k = 'a'",
    "x > 1990 AND lower(k) = 'a'",
)


@pytest.mark.slow
@pytest.mark.parametrize("stable_row_ids", [False, True], ids=["addresses", "stable_ids"])
def test_answers_equal_a_scan_through_a_history(tmp_path: Path, stable_row_ids: bool, warnings: list[str]) -> None:
    uri = str(tmp_path)
    paged_table(uri, stable_row_ids=stable_row_ids)
    check_all(uri, CONDITIONS)
    lance.dataset(uri).delete("x BETWEEN 120 AND 130 OR id < 20")
    check_all(uri, CONDITIONS)
    lance.dataset(uri).update({"x": "x + 1000"}, where="x BETWEEN 140 AND 180")
    check_all(uri, CONDITIONS)
    lance.dataset(uri).update({"k": "'new'"}, where="x BETWEEN 690 AND 710")
    check_all(uri, (*CONDITIONS, "k = 'new'"))
    append(uri, {"x": pa.array([500, None, 3]), "k": pa.array(["a", "new", None])}, first_id=5000)
    check_all(uri, (*CONDITIONS, "k = 'new'"))
    lance.dataset(uri).delete("id BETWEEN 500 AND 999")
    check_all(uri, CONDITIONS)
    lance.dataset(uri).optimize.optimize_indices(num_indices_to_merge=0)
    check_all(uri, (*CONDITIONS, "k = 'new'"))
    lance.dataset(uri).optimize.compact_files()
    check_all(uri, (*CONDITIONS, "k = 'new'"))
    lance.dataset(uri).optimize.optimize_indices(num_indices_to_merge=9)
    check_all(uri, (*CONDITIONS, "k = 'new'"))
    assert warnings == []


@pytest.mark.parametrize("stable_row_ids", [False, True], ids=["addresses", "stable_ids"])
def test_answers_equal_a_scan_after_own_changes(tmp_path: Path, stable_row_ids: bool, warnings: list[str]) -> None:
    uri = str(tmp_path)
    paged_table(uri, stable_row_ids=stable_row_ids)
    lance_spark.open(uri).delete("x BETWEEN 120 AND 130")
    lance_spark.open(uri).update({"k": "'new'"}, "x BETWEEN 690 AND 710")
    check_all(uri, (*CONDITIONS, "k = 'new'"))
    lance_spark.open(uri).compact()
    check_all(uri, (*CONDITIONS, "k = 'new'"))
    assert warnings == []


def test_explain_names_index_condition_segments_and_scanned_fragments(tmp_path: Path) -> None:
    uri = str(tmp_path)
    paged_table(uri)
    append(uri, {"x": pa.array([500]), "k": pa.array(["a"])}, first_id=5000)
    text = lance_spark.open(uri).explain("x BETWEEN 100 AND 160 AND k = 'a'")
    assert text.splitlines() == [
        "filter: x >= 100 AND x <= 160 AND k = 'a'",
        "index: k_idx (BITMAP), condition k = 'a', 1 segment, fragments 0-3, exact",
        "index: x_idx (BTREE), condition x >= 100 AND x <= 160, 1 segment, fragments 0-3, exact",
        "index result: 14 rows in fragments 0-3",
        "scanned without index: fragments 4",
    ]
    assert lance_spark.open(uri).explain("x = 1", use_scalar_index=False).endswith("without index: fragments 0-4")


def test_equalities_are_asked_first_and_rule_fragments_out(tmp_path: Path) -> None:
    """Also beside IS NOT NULL, which Spark adds to each comparison."""
    uri = str(tmp_path)
    paged_table(uri)
    dataset = lance_spark.open(uri)
    both_asked = dataset.explain("k = 'a' AND x IS NOT NULL AND x = 7")
    assert "k_idx (BITMAP)" in both_asked
    assert both_asked.endswith("scanned without index: none")
    for condition in ("k IS NOT NULL AND x = 7", "k <> 'zz' AND x IS NOT NULL AND x = 7", "NOT (k < 'a' OR x <> 7)"):
        lines = dataset.explain(condition).splitlines()
        assert lines[1].startswith("index: x_idx (BTREE)"), lines
        assert len([line for line in lines if line.startswith("index:")]) == 1, lines


def test_delta_segment_is_searched_beside_the_first(tmp_path: Path) -> None:
    uri = str(tmp_path)
    paged_table(uri)
    append(uri, {"x": pa.array([500]), "k": pa.array(["a"])}, first_id=5000)
    lance.dataset(uri).optimize.optimize_indices(num_indices_to_merge=0)
    assert 5000 in check(uri, "x = 500", index="x_idx")
    text = lance_spark.open(uri).explain("x = 500")
    assert "2 segments, fragments 0-4, exact" in text
    assert text.endswith("scanned without index: none")


def test_limit_and_offset_count_rows_of_the_index_result(tmp_path: Path) -> None:
    uri = str(tmp_path)
    paged_table(uri)
    dataset = lance_spark.open(uri)
    for limit, offset in ((5, 0), (3, 4), (None, 7), (0, 0), (100, 50)):
        indexed = dataset.to_table(filter="x < 60", limit=limit, offset=offset)
        assert indexed == dataset.to_table(filter="x < 60", limit=limit, offset=offset, use_scalar_index=False)


def test_row_ids_and_addresses_come_with_index_results(tmp_path: Path) -> None:
    uri = str(tmp_path)
    paged_table(uri, stable_row_ids=True)
    lance.dataset(uri).update({"k": "'new'"}, where="x < 20")
    dataset = lance_spark.open(uri)
    options = {"filter": "x < 60", "with_row_id": True, "with_row_address": True}
    assert dataset.to_table(**options) == dataset.to_table(**options, use_scalar_index=False)


@pytest.mark.parametrize("dtype", [pa.int16(), pa.int64()])
def test_long_lists_of_keys_of_many_pages(tmp_path: Path, dtype: pa.DataType) -> None:
    """Nulls fill the first pages, and keys that are there many times go over the ends of pages."""
    numbers = [None if number < 9000 else number // 7 % 20_000 for number in range(90_000)]
    uri = str(tmp_path)
    dataset = lance_spark.write(pa.table({"x": pa.array(numbers, dtype)}), uri)
    dataset = dataset.create_scalar_index("x", "BTREE")
    keys = {*range(0, 20_000, 31), 5, 6, -1, 12_345, 40_000, 70_000, 10**17}
    condition = f"x IN ({', '.join(map(str, keys))})"
    expected = [place for place, number in enumerate(numbers) if number in keys]
    for _ in range(2):
        found = dataset.to_table([], filter=condition, with_row_address=True)
        assert found["_rowaddr"].to_pylist() == expected
    assert "scanned without index: none" in dataset.explain(condition)


def test_nested_field_is_answered_by_its_index(tmp_path: Path) -> None:
    uri = str(tmp_path)
    structs = [None if number % 5 == 0 else {"x": number % 7, "y": "a"} for number in range(300)]
    write(uri, {"s": pa.array(structs)}).create_scalar_index("s.x", "BTREE")
    check_all(uri, ["s.x = 3", "s.x IS NULL", "NOT s.x = 3", "s.x > 4 AND s.y = 'a'"], "s.x_idx")


def test_negative_nan_is_found_as_a_scan_finds_it(tmp_path: Path) -> None:
    uri = str(tmp_path)
    negative_nan = pa.array([b"\x00" * 6 + b"\xf8\xff"] * 3, pa.binary(8)).view(pa.float64())
    values = pa.concat_arrays([negative_nan, pa.array([1.0, 2.0, -INF, INF, NAN, None, -0.0])])
    for index_type in ("BTREE", "BITMAP"):
        write(uri, {"x": values}).create_scalar_index("x", index_type)
        for condition in ("x > 5D", "x = double('NaN')", "x < 0D", "x <= 0D", "x < -100D", "isnan(x)", "NOT isnan(x)"):
            # The reference library sorts a NaN with its sign bit set first, Spark sorts every NaN last.
            check(uri, condition, reference="", index="x_idx")
    assert len(check(uri, "x > 5D", reference="")) == 5
