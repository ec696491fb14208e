"""What DROP deletes: the files of the catalog's own tables, and what DynamoDB knows of their versions."""

from __future__ import annotations

import uuid
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import InvalidInputError
from lance_spark.namespace.directory.namespace import DirectoryNamespace
from tests.support.moto import S3Bucket

ROWS = pa.table({"a": [1, 2, 3]})


def test_what_lies_outside_stays_if_the_caller_says_so(tmp_path: Path) -> None:
    names = DirectoryNamespace(str(tmp_path / "root"))
    names.create_namespace(("n",))
    names.create_namespace(("n", "m"))
    own = names.declare_table(("n", "m", "own")).uri
    elsewhere = names.declare_table(("n", "other"), location=str(tmp_path / "elsewhere")).uri
    for uri in (own, elsewhere):
        lance.write_dataset(ROWS, uri)
    with pytest.raises(InvalidInputError, match="outside of the root"):
        names.drop_namespace(("n",), cascade=True, purge=True)
    names.drop_namespace(("n",), cascade=True, purge=True, keep_external=True)
    assert not names.namespace_exists(("n",))
    assert not Path(own).exists()
    assert lance.dataset(elsewhere).to_table() == ROWS


@pytest.mark.slow
@pytest.mark.parametrize("whole", [False, True])
def test_the_versions_in_dynamodb_go_with_the_table(s3_bucket: S3Bucket, whole: bool) -> None:
    base = f"catalog-{uuid.uuid4().hex}"
    options = {**s3_bucket.storage_options, "dynamodb_endpoint": s3_bucket.endpoint}
    names = DirectoryNamespace(f"s3+ddb://{s3_bucket.name}/{base}?ddbTableName={s3_bucket.manifest_table()}", options)
    names.create_namespace(("n",))
    uri = names.declare_table(("n", "t")).uri
    table = lance_spark.write(ROWS, uri, storage_options=options)
    lance_spark.write(ROWS, uri, mode="append", storage_options=options)
    table.create_branch("b")
    kept = names.declare_table(("kept",)).uri
    lance_spark.write(ROWS, kept, storage_options=options)
    known = roots_with_entries(s3_bucket, base)
    assert len([root for root in known if "_n$t" in root]) == 2
    if whole:
        names.drop_namespace(("n",), cascade=True, purge=True)
    else:
        names.drop_table(("n", "t"), purge=True)
    assert roots_with_entries(s3_bucket, base) == {root for root in known if "_n$t" not in root}
    assert lance_spark.open(kept, storage_options=options).count_rows() == 3


def roots_with_entries(bucket: S3Bucket, base: str) -> set[str]:
    items = bucket.dynamodb().scan(TableName=bucket.manifest_table())["Items"]
    return {item["base_uri"]["S"] for item in items if base in item["base_uri"]["S"]}
