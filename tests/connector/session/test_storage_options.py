"""Storage options of statements over tables by name, which Spark looks up before it hands the options over."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager

import lance
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from lance_spark.spark.session import CATALOG_CLASS
from tests.support.moto import S3Bucket

OPTIONS = ("storage.aws_regoin", "storage.aws_region", "STORAGE.Client_Retry_Timeout")


@pytest.fixture(params=["", "PARTITIONED BY (k)"], ids=["plain", "partitioned"])
def table(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[str]:
    spark.sql(f"CREATE TABLE lance.stored (id BIGINT, k STRING) {request.param}")
    spark.sql("INSERT INTO lance.stored VALUES (1, 'a')")
    yield "lance.stored"
    spark.sql("DROP TABLE lance.stored PURGE")


def refused(name: str) -> AbstractContextManager[object]:
    key = name.partition(".")[2]
    # Before 4.3 Spark gives the options of an INSERT in lower case.
    return pytest.raises(
        AnalysisException, match=f"option storage.(?i:{key}) has no effect on .*stored.*; set spark.sql.ca"
    )


@pytest.mark.parametrize("name", OPTIONS)
def test_queries(spark: SparkSession, table: str, name: str) -> None:
    with refused(name):
        spark.read.option(name, "x").table(table).collect()
    with refused(name):
        spark.read.option(name, "x").table(table).where("id = 1").groupBy("k").count().collect()
    for query in ("SELECT * FROM {}", "SELECT count(*) FROM {}", "SELECT max(id) FROM {}"):
        with refused(name):
            spark.sql(query.format(f"{table} WITH (`{name}` = 'x')")).collect()


@pytest.mark.parametrize("name", OPTIONS)
def test_writes(spark: SparkSession, table: str, name: str) -> None:
    rows = spark.sql("SELECT 2L AS id, 'b' AS k")
    for write in (
        lambda: spark.sql(f"INSERT INTO {table} WITH (`{name}` = 'x') VALUES (2, 'b')"),
        lambda: spark.sql(f"INSERT OVERWRITE {table} WITH (`{name}` = 'x') VALUES (2, 'b')"),
        lambda: rows.writeTo(table).option(name, "x").append(),
        lambda: rows.writeTo(table).option(name, "x").overwritePartitions(),
        lambda: rows.writeTo(table).option(name, "x").createOrReplace(),
        lambda: rows.write.option(name, "x").insertInto(table),
        lambda: rows.write.option(name, "x").mode("append").saveAsTable(table),
        lambda: rows.write.option(name, "x").mode("overwrite").saveAsTable(table),
    ):
        with refused(name):
            write()
    assert [tuple(row) for row in spark.table(table).collect()] == [(1, "a")]


@pytest.mark.parametrize("clause", ["TBLPROPERTIES ('{}' = 'x')", "OPTIONS (`{}` 'x')"])
@pytest.mark.parametrize("partitioning", ["", "PARTITIONED BY (k)"])
def test_statements_that_make_a_table(spark: SparkSession, clause: str, partitioning: str) -> None:
    option = clause.format("storage.aws_regoin")
    for statement in (
        f"CREATE TABLE lance.not_stored (id BIGINT, k STRING) USING lance {option} {partitioning}",
        f"CREATE TABLE lance.not_stored USING lance {option} {partitioning} AS SELECT 1L AS id, 'a' AS k",
        f"CREATE OR REPLACE TABLE lance.not_stored USING lance {option} {partitioning} AS SELECT 1L AS id, 'a' AS k",
    ):
        with refused("storage.aws_regoin"):
            spark.sql(statement)
        assert not spark.catalog.tableExists("lance.not_stored")


def test_alter_table(spark: SparkSession, table: str) -> None:
    with pytest.raises(AnalysisException, match=r"property storage\.aws_region has no effect, .*; set spark\.sql\.cat"):
        spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('storage.aws_region' = 'x')")


def test_paths_and_settings_of_the_catalog_take_them(spark: SparkSession, uri: str) -> None:
    rows = spark.range(2)
    with pytest.raises(AnalysisException, match="unknown storage option 'acess_key_id'"):
        rows.write.format("lance").option("storage.acess_key_id", "x").save(uri)
    rows.write.format("lance").option("storage.aws_access_key_id", "x").save(uri)
    rows.write.format("lance").option("storage.aws_access_key_id", "x").mode("append").save(uri)
    with pytest.raises(AnalysisException, match="unknown storage option 'acess_key_id'"):
        spark.read.format("lance").option("storage.acess_key_id", "x").load(uri).collect()
    assert spark.read.format("lance").option("storage.aws_access_key_id", "x").load(uri).count() == 4
    spark.conf.set("spark.sql.catalog.of_storage", CATALOG_CLASS)
    spark.conf.set("spark.sql.catalog.of_storage.root", f"{uri}_root")
    spark.conf.set("spark.sql.catalog.of_storage.storage.aws_region", "here")
    spark.sql("CREATE TABLE of_storage.stored AS SELECT 1 AS id")
    assert spark.read.option("storage.AWS_Region", "here").table("of_storage.stored").count() == 1
    with refused("storage.aws_region"):
        spark.read.option("storage.aws_region", "there").table("of_storage.stored").count()


@pytest.mark.parametrize("partition_by", [[], ["id"]], ids=["plain", "partitioned"])
def test_save_makes_a_table_with_its_options(spark: SparkSession, uri: str, partition_by: list[str]) -> None:
    """Spark turns the identifier of such a table into text; what the options say must not be lost with it."""
    spark.range(1).write.format("lance").save(f"{uri}_other")
    writer = spark.range(2).write.format("lance").partitionBy(*partition_by)
    with pytest.raises(AnalysisException, match="unknown storage option 'acess_key_id'"):
        writer.option("storage.acess_key_id", "x").save(uri)
    with pytest.raises(AnalysisException, match="option branch is 'dev', but the statement makes"):
        spark.range(2).write.format("lance").partitionBy(*partition_by).option("branch", "dev").save(uri)
    # Options of another path in the same thread are not taken for those of this one.
    spark.read.format("lance").option("storage.aws_region", "there").load(f"{uri}_other").collect()
    spark.range(2).write.format("lance").partitionBy(*partition_by).option("storage.aws_region", "here").save(uri)
    assert spark.read.format("lance").load(uri).count() == 2
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
        spark.range(2).write.format("lance").partitionBy(*partition_by).option("branch", "dev").save(uri)


@pytest.mark.slow
@pytest.mark.parametrize("partition_by", [[], ["k"]], ids=["plain", "partitioned"])
def test_save_and_load_in_s3(spark: SparkSession, s3_bucket: S3Bucket, partition_by: list[str]) -> None:
    uri = s3_bucket.folder()
    options = {f"storage.{name}": value for name, value in s3_bucket.storage_options.items()}
    writer = spark.range(4).selectExpr("id", "id % 2 AS k").write.format("lance").options(**options)
    writer.partitionBy(*partition_by).save(uri)
    writer.partitionBy(*partition_by).mode("append").save(uri)
    assert spark.read.format("lance").options(**options).load(uri).where("k = 1").count() == 4
    writer.partitionBy(*partition_by).mode("overwrite").save(uri)
    assert spark.read.format("lance").options(**options).load(uri).count() == 4


@pytest.mark.slow
def test_save_with_commits_through_dynamodb(spark: SparkSession, s3_bucket: S3Bucket) -> None:
    name = s3_bucket.manifest_table()
    uri = s3_bucket.folder().replace("s3://", "s3+ddb://") + f"?ddbTableName={name}"
    settings = {**s3_bucket.storage_options, "dynamodb_endpoint": s3_bucket.endpoint}
    writer = spark.range(4).write.format("lance").options(**{f"storage.{key}": text for key, text in settings.items()})
    writer.save(uri)
    writer.mode("append").save(uri)
    reference = lance.dataset(uri, storage_options=settings)
    assert (reference.version, reference.count_rows()) == (2, 8)


def test_session_catalog(spark: SparkSession, uri: str) -> None:
    spark.sql(
        f"CREATE TABLE default.stored (id BIGINT) USING lance OPTIONS (`storage.aws_region` 'x') LOCATION '{uri}'"
    )
    try:
        spark.sql("INSERT INTO default.stored VALUES (1)")
        assert spark.table("default.stored").count() == 1
        with pytest.raises(
            AnalysisException, match=r"option storage.aws_regoin has no effect on .*; set spark\.sql\.ca"
        ):
            spark.read.option("storage.aws_regoin", "x").table("default.stored").collect()
    finally:
        spark.sql("DROP TABLE default.stored")


def test_options_of_hadoop_are_refused(spark: SparkSession, table: str) -> None:
    name, path = "fs.s3a.access.key", "s3a://nowhere/t"
    rows = spark.range(1).selectExpr("id", "'a' AS k")
    spark.conf.set("spark.sql.catalog.hadoop_named", CATALOG_CLASS)
    spark.conf.set("spark.sql.catalog.hadoop_named.root", path)
    spark.conf.set(f"spark.sql.catalog.hadoop_named.{name}", "x")
    statements = {
        "load": lambda: spark.read.format("lance").option(name, "x").load(path),
        "stream": lambda: spark.readStream.format("lance").option(name, "x").load(path),
        "save": lambda: rows.write.format("lance").option(name, "x").save(path),
        "append": lambda: rows.write.format("lance").option(name, "x").mode("append").save(path),
        "table": lambda: spark.read.option(name, "x").table(table).collect(),
        "query": lambda: spark.sql(f"SELECT * FROM {table} WITH (`{name}` = 'x')").collect(),
        "write": lambda: rows.writeTo(table).option(name, "x").append(),
        "insert": lambda: spark.sql(f"INSERT INTO {table} WITH (`{name}` = 'x') VALUES (2, 'b')"),
        "property": lambda: spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('{name}' = 'x')"),
        "catalog": lambda: spark.sql("SHOW TABLES IN hadoop_named").collect(),
    }
    for statement, run in statements.items():
        with pytest.raises(AnalysisException) as caught:
            run()
        message = str(caught.value)
        assert f"option {name} is one of Hadoop" in message, statement
        assert "write storage.aws_access_key_id" in message, statement
    assert spark.table(table).count() == 1
