"""Aggregates by tasks: COUNT, MIN, MAX, SUM and AVG, with and without GROUP BY, beside what Spark makes of all rows."""

from __future__ import annotations

from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import ArithmeticException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr

from lance_spark.expr.decimal_expr import Number
from lance_spark.table.reading import groups
from lance_spark.table.reading.groups import Grouping, Slot
from tests.support.connector.plans import plan

ANSI = "spark.sql.ansi.enabled"
COLUMNS = ("tiny", "big", "day", "moment", "price", "wide", "name")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Three fragments of four rows, nulls everywhere, the last fragment all null but for its ids, a row deleted."""
    uri = str(tmp_path_factory.mktemp("aggregates") / "table")
    rows: list[dict[str, object]] = []
    for number in range(12):
        deleted = number >= 8 or number % 4 == 1
        rows.append(
            {
                "id": number,
                "tiny": None if deleted else number * 17 % 9 - 4,
                "big": None if deleted else (-1) ** number * (2**62 + number),
                "day": None if deleted else date(1960 + number * 7 % 20, 1, 1 + number),
                "moment": None if deleted else datetime(1969, 12, 31, 23, 59, 50 + number, 7, tzinfo=timezone.utc),
                "price": None if deleted else Decimal((-1) ** number * (number + 1)).scaleb(-2),
                "wide": None if deleted else Decimal(f"{'-' * (number % 2)}{10**28 + number}.25"),
                "name": None if deleted else ["é", "e", "z", "", "ez", "Z", "\U0001f600", "ﬀ"][number],
                "fraction": [1.0, float("nan"), -0.0, 0.0][number % 4],
            }
        )
    kinds = {
        "id": pa.int64(),
        "tiny": pa.int8(),
        "big": pa.int64(),
        "day": pa.date32(),
        "moment": pa.timestamp("us", "UTC"),
        "price": pa.decimal128(9, 2),
        "wide": pa.decimal128(38, 2),
        "name": pa.string(),
        "fraction": pa.float64(),
    }
    made = lance.write_dataset(pa.Table.from_pylist(rows, pa.schema(kinds.items())), uri, max_rows_per_file=4)
    made.delete("id = 2")
    return uri


def answered(frame: DataFrame) -> bool:
    """Whether the tasks aggregate."""
    return "aggregates=[" in plan(frame)


@pytest.mark.parametrize(
    "condition", ["true", "id < 3", "id >= 8", "id > 100", "name >= 'e' AND tiny <> 0", "big IS NULL"]
)
def test_rows_are_those_of_spark(spark: SparkSession, table: str, condition: str) -> None:
    asked = [f"{kind}({name})" for name in COLUMNS for kind in ("min", "max", "count")]
    read = spark.read.format("lance").load(table).where(condition)
    pushed = read.selectExpr(*asked, "count(*)")
    # A fraction is not aggregated by tasks, and nothing with it.
    plain = read.selectExpr(*asked, "count(*)", "max(fraction)")
    assert answered(pushed)
    assert not answered(plain)
    assert pushed.first() == plain.first()[:-1]


def test_what_tasks_do_not_aggregate(spark: SparkSession, table: str) -> None:
    read = spark.read.format("lance").load(table)
    assert not answered(read.selectExpr("min(fraction)"))
    assert str(read.selectExpr("max(fraction)").first()[0]) == "nan"
    assert not answered(read.selectExpr("count(DISTINCT tiny)", "max(tiny)"))
    assert not answered(read.selectExpr("max(tiny + 1)"))
    assert not answered(read.selectExpr("sum(fraction)"))
    assert not answered(read.selectExpr("avg(fraction)"))
    assert not answered(read.selectExpr("sum(DISTINCT tiny)"))
    assert not answered(read.selectExpr("sum(tiny + 1)"))
    assert not answered(read.selectExpr("sum(price / wide)"))
    assert not answered(read.selectExpr("sum(-price)"))
    assert not answered(read.selectExpr("sum(1.5)"))
    assert not answered(read.groupBy("fraction").count())
    assert not answered(read.selectExpr("tiny + 1 AS t").groupBy("t").count())
    assert not answered(read.selectExpr("named_struct('a', tiny) AS s").groupBy("s").count())
    # Digits after the point would be cut.
    assert not answered(read.selectExpr("sum(wide * wide * wide * wide)"))
    # Spark adds doubles up for it, which whole numbers of 64 bits are not.
    assert not answered(read.selectExpr("avg(big)"))
    # Spark has to look at the rows first.
    assert not answered(read.where("rand() >= 0.5").selectExpr("max(id)"))
    assert not answered(spark.read.format("lance").option("limit", "2").load(table).selectExpr("max(id)"))
    assert spark.read.format("lance").option("limit", "2").load(table).selectExpr("max(id)").first() == (1,)


def test_a_table_without_rows(spark: SparkSession, uri: str) -> None:
    spark.range(0).selectExpr("id", "CAST(id AS STRING) AS name").write.format("lance").save(uri)
    counted = spark.read.format("lance").load(uri).selectExpr("count(name)", "min(name)", "max(id)", "count(*)")
    assert answered(counted)
    assert counted.first() == (0, None, None, 0)


@pytest.mark.slow
def test_aggregates_within_larger_queries(spark: SparkSession, table: str) -> None:
    spark.read.format("lance").load(table).createOrReplaceTempView("aggregated")
    rows = spark.sql("SELECT id FROM aggregated WHERE id = (SELECT max(id) FROM aggregated WHERE tiny IS NOT NULL)")
    assert [row.id for row in rows.collect()] == [7]
    both = spark.sql("SELECT max(id) AS m FROM aggregated UNION ALL SELECT min(id) FROM aggregated HAVING count(*) > 3")
    assert sorted(row.m for row in both.collect()) == [0, 11]
    assert spark.sql("SELECT max(id) - min(id) + count(tiny) FROM aggregated LIMIT 3").first() == (16,)


KEYS = ("flag", "tiny", "small", "day", "moment", "local", "price", "wide", "name")
SUMMED = ("tiny", "small", "middle", "price", "wide")


@pytest.fixture(scope="module")
def groups_table(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """600 rows in four fragments, keys of few values with nulls, one key whose values all are null, rows deleted."""
    uri = str(tmp_path_factory.mktemp("groups") / "table")
    draw = np.random.default_rng(7)

    def some(values: list[object]) -> list[object]:
        return [values[place] for place in draw.integers(0, len(values), 600)]

    cents = [
        None if number % 9 == 0 else Decimal(number).scaleb(-2)
        for number in draw.integers(-90_000, 90_000, 600).tolist()
    ]
    name = some([None, "", "a", "A", "é", "e\u0301", "null"])
    columns = {
        "id": pa.array(range(600)),
        "flag": pa.array(some([True, False, None]), pa.bool_()),
        "tiny": pa.array(some([-128, 127, 0, None]), pa.int8()),
        "small": pa.array(some([-(2**15), 2**15 - 1, None]), pa.int16()),
        "middle": pa.array(some([-(2**31), 2**31 - 1, 5, None]), pa.int32()),
        "day": pa.array(some([date(1, 1, 1), date(1969, 12, 31), date(9999, 12, 31), None]), pa.date32()),
        "moment": pa.array(some([-1, 0, 1_700_000_000_000_000, None]), pa.timestamp("us", "UTC")),
        "local": pa.array(some([-1, 0, 1_700_000_000_000, None]), pa.timestamp("ms")),
        "price": pa.array([value if draw.random() < 0.5 else Decimal("-0.01") for value in cents], pa.decimal128(9, 2)),
        "wide": pa.array(some([Decimal(10**30), Decimal(-(10**30)) / 4, Decimal("0.25"), None]), pa.decimal128(38, 2)),
        "name": pa.array(name, pa.large_string()),
        "lost": pa.array([None if text == "a" else 4 for text in name], pa.int64()),
        "fraction": pa.array(draw.random(600)),
    }
    made = lance.write_dataset(pa.table(columns), uri, max_rows_per_file=150)
    made.delete("id % 7 = 3")
    return uri


def rows_of(frame: DataFrame) -> list[tuple[object, ...]]:
    """The rows, in an order of their own."""
    return sorted(map(tuple, frame.collect()), key=repr)


def same_as_spark(spark: SparkSession, uri: str, asked: list[str], group_by: str = "", condition: str = "true") -> None:
    """The tasks aggregate, and every row is as Spark has it."""
    spark.read.format("lance").load(uri).createOrReplaceTempView("looked_at")
    ending = f"FROM looked_at WHERE {condition} {group_by and f'GROUP BY {group_by}'}"
    pushed = spark.sql(f"SELECT {', '.join(asked)} {ending}")
    # A fraction is not aggregated by tasks, and nothing with it.
    plain = spark.sql(f"SELECT {', '.join(asked)}, max(fraction) {ending}")
    assert answered(pushed)
    assert not answered(plain)
    assert pushed.schema.fields == plain.schema.fields[:-1]
    assert rows_of(pushed) == sorted((row[:-1] for row in plain.collect()), key=repr)


@pytest.mark.parametrize("key", KEYS)
def test_every_type_groups_rows(spark: SparkSession, groups_table: str, key: str) -> None:
    asked = [f"{kind}({name})" for name in SUMMED for kind in ("sum", "count", "min")]
    same_as_spark(spark, groups_table, [key, *asked, "count(*)", "avg(price)", "avg(small)"], key)


@pytest.mark.parametrize("condition", ["true", "id < 40", "id > 1000", "tiny = 0 AND name >= 'a'", "lost IS NULL"])
@pytest.mark.parametrize("group_by", ["", "name", "name, flag, day"])
def test_filters_before_groups(spark: SparkSession, groups_table: str, condition: str, group_by: str) -> None:
    values = ["sum(tiny)", "avg(middle)", "sum(lost)", "count(lost)", "avg(price)", "max(name)", "min(moment)"]
    same_as_spark(spark, groups_table, [*values, *([group_by] if group_by else [])], group_by, condition)


EXPRESSIONS = (
    "sum(price * price)",
    "sum(price * (1 - price) * (2.50 + price))",
    "avg(1.005 - price)",
    "sum(small * price)",
    "sum(middle * price - tiny)",
    "sum(wide + 1)",
    "count(price * wide)",
    "sum(price * 0 - 99999999999999999999.5)",
)


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expressions_of_decimals(spark: SparkSession, groups_table: str, expression: str) -> None:
    same_as_spark(spark, groups_table, [expression])
    same_as_spark(spark, groups_table, ["name", expression, "sum(price)", "min(price)"], "name")


def test_groups_without_aggregates_and_after_them(spark: SparkSession, groups_table: str) -> None:
    read = spark.read.format("lance").load(groups_table)
    read.createOrReplaceTempView("grouped")
    names = spark.sql("SELECT DISTINCT name FROM grouped")
    assert answered(names)
    assert "group_by=[name]" in plan(names)
    assert {row.name for row in names.collect()} == {None, "", "a", "A", "é", "e\u0301", "null"}
    having = spark.sql("SELECT name FROM grouped GROUP BY name HAVING sum(lost) IS NULL")
    assert answered(having)
    assert [row.name for row in having.collect()] == ["a"]
    first = spark.sql(
        "SELECT tiny, tiny AS again, count(*) AS n FROM grouped GROUP BY tiny, tiny ORDER BY tiny LIMIT 2"
    )
    assert answered(first)
    assert [row.tiny for row in first.collect()] == [None, -128]
    shown = plan(spark.sql("SELECT sum(price * (1 - price)) FROM grouped GROUP BY flag, day"))
    assert "aggregates=[sum(price * (1 - price))] group_by=[flag, day]" in shown
    rolled = spark.sql("SELECT flag, tiny, sum(price) FROM grouped GROUP BY ROLLUP (flag, tiny)")
    by_hand = spark.createDataFrame(read.toArrow()).groupBy().count()
    assert by_hand.first()[0] == read.count()
    assert rolled.where("flag IS NULL AND tiny IS NULL").count() == 3


def test_groups_of_no_rows(spark: SparkSession, uri: str) -> None:
    spark.range(0).selectExpr("id", "CAST(id AS DECIMAL(9, 2)) AS price").write.format("lance").save(uri)
    read = spark.read.format("lance").load(uri)
    totals = read.selectExpr("sum(id)", "sum(price)", "avg(price)", "count(price)")
    assert answered(totals)
    assert totals.first() == (None, None, None, 0)
    assert answered(read.groupBy("id").sum("price"))
    assert read.groupBy("id").sum("price").collect() == []


def large(spark: SparkSession, uri: str, **columns: str) -> DataFrame:
    """A table of 5000 rows, one fragment."""
    rows = spark.range(0, 5000, 1, 1).selectExpr("id", *(f"{text} AS {name}" for name, text in columns.items()))
    rows.selectExpr("*", "CAST(id AS DOUBLE) AS fraction").write.format("lance").save(uri)
    return spark.read.format("lance").load(uri)


@pytest.mark.slow
def test_sums_larger_than_the_summed_type(spark: SparkSession, uri: str) -> None:
    price = "CAST(9999999.99 - id % 3 AS DECIMAL(9, 2))"
    most = "CAST(repeat('9', 37) AS DECIMAL(38, 1)) * 0 + CAST(concat('-', repeat('9', 33), '.5') AS DECIMAL(38, 1))"
    large(
        spark, uri, price=price, less="CAST(id AS DECIMAL(9, 2))", wide=f"CAST({most} AS DECIMAL(38, 1))", odd="id % 2"
    )
    same_as_spark(spark, uri, ["sum(price)", "avg(price)", "min(price)", "count(*)", "sum(wide)"])
    same_as_spark(spark, uri, ["odd", "sum(price)", "sum(less)", "count(price)", "max(id)", "sum(-1 * wide)"], "odd")
    # Every sum is small enough, though so many of the largest value would not be.
    same_as_spark(spark, uri, ["sum(less)", "count(less)"])


def test_sums_beyond_64_bits(spark: SparkSession, uri: str) -> None:
    read = large(spark, uri, big="CASE WHEN id = 4000 THEN 9223372036854775807 ELSE id % 2 END", low="-1 - id")
    assert answered(read.selectExpr("sum(big)"))
    with pytest.raises(ArithmeticException, match="overflow"):
        read.selectExpr("sum(big)").collect()
    with pytest.raises(ArithmeticException, match="overflow"):
        read.selectExpr("sum(big)", "max(fraction)").collect()
    same_as_spark(spark, uri, ["try_sum(big)"])
    same_as_spark(spark, uri, ["id % 2 AS odd", "sum(big)"][1:], "", "id <> 4000")
    spark.conf.set(ANSI, "false")
    try:
        same_as_spark(spark, uri, ["sum(big)", "sum(low)", "count(big)"])
    finally:
        spark.conf.unset(ANSI)


def test_sums_in_parts(spark: SparkSession, uri: str) -> None:
    large(spark, uri, big="9223372036854775807 DIV 100 * (id % 3 - 1)", odd="id % 2", name="CAST(id % 5 AS STRING)")
    same_as_spark(spark, uri, ["sum(big)", "count(big)", "min(big)"])
    same_as_spark(spark, uri, ["odd", "name", "sum(big)", "count(*)"], "odd, name")


@pytest.mark.slow
def test_products_beyond_38_digits(spark: SparkSession, uri: str) -> None:
    value = "CAST(concat(id % 7, repeat('9', 17), '.25') AS DECIMAL(20, 2))"
    read = large(spark, uri, wide=value, small="CAST(id % 9 AS DECIMAL(20, 2))", odd="id % 2")
    # decimal(41,4), cut to decimal(38,4): some values need a look, and are no longer than that.
    same_as_spark(spark, uri, ["sum(wide * small)", "count(wide * small)"])
    same_as_spark(spark, uri, ["odd", "sum(wide * small)"], "odd")
    with pytest.raises(Exception, match=r"wide \* wide.*decimal\(38,4\)"):
        read.selectExpr("sum(wide * wide)").collect()
    with pytest.raises(ArithmeticException):
        read.selectExpr("sum(wide * wide)", "max(fraction)").collect()


@pytest.mark.slow
def test_more_groups_than_half_of_the_rows(spark: SparkSession, uri: str) -> None:
    large(
        spark,
        uri,
        key="id * 3 DIV 4",
        text="CAST(id DIV 2 * 2 + id % 2 * (id % 3) AS STRING)",
        price="CAST(id AS DECIMAL(12, 3))",
    )
    same_as_spark(spark, uri, ["key", "sum(price)", "count(*)", "avg(price)", "max(text)"], "key")
    same_as_spark(spark, uri, ["text", "sum(id)"], "text")


def test_rows_after_a_window_of_many_groups_stay_as_they_are() -> None:
    numbers = Number("column", 0, column="n")
    slots = (
        Slot("sum", pa.int64(), number=numbers),
        Slot("count", pa.int64(), column="n"),
        Slot("count_star", pa.int64()),
    )
    grouping = Grouping(("n",), slots)
    many = pa.record_batch({"n": pa.array([None, *range(groups._MEANINGFUL_ROWS)])})
    assert len(grouping.of(many)[0]) == groups._MEANINGFUL_ROWS + 1
    alike = pa.record_batch({"n": pa.array([7, 7, None])})
    assert [array.to_pylist() for array in grouping.of(alike)] == [[7, 7, None], [7, 7, None], [1, 1, 0], [1, 1, 1]]
    assert [array.to_pylist() for array in Grouping(("n",), slots).of(alike)] == [[7, None], [14, None], [2, 0], [2, 1]]


def test_averages_as_spark_adds_doubles(spark: SparkSession, uri: str) -> None:
    read = large(spark, uri, whole="CAST(id AS INT)", big="9007199254740993 + id")
    assert answered(read.selectExpr("avg(whole)", "sum(big)"))
    assert not answered(read.selectExpr("avg(big)", "sum(big)"))
    same_as_spark(spark, uri, ["avg(whole)", "sum(whole)", "count(whole)"])
    assert read.selectExpr("avg(big)").first() == read.selectExpr("avg(big)", "max(fraction)").first()[:1]


def test_try_avg_is_null_where_the_sum_is_too_large(spark: SparkSession, uri: str) -> None:
    """Spark asks for SUM and COUNT in its place; of a sum that is too large SUM would make an error."""
    most = "CAST(repeat('9', 30) AS DECIMAL(30, 0))"
    read = large(spark, uri, wide=f"{most} * 10000000", price="CAST(id AS DECIMAL(28, 0))", odd="id % 2")
    assert read.schema["wide"].dataType.simpleString() == "decimal(38,0)"
    assert not answered(read.selectExpr("try_avg(wide)"))
    assert read.selectExpr("try_avg(wide)", "try_sum(wide)").first() == (None, None)
    assert {row[1] for row in read.groupBy("odd").agg(expr("try_avg(wide)")).collect()} == {None}
    with pytest.raises(ArithmeticException):
        read.selectExpr("avg(wide)").collect()
    assert answered(read.selectExpr("try_avg(price)"))
    assert read.selectExpr("try_avg(price)").first() == (Decimal("2499.5"),)


def test_decimals_that_are_cut_down_in_other_settings(spark: SparkSession, groups_table: str) -> None:
    for setting, value in ((ANSI, "false"), ("spark.sql.decimalOperations.allowPrecisionLoss", "false")):
        spark.conf.set(setting, value)
        try:
            read = spark.read.format("lance").load(groups_table)
            asked = ["sum(price * price)", "sum(wide + 1)", "avg(price)", "sum(tiny)"]
            assert read.selectExpr(*asked).first() == read.selectExpr(*asked, "max(fraction)").first()[:-1]
        finally:
            spark.conf.unset(setting)


@pytest.mark.slow
def test_tables_beside_each_other(spark: SparkSession, groups_table: str, tmp_path: Path) -> None:
    read = spark.read.format("lance").load(groups_table)
    read.write.parquet(str(tmp_path / "files"))
    read.createOrReplaceTempView("one")
    spark.read.parquet(str(tmp_path / "files")).createOrReplaceTempView("other")
    query = (
        "SELECT a.name, a.s, b.n FROM (SELECT name, sum(price) AS s FROM {0} GROUP BY name) a JOIN "
        "(SELECT name, count(*) AS n FROM {0} WHERE flag GROUP BY name) b ON a.name <=> b.name"
    )
    assert rows_of(spark.sql(query.format("one"))) == rows_of(spark.sql(query.format("other")))
