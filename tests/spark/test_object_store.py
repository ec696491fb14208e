"""Spark writes to and reads from S3 with the credentials of the options."""

from __future__ import annotations

import lance
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.support.moto import S3Bucket


@pytest.mark.slow
def test_a_table_in_s3(spark: SparkSession, s3_bucket: S3Bucket) -> None:
    uri = s3_bucket.folder()
    options = {f"storage.{name}": value for name, value in s3_bucket.storage_options.items()}
    frame = spark.range(0, 1000, numPartitions=3).select("id", F.concat(F.lit("n"), F.col("id")).alias("name"))
    frame.write.format("lance").options(**options).mode("append").save(uri)
    frame.write.format("lance").options(**options).mode("append").save(uri)
    read = spark.read.format("lance").options(**options)
    assert read.load(uri).agg(F.count("name"), F.sum("id")).first()[:] == (2000, 999_000)
    assert spark.read.format("lance").options(**options).option("version", 1).load(uri).count() == 1000
    assert lance.dataset(uri, storage_options=s3_bucket.storage_options).count_rows() == 2000


@pytest.mark.slow
def test_a_table_that_commits_through_dynamodb(spark: SparkSession, s3_bucket: S3Bucket) -> None:
    name = s3_bucket.manifest_table()
    uri = s3_bucket.folder().replace("s3://", "s3+ddb://") + f"?ddbTableName={name}"
    settings = {**s3_bucket.storage_options, "dynamodb_endpoint": s3_bucket.endpoint}
    options = {f"storage.{key}": value for key, value in settings.items()}
    frame = spark.range(0, 100, numPartitions=2)
    for _ in range(2):
        frame.write.format("lance").options(**options).mode("append").save(uri)
    assert spark.read.format("lance").options(**options).load(uri).count() == 200
    reference = lance.dataset(uri, storage_options=settings)
    assert (reference.version, reference.count_rows()) == (2, 200)
    entries = s3_bucket.dynamodb().scan(TableName=name)["Items"]
    assert sorted(entry["version"]["N"] for entry in entries if entry["base_uri"]["S"] in uri) == ["1", "2"]
