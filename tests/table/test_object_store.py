"""Tables in S3: the same bytes for us and for the reference library, commits included."""

from __future__ import annotations

import lance
import pyarrow as pa
import pytest

import lance_spark
from tests.support.equality import assert_tables_equal
from tests.support.moto import S3Bucket
from tests.support.threads import all_at_once


def rows(*values: int) -> pa.Table:
    return pa.table({"a": pa.array(values, pa.int64())})


@pytest.fixture
def table(s3_bucket: S3Bucket) -> tuple[str, dict[str, str]]:
    return s3_bucket.folder(), s3_bucket.storage_options


def test_both_libraries_write_one_table(table: tuple[str, dict[str, str]]) -> None:
    uri, options = table
    lance_spark.write(rows(1, 2), uri, storage_options=options)
    lance.write_dataset(rows(3), uri, mode="append", storage_options=options)
    dataset = lance_spark.write(rows(4), uri, mode="append", storage_options=options)
    lance.dataset(uri, storage_options=options).delete("a = 2")
    dataset = lance_spark.open(uri, storage_options=options)
    assert dataset.version == 4
    assert_tables_equal(dataset.to_table(), lance.dataset(uri, storage_options=options).to_table())
    assert dataset.to_table(filter="a > 1")["a"].to_pylist() == [3, 4]
    assert dataset.take([2])["a"].to_pylist() == [4]
    assert lance_spark.open(uri, version=1, storage_options=options).count_rows() == 2


def test_a_clone_reads_from_the_bucket_of_its_source(table: tuple[str, dict[str, str]]) -> None:
    uri, options = table
    lance_spark.write(rows(1, 2, 3), uri, storage_options=options)
    source = lance.dataset(uri, storage_options=options)
    source.delete("a = 2")
    source.shallow_clone(f"{uri}-clone", 2, storage_options=options)
    clone = lance_spark.open(f"{uri}-clone", storage_options=options)
    assert clone.to_table()["a"].to_pylist() == [1, 3]
    assert lance_spark.write(rows(9), clone.uri, mode="append", storage_options=options).count_rows() == 3


@pytest.mark.slow
def test_concurrent_appends(table: tuple[str, dict[str, str]]) -> None:
    uri, options = table
    lance_spark.write(rows(0), uri, storage_options=options)

    def work(worker: int) -> None:
        for number in range(3):
            lance_spark.write(rows(worker * 10 + number), uri, mode="append", storage_options=options)

    all_at_once(lambda number: work(number + 1), 4)
    expected = [0, *(worker * 10 + number for worker in range(1, 5) for number in range(3))]
    assert sorted(lance_spark.open(uri, storage_options=options).to_table()["a"].to_pylist()) == expected
    assert sorted(lance.dataset(uri, storage_options=options).to_table()["a"].to_pylist()) == expected
