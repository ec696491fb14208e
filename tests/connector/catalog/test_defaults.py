"""Column DEFAULTs: Spark fills them in for every write by column names, as it does for its own tables."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

COLUMNS = (
    "n INT, a INT DEFAULT 2 COMMENT 'c', p STRING DEFAULT 'q', v VARCHAR(3) DEFAULT 'v', t TIMESTAMP DEFAULT now()"
)


@pytest.mark.since("4.2", "CREATE TABLE LIKE of such tables")
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["", "PARTITIONED BY (p)"], ids=["plain", "partitioned"])
def test_defaults_are_filled_in_and_follow_the_table(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lance.defaults")
    table = f"lance.defaults.{'p' if kind else 'n'}"

    def rows(columns: str = "n, a, p, v") -> list[tuple[object, ...]]:
        return [tuple(row) for row in spark.sql(f"SELECT {columns} FROM {table} ORDER BY n").collect()]

    spark.sql(f"CREATE TABLE {table} ({COLUMNS}) {kind}")
    spark.sql(f"INSERT INTO {table} (n) VALUES (1)")
    spark.sql(f"INSERT INTO {table} VALUES (2, DEFAULT, 'r', DEFAULT, DEFAULT)")
    spark.sql(f"INSERT INTO {table} (n, a, v) VALUES (3, NULL, DEFAULT)")
    assert rows() == [(1, 2, "q", "v"), (2, 2, "r", "v"), (3, None, "q", "v")]
    assert spark.sql(f"SELECT count(t) FROM {table}").head() == (3,)
    spark.sql(f"UPDATE {table} SET a = DEFAULT WHERE n = 3")
    spark.sql(
        f"MERGE INTO {table} t USING (SELECT 4 AS n) s ON t.n = s.n "
        "WHEN NOT MATCHED THEN INSERT (n, a) VALUES (n, DEFAULT)"
    )
    assert rows("a, p") == [(2, "q"), (2, "r"), (2, "q"), (2, "q")]
    assert "a INT DEFAULT 2 COMMENT 'c'" in spark.sql(f"SHOW CREATE TABLE {table}").head()[0]

    spark.sql(f"ALTER TABLE {table} ALTER COLUMN a SET DEFAULT 7")
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN v DROP DEFAULT")
    spark.sql(f"ALTER TABLE {table} RENAME COLUMN a TO b")
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN b TYPE BIGINT")
    spark.createDataFrame([(5,)], "n int").writeTo(table).append()
    spark.createDataFrame([(6,)], "n int").write.parquet(str(tmp_path / "rows"))
    stream = spark.readStream.schema("n int").parquet(str(tmp_path / "rows")).writeStream.trigger(availableNow=True)
    stream.option("checkpointLocation", str(tmp_path / "check")).toTable(table).awaitTermination()
    assert rows("n, b, p, v")[4:] == [(5, 7, "q", None), (6, 7, "q", None)]

    # Copies keep them, as those of Parquet tables do; a replaced table has none.
    spark.sql(f"CREATE TABLE {table}_like LIKE {table}")
    assert "b BIGINT DEFAULT 7" in spark.sql(f"SHOW CREATE TABLE {table}_like").head()[0]
    spark.sql(f"CREATE TABLE {table}_query {kind} AS SELECT * FROM {table}")
    assert "b BIGINT DEFAULT 7" in spark.sql(f"SHOW CREATE TABLE {table}_query").head()[0]
    spark.sql(f"CREATE OR REPLACE TABLE {table} (n INT, b BIGINT, p STRING) {kind}")
    assert "DEFAULT" not in spark.sql(f"SHOW CREATE TABLE {table}").head()[0]


@pytest.mark.slow
def test_defaults_that_cannot_be_kept_are_refused(spark: SparkSession, uri: str) -> None:
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lance.defaults")
    with pytest.raises(PySparkException, match="INVALID_DEFAULT_VALUE"):
        spark.sql(f"CREATE TABLE lance.`{uri}` (a INT DEFAULT 'x')")
    spark.sql(f"CREATE TABLE lance.`{uri}` (n INT, a INT DEFAULT 5)")
    for text in ("1 + 1", "uuid()", "reflect('java.lang.System', 'exit', 1)", "'a''b'"):
        with pytest.raises(PySparkException, match=r"cannot be kept|INVALID_DEFAULT_VALUE"):
            spark.sql(f"CREATE TABLE lance.defaults.bad (a STRING DEFAULT {text})")
        with pytest.raises(PySparkException, match=r"cannot be kept|INVALID_DEFAULT_VALUE"):
            spark.sql(f"ALTER TABLE lance.`{uri}` ALTER COLUMN n SET DEFAULT {text if 'a' not in text else 'abs(1)'}")
    spark.createDataFrame([(1,)], "n int").write.format("lance").mode("append").save(uri)
    spark.sql(f"CREATE TABLE spark_catalog.default.with_default USING lance LOCATION '{uri}'")
    spark.sql("INSERT INTO spark_catalog.default.with_default (n) VALUES (2)")
    spark.sql("DROP TABLE spark_catalog.default.with_default")
    # Other libraries fill in nothing.
    lance.write_dataset(lance.dataset(uri).to_table(columns=["n"], filter="n = 2"), uri, mode="append")
    assert lance.dataset(uri).to_table()["a"].to_pylist() == [5, 5, None]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["", "PARTITIONED BY (p)"], ids=["plain", "partitioned"])
def test_added_column_has_its_default_in_existing_rows(spark: SparkSession, kind: str) -> None:
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lance.added_defaults")
    table = f"lance.added_defaults.t{len(kind)}"
    spark.sql(f"CREATE TABLE {table} (n INT, p STRING) {kind}")
    spark.sql(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b'), (3, 'b')")
    spark.sql(f"DELETE FROM {table} WHERE n = 3")
    spark.sql(
        f"ALTER TABLE {table} ADD COLUMNS (i INT DEFAULT 3 COMMENT 'c', s STRING DEFAULT 'x', "
        "d DATE DEFAULT DATE '2020-01-02', "
        "m DECIMAL(9, 2) DEFAULT 1.5, b BOOLEAN DEFAULT true, t TIMESTAMP DEFAULT now(), z INT DEFAULT NULL, o BIGINT)"
    )
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN i SET DEFAULT 4")
    spark.sql(f"INSERT INTO {table} (n, p) VALUES (4, 'a')")
    first = ("x", "2020-01-02", "1.50", True, True, None, None)
    query = f"SELECT n, i, s, string(d), string(m), b, t IS NOT NULL, z, o FROM {table} ORDER BY n"
    assert [tuple(row) for row in spark.sql(query).collect()] == [(1, 3, *first), (2, 3, *first), (4, 4, *first)]
    assert spark.sql(f"SELECT n FROM {table} WHERE i = 3 AND m = 1.5 ORDER BY n").collect() == [(1,), (2,)]
    assert "i INT DEFAULT 4 COMMENT 'c'" in spark.sql(f"SHOW CREATE TABLE {table}").head()[0]
    for column, text in (
        ("y INT DEFAULT 1 FIRST", "adds columns after the others"),
        ("y INT NOT NULL DEFAULT 1", "leave NOT NULL out"),
        ("y INT DEFAULT 1 + 1", "cannot be kept"),
    ):
        with pytest.raises(PySparkException, match=text):
            spark.sql(f"ALTER TABLE {table} ADD COLUMN {column}")


def test_default_in_the_metadata_of_a_foreign_table_is_not_evaluated(spark: SparkSession, uri: str) -> None:
    """Spark evaluates a DEFAULT; what a table says is handed over only if it can do nothing."""
    calls = "cast(reflect('java.lang.System', 'setProperty', 'lance.default', 'ran') as INT)"
    fields = [pa.field("n", pa.int64()), pa.field("a", pa.int32(), metadata={"lance-spark:default": calls})]
    lance.write_dataset(pa.table([[1], [2]], schema=pa.schema(fields)), uri)
    spark.createDataFrame([(3,)], "n bigint").write.format("lance").mode("append").save(uri)
    assert sorted(lance.dataset(uri).to_table()["n"].to_pylist()) == [1, 3]
    assert spark._jvm.java.lang.System.getProperty("lance.default") is None
    assert "DEFAULT" not in spark.sql(f"SHOW CREATE TABLE lance.`{uri}`").head()[0]
