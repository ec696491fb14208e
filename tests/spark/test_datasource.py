"""The plug-in in local mode: found by Spark itself; the reference library reads and writes the same tables."""

from __future__ import annotations

import datetime
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from chispa import assert_df_equality
from pyspark.errors import PySparkException, PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import lance_spark


def people(spark: SparkSession, start: int = 0, stop: int = 1000) -> DataFrame:
    return spark.range(start, stop, numPartitions=3).select(
        "id",
        F.when(F.col("id") % 7 != 0, F.concat(F.lit("name "), F.col("id").cast("string"))).alias("name"),
        (F.col("id") / 4).alias("score"),
        F.array(F.col("id"), F.col("id") + 1).alias("pair"),
        F.struct(F.col("id").cast("int").alias("x"), F.lit("y").alias("y")).alias("point"),
        F.create_map(F.lit("k"), F.col("id")).alias("map"),
        F.timestamp_seconds(F.col("id")).alias("at"),
        (F.col("id") / 8).cast("decimal(20,3)").alias("money"),
        F.date_add(F.lit(datetime.date(2020, 1, 1)), F.col("id").cast("int")).alias("day"),
    )


@pytest.mark.slow
def test_append_creates_and_appends(spark: SparkSession, tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    people(spark, 0, 600).write.format("lance").mode("append").save(uri)
    people(spark, 600, 1000).write.format("lance").mode("append").save(uri)
    read = spark.read.format("lance").load(uri)
    # As Spark's own files do, the table allows nulls in all columns, values of maps included.
    people(spark).write.parquet(str(tmp_path / "parquet"))
    expected = spark.read.parquet(str(tmp_path / "parquet"))
    assert_df_equality(read.orderBy("id"), expected.orderBy("id"))
    reference = lance.dataset(uri)
    reference.validate()
    assert reference.version == 2
    assert sorted(reference.to_table(columns=["id"])["id"].to_pylist()) == list(range(1000))


def test_one_job_is_one_version_however_many_tasks(spark: SparkSession, tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    people(spark).repartition(7).write.format("lance").mode("append").save(uri)
    assert lance_spark.open(uri).version == 1
    assert len(lance_spark.open(uri).fragments) == 7


@pytest.mark.slow
def test_overwrite_keeps_the_old_version(spark: SparkSession, tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    people(spark).write.format("lance").mode("append").save(uri)
    spark.range(5).write.format("lance").mode("overwrite").save(uri)
    assert spark.read.format("lance").load(uri).count() == 5
    assert spark.read.format("lance").option("version", 1).load(uri).count() == 1000


@pytest.mark.slow
def test_an_append_of_no_rows_makes_no_version(spark: SparkSession, tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    people(spark).write.format("lance").mode("append").save(uri)
    people(spark).where("id < 0").write.format("lance").mode("append").save(uri)
    assert lance_spark.open(uri).version == 1


@pytest.mark.slow
def test_an_empty_frame_makes_an_empty_table(spark: SparkSession, tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    people(spark).where("id < 0").write.format("lance").mode("append").save(uri)
    read = spark.read.format("lance").load(uri)
    assert read.count() == 0
    assert read.columns == people(spark).columns


@pytest.mark.slow
def test_reads_what_pylance_wrote_and_deleted(spark: SparkSession, tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"id": range(1000), "s": [f"v{i}" for i in range(1000)]}), uri, max_rows_per_file=300)
    lance.dataset(uri).delete("id % 3 = 0")
    rows = spark.read.format("lance").load(uri).orderBy("id").collect()
    assert [(row.id, row.s) for row in rows] == [(i, f"v{i}") for i in range(1000) if i % 3]


@pytest.mark.slow
def test_a_snapshot_is_pinned_when_the_frame_is_made(spark: SparkSession, tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    people(spark).write.format("lance").mode("append").save(uri)
    frame = spark.read.format("lance").load(uri)
    people(spark).write.format("lance").mode("append").save(uri)
    assert frame.count() == 1000
    assert spark.read.format("lance").load(uri).count() == 2000


@pytest.mark.slow
def test_time_travel_by_version_tag_and_timestamp(spark: SparkSession, tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    people(spark).write.format("lance").mode("append").save(uri)
    lance.dataset(uri).tags.create("first", 1)
    moment = lance.dataset(uri).versions()[0]["timestamp"]
    people(spark).write.format("lance").mode("append").save(uri)
    read = spark.read.format("lance")
    assert read.option("version", 1).load(uri).count() == 1000
    assert spark.read.format("lance").option("tag", "first").load(uri).count() == 1000
    text = (moment + datetime.timedelta(microseconds=1)).astimezone(datetime.timezone.utc).isoformat()
    assert spark.read.format("lance").option("timestamp", text).load(uri).count() == 1000


@pytest.mark.slow
def test_columns_by_option_and_by_schema(spark: SparkSession, tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    people(spark).write.format("lance").mode("append").save(uri)
    by_option = spark.read.format("lance").option("columns", "name,id").load(uri)
    assert by_option.columns == ["name", "id"]
    by_schema = spark.read.format("lance").schema("score double, id bigint").load(uri)
    assert by_schema.columns == ["score", "id"]
    assert by_schema.agg(F.sum("id")).first()[0] == 499_500
    nested = spark.read.format("lance").schema("point struct<x: int>").load(uri)
    assert nested.orderBy("point.x").first().point.asDict() == {"x": 0}


@pytest.mark.slow
def test_a_schema_that_the_table_does_not_have_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    people(spark).write.format("lance").mode("append").save(uri)
    with pytest.raises(PySparkException, match="nothing"):
        spark.read.format("lance").schema("nothing int").load(uri).collect()
    with pytest.raises(PySparkException, match="score"):
        spark.read.format("lance").schema("score string").load(uri).collect()


@pytest.mark.slow
def test_row_ids_and_addresses_on_request(spark: SparkSession, tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"id": range(10)}), uri, max_rows_per_file=6)
    frame = spark.read.format("lance").option("with_row_id", "true").option("with_row_address", "true").load(uri)
    expected = lance.dataset(uri).scanner(with_row_id=True, with_row_address=True).to_table().to_pydict()
    rows = frame.orderBy("id").collect()
    assert [int(row._rowaddr) for row in rows] == expected["_rowaddr"]
    assert [int(row._rowid) for row in rows] == expected["_rowid"]


@pytest.mark.slow
def test_queries_work_with_and_without_the_switch_for_pushing_filters(spark: SparkSession, tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    people(spark).write.format("lance").mode("append").save(uri)
    condition = "id > 990 AND name IS NOT NULL AND name LIKE 'name 99%' AND point.x < 998"
    for switch in ("false", "true"):
        spark.conf.set("spark.sql.python.filterPushdown.enabled", switch)
        frame = spark.read.format("lance").load(uri).where(condition)
        assert sorted(row.id for row in frame.collect()) == [991, 992, 993, 995, 996, 997]
    spark.conf.unset("spark.sql.python.filterPushdown.enabled")


@pytest.mark.slow
def test_a_filter_by_option(spark: SparkSession, tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    people(spark).write.format("lance").mode("append").save(uri)
    frame = spark.read.format("lance").option("filter", "id % 100 = 3 OR point.x = 5").load(uri)
    assert sorted(row.id for row in frame.collect()) == sorted([3, 5, *range(103, 1000, 100)])


@pytest.mark.slow
def test_small_fragments_share_a_task_and_large_ones_are_split(spark: SparkSession, tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"id": range(10_000)}), uri, max_rows_per_file=100)
    assert spark.read.format("lance").load(uri).rdd.getNumPartitions() == 1
    split = spark.read.format("lance").option("target_partition_bytes", 1000).load(uri)
    assert split.rdd.getNumPartitions() > 10
    assert split.agg(F.sum("id"), F.count("id")).first()[:] == (49_995_000, 10_000)
    one = str(tmp_path / "one")
    lance.write_dataset(pa.table({"id": range(100_000)}), one)
    split = spark.read.format("lance").option("target_partition_bytes", 50_000).load(one)
    assert split.rdd.getNumPartitions() > 1
    assert split.agg(F.sum("id"), F.count("id")).first()[:] == (4_999_950_000, 100_000)


@pytest.mark.slow
def test_unknown_options_are_refused_with_the_nearest_name(spark: SparkSession, tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    people(spark).write.format("lance").mode("append").save(uri)
    with pytest.raises(PySparkException, match="version"):
        spark.read.format("lance").option("versoin", 1).load(uri)
    with pytest.raises(PySparkException, match="max_row"):
        people(spark).write.format("lance").option("max_rows_per_fil", 1).mode("append").save(uri)
    assert lance_spark.open(uri).version == 1


@pytest.mark.slow
def test_a_missing_table_is_a_clear_error(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PySparkException, match="NotFoundError"):
        spark.read.format("lance").load(str(tmp_path / "nothing"))


@pytest.mark.slow
def test_max_rows_per_file(spark: SparkSession, tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    spark.range(0, 1000, numPartitions=1).write.format("lance").option("max_row_per_file", 300).mode("append").save(uri)
    assert [fragment.physical_rows for fragment in lance.dataset(uri).get_fragments()] == [300, 300, 300, 100]


@pytest.mark.slow
def test_a_failed_job_leaves_nothing(spark: SparkSession, tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    people(spark).write.format("lance").mode("append").save(uri)
    before = sorted(path for path in (tmp_path / "t").rglob("*") if path.is_file())
    problem = F.raise_error(F.lit("broken on purpose")).cast("string")
    # One task: Spark kills the others of a job while its failure is reported already (test_writer.py has their files).
    broken = people(spark).coalesce(1).withColumn("name", F.when(F.col("id") == 900, problem))
    with pytest.raises(PySparkException, match="broken on purpose"):
        broken.write.format("lance").option("max_row_per_file", 100).mode("append").save(uri)
    assert sorted(path for path in (tmp_path / "t").rglob("*") if path.is_file()) == before
    assert lance_spark.open(uri).version == 1


@pytest.mark.slow
def test_a_column_that_does_not_fit_the_table_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    spark.range(5).write.format("lance").mode("append").save(uri)
    with pytest.raises(PySparkException, match="id"):
        spark.sql("SELECT 'text' AS id").write.format("lance").mode("append").save(uri)
    with pytest.raises(PySparkException, match="other"):
        spark.sql("SELECT 1L AS other").write.format("lance").mode("append").save(uri)
    assert lance_spark.open(uri).count_rows() == 5


@pytest.mark.slow
def test_types_that_spark_lacks_are_kept_on_append(spark: SparkSession, tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    table = pa.table(
        {
            "unsigned": pa.array([1, 2**31], pa.uint32()),
            "big": pa.array([1, 2**64 - 1], pa.uint64()),
            "half": pa.array([1.5, None], pa.float16()),
            "vector": pa.array([[1, 2], [3, 4]], pa.list_(pa.float32(), 2)),
            "word": pa.array(["a", "b"]).dictionary_encode(),
            "fixed": pa.array([b"ab", b"cd"], pa.binary(2)),
        }
    )
    lance.write_dataset(table, uri)
    spark.read.format("lance").load(uri).write.format("lance").mode("append").save(uri)
    dataset = lance.dataset(uri)
    assert dataset.schema.types[:4] == table.schema.types[:4]
    assert dataset.to_table().slice(2).to_pylist() == table.to_pylist()


@pytest.mark.slow
def test_session_catalog_tables_fail_loudly_not_emptily(spark: SparkSession, tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    spark.range(5).write.format("lance").mode("append").save(uri)
    with pytest.raises(PySparkException, match="session catalog"):
        spark.sql(f"CREATE TABLE plain USING lance OPTIONS (path '{uri}')")
    spark.sql("CREATE TABLE with_columns (id BIGINT) USING lance")
    try:
        with pytest.raises(PySparkException, match="session catalog"):
            spark.table("with_columns").collect()
        with pytest.raises(PySparkException, match="session catalog"):
            spark.sql("INSERT INTO with_columns VALUES (1)")
    finally:
        spark.sql("DROP TABLE with_columns")


@pytest.mark.slow
def test_a_temporary_view_by_sql(spark: SparkSession, tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    spark.range(5).write.format("lance").mode("append").save(uri)
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW view_of_lance USING lance OPTIONS (path '{uri}')")
    assert spark.sql("SELECT sum(id) FROM view_of_lance").first()[0] == 10


@pytest.mark.slow
@pytest.mark.parametrize("harm", ["missing", "corrupt"])
def test_errors_in_tasks_are_one_sentence(spark: SparkSession, tmp_path: Path, harm: str) -> None:
    uri = str(tmp_path / "harmed")
    spark.range(0, 100, numPartitions=1).write.format("lance").mode("append").save(uri)
    (data,) = Path(uri, "data").glob("*.lance")
    if harm == "missing":
        data.unlink()
    else:
        data.write_bytes(data.read_bytes()[:-20])
    with pytest.raises(PythonException) as raised:
        spark.read.format("lance").load(uri).collect()
    lines = str(raised.value).strip().splitlines()
    assert len(lines) == 2, lines
    first, sentence = lines
    assert "Python worker" in first
    kind = "NotFoundError" if harm == "missing" else "CorruptFileError"
    assert sentence.startswith(f"lance_spark.errors.{kind}: ")
    assert data.name in sentence
    assert uri in sentence


@pytest.mark.since("4.3", "columns of GEOMETRY and GEOGRAPHY")
@pytest.mark.slow
def test_geometries_come_back(spark: SparkSession, tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    wkb = bytes.fromhex("0101000000000000000000F03F0000000000000040")
    frame = spark.range(3).selectExpr(
        "id",
        f"if(id = 1, NULL, st_geomfromwkb(X'{wkb.hex()}', 4326)) AS g",
        f"array(st_geogfromwkb(X'{wkb.hex()}'), NULL) AS a",
    )
    frame.write.format("lance").mode("append").save(uri)
    frame.write.format("lance").mode("append").save(uri)
    read = spark.read.format("lance").load(uri)
    assert [field.dataType for field in read.schema] == [field.dataType for field in frame.schema]
    rows = read.selectExpr("id", "st_asbinary(g)", "st_srid(a[0])").orderBy("id").collect()
    assert [tuple(row) for row in rows] == [(i, None if i == 1 else wkb, 4326) for i in (0, 0, 1, 1, 2, 2)]
    with pytest.raises(PySparkException, match=r"column g is GEOMETRY\(4326\) in the table and BINARY in the rows"):
        spark.range(1).selectExpr("id", "X'01' AS g").write.format("lance").mode("append").save(uri)


def test_rows_that_break_a_check_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance_spark.write(pa.table({"id": pa.array([1, 2], pa.int64())}), uri).add_check("positive", "id > 0")
    with pytest.raises(PySparkException, match="violates the CHECK constraint 'positive'"):
        spark.range(2).write.format("lance").mode("append").save(uri)
    spark.range(1, 2).write.format("lance").mode("append").save(uri)
    assert sorted(row.id for row in spark.read.format("lance").load(uri).collect()) == [1, 1, 2]


@pytest.mark.slow
def test_intervals_of_months_need_the_connector(spark: SparkSession, tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    months = pa.field("y", pa.int32(), metadata={"lance-spark:interval": "year to month"})
    lance_spark.write(pa.table([[1], [14]], pa.schema([pa.field("id", pa.int64()), months])), uri)
    with pytest.raises(PySparkException, match="column y is INTERVAL YEAR TO MONTH"):
        spark.read.format("lance").load(uri).collect()
    assert spark.read.format("lance").option("columns", "id").load(uri).collect() == [(1,)]
    with pytest.raises(PySparkException, match="column y is ARRAY<INTERVAL YEAR>"):
        spark.sql("SELECT array(INTERVAL '1' YEAR) AS y").write.format("lance").mode("append").save(str(tmp_path / "u"))
    assert not (tmp_path / "u").exists()
