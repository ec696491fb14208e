"""Compaction and clean-up of tables in S3, with and without a DynamoDB table that decides about versions."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import lance
import pyarrow as pa
import pytest

import lance_spark
from tests.support.moto import S3Bucket


def rows(*values: int) -> pa.Table:
    return pa.table({"a": pa.array(values, pa.int64())})


@pytest.mark.parametrize("external", [False, True], ids=["s3", "s3+ddb"])
def test_compaction_and_clean_up(s3_bucket: S3Bucket, external: bool) -> None:
    uri, options = s3_bucket.folder(), s3_bucket.storage_options
    if external:
        uri = f"{uri.replace('s3://', 's3+ddb://')}?ddbTableName={s3_bucket.manifest_table()}"
        options = {**options, "dynamodb_endpoint": s3_bucket.endpoint}
    reference: Callable[[], lance.LanceDataset] = lambda: lance.dataset(uri, storage_options=options)  # noqa: E731
    lance_spark.write(rows(0), uri, storage_options=options)
    for number in range(1, 4):
        lance_spark.write(rows(number), uri, mode="append", storage_options=options)
    dataset = lance_spark.open(uri, storage_options=options).delete("a = 2").compact()
    assert (dataset.version, [fragment.physical_rows for fragment in dataset.fragments]) == (6, [3])
    dataset.create_tag("t", 3)
    stats = dataset.cleanup(older_than=timedelta(0), error_if_tagged_old_versions=False)
    assert (stats.versions, stats.data_files, stats.transaction_files) == ((1, 2, 4, 5), 1, 4)
    assert [entry["version"] for entry in reference().versions()] == [3, 6]
    assert reference().to_table()["a"].to_pylist() == [0, 1, 3]
    assert reference().checkout_version("t").to_table()["a"].to_pylist() == [0, 1, 2]
    lance.write_dataset(rows(9), uri, mode="append", storage_options=options)
    assert lance_spark.open(uri, storage_options=options).to_table()["a"].to_pylist() == [0, 1, 3, 9]
    dataset.delete_tag("t")
    assert lance_spark.open(uri, storage_options=options).cleanup(keep_versions=1).versions == (3, 6)
    assert reference().count_rows() == 4
