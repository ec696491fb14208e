"""Streams whose tables are in an object store that loses replies, and what an idle query asks of it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

import lance_spark
from tests.support.connector.streams import run
from tests.support.moto import S3Bucket
from tests.support.s3_proxy import ANSWER_LOST, NOT_SENT, S3Proxy, Seen, Trouble, s3_proxy

IDLE_SECONDS = 5


@pytest.fixture(scope="module")
def running_proxy(s3_bucket: S3Bucket) -> Iterator[S3Proxy]:
    with s3_proxy(s3_bucket.endpoint) as proxy:
        yield proxy


@pytest.fixture
def proxy(running_proxy: S3Proxy) -> S3Proxy:
    running_proxy.reset()
    return running_proxy


@pytest.fixture
def options(s3_bucket: S3Bucket, proxy: S3Proxy) -> dict[str, str]:
    """Storage options of a stream whose requests pass the proxy and are repeated for a few seconds."""
    given = s3_bucket.storage_options | {"aws_endpoint": proxy.endpoint, "client_retry_timeout": "2"}
    return {f"storage.{name}": value for name, value in given.items()}


@pytest.fixture
def source(spark: SparkSession, tmp_path: Path) -> str:
    uri = str(tmp_path / "source")
    spark.range(10).coalesce(1).write.format("lance").save(uri)
    return uri


def copy_once(spark: SparkSession, source: str, uri: str, checkpoint: Path, options: dict[str, str]) -> int:
    """Runs a query over what is new in the source; how many epochs its sink had already."""
    query = run(spark.readStream.format("lance").load(source), uri, checkpoint, **options)
    return sum(int(progress.sink.metrics.get("replays", 0)) for progress in query.recentProgress)


def copied(s3_bucket: S3Bucket, uri: str) -> list[int]:
    table = lance_spark.open(uri, storage_options=s3_bucket.storage_options).to_table(["id"])
    return sorted(table.column("id").to_pylist())


def test_lost_reply_to_the_commit_of_an_epoch(
    spark: SparkSession, s3_bucket: S3Bucket, proxy: S3Proxy, options: dict[str, str], source: str, tmp_path: Path
) -> None:
    uri = s3_bucket.folder()
    copy_once(spark, source, uri, tmp_path / "c", options)
    spark.range(10, 15).coalesce(1).write.format("lance").mode("append").save(source)
    proxy.troubles = [ANSWER_LOST]
    copy_once(spark, source, uri, tmp_path / "c", options)
    assert proxy.troubles == []
    assert copied(s3_bucket, uri) == list(range(15))
    assert lance_spark.open(uri, storage_options=s3_bucket.storage_options).version == 2


@pytest.mark.slow
def test_store_that_is_away_after_the_commit_fails_the_query_and_keeps_its_rows(
    spark: SparkSession, s3_bucket: S3Bucket, proxy: S3Proxy, options: dict[str, str], source: str, tmp_path: Path
) -> None:
    """The query cannot know that its epoch is committed, so Spark aborts the epoch with the results of its tasks."""
    uri = s3_bucket.folder()
    copy_once(spark, source, uri, tmp_path / "c", options)
    spark.range(10, 15).coalesce(1).write.format("lance").mode("append").save(source)
    is_away = False

    def next_trouble(request: Seen) -> Trouble | None:
        nonlocal is_away
        if is_away:
            return NOT_SENT
        is_away = request.method == "PUT" and "_versions" in request.target
        return ANSWER_LOST if is_away else None

    proxy.next_trouble = next_trouble  # type: ignore[method-assign]
    try:
        with pytest.raises(StreamingQueryException, match="LANCE_COMMIT_STATE_UNKNOWN"):
            copy_once(spark, source, uri, tmp_path / "c", options)
        assert is_away
    finally:
        del proxy.next_trouble
    assert copied(s3_bucket, uri) == list(range(15))
    assert copy_once(spark, source, uri, tmp_path / "c", options) == 1
    assert copied(s3_bucket, uri) == list(range(15))
    assert lance_spark.open(uri, storage_options=s3_bucket.storage_options).version == 2


@pytest.mark.slow
def test_idle_query_looks_for_a_version_once_a_second(
    spark: SparkSession, s3_bucket: S3Bucket, proxy: S3Proxy, options: dict[str, str], tmp_path: Path
) -> None:
    uri = s3_bucket.folder()
    spark.range(10).write.format("lance").options(**options).save(uri)
    stream = spark.readStream.format("lance").options(**options).load(uri)
    query = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c")).start()
    try:
        query.processAllAvailable()
        proxy.seen.clear()
        begun = time.monotonic()
        time.sleep(IDLE_SECONDS)
        asked, seconds = list(proxy.seen), time.monotonic() - begun
    finally:
        query.stop()
    targets = [request.target for request in asked]
    listings = [target for target in targets if "list-type=2" in target]
    assert 1 <= len(listings) <= seconds + 1, targets
    # Spark takes turns with its idle workers, as many as earlier tests left: each reads the manifest once.
    assert len(targets) <= 2 * len(listings), targets
