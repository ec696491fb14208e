"""ZONEMAP, BLOOMFILTER and NGRAM: the candidates are checked, so the answer is that of a scan."""

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
DAY = datetime.date(2024, 1, 1)
MOMENT = datetime.datetime(2024, 1, 1)
ZONE_MAP = IndexConfig("zonemap", {"rows_per_zone": 10})
BLOOM = IndexConfig("bloomfilter", {"number_of_items": 20, "probability": 0.01})

COLUMNS: dict[str, tuple[pa.Array, str, str]] = {
    "int8": (repeated([None, *range(-60, 60)], 300, pa.int8()), "-3", "17"),
    "uint16": (repeated([*range(250), None], 300, pa.uint16()), "3", "217"),
    "int32": (repeated([*range(280), None], 300, pa.int32()), "3", "217"),
    "int64": (repeated([None, *range(0, 2800, 10)], 300, pa.int64()), "30", "2170"),
    "float32": (
        repeated([None, NAN, -INF, *(number / 2 for number in range(250)), 0.0, -0.0], 300, pa.float32()),
        "0.5",
        "99.5",
    ),
    "float64": (
        repeated([None, NAN, INF, *(number / 2 for number in range(250)), 0.0, -0.0], 300, pa.float64()),
        "0.0",
        "99.5",
    ),
    "string": (
        repeated([None, "", *(f"key {number:03}" for number in range(270))], 300, pa.string()),
        "'key 003'",
        "'key 217'",
    ),
    "date": (
        repeated([None, *(DAY + datetime.timedelta(days=number) for number in range(290))], 300, pa.date32()),
        "DATE '2024-01-05'",
        "DATE '2024-09-01'",
    ),
    "timestamp": (
        repeated(
            [None, *(MOMENT + datetime.timedelta(hours=number) for number in range(290))],
            300,
            pa.timestamp("us", "UTC"),
        ),
        "TIMESTAMP '2024-01-01 05:00:00'",
        "TIMESTAMP '2024-01-11 05:00:00'",
    ),
    "decimal": (
        repeated([None, *(decimal.Decimal(number) / 4 for number in range(290))], 300, pa.decimal128(12, 2)),
        "1.25",
        "50.25",
    ),
    "bool": (pa.array([number > 150 if number % 7 else None for number in range(300)]), "true", "false"),
}

EQUALITIES = (
    "x = {0}",
    "x IN ({0}, {1})",
    "x IS NULL",
    "x = {0} OR x IS NULL",
    "x = {1} AND id > 20",
    "x IS NOT NULL AND id < 30",
)
RANGES = (
    "x < {0}",
    "x <= {0}",
    "x > {1}",
    "x >= {1}",
    "x BETWEEN {0} AND {1}",
    "NOT x < {1}",
    "NOT (x BETWEEN {0} AND {1})",
    "x <> {0}",
    "x NOT IN ({0}, {1})",
    "x < {0} OR id = 7",
)
HISTORY = (
    lambda uri: lance.dataset(uri).delete("id % 7 = 0 OR id BETWEEN 120 AND 160"),
    lambda uri: lance.dataset(uri).update({"id": "id + 10000"}, where="id BETWEEN 30 AND 40"),
    lambda uri: lance.dataset(uri).optimize.optimize_indices(num_indices_to_merge=0),
    lambda uri: lance.dataset(uri).optimize.compact_files(),
    lambda uri: lance.dataset(uri).optimize.optimize_indices(),
)


def with_constants(templates: tuple[str, ...], name: str) -> list[tuple[str, str]]:
    _, first, second = COLUMNS[name]
    made = [template.format(first, second) for template in templates]
    return with_decimals(made) if name == "decimal" else [(condition, condition) for condition in made]


@pytest.mark.slow
@pytest.mark.parametrize("stable_row_ids", [False, True], ids=["addresses", "stable_ids"])
@pytest.mark.parametrize("name", COLUMNS)
def test_zone_map_answers_equal_a_scan(tmp_path: Path, name: str, stable_row_ids: bool, warnings: list[str]) -> None:
    uri = str(tmp_path)
    write(uri, {"x": COLUMNS[name][0]}, stable_row_ids=stable_row_ids).create_scalar_index("x", ZONE_MAP)
    equalities, ranges = with_constants(EQUALITIES, name), with_constants(RANGES, name)
    if name == "bool":
        equalities, ranges = [(each, each) for each in ("x", "NOT x", "x IS TRUE", "x IS NULL", "x = false")], []
    check_all(uri, equalities, "x_idx")
    check_all(uri, ranges)
    for step in HISTORY:
        step(uri)
        check_all(uri, equalities + ranges)
    assert warnings == []


@pytest.mark.slow
@pytest.mark.parametrize("stable_row_ids", [False, True], ids=["addresses", "stable_ids"])
@pytest.mark.parametrize("name", [name for name in COLUMNS if name not in ("bool", "decimal")])
def test_bloom_filter_answers_equal_a_scan(
    tmp_path: Path, name: str, stable_row_ids: bool, warnings: list[str]
) -> None:
    uri = str(tmp_path)
    write(uri, {"x": COLUMNS[name][0]}, stable_row_ids=stable_row_ids).create_scalar_index("x", BLOOM)
    check_all(uri, with_constants(EQUALITIES, name), "x_idx")
    ranges = with_constants(RANGES, name)
    check_all(uri, ranges)
    for step in HISTORY:
        step(uri)
        check_all(uri, with_constants(EQUALITIES, name) + ranges)
    assert warnings == []


@pytest.mark.parametrize(
    "dtype", [pa.int8(), pa.uint16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string()]
)
def test_bloom_filter_finds_every_inserted_value(tmp_path: Path, dtype: pa.DataType) -> None:
    uri = str(tmp_path)
    values = [str(number) * (number % 9) for number in range(100)] if dtype == pa.string() else list(range(100))
    write(uri, {"x": pa.array(values, dtype)}).create_scalar_index("x", BLOOM)
    dataset = lance_spark.open(uri)
    num_rows = 0
    for value in set(values):
        constant = repr(value) if dtype == pa.string() else f"{value}"
        assert dataset.count_rows(f"x = {constant}") == values.count(value)
        plan = dataset.explain(f"x = {constant}")
        num_rows += int(plan.split("index result: ")[1].split()[0])
    # Each value is in zones of 20 rows; some other zones are false positives.
    assert num_rows < 60 * len(set(values))


def test_bloom_filter_finds_both_zeros(tmp_path: Path) -> None:
    uri = str(tmp_path)
    write(uri, {"x": pa.array([0.0, 1.0] * 10 + [-0.0, 2.0] * 10 + [NAN, 3.0] * 10)}).create_scalar_index("x", BLOOM)
    assert len(check(uri, "x = 0D", reference="x = 0.0", index="x_idx")) == 20
    assert len(check(uri, "x = -0D", reference="x = -0.0", index="x_idx")) == 20
    assert len(check(uri, "x = double('NaN')", reference="")) == 10


def test_zone_map_rules_out_all_but_a_few_zones(tmp_path: Path) -> None:
    uri = str(tmp_path)
    write(uri, {"x": pa.array(range(2000), pa.int32())}, rows_per_file=500).create_scalar_index("x", ZONE_MAP)
    plan = lance_spark.open(uri).explain("x BETWEEN 713 AND 734")
    assert "index: x_idx (ZONEMAP), condition x >= 713 AND x <= 734, 1 segment, fragments 0-3, superset" in plan
    assert "index result: 30 rows" in plan


def test_zone_map_with_negative_nan_is_answered_as_a_scan_is(tmp_path: Path) -> None:
    """The reference library sorts such a NaN first, but leaves its zone out of `f < -100`; here NaN is the greatest."""
    uri = str(tmp_path)
    negative_nan = pa.array([b"\x00" * 6 + b"\xf8\xff"], pa.binary(8)).view(pa.float64())
    values = pa.concat_arrays([negative_nan, pa.array([1.0, *range(30)], pa.float64())])
    write(uri, {"f": values}).create_scalar_index("f", ZONE_MAP)
    for condition in ("f < -100D", "f < 0D", "f <= 0D", "f > 100D", "f = double('NaN')", "NOT f < 5D"):
        check(uri, condition, reference="", index="f_idx")
    assert check(uri, "f > 100D", reference="") == [0]


def test_zone_map_of_long_texts(tmp_path: Path) -> None:
    uri = str(tmp_path)
    texts = ["a" * 3000 + f"{number:03}" for number in range(100)]
    write(uri, {"x": pa.array(texts)}).create_scalar_index("x", ZONE_MAP)
    for condition in (f"x = '{texts[57]}'", f"x > '{texts[95]}'", f"x < '{texts[3]}'", "x LIKE 'aaa%'", "x LIKE 'b%'"):
        check(uri, condition)


TEXTS = [
    None, "", "a", "ab", "abc", "Hello World", "hello", "HELLO", "À É x", "Æther", "naïve café", "日本語テキスト",
    "x-ray 123", "123abc", "foo_bar", "fooXbar", "100%", "aaaa", "straße", "İstanbul", "K\u212aelvin",
]  # fmt: skip
TEXT_CONDITIONS = (
    "contains(x, 'hello')",
    "contains(x, 'World')",
    "contains(x, 'wor')",
    "contains(x, 'ell') AND contains(x, 'llo')",
    "contains(x, 'lo')",
    "contains(x, 'o W')",
    "contains(x, 'caf\u00e9')",
    "contains(x, '日本語')",
    "contains(x, 'stan')",
    "contains(x, 'elvin')",
    "contains(x, 'nothing')",
    "contains(x, '123') OR contains(x, 'aaa')",
    "contains(x, 'foo') AND id < 50",
    "NOT contains(x, 'hello')",
    "contains(x, 'hello') OR x IS NULL",
    "x LIKE '%ell%'",
    "x LIKE 'foo%bar'",
    "x LIKE '%123%'",
    "x LIKE '%ab%'",
    "x LIKE '%foo\\\\_bar%'",
    "x NOT LIKE '%ell%'",
)


@pytest.mark.slow
@pytest.mark.parametrize("stable_row_ids", [False, True], ids=["addresses", "stable_ids"])
def test_ngram_answers_equal_a_scan(tmp_path: Path, stable_row_ids: bool, warnings: list[str]) -> None:
    uri = str(tmp_path)
    write(uri, {"x": repeated(TEXTS, 300, pa.string())}, stable_row_ids=stable_row_ids).create_scalar_index(
        "x", "NGRAM"
    )
    # A backslash is an escape in string constants of Spark only.
    conditions = [(condition, condition.replace("\\\\", "\\")) for condition in TEXT_CONDITIONS]
    check_all(uri, conditions)
    for condition in ("contains(x, 'hello')", "x LIKE 'foo%bar'", "contains(x, 'ell') AND contains(x, 'llo')"):
        check(uri, condition, index="x_idx")
    append(uri, {"x": pa.array(TEXTS)}, first_id=1000)
    for step in HISTORY:
        step(uri)
        check_all(uri, conditions)
    assert warnings == []


def test_all_indexes_of_a_column_are_tried(tmp_path: Path) -> None:
    """The reference library asks the BTREE only, and scans for `contains`."""
    uri = str(tmp_path)
    dataset = write(uri, {"x": repeated(TEXTS, 300, pa.string())})
    dataset.create_scalar_index("x", "BTREE", name="tree")
    dataset.create_scalar_index("x", "NGRAM", name="grams")
    dataset.create_scalar_index("x", BLOOM, name="bloom")
    check(uri, "contains(x, 'hello')", index="grams")
    check(uri, "x = 'hello'", index="tree")
    check(uri, "contains(x, 'hello') OR x = 'ab'", index="grams")
    dataset.drop_index("tree")
    check(uri, "x = 'hello'", index="bloom")


def test_two_supersets_are_intersected(tmp_path: Path) -> None:
    uri = str(tmp_path)
    dataset = write(uri, {"x": pa.array([(number * 7919) % 1000 for number in range(1000)])})
    dataset.create_scalar_index("x", ZONE_MAP, name="zones")
    dataset.create_scalar_index("x", BLOOM, name="bloom")
    check(uri, "x = 500", index="zones")
    check(uri, "x = 500", index="bloom")
