"""Joins without a shuffle, case by case as the tests of another table format list them: its storage-partitioned joins.

The names on the right are those of Iceberg's TestStoragePartitionedJoins (J) and of its row-level companion (R).

| here | covers |
|---|---|
| `test_key_types[bucket ...]` | J testJoinsWithBucketingOn{Byte,Short,Int,Long,Date,Timestamp,Decimal,...}Column |
| `test_key_types[years, ...]` | J testJoinsWith{Years,Months,Days,Hours}On{Timestamp,TimestampNtz,Date}Column |
| `test_key_types[identity/truncate ...]` | no counterpart: values themselves, prefixes and multiples |
| `test_many_transforms_at_once` | J testJoinsWithMultipleTransformTypes |
| `test_specs_that_have_grown` | J testJoinsWithCompatibleSpecEvolution |
| `test_coarser_of_two_specs` | J of compatible buckets, within one table |
| `test_spj.py::test_no_shuffle[bucket 16 and ...]` | J of compatible buckets and reducers, of two tables |
| `test_other_specs_are_shuffled` | J testJoinsWithIncompatibleSpecs, ...WithUnpartitionedTables |
| `test_empty_tables` | J testJoinsWithEmptyTable |
| `test_one_partition_a_side` | J testJoinsWithOneSplitTables |
| `test_keys_that_the_other_side_lacks` | J testJoinsWithMismatchingPartitionKeys |
| `test_groups`, `test_windows_and_distinct_rows` | J testAggregates |
| `test_row_level[...]` | R test{CopyOnWrite,MergeOnRead}{Delete,Update,Merge}WithoutShuffles...: here is one kind |
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from lance_spark.partitioned.evolution import set_partitioning
from lance_spark.partitioned.save import PartitionBy, create_partitioned
from lance_spark.partitioned.table import open_partitioned
from lance_spark.partitioned.transforms.base import Transform
from lance_spark.partitioned.transforms.bucket import Bucket
from lance_spark.partitioned.transforms.date_part import Day, Hour, Month, Year
from lance_spark.partitioned.transforms.identity import Identity
from lance_spark.partitioned.transforms.truncate import Truncate
from tests.partitioned.verbs import save_rows
from tests.support.connector.plans import plan

pytestmark = pytest.mark.tasks

ENABLED = "spark.sql.sources.v2.bucketing.enabled"
START = datetime(1969, 12, 30, 5, tzinfo=timezone.utc)
MOMENTS = [START + timedelta(days=day, hours=day % 3) for day in (0, 1, 2, 40, 366, 20_000)]
TIMES = [MOMENTS[0], MOMENTS[2], MOMENTS[-1]]

VALUES: dict[str, tuple[pa.DataType, Sequence[object]]] = {
    "boolean": (pa.bool_(), [True, False, True]),
    "byte": (pa.int8(), [-128, 1, 127]),
    "short": (pa.int16(), [-300, 1, 300]),
    "int": (pa.int32(), [-(2**31), -2, 2**31 - 1]),
    "long": (pa.int64(), [-(2**63), -2, 2**63 - 1]),
    "string": (pa.string(), ["", "äöüß", "äöü"]),
    "binary": (pa.binary(), [b"", b"\0", b"\xff"]),
    "decimal": (pa.decimal128(20, 2), [Decimal("-12.50"), Decimal("2.49"), Decimal("99.99")]),
    "date": (pa.date32(), [*(moment.date() for moment in TIMES), date(2024, 2, 29)]),
    "timestamp": (pa.timestamp("us", "UTC"), TIMES),
    "timestamp_ntz": (pa.timestamp("us"), [moment.replace(tzinfo=None) for moment in TIMES]),
}
PERIODS: dict[str, tuple[Transform, ...]] = {
    "years": (Year(),),
    "months": (Year(), Month()),
    "days": (Year(), Month(), Day()),
    "hours": (Year(), Month(), Day(), Hour()),
}


def by(column: str, *transforms: Transform) -> list[PartitionBy]:
    return [PartitionBy(f"{column}_{transform.name}", (column,), transform) for transform in transforms]


KEYS: dict[str, tuple[str, tuple[Transform, ...]]] = {
    **{f"bucket {kind}": (kind, (Bucket(2),)) for kind in VALUES if kind != "boolean"},
    **{f"identity {kind}": (kind, (Identity(),)) for kind in VALUES},
    **{f"truncate {kind}": (kind, (Truncate(3),)) for kind in ("byte", "int", "long", "decimal", "string")},
    **{
        f"{period} {kind}": (kind, parts)
        for period, parts in PERIODS.items()
        for kind in ("timestamp", "timestamp_ntz", "date")
        if (period, kind) != ("hours", "date")
    },
}


@pytest.fixture(autouse=True)
def static_plans(spark: SparkSession) -> Iterator[None]:
    """Plans are final before they run, and small tables are no reason to broadcast them."""
    settings = {"spark.sql.adaptive.enabled": "false", "spark.sql.autoBroadcastJoinThreshold": "-1"}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield
    for name in settings:
        spark.conf.unset(name)


def make(spark: SparkSession, name: str, root: Path, rows: pa.Table, partition_by: Sequence[PartitionBy]) -> str:
    """A partitioned table as the view `name`."""
    uri = str(root / name)
    save_rows(create_partitioned(uri, rows.schema, partition_by), rows)
    show(spark, name, uri)
    return uri


def show(spark: SparkSession, name: str, uri: str) -> None:
    spark.read.format("lance").load(uri).createOrReplaceTempView(name)


def result(frame: DataFrame) -> list[str]:
    return sorted(str(row) for row in frame.collect())


def check(spark: SparkSession, text: str, *, shuffles: int = 0) -> list[str]:
    """The rows of a query, which are the same with joins that always shuffle; how often it does."""
    frame = spark.sql(text)
    assert plan(frame).count("Exchange") == shuffles, plan(frame)
    found = result(frame)
    spark.conf.set(ENABLED, "false")
    try:
        shuffled = spark.sql(text)
        assert plan(shuffled).count("Exchange") > shuffles or shuffles
        assert result(shuffled) == found
    finally:
        spark.conf.set(ENABLED, "true")
    return found


@pytest.mark.slow
@pytest.mark.parametrize("family", ["bucket", "identity", "truncate", "years", "months", "days", "hours"])
def test_key_types(spark: SparkSession, tmp_path: Path, family: str) -> None:
    cases = {case: key for case, key in KEYS.items() if case.split()[0] == family}
    for kind, transforms in cases.values():
        type_, values = VALUES[kind]
        schema = pa.schema([pa.field("n", pa.int32()), pa.field("k", type_)])
        for side, start in (("l", 0), ("r", 1)):
            keys = [*values, *values[start:], None]
            rows = pa.Table.from_arrays([pa.array(range(len(keys)), pa.int32()), pa.array(keys, type_)], schema=schema)
            make(spark, f"{side}_{kind}", tmp_path, rows, by("k", *transforms))
    # One query for all of them: each is a plan of its own, and Spark takes as long for one as for many.
    joins = [
        f"SELECT '{case}' AS c, l.n, r.n FROM l_{kind} l JOIN r_{kind} r ON l.k = r.k"
        for case, (kind, _) in cases.items()
    ]
    found = check(spark, " UNION ALL ".join(joins))
    assert all(any(f"'{case}'" in row for row in found) for case in cases)


ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3, 4, 5, 6, None], pa.int64()),
        "n": pa.array([100, 100, 300, 400, None, 600, 700], pa.int32()),
        "dep": pa.array(["hr", "hr", "it", "it", "ops", None, None]),
        "ts": pa.array([*MOMENTS, None], pa.timestamp("us", "UTC")),
    }
)
DEP = by("dep", Identity())


@pytest.mark.slow
def test_many_transforms_at_once(spark: SparkSession, tmp_path: Path) -> None:
    """The keys of columns that a query reads count, and those of the join among them."""
    fields = [*by("ts", *PERIODS["days"]), *by("n", Bucket(4)), *DEP]
    for name in ("l", "r"):
        make(spark, name, tmp_path, ROWS, fields)
    queries = []
    for columns in (["dep"], ["n", "dep"], ["ts"], ["n", "ts", "dep"], ["id", "dep"]):
        shown = ", ".join(f"l.{column}" for column in columns)
        equal = " AND ".join(f"l.{column} = r.{column}" for column in columns)
        queries.append(f"SELECT struct({shown}) FROM l JOIN r ON {equal}")
    texts = [query.replace("struct(", "to_json(struct(", 1).replace(")", "))", 1) for query in queries]
    assert len(check(spark, " UNION ALL ".join(texts))) > 20


def test_specs_that_have_grown(spark: SparkSession, tmp_path: Path) -> None:
    uri = make(spark, "l", tmp_path, ROWS.slice(0, 4), DEP)
    save_rows(set_partitioning(open_partitioned(uri), [*DEP, *by("n", Bucket(8))]), ROWS.slice(3))
    show(spark, "l", uri)
    make(spark, "r", tmp_path, ROWS, DEP)
    assert check(spark, "SELECT l.id, r.n FROM l JOIN r ON l.dep = r.dep AND l.id = r.id")


COARSER = {
    "buckets": ("id", by("id", Bucket(16)), by("id", Bucket(8)), by("id", Bucket(8)), "bucket(id)"),
    "buckets with a divisor": ("id", by("id", Bucket(12)), by("id", Bucket(8)), by("id", Bucket(16)), "bucket(id)"),
    "periods": ("ts", by("ts", *PERIODS["months"]), by("ts", *PERIODS["days"]), by("ts", Year()), "months(ts)"),
    "values and buckets": ("id", by("id", Identity()), by("id", Bucket(4)), by("id", Bucket(4)), "bucket(id)"),
    "values and days": ("ts", by("ts", *PERIODS["days"]), by("ts", Identity()), by("ts", *PERIODS["days"]), "days(ts)"),
    "prefixes": ("dep", by("dep", Truncate(2)), by("dep", Truncate(1)), by("dep", Truncate(1)), "truncate_1(dep)"),
    "multiples": ("id", by("id", Truncate(2)), by("id", Truncate(4)), by("id", Truncate(4)), "truncate_4(id)"),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", COARSER)
def test_coarser_of_two_specs(spark: SparkSession, tmp_path: Path, case: str) -> None:
    column, first, second, others, key = COARSER[case]
    uri = make(spark, "l", tmp_path, ROWS, first)
    renamed = [PartitionBy(f"new_{item.field_id}", item.sources, item.transform) for item in second]
    known = {item.transform: item for item in first}
    save_rows(
        set_partitioning(open_partitioned(uri), [known.get(item.transform, item) for item in renamed]), ROWS.slice(2)
    )
    show(spark, "l", uri)
    make(spark, "r", tmp_path, ROWS, others)
    text = f"SELECT l.id, l.n, r.id FROM l FULL JOIN r ON l.{column} = r.{column}"
    assert f"partitioning=[{key}]" in plan(spark.sql(text))
    assert len(check(spark, text)) > 7


@pytest.mark.slow
def test_other_specs_are_shuffled(spark: SparkSession, tmp_path: Path) -> None:
    make(spark, "l", tmp_path, ROWS, DEP)
    make(spark, "r", tmp_path, ROWS, by("n", Bucket(8)))
    text = "SELECT l.id, r.id FROM l JOIN r ON l.dep = r.dep AND l.n = r.n"
    assert check(spark, text, shuffles=2)
    for name in ("l", "r"):
        uri = str(tmp_path / f"plain {name}")
        spark.table(name).write.format("lance").save(uri)
        show(spark, name, uri)
    assert check(spark, text, shuffles=2)


@pytest.mark.slow
def test_empty_tables(spark: SparkSession, tmp_path: Path) -> None:
    make(spark, "l", tmp_path, ROWS.slice(0, 0), DEP)
    make(spark, "r", tmp_path, ROWS, DEP)
    for how, count in (("JOIN", 0), ("LEFT JOIN", 0), ("RIGHT JOIN", 7), ("FULL JOIN", 7)):
        assert len(spark.sql(f"SELECT l.id, r.id FROM l {how} r ON l.dep = r.dep").collect()) == count
    # All partitions of one side go when the query is planned.
    assert len(spark.sql("SELECT a.id FROM r a LEFT JOIN r b ON a.dep = b.dep AND b.dep = 'nobody'").collect()) == 7


def test_one_partition_a_side(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("l", "r"):
        make(spark, name, tmp_path, ROWS.slice(0, 2), DEP)
    assert len(check_single(spark, "SELECT l.id, r.n FROM l JOIN r ON l.dep = r.dep")) == 4


def check_single(spark: SparkSession, text: str) -> list[str]:
    """As `check`, where a join that may shuffle need not: both sides are one task."""
    frame = spark.sql(text)
    assert "Exchange" not in plan(frame)
    return result(frame)


@pytest.mark.slow
def test_keys_that_the_other_side_lacks(spark: SparkSession, tmp_path: Path) -> None:
    make(spark, "l", tmp_path, ROWS.slice(0, 5), DEP)
    make(spark, "r", tmp_path, ROWS.slice(2), DEP)
    shown = dict.fromkeys(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"], "l.id, r.id, r.dep")
    shown |= dict.fromkeys(["LEFT SEMI JOIN", "LEFT ANTI JOIN"], "l.id, null, l.dep")
    joins = [f"SELECT '{how}', {columns} FROM l {how} r ON l.dep = r.dep" for how, columns in shown.items()]
    assert len(check(spark, " UNION ALL ".join(joins))) > 20


@pytest.mark.slow
def test_groups(spark: SparkSession, tmp_path: Path) -> None:
    make(spark, "t", tmp_path, ROWS, [*DEP, *by("n", Bucket(8))])
    assert check(
        spark,
        "SELECT dep, n, count(DISTINCT id) FROM t GROUP BY dep, n UNION ALL "
        "SELECT dep, 0, count(DISTINCT id) FROM t GROUP BY dep",
    )


@pytest.mark.slow
def test_windows_and_distinct_rows(spark: SparkSession, tmp_path: Path) -> None:
    make(spark, "t", tmp_path, ROWS, DEP)
    latest = "SELECT *, rank() OVER (PARTITION BY dep ORDER BY ts DESC) AS place FROM t"
    assert check(
        spark,
        "SELECT id, row_number() OVER (PARTITION BY dep ORDER BY id) FROM t UNION ALL "
        f"SELECT n, 0 FROM (SELECT DISTINCT dep, n FROM t) UNION ALL SELECT id, 1 FROM ({latest}) WHERE place = 1",
    )


@pytest.mark.parametrize("hint", ["MERGE", "SHUFFLE_HASH"])
def test_kinds_of_joins(spark: SparkSession, tmp_path: Path, hint: str) -> None:
    make(spark, "l", tmp_path, ROWS, by("id", Bucket(4)))
    make(spark, "r", tmp_path, ROWS.slice(2), by("id", Bucket(4)))
    assert check(spark, f"SELECT /*+ {hint}(r) */ l.id, r.n FROM l JOIN r ON l.id = r.id")


SALARIES = pa.schema([pa.field("id", pa.int32()), pa.field("salary", pa.int32()), pa.field("dep", pa.string())])


def salaries(*rows: tuple[int, int, str]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SALARIES.names, row, strict=True)) for row in rows], SALARIES)


STAFF = salaries((1, 100, "hr"), (2, 200, "hr"), (3, 300, "hr"), (4, 400, "hardware"), (6, 600, "software"))
CHANGES = salaries((1, 110, "hr"), (5, 500, "hr"), (6, 300, "software"), (10, 1000, "ops"))
MERGE = (
    "MERGE INTO {t} t USING s ON t.id = s.id AND t.dep = s.dep {more} "
    "WHEN MATCHED THEN UPDATE SET t.salary = s.salary WHEN NOT MATCHED THEN INSERT *"
)
MERGED = {1: 110, 2: 200, 3: 300, 4: 400, 5: 500, 6: 300, 10: 1000}
EXISTS = "EXISTS (SELECT 1 FROM s WHERE t.id = s.id AND t.dep = s.dep)"
STATEMENTS = {
    "delete": (f"DELETE FROM {{t}} t WHERE {EXISTS}", {2: 200, 3: 300, 4: 400}),
    "update": (f"UPDATE {{t}} t SET salary = -1 WHERE {EXISTS}", {1: -1, 2: 200, 3: 300, 4: 400, 6: -1}),
    "merge": (MERGE, MERGED),
    "merge of some partitions": (MERGE.replace("{more}", "AND t.dep IN ('hr', 'ops', 'software')"), MERGED),
}


@pytest.mark.parametrize("case", STATEMENTS)
def test_row_level(spark: SparkSession, tmp_path: Path, case: str) -> None:
    text, expected = STATEMENTS[case]
    uri = make(spark, "t", tmp_path, STAFF, DEP)
    make(spark, "s", tmp_path, CHANGES, DEP)
    statement = text.format(t=f"lance.`{uri}`", more="")
    explained = spark.sql(f"EXPLAIN {statement}").first()[0]  # type: ignore[index]
    assert "WriteDelta" in explained
    assert "Exchange" not in explained, explained
    version = open_partitioned(uri).version
    spark.sql(statement)
    table = open_partitioned(uri)
    assert table.version == version + 1
    rows = table.to_table(["id", "salary"])
    assert dict(zip(rows["id"].to_pylist(), rows["salary"].to_pylist(), strict=True)) == expected
