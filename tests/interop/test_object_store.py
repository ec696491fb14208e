"""One table in S3, written and read by turns with the reference library."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import lance
import pyarrow as pa
import pytest

import lance_spark
from tests.support.arrays import leaves_table
from tests.support.equality import assert_tables_equal
from tests.support.moto import S3Bucket


@pytest.mark.slow
def test_by_turns(s3_bucket: S3Bucket) -> None:
    uri, options = s3_bucket.folder(), s3_bucket.storage_options
    expected = leaves_table(500, 0.3)
    lance_spark.write(expected, uri, storage_options=options)
    lance.write_dataset(expected, uri, mode="append", storage_options=options)
    lance_spark.write(expected, uri, mode="append", storage_options=options)
    three = pa.concat_tables([expected] * 3)
    assert_tables_equal(lance_spark.open(uri, storage_options=options).to_table(), three)
    assert_tables_equal(lance.dataset(uri, storage_options=options).to_table(), three)
    assert lance.dataset(uri, storage_options=options).version == 3


@pytest.mark.slow
def test_appends_of_both_at_once_lose_nothing(s3_bucket: S3Bucket) -> None:
    uri, options = s3_bucket.folder(), s3_bucket.storage_options
    lance_spark.write(pa.table({"a": pa.array([], pa.int64())}), uri, storage_options=options)

    def append(number: int) -> None:
        rows = pa.table({"a": pa.array([number], pa.int64())})
        if number % 2:
            lance_spark.write(rows, uri, mode="append", storage_options=options)
        else:
            lance.write_dataset(rows, uri, mode="append", storage_options=options)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(append, range(12)))
    dataset = lance_spark.open(uri, storage_options=options)
    assert sorted(dataset.to_table()["a"].to_pylist()) == list(range(12))
    assert dataset.version == 13


def test_a_missing_bucket_is_a_clear_error(s3_bucket: S3Bucket) -> None:
    with pytest.raises(lance_spark.LanceError, match="no-such-bucket"):
        lance_spark.open("s3://no-such-bucket/t", storage_options=s3_bucket.storage_options)
