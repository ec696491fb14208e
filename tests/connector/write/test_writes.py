"""Writes beyond plain appends: replaced rows, new columns, options, and counts that metadata knows."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.support.connector.plans import plan


@pytest.mark.slow
def test_replace_where_is_one_version(spark: SparkSession, uri: str) -> None:
    spark.range(0, 10, numPartitions=2).selectExpr("id", "id % 2 AS odd").write.format("lance").save(uri)
    table = f"lance.`{uri}`"
    spark.sql(f"INSERT INTO {table} REPLACE WHERE odd = 1 SELECT 100 AS id, 1 AS odd")
    assert lance.dataset(uri).version == 2
    rows = lance.dataset(uri).to_table().to_pylist()
    assert sorted(row["id"] for row in rows) == [0, 2, 4, 6, 8, 100]
    spark.range(200, 201).selectExpr("id", "0L AS odd").writeTo(table).overwrite(F.col("id") < 5)
    assert sorted(lance.dataset(uri).to_table()["id"].to_pylist()) == [6, 8, 100, 200]
    assert lance.dataset(uri).version == 3
    with pytest.raises(AnalysisException, match="DELETE them and INSERT"):
        spark.sql(f"INSERT INTO {table} REPLACE WHERE id % 3 = 1 SELECT 7 AS id, 1 AS odd")
    assert lance.dataset(uri).version == 3


@pytest.mark.slow
def test_merge_schema(spark: SparkSession, uri: str) -> None:
    spark.range(3).write.format("lance").save(uri)
    wider = spark.range(3, 5).selectExpr("id", "concat('n', id) AS name")
    with pytest.raises(AnalysisException):
        wider.write.format("lance").mode("append").save(uri)
    wider.write.format("lance").mode("append").option("mergeSchema", "true").save(uri)
    assert lance.dataset(uri).version == 2
    rows = {row["id"]: row["name"] for row in lance.dataset(uri).to_table().to_pylist()}
    assert rows == {0: None, 1: None, 2: None, 3: "n3", 4: "n4"}
    wider.selectExpr("*", "1.5D AS more").writeTo(f"lance.`{uri}`").option("mergeSchema", "true").append()
    assert spark.read.format("lance").load(uri).columns == ["id", "name", "more"]
    assert spark.read.format("lance").load(uri).where("more = 1.5").count() == 2


def test_merge_schema_of_an_overwrite_that_replaces_the_columns_is_refused(spark: SparkSession, uri: str) -> None:
    new = spark.range(1).selectExpr("id AS other").write.format("lance").option("mergeSchema", "true")
    new.save(uri)
    spark.range(3).writeTo("lance.merged").createOrReplace()
    for write in (lambda: new.mode("overwrite").save(uri), lambda: new.mode("overwrite").saveAsTable("lance.merged")):
        with pytest.raises(
            AnalysisException, match="option mergeSchema has no effect on an overwrite that replaces the"
        ):
            write()
    assert lance.dataset(uri).version == 1
    assert spark.table("lance.merged").columns == ["id"]
    spark.sql("DROP TABLE lance.merged PURGE")


@pytest.mark.slow
@pytest.mark.parametrize("partitioning", ["", "PARTITIONED BY (bucket(2, id))"])
def test_merge_schema_takes_names_in_any_case(spark: SparkSession, root: str, partitioning: str) -> None:
    """A column beside one that differs in case only would make the table ambiguous to every query."""
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lance.merge_schema")
    table = "lance.merge_schema.t"
    spark.sql(f"CREATE TABLE {table} (id BIGINT, s STRUCT<a: INT>, l ARRAY<STRUCT<a: INT>>) {partitioning}")
    spark.sql(f"INSERT INTO {table} VALUES (1, struct(1), array(struct(1)))")
    rows = spark.sql(
        "SELECT 2L AS ID, named_struct('A', 2, 'b', 3) AS S, array(named_struct('A', 4, 'B', 5)) AS L, 6 AS New"
    )
    rows.write.mode("append").option("mergeSchema", "true").saveAsTable(table)
    assert spark.table(table).schema.simpleString() == (
        "struct<id:bigint,s:struct<a:int,b:int>,l:array<struct<a:int,B:int>>,New:int>"
    )
    assert sorted(map(str, spark.table(table).collect())) == [
        "Row(id=1, s=Row(a=1, b=None), l=[Row(a=1, B=None)], New=None)",
        "Row(id=2, s=Row(a=2, b=3), l=[Row(a=4, B=5)], New=6)",
    ]
    spark.sql(f"DROP TABLE {table} PURGE")


def test_merge_schema_where_case_matters(spark: SparkSession, uri: str) -> None:
    spark.range(1).write.format("lance").save(uri)
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        rows = spark.range(1).selectExpr("id", "id + 1 AS ID")
        rows.write.format("lance").mode("append").option("mergeSchema", "true").save(uri)
        assert spark.read.format("lance").load(uri).where("ID = 1").select("id").collect() == [(0,)]
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


@pytest.mark.slow
def test_items_without_a_type(spark: SparkSession, uri: str) -> None:
    rows = spark.range(1).selectExpr("array() AS a", "named_struct('m', map(1, NULL)) AS s")
    rows.write.format("lance").save(uri)
    assert [tuple(row) for row in spark.read.format("lance").load(uri).collect()] == [([], ({1: None},))]
    assert lance.dataset(uri).to_table(columns=["a"]).to_pylist() == [{"a": []}]
    with pytest.raises(AnalysisException, match="column m has Spark's type map<void,void>, which Lance does not have"):
        spark.range(1).selectExpr("map() AS m").write.format("lance").save(f"{uri}_map")


def test_options_shape_the_table(spark: SparkSession, uri: str) -> None:
    frame = spark.range(100).selectExpr("id", "array(1F, 2F, cast(id AS FLOAT)) AS v")
    frame.coalesce(1).write.format("lance").option("max_row_per_file", "30").option(
        "v.arrow.fixed-size-list.size", "3"
    ).save(uri)
    assert len(lance.dataset(uri).get_fragments()) == 4
    assert str(lance.dataset(uri).schema.field("v").type).startswith("fixed_size_list")
    assert spark.read.format("lance").load(uri).where("v[2] = 7").first().id == 7
    with pytest.raises(AnalysisException, match="did you mean max_row"):
        frame.write.format("lance").mode("append").option("max_rowz_per_file", "30").save(uri)


@pytest.mark.slow
def test_counts_are_answered_by_metadata(spark: SparkSession, uri: str) -> None:
    spark.sql(f"CREATE TABLE lance.`{uri}` (id BIGINT NOT NULL, gaps BIGINT)")
    rows = spark.range(0, 100, numPartitions=2).selectExpr("id", "nullif(id, 3) AS gaps")
    rows.write.format("lance").mode("append").save(uri)
    lance.dataset(uri).delete("id >= 90")
    counted = spark.read.format("lance").load(uri).selectExpr("count(*) AS a", "count(id) AS b")
    assert counted.first() == (90, 90)
    assert "LocalTableScan" in plan(counted)
    table = spark.read.format("lance").load(uri)
    assert table.selectExpr("count(gaps)").first()[0] == 89
    assert table.where("id < 10").count() == 10
    assert table.count() == 90
    assert table.groupBy("gaps").count().count() == 90


def test_offset_leaves_fragments_out(spark: SparkSession, uri: str) -> None:
    spark.range(0, 100, numPartitions=4).write.format("lance").save(uri)
    lance.dataset(uri).delete("id % 2 = 0")
    frame = spark.read.format("lance").load(uri).offset(30)
    assert len(frame.collect()) == 20
    assert "fragments=2/4" in plan(frame)
    assert len(spark.read.format("lance").load(uri).offset(60).collect()) == 0
    assert len(spark.read.format("lance").load(uri).offset(45).limit(3).collect()) == 3


def test_types_survive(spark: SparkSession, uri: str) -> None:
    frame = spark.sql(
        """
        SELECT 1Y AS b, 2S AS s, 3 AS i, 4L AS l, 1.5F AS f, 2.5D AS d, 1.23BD AS dec, true AS t, 'x' AS str,
               X'00FF' AS bin, DATE '2024-02-29' AS day, TIMESTAMP '2024-02-29 12:00:00.123456' AS ts,
               TIMESTAMP_NTZ '2024-02-29 12:00:00' AS ntz, array(1, null) AS a, map('k', 1.0D) AS m,
               struct(1 AS x, struct('y' AS z) AS s) AS st, cast(null AS INT) AS n,
               INTERVAL '1 02:03:04' DAY TO SECOND AS dt
        """
    )
    frame.write.format("lance").save(uri)
    table = spark.read.format("lance").load(uri)
    assert table.first() == frame.first()
    assert [field.dataType for field in table.schema] == [field.dataType for field in frame.schema.toNullable()]
    pushed = (
        "b = 1 AND s < 3 AND i IN (3, 4) AND l <> 5 AND f = 1.5F AND d >= 2.5D AND dec = 1.23BD AND t AND str >= 'x' "
        "AND bin = X'00FF' AND day = DATE '2024-02-29' AND ts > TIMESTAMP '2024-02-29 12:00:00' "
        "AND ntz <= TIMESTAMP_NTZ '2024-02-29 12:00:00' AND st.s.z = 'y' AND n IS NULL"
    )
    kept = table.where(pushed)
    assert kept.count() == 1
    assert table.where(f"NOT ({pushed})").count() == 0
    assert "Filter" not in plan(kept).replace("RuntimeFilters", "")


SHAPES = {
    "enable_stable_row_ids": "true",
    "name.lance.compression": "zstd",
    "name.arrow.large_var_char": "true",
    "half.arrow.float16": "true",
    "vec.arrow.fixed-size-list.size": "2",
    "vec.arrow.float16": "true",
}


def check_shape(uri: str, file_version: str) -> None:
    """The table has the columns that `SHAPES` asks for, and the rows of id, name, half, vec for the ids 0 to 7."""
    dataset = lance.dataset(uri)
    assert dataset.data_storage_version == file_version
    assert dataset.has_stable_row_ids
    assert [str(field.type) for field in dataset.schema] == [
        "int64",
        "large_string",
        "halffloat",
        "fixed_size_list<item: halffloat>[2]",
    ]
    assert dataset.schema.field("name").metadata == {b"lance-encoding:compression": b"zstd"}
    rows = dataset.to_table().to_pylist()
    assert sorted(row["id"] for row in rows) == list(range(8))
    assert all(list(row.values())[1:] == [f"n{row['id']}", row["id"] / 2, [row["id"], 1.0]] for row in rows)


def test_every_option_of_a_write(spark: SparkSession, uri: str) -> None:
    frame = spark.range(0, 8, numPartitions=1).selectExpr(
        "id", "concat('n', id) AS name", "cast(id / 2 AS FLOAT) AS half", "array(cast(id AS FLOAT), 1F) AS vec"
    )
    options = {
        **SHAPES,
        "Max_Rows_Per_File": "3",
        "max_bytes_per_file": "1000000",
        "max_rows_per_group": "1",
        "data_storage_version": "2.1",
        "commit_message": "first",
        "distribution": "none",
        "storage.allow_http": "true",
    }
    frame.write.format("lance").options(**options).save(uri)
    check_shape(uri, "2.1")
    assert [part.count_rows() for part in lance.dataset(uri).get_fragments()] == [3, 3, 2]
    history = spark.sql(f"SELECT message FROM lance.`{uri}`.versions").collect()
    assert [row.message for row in history] == ["first"]


def test_the_same_as_properties_of_a_table(spark: SparkSession, uri: str) -> None:
    asked = {**SHAPES, "file_format_version": "stable"}
    properties = ", ".join(f"'{name}' = '{value}'" for name, value in asked.items())
    columns = "id BIGINT, name STRING, half FLOAT, vec ARRAY<FLOAT>"
    spark.sql(f"CREATE TABLE lance.`{uri}` ({columns}) TBLPROPERTIES ({properties})")
    spark.sql(
        f"""INSERT INTO lance.`{uri}` WITH (max_row_per_file = 5, commit_message = 'rows')
            SELECT id, concat('n', id), id / 2, array(id, 1) FROM range(0, 8, 1, 1)"""
    )
    check_shape(uri, "2.2")
    assert len(lance.dataset(uri).get_fragments()) == 2
    told = {row.key: row.value for row in spark.sql(f"SHOW TBLPROPERTIES lance.`{uri}`").collect()}
    assert {name: told.get(name) for name in SHAPES} == SHAPES


@pytest.mark.slow
def test_blobs_are_read_as_descriptions(spark: SparkSession, tmp_path: Path) -> None:
    blob = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    rows = pa.table([pa.array([b"x" * 10, None]), [1, 2]], schema=pa.schema([blob, pa.field("id", pa.int64())]))
    for version in ("2.1", "2.2"):
        lance.write_dataset(rows, f"{tmp_path}/{version}", data_storage_version=version)
        described = spark.read.format("lance").load(f"{tmp_path}/{version}")
        assert [row.size for row in described.where("id = 1").select("b.size").collect()] == [10]
        assert [row.id for row in described.where("b.size > 5").select("id").collect()] == [1]
        assert [row.id for row in described.where("b IS NULL").select("id").collect()] == [2]
        values = described.orderBy("id").selectExpr("b__blob_bytes AS v").collect()
        assert [row.v for row in values] == [b"x" * 10, None]


def test_statistics_follow_what_is_left(spark: SparkSession, uri: str) -> None:
    spark.range(0, 1000, numPartitions=4).selectExpr("id", "repeat('x', 100) AS text").write.format("lance").save(uri)
    table = spark.read.format("lance").load(uri)

    def size(frame: DataFrame) -> int:
        return int(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes())

    assert 0 < size(table.where("_fragid = 0")) < size(table) / 2
    assert "BroadcastHashJoin" in plan(table.join(table.where("_fragid = 1").select("id"), "id"))


@pytest.mark.slow
def test_a_branch_is_never_taken_for_the_table(spark: SparkSession, root: str, uri: str) -> None:
    """Spark tells the options of a write that replaces a table after the table was chosen."""
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lance.branches")
    table = "lance.branches.t"
    spark.range(3).writeTo(table).createOrReplace()
    spark.sql(f"ALTER TABLE {table} CREATE BRANCH IF NOT EXISTS dev")
    rows = spark.range(10)

    def counts() -> tuple[int, int]:
        return spark.table(table).count(), spark.table(f"{table}.branch_dev").count()

    for write in (
        lambda: rows.write.mode("overwrite").option("branch", "dev").saveAsTable(table),
        lambda: rows.writeTo(table).option("branch", "dev").replace(),
        lambda: rows.writeTo(table).option("branch", "dev").createOrReplace(),
        lambda: rows.writeTo(f"{table}_new").option("branch", "dev").create(),
        lambda: rows.writeTo(f"{table}_new")
        .option("branch", "dev")
        .partitionedBy(F.partitioning.bucket(2, "id"))
        .create(),
        lambda: rows.write.format("lance").option("branch", "dev").save(uri),
    ):
        with pytest.raises(AnalysisException, match="option branch is 'dev', but the statement makes or replaces"):
            write()
        assert counts() == (3, 3)
    assert not Path(uri).exists()
    assert [row.tableName for row in spark.sql("SHOW TABLES IN lance.branches").collect()] == ["t"]
    rows.writeTo(table).option("branch", "dev").append()
    assert counts() == (3, 13)
    rows.writeTo(table).option("branch", "dev").overwritePartitions()
    assert counts() == (3, 10)
    spark.range(2).writeTo(f"{table}.branch_dev").option("commit_message", "made anew").replace()
    assert counts() == (3, 2)
    spark.range(4).writeTo(table).option("branch", "main").replace()
    assert counts() == (4, 2)
    spark.sql("DROP NAMESPACE lance.branches CASCADE")
