"""Pruning: never wrong (property), and sharp (tables)."""

from __future__ import annotations

import datetime
import time

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_spark.errors import InvalidInputError
from lance_spark.expr.evaluate import evaluate_filter
from lance_spark.expr.sql.parse import parse
from lance_spark.partitioned.field import PartitionField, partition_field
from lance_spark.partitioned.spec import PartitionSpec, PartitionSpecs, specs_from_metadata
from lance_spark.partitioned.transforms.base import Transform
from lance_spark.partitioned.transforms.bucket import Bucket, MultiBucket
from lance_spark.partitioned.transforms.date_part import Day, Hour, Month, Year
from lance_spark.partitioned.transforms.identity import Identity
from lance_spark.partitioned.transforms.truncate import Truncate
from lance_spark.partitioned.values.prune import full_partition_filter, manifest_filter, partition_filter
from lance_spark.schema.arrow import from_arrow_schema
from tests.partitioned.appendix import metadata
from tests.partitioned.random_specs import SCHEMA, rows, specs_and_conditions

ZONES = ["UTC", "America/New_York", "Asia/Kathmandu", "Pacific/Apia", "Europe/Berlin"]


@pytest.mark.slow
@settings(max_examples=250, deadline=None)
@given(rows(), specs_and_conditions(), st.sampled_from(ZONES))
def test_no_row_that_matches_is_in_a_partition_left_out(
    batch: pa.RecordBatch, drawn: tuple[PartitionSpec, str], zone: str
) -> None:
    spec, sql = drawn
    tree = parse(sql, time_zone=zone)
    values = spec.values(batch, SCHEMA)
    condition = partition_filter(spec, SCHEMA, tree, time_zone=zone)
    if condition is None:
        return
    try:
        matches = evaluate_filter(tree, batch, time_zone=zone)
    except InvalidInputError:
        # Arithmetic that overflows fails on the rows, not on the partitions.
        evaluate_filter(condition, values, time_zone=zone)
        return
    kept = evaluate_filter(condition, values, time_zone=zone)
    lost = pc.and_not(matches, kept)
    assert not lost.true_count, f"{condition} leaves out {values.filter(lost).to_pylist()}"


@pytest.mark.slow
@settings(max_examples=250, deadline=None)
@given(rows(), specs_and_conditions(), st.sampled_from(ZONES))
def test_all_rows_match_in_a_full_partition(batch: pa.RecordBatch, drawn: tuple[PartitionSpec, str], zone: str) -> None:
    spec, sql = drawn
    tree = parse(sql, time_zone=zone)
    full = evaluate_filter(
        full_partition_filter(spec, SCHEMA, tree, time_zone=zone), spec.values(batch, SCHEMA), time_zone=zone
    )
    if full.true_count:
        matches = evaluate_filter(tree, batch, time_zone=zone)
        assert not pc.and_not(full, matches).true_count


COLUMNS = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("country", pa.string()),
        ("ts", pa.timestamp("us", "UTC")),
        ("ntz", pa.timestamp("us")),
        ("day", pa.date32()),
        ("price", pa.decimal128(10, 2)),
        ("score", pa.float32()),
        ("flag", pa.bool_()),
        pa.field("place", pa.struct([("city", pa.string())])),
        ("data", pa.binary()),
    ]
)
TABLE = from_arrow_schema(COLUMNS)


def fields_of(*definitions: tuple[str, str | list[str] | tuple[str, ...], Transform]) -> PartitionSpec:
    fields = []
    for field_id, sources, transform in definitions:
        names = sources if isinstance(sources, list) else [sources]
        fields.append(partition_field(field_id, TABLE, names, transform))
    return PartitionSpec(1, tuple(fields))


def shown(spec: PartitionSpec, sql: str, zone: str = "UTC") -> str | None:
    condition = partition_filter(spec, TABLE, parse(sql, time_zone=zone), time_zone=zone)
    return None if condition is None else str(condition).replace("partition_field_", "")


HOURS = fields_of(*((part.name[0], "ts", part) for part in (Year(), Month(), Day(), Hour())))
DAYS = fields_of(*((part.name[0], "ts", part) for part in (Year(), Month(), Day())))
MONTHS = fields_of(("y", "ts", Year()), ("m", "ts", Month()))
LOCAL = fields_of(("y", "ntz", Year()), ("m", "ntz", Month()))
DATES = fields_of(("y", "day", Year()), ("d", "day", Day()))
IDS = fields_of(("b", "id", Bucket(16)))
TENS = fields_of(("t", "id", Truncate(10)))
NAMES = fields_of(("n", "name", Truncate(2)))
COUNTRY = fields_of(("c", "country", Identity()))
PRICES = fields_of(("p", "price", Truncate(10)))
SCORES = fields_of(("s", "score", Truncate(10)))
BOTH = fields_of(("mb", ["id", "country"], MultiBucket(8)))
CITY = fields_of(("city", ("place", "city"), Identity()))
FLAG = fields_of(("f", "flag", Bucket(4)))
MIXED = fields_of(("y", "ts", Year()), ("c", "country", Identity()), ("b", "id", Bucket(16)))


def bucket(value: object, count: int = 16, *more: object) -> int:
    columns = [pa.array([item]) for item in (value, *more)]
    return MultiBucket(count).apply(*columns)[0].as_py()  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("spec", "sql", "expected"),
    [
        (MONTHS, "ts >= TIMESTAMP '2025-03-10'", "y > 2025 OR (y = 2025 AND m >= 3)"),
        (MONTHS, "ts < TIMESTAMP '2025-03-01'", "y < 2025 OR (y = 2025 AND m <= 2)"),
        (MONTHS, "ts >= TIMESTAMP '2025-01-01'", "y >= 2025"),
        (MONTHS, "ts = TIMESTAMP '2025-03-10 11:12:13'", "y = 2025 AND m = 3"),
        (
            MONTHS,
            "ts >= TIMESTAMP '2024-11-05' AND ts < TIMESTAMP '2026-02-01'",
            "y = 2025 OR (y = 2024 AND m >= 11) OR (y = 2026 AND m = 1)",
        ),
        (
            DAYS,
            "ts BETWEEN TIMESTAMP '2025-03-10' AND TIMESTAMP '2025-03-12'",
            "y = 2025 AND m = 3 AND d >= 10 AND d <= 12",
        ),
        (HOURS, "ts >= TIMESTAMP '2025-12-31 23:59:00'", "y > 2025 OR (y = 2025 AND m = 12 AND d = 31 AND h = 23)"),
        (HOURS, "CAST(ts AS DATE) = DATE '2024-02-29'", "y = 2024 AND m = 2 AND d = 29"),
        (DAYS, "year(ts) = 2024 AND ts < TIMESTAMP '2024-03-01'", "y = 2024 AND m >= 1 AND m <= 2"),
        (DAYS, "month(ts) = 3", "m = 3"),
        (DAYS, "month(ts) IN (3, 4) AND ts < TIMESTAMP '2020-01-01'", "y <= 2019 AND m IN (3, 4)"),
        (MONTHS, "ts IS NULL", "y IS NULL"),
        (MONTHS, "ts IS NOT NULL", "y IS NOT NULL"),
        (MONTHS, "ts IN (TIMESTAMP '2025-03-10', TIMESTAMP '2025-03-11')", "y = 2025 AND m = 3"),
        (DATES, "day BETWEEN '2025-03-10' AND '2025-03-12'", "y = 2025 AND d >= 10 AND d <= 12"),
        (DATES, "day <> DATE '2025-03-10'", "y <= 2025 OR y >= 2025"),
        (IDS, "id = 34", f"b = {bucket(34)}"),
        (IDS, "34 = id", f"b = {bucket(34)}"),
        (IDS, "id = 34.0", f"b = {bucket(34)}"),
        (IDS, "id = 34.5", "FALSE"),
        (IDS, "id <=> NULL", "b IS NULL"),
        (IDS, "id > 34", "b IS NOT NULL"),
        (IDS, "id > 33 AND id < 35", f"b = {bucket(34)}"),
        (IDS, "id IN (34, 34, NULL)", f"b = {bucket(34)}"),
        (IDS, "id = 34 AND id = 35", "FALSE"),
        (IDS, "id = 34 OR id IS NULL", f"b = {bucket(34)} OR b IS NULL"),
        (IDS, "NOT (id <> 34)", f"b = {bucket(34)}"),
        (IDS, "name = 'x'", None),
        (IDS, "id = 34 OR name = 'x'", None),
        (IDS, "missing = 34", None),
        (TENS, "id BETWEEN -5 AND 37", "t >= 0 AND t <= 30"),
        (TENS, "id = -11", "t = -10"),
        (TENS, "id > 9", "t >= 10"),
        (TENS, "id < -9", "t <= -10"),
        (NAMES, "name = 'abc'", "n = 'ab'"),
        (NAMES, "name LIKE 'abc%'", "n = 'ab'"),
        (NAMES, "name LIKE 'a%'", "n >= 'a' AND n < 'b'"),
        (NAMES, "startswith(name, 'ä')", "n >= 'ä' AND n < 'å'"),
        (NAMES, "name LIKE '%c'", "n IS NOT NULL"),
        (NAMES, "name >= 'abc'", "n >= 'ab'"),
        (NAMES, "substring(name, 1, 2) = 'ab'", "n = 'ab'"),
        (COUNTRY, "country = 'US'", "c = 'US'"),
        (COUNTRY, "COUNTRY IN ('US', 'DE')", "c IN ('DE', 'US')"),
        (COUNTRY, "country <> 'US'", "NOT c = 'US'"),
        (COUNTRY, "upper(country) LIKE '%S'", "upper(c) LIKE '%S'"),
        (COUNTRY, "length(country) > 2 OR country IS NULL", "c IS NULL OR length(c) > 2"),
        (COUNTRY, "country NOT IN ('US', NULL)", "FALSE"),
        (PRICES, "price = 12.34", "p = 10.00"),
        (PRICES, "price > 10", "p >= 10.00"),
        (SCORES, "score > 25.5D", "s >= 20.0D"),
        (BOTH, "id = 1 AND country = 'US'", f"mb = {bucket(1, 8, 'US')}"),
        (BOTH, "id = 1 AND country IS NULL", f"mb = {bucket(1, 8)}"),
        (BOTH, "id IS NULL AND country IS NULL", "mb IS NULL"),
        (BOTH, "id = 1", None),
        (CITY, "place.city = 'Berlin'", "city = 'Berlin'"),
        (FLAG, "NOT flag", f"f = {bucket(False, 4)}"),
        (
            MIXED,
            "ts < TIMESTAMP '2020-01-01' AND country = 'US' AND id = 34 AND name = 'x'",
            f"y <= 2019 AND c = 'US' AND b = {bucket(34)}",
        ),
        (
            MIXED,
            "(ts < TIMESTAMP '2020-01-01' AND country = 'US') OR id = 34",
            f"b = {bucket(34)} OR (y <= 2019 AND c = 'US')",
        ),
        (
            MIXED,
            "NOT (country = 'US' OR ts >= TIMESTAMP '2020-01-01')",
            "y <= 2019 AND (NOT c = 'US')",
        ),
        (MIXED, "TRUE", None),
        (MIXED, "FALSE", "FALSE"),
        (MIXED, "NULL OR id = 34", f"b = {bucket(34)}"),
    ],
)
def test_sharp(spec: PartitionSpec, sql: str, expected: str | None) -> None:
    assert _terms(shown(spec, sql)) == _terms(expected)


def _terms(text: str | None) -> list[str]:
    """The condition, whatever the order of its words."""
    return sorted((text or "").replace("(", "").replace(")", "").split())


@pytest.mark.parametrize(
    ("spec", "sql", "expected"),
    [
        # A literal without a zone is in the session's zone: New York's midnight is 5 o'clock in UTC.
        (HOURS, "ts = TIMESTAMP '2025-01-01'", "y = 2025 AND m = 1 AND d = 1 AND h = 5"),
        # The session's calendar is not that of the partitions: a day more on both sides.
        (MONTHS, "year(ts) = 2025", "y = 2025 OR (y = 2024 AND m = 12) OR (y = 2026 AND m = 1)"),
        (MONTHS, "month(ts) = 3", None),
        (LOCAL, "ntz = TIMESTAMP_NTZ '2025-03-01'", "y = 2025 AND m = 3"),
        (LOCAL, "month(ntz) = 3", "m = 3"),
        (LOCAL, "ntz >= TIMESTAMP '2025-03-01 00:00:00Z'", "y > 2025 OR (y = 2025 AND m >= 2)"),
    ],
)
def test_the_zone_of_the_session(spec: PartitionSpec, sql: str, expected: str | None) -> None:
    assert _terms(shown(spec, sql, "America/New_York")) == _terms(expected)


def test_appendix_d() -> None:
    specs = specs_from_metadata(metadata())
    tree = manifest_filter(specs, parse("event_date = '2025-12-10' AND country = 'US'"))
    manifest = pa.RecordBatch.from_pylist(
        [
            {"object_id": "v1", "object_type": "namespace"},
            {"object_id": "v1$k7m2n9p4q8r5s3t6", "object_type": "namespace", "partition_field_event_date": DAY},
            {"object_id": "v1$k7m2n9p4q8r5s3t6$dataset", "object_type": "table", "partition_field_event_date": DAY},
            {"object_id": "v1$w1x2y3z4a5b6c7d8$dataset", "object_type": "table", "partition_field_event_date": NEXT},
            {"object_id": "v1$w1x2y3z4a5b6c7d9$dataset", "object_type": "table"},
            {"object_id": "v2$a$b$dataset", "object_type": "table", **year_and_country(2025, "US")},
            {"object_id": "v2$a$c$dataset", "object_type": "table", **year_and_country(2025, "DE")},
            {"object_id": "v2$d$e$dataset", "object_type": "table", **year_and_country(2024, "US")},
            {"object_id": "v20$d$e$dataset", "object_type": "table", **year_and_country(2025, "US")},
            {"object_id": "plain", "object_type": "table"},
        ],
        schema=pa.schema([("object_id", pa.string()), ("object_type", pa.string()), *specs.partition_columns()]),
    )
    kept = manifest.filter(evaluate_filter(tree, manifest)).column("object_id").to_pylist()
    assert kept == ["v1$k7m2n9p4q8r5s3t6$dataset", "v2$a$b$dataset"]
    everything = manifest.filter(evaluate_filter(manifest_filter(specs, None), manifest))
    assert everything.num_rows == 6
    assert parse(tree.to_sql()) == tree


DAY, NEXT = datetime.date(2025, 12, 10), datetime.date(2025, 12, 11)


def year_and_country(year: int, country: str) -> dict[str, object]:
    return {"partition_field_event_year": year, "partition_field_country": country}


def test_expressions_prune_by_their_value() -> None:
    pytest.importorskip("datafusion")
    by_length = PartitionField("len", (1,), pa.int32(), expression="character_length(col0)")
    division = PartitionField("div", (0,), pa.int64(), expression="100 / col0")
    spec = PartitionSpec(1, (by_length, division))
    assert shown(spec, "name IN ('ab', 'cd', 'efg')") == "len IN (2, 3)"
    assert shown(spec, "name > 'ab'") is None
    assert shown(spec, "name IS NULL") == "len IS NULL"
    assert shown(spec, "id = 7") == "div = 14"
    # It fails on the value, so no partition may be left out.
    assert shown(spec, "id = 0") is None


def test_dropped_source_columns_restrict_nothing() -> None:
    spec = PartitionSpec(
        1,
        (
            PartitionField("gone", (99,), pa.int32(), Year()),
            PartitionField("mb", (0, 99), pa.int32(), MultiBucket(4)),
            PartitionField("c", (2,), pa.string(), Identity()),
        ),
    )
    assert shown(spec, "id = 5 AND country = 'US'") == "c = 'US'"


def test_long_lists_are_one_look_up() -> None:
    days = [f"TIMESTAMP '20{year:02}-{month:02}-{day:02}'" for year in range(20) for month in (1, 7) for day in (2, 9)]
    condition = shown(DAYS, f"ts IN ({', '.join(days)})")
    assert condition is not None
    assert condition.count(" IN ") == 1
    assert "OR" not in condition
    values = pa.RecordBatch.from_pydict(
        {"y": pa.array([2000, 2000, 2000, None, 2019], pa.int32()), "m": [1, 1, 2, None, 7], "d": [2, 3, 2, None, 9]}
    )
    assert evaluate_filter(parse(condition), values).to_pylist() == [True, False, False, False, True]
    ids = shown(IDS, f"id IN ({', '.join(map(str, range(2000)))})")
    assert ids is not None
    assert ids.count(",") == 15
    assert shown(IDS, f"id IN ({', '.join(map(str, range(0, 31000, 3)))})") == "b IS NOT NULL"


def test_long_lists_of_what_is_not_wanted_stay_short() -> None:
    names = ", ".join(f"'{number:05}'" for number in range(1000))
    condition = shown(COUNTRY, f"country NOT IN ({names})")
    assert condition is not None
    assert condition.startswith("NOT c IN ('00000', '00001'")
    ranges = " OR ".join(f"country BETWEEN '{number}' AND '{number}5'" for number in range(100, 999))
    condition = shown(COUNTRY, ranges)
    assert condition is not None
    assert condition.count(">=") == 64
    values = pa.RecordBatch.from_pydict({"c": ["100", "1005", "0", "9985", "999"]})
    assert evaluate_filter(parse(condition), values).to_pylist() == [True, True, False, True, False]


def test_100_000_partitions_prune_in_well_under_a_second() -> None:
    count = 100_000
    spec = fields_of(
        ("y", "ts", Year()),
        ("m", "ts", Month()),
        ("d", "ts", Day()),
        ("c", "country", Identity()),
        ("b", "id", Bucket(16)),
    )
    specs = PartitionSpecs(TABLE, (spec,))
    rng = np.random.default_rng(0)
    manifest = pa.RecordBatch.from_pydict(
        {
            "object_id": [f"v1${number:016}$dataset" for number in range(count)],
            "object_type": ["table"] * count,
            "partition_field_y": pa.array(rng.integers(2000, 2026, count), pa.int32()),
            "partition_field_m": pa.array(rng.integers(1, 13, count), pa.int32()),
            "partition_field_d": pa.array(rng.integers(1, 29, count), pa.int32()),
            "partition_field_c": pa.array(rng.choice(["US", "DE", "FR"], count)),
            "partition_field_b": pa.array(rng.integers(0, 16, count), pa.int32()),
        }
    )
    tree = parse(
        "ts >= TIMESTAMP '2019-05-03' AND ts < TIMESTAMP '2021-02-01' AND country IN ('US', 'DE') AND id IN (1, 2, 3)"
    )
    evaluate_filter(manifest_filter(specs, tree), manifest)
    start = time.process_time()
    kept = evaluate_filter(manifest_filter(specs, tree), manifest)
    seconds = time.process_time() - start
    year, month, day = (manifest.column(f"partition_field_{name}").to_numpy() for name in "ymd")
    days = year * 400 + month * 31 + day
    in_range = (days >= 2019 * 400 + 5 * 31 + 3) & (days < 2021 * 400 + 2 * 31 + 1)
    buckets = np.isin(manifest.column("partition_field_b").to_numpy(), [bucket(number) for number in (1, 2, 3)])
    countries = pc.is_in(manifest.column("partition_field_c"), pa.array(["US", "DE"])).to_numpy(zero_copy_only=False)
    assert kept.to_numpy(zero_copy_only=False).tolist() == (in_range & buckets & countries).tolist()
    assert seconds < 0.5


@pytest.mark.parametrize(
    ("spec", "sql", "full", "others"),
    [
        (COUNTRY, "country = 'US'", [{"c": "US"}], [{"c": "DE"}, {"c": None}]),
        (COUNTRY, "country <> 'US'", [{"c": "DE"}], [{"c": "US"}, {"c": None}]),
        (COUNTRY, "upper(country) = 'US'", [{"c": "us"}], [{"c": "DE"}, {"c": None}]),
        (COUNTRY, "country = 'US' AND id = 5", [], [{"c": "US"}]),
        (COUNTRY, "country = 'US' OR id = 5", [{"c": "US"}], [{"c": "DE"}]),
        (COUNTRY, "NOT (country = 'US')", [{"c": "DE"}], [{"c": "US"}, {"c": None}]),
        (COUNTRY, "country <=> NULL", [{"c": None}], [{"c": "DE"}]),
        (COUNTRY, "missing = 1", [], [{"c": "US"}]),
        (COUNTRY, "TRUE", [{"c": "US"}, {"c": None}], []),
        (IDS, "id = 34", [], [{"b": bucket(34)}]),
        (IDS, "id IS NULL", [{"b": None}], [{"b": 3}]),
        (TENS, "id >= 10", [{"t": 10}, {"t": 20}], [{"t": 0}, {"t": None}]),
        (NAMES, "name LIKE 'a%'", [{"n": "ab"}, {"n": "a"}], [{"n": "b"}, {"n": None}]),
        (
            MONTHS,
            "ts >= TIMESTAMP '2025-03-01'",
            [{"y": 2025, "m": 3}, {"y": 2026, "m": 1}],
            [{"y": 2025, "m": 2}, {"y": None, "m": None}],
        ),
        (MONTHS, "ts >= TIMESTAMP '2025-03-02'", [{"y": 2025, "m": 4}], [{"y": 2025, "m": 3}]),
    ],
)
def test_full_partitions(
    spec: PartitionSpec, sql: str, full: list[dict[str, object]], others: list[dict[str, object]]
) -> None:
    condition = full_partition_filter(spec, TABLE, parse(sql))
    values = pa.RecordBatch.from_pylist(
        [{f"partition_field_{name}": value for name, value in row.items()} for row in full + others],
        schema=pa.schema([field.arrow_field for field in spec.fields]),
    )
    assert evaluate_filter(condition, values).to_pylist() == [True] * len(full) + [False] * len(others)


def test_conditions_with_constants_of_their_own() -> None:
    """The geometry of a condition is an expression in it, but none that is evaluated by row."""
    for condition in ("st_intersects(g, st_geomfromtext('POINT(9 9)'))", "st_within(g, st_geomfromtext('POINT(9 9)'))"):
        spec = fields_of(("k", "id", Identity()))
        known = partition_filter(spec, TABLE, parse(f"id = 5 AND {condition}"), time_zone="UTC")
        assert known == partition_filter(spec, TABLE, parse("id = 5"), time_zone="UTC") is not None
