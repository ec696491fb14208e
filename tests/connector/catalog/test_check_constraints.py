"""CHECK constraints in SQL: declared, shown, enforced by all statements and streams, dropped."""

from __future__ import annotations

from pathlib import Path

import lance
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

pytestmark = pytest.mark.since("4.1", "CHECK constraints in statements")

VIOLATED = "CHECK_CONSTRAINT_VIOLATION"


@pytest.mark.parametrize("kind", ["", "PARTITIONED BY (p)"], ids=["plain", "partitioned"])
def test_check_is_enforced_by_every_statement(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lance.checks")
    table = f"lance.checks.{'p' if kind else 'n'}"

    def rows() -> list[tuple[object, ...]]:
        return [tuple(row) for row in spark.sql(f"SELECT n, v, p FROM {table} ORDER BY n").collect()]

    spark.sql(f"CREATE TABLE {table} (n INT, v INT CONSTRAINT positive CHECK (v > 0), p STRING) {kind}")
    spark.sql(f"INSERT INTO {table} VALUES (1, 1, 'a'), (2, NULL, 'b'), (3, 3, 'b')")
    spark.sql(f"ALTER TABLE {table} ADD CONSTRAINT known CHECK (p IN ('a', 'b') OR p IS NULL)")
    shown = spark.sql(f"SHOW CREATE TABLE {table}").head()[0]
    assert "CONSTRAINT positive CHECK (v > 0)" in shown
    assert "CONSTRAINT known CHECK (p IN ('a', 'b') OR p IS NULL)" in shown
    described = {row[0]: row[1] for row in spark.sql(f"DESCRIBE EXTENDED {table}").collect()}
    assert described["positive"].removesuffix(" NORELY") == "CHECK (v > 0) ENFORCED"  # Spark 4.1 leaves it out.

    spark.createDataFrame([(9, -9, "a")], "n int, v int, p string").createOrReplaceTempView("bad")
    for statement in (
        f"INSERT INTO {table} VALUES (9, -9, 'a')",
        f"INSERT INTO {table} VALUES (9, 9, 'c')",
        f"INSERT OVERWRITE {table} SELECT * FROM bad",
        f"UPDATE {table} SET v = v - 1",
        f"MERGE INTO {table} t USING bad s ON t.n = s.n WHEN NOT MATCHED THEN INSERT *",
        f"MERGE INTO {table} t USING bad s ON t.n = 1 WHEN MATCHED THEN UPDATE SET v = s.v",
    ):
        with pytest.raises(PySparkException, match=VIOLATED):
            spark.sql(statement)
    with pytest.raises(PySparkException, match=VIOLATED):
        spark.table("bad").writeTo(table).append()
    spark.table("bad").write.parquet(str(tmp_path / "bad"))
    stream = spark.readStream.schema("n int, v int, p string").parquet(str(tmp_path / "bad")).writeStream
    stream = stream.trigger(availableNow=True).option("checkpointLocation", str(tmp_path / "check"))
    with pytest.raises(PySparkException, match="violates the CHECK constraint 'positive'"):
        stream.toTable(table).awaitTermination()
    assert rows() == [(1, 1, "a"), (2, None, "b"), (3, 3, "b")]

    with pytest.raises(PySparkException, match=r"NEW_CHECK_CONSTRAINT_VIOLATION|violates the CHECK constraint 'big'"):
        spark.sql(f"ALTER TABLE {table} ADD CONSTRAINT big CHECK (v > 1)")
    with pytest.raises(PySparkException, match="does not fit the columns"):
        spark.sql(f"ALTER TABLE {table} RENAME COLUMN v TO w")
    spark.sql(f"ALTER TABLE {table} DROP CONSTRAINT positive")
    spark.sql(f"ALTER TABLE {table} DROP CONSTRAINT IF EXISTS positive")
    with pytest.raises(PySparkException, match="there is no CHECK constraint 'positive'; the table has known"):
        spark.sql(f"ALTER TABLE {table} DROP CONSTRAINT positive")
    spark.sql(f"UPDATE {table} SET v = -1 WHERE n = 1")
    assert rows()[0] == (1, -1, "a")

    spark.sql(f"CREATE OR REPLACE TABLE {table} (n INT, v INT, p STRING, CONSTRAINT below CHECK (v < 9)) {kind}")
    assert spark.sql(f"SHOW CREATE TABLE {table}").head()[0].count("CONSTRAINT") == 1
    with pytest.raises(PySparkException, match=VIOLATED):
        spark.sql(f"INSERT INTO {table} VALUES (9, 9, 'c')")
    spark.sql(f"INSERT OVERWRITE {table} VALUES (9, 8, 'c')")
    with pytest.raises(PySparkException, match=VIOLATED):
        spark.sql(f"UPDATE {table} SET v = 9")


def test_constraints_that_cannot_be_enforced_are_refused(spark: SparkSession, uri: str) -> None:
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lance.checks")
    spark.sql(f"CREATE TABLE lance.`{uri}` (n INT NOT NULL, v INT, CONSTRAINT c CHECK (v > 0))")
    for constraint in ("PRIMARY KEY (n)", "UNIQUE (n)", f"FOREIGN KEY (n) REFERENCES lance.`{uri}` (n)"):
        with pytest.raises(PySparkException, match="tables have CHECK constraints only"):
            spark.sql(f"ALTER TABLE lance.`{uri}` ADD CONSTRAINT k {constraint}")
        with pytest.raises(PySparkException, match="tables have CHECK constraints only"):
            spark.sql(f"CREATE TABLE lance.checks.k (n INT, {constraint})")
    with pytest.raises(PySparkException, match=r"the CHECK constraint 'd' .* cannot be enforced"):
        spark.sql(f"ALTER TABLE lance.`{uri}` ADD CONSTRAINT d CHECK (hash(v) = 1)")
    with pytest.raises(PySparkException, match=VIOLATED):
        spark.createDataFrame([(1, -1)], "n int, v int").write.format("lance").mode("append").save(uri)
    assert lance.dataset(uri).count_rows() == 0
