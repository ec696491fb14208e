"""MIN and MAX of a whole table read the rows that indexes name as extreme, and are those of all rows."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.support.connector.plans import plan

pytestmark = pytest.mark.tasks

ROWS = 40_000
ASKED = "min(at), max(at), min(day), max(day), min(name), max(name), min(price), max(price)"
VALUES = (
    "id, id % 4 AS part, id * 3 AS at, date_add(DATE '2020-01-01', CAST(id / 100 AS INT)) AS day, "
    "CAST(id / 7 AS DECIMAL(12, 2)) AS price, CASE WHEN id % 5 > 0 THEN format_string('n%08d', id) END AS name"
)
COLUMNS = "id BIGINT, part BIGINT, at BIGINT, day DATE, price DECIMAL(12, 2), name STRING"


def check(spark: SparkSession, name: str, *, uses_indexes: bool, asked: str = ASKED) -> None:
    """Compares with the answer that Spark makes of all rows: it has no DOUBLE from the tasks, and so nothing."""
    frame = spark.sql(f"SELECT {asked} FROM {name}")
    plain = spark.sql(f"SELECT {asked}, max(double(id)) FROM {name}")
    assert "aggregates=[" in plan(frame)
    assert "aggregates=[" not in plan(plain)
    assert frame.first() == plain.first()[:-1]
    assert ("filters=[at <= " in plan(frame) and "by_at (" in plan(frame)) is uses_indexes, plan(frame)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["zonemap", "btree"])
@pytest.mark.parametrize("partitioned", ["", "PARTITIONED BY (part)"])
def test_extremes_are_those_of_all_rows(spark: SparkSession, kind: str, partitioned: str) -> None:
    name = f"lance.extremes_{kind}_{len(partitioned)}"
    spark.sql(f"CREATE TABLE {name} ({COLUMNS}) {partitioned}")
    spark.sql(f"INSERT INTO {name} SELECT {VALUES} FROM range({ROWS})")
    check(spark, name, uses_indexes=False)
    sizes = " WITH (rows_per_zone = 500)" if kind == "zonemap" else ""
    for column in ("at", "day", "name", "price"):
        spark.sql(f"ALTER TABLE {name} CREATE INDEX by_{column} USING {kind} ({column}){sizes}")
    check(spark, name, uses_indexes=True)
    # Other rows are beyond the bounds, in a fragment that no index covers.
    spark.sql(
        f"INSERT INTO {name} SELECT {VALUES} FROM range(-10, 0) "
        f"UNION ALL SELECT {VALUES} FROM range({ROWS}, {ROWS + 10})"
    )
    check(spark, name, uses_indexes=True)
    # The bounds are those of rows that are gone, so they say nothing.
    spark.sql(f"DELETE FROM {name} WHERE id < 200 OR id >= {ROWS - 200}")
    check(spark, name, uses_indexes=False)
    for column in ("at", "day", "name", "price"):
        spark.sql(f"ALTER TABLE {name} CREATE INDEX by_{column} USING {kind} ({column}){sizes}")
    check(spark, name, uses_indexes=True)
    spark.sql(f"UPDATE {name} SET at = -at, name = NULL, price = price + 99999 WHERE id IN (300, {ROWS // 2})")
    check(spark, name, uses_indexes=True)
    check(spark, name, uses_indexes=False, asked=f"{ASKED}, count(name)")
    spark.conf.set("spark.sql.lance.useScalarIndex", "false")
    try:
        check(spark, name, uses_indexes=False)
    finally:
        spark.conf.unset("spark.sql.lance.useScalarIndex")
    spark.sql(f"DELETE FROM {name}")
    check(spark, name, uses_indexes=False)


def test_bounds_of_scattered_values_are_not_asked(spark: SparkSession) -> None:
    """Each zone has rows near both ends, so it would be read whatever the bounds say."""
    spark.sql("CREATE TABLE lance.scattered (id BIGINT, at BIGINT)")
    spark.sql(f"INSERT INTO lance.scattered SELECT id, id % 2 AS at FROM range({ROWS})")
    spark.sql("ALTER TABLE lance.scattered CREATE INDEX by_at USING zonemap (at) WITH (rows_per_zone = 500)")
    check(spark, "lance.scattered", uses_indexes=False, asked="min(at), max(at)")
