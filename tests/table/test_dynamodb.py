"""Tables that commit through DynamoDB, ours and the reference library's at the same time."""

from __future__ import annotations

import multiprocessing
import threading
import uuid
from collections.abc import Callable
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import LanceError, NotFoundError, StorageError
from lance_spark.table.location import TableLocation
from tests.support.equality import assert_tables_equal
from tests.support.moto import S3Bucket


def rows(*values: int) -> pa.Table:
    return pa.table({"a": pa.array(values, pa.int64())})


class Shared:
    """One table with the two ways to it: with DynamoDB (`uri`) and without (`plain_uri`)."""

    def __init__(self, bucket: S3Bucket, name: str = "table") -> None:
        self.bucket = bucket
        self.base_uri = f"folder/{name}-{uuid.uuid4().hex}"
        self.plain_uri = f"{bucket.uri}/{self.base_uri}"
        self.uri = f"s3+ddb://{bucket.name}/{self.base_uri}?ddbTableName={bucket.manifest_table()}"
        self.options = {**bucket.storage_options, "dynamodb_endpoint": bucket.endpoint}

    def append(self, *values: int) -> int:
        return lance_spark.write(rows(*values), self.uri, mode="append", storage_options=self.options).version

    def append_by_reference(self, *values: int) -> None:
        lance.write_dataset(rows(*values), self.uri, mode="append", storage_options=self.options)

    def values(self) -> list[int]:
        return sorted(lance_spark.open(self.uri, storage_options=self.options).to_table()["a"].to_pylist())

    def values_by_reference(self, *, plain: bool = False) -> list[int]:
        options = self.bucket.storage_options if plain else self.options
        uri = self.plain_uri if plain else self.uri
        return sorted(lance.dataset(uri, storage_options=options).to_table()["a"].to_pylist())

    def items(self, base_uri: str | None = None) -> list[dict[str, Any]]:
        reply = self.bucket.dynamodb().query(
            TableName=self.bucket.manifest_table(),
            KeyConditionExpression="base_uri = :b",
            ExpressionAttributeValues={":b": {"S": base_uri or self.base_uri}},
        )
        return [{name: next(iter(value.values())) for name, value in item.items()} for item in reply["Items"]]

    def manifests(self) -> list[str]:
        listed = self.bucket.client().list_objects_v2(Bucket=self.bucket.name, Prefix=f"{self.base_uri}/_versions/")
        return [entry["Key"] for entry in listed.get("Contents", ())]

    def point(self, version: int, path: str) -> None:
        self.bucket.dynamodb().update_item(
            TableName=self.bucket.manifest_table(),
            Key={"base_uri": {"S": self.base_uri}, "version": {"N": str(version)}},
            UpdateExpression="SET #path = :path",
            ExpressionAttributeNames={"#path": "path"},
            ExpressionAttributeValues={":path": {"S": path}},
        )


@pytest.fixture
def shared(s3_bucket: S3Bucket) -> Shared:
    return Shared(s3_bucket)


def test_entries_are_the_references_own(shared: Shared) -> None:
    shared.append(1)
    shared.append_by_reference(2)
    own, committed = shared.items()
    assert {name: type(value) for name, value in own.items()} == {name: type(v) for name, v in committed.items()}
    assert (own["base_uri"], own["version"], own["committer"]) == (shared.base_uri, "1", "lancedb")
    assert (own["path"], committed["path"]) == (shared.manifests()[1], shared.manifests()[0])
    size = shared.bucket.client().head_object(Bucket=shared.bucket.name, Key=own["path"])["ContentLength"]
    assert own["size"] == str(size)


def test_both_libraries_write_one_table(shared: Shared) -> None:
    shared.append_by_reference(1)
    shared.append(2)
    shared.append_by_reference(3)
    dataset = lance_spark.open(shared.uri, storage_options=shared.options).delete("a = 1")
    assert dataset.version == 4
    assert shared.values() == shared.values_by_reference() == shared.values_by_reference(plain=True) == [2, 3]
    assert dataset.uri == shared.uri
    assert_tables_equal(
        lance_spark.open(shared.uri, version=2, storage_options=shared.options).to_table(),
        lance.dataset(shared.uri, version=2, storage_options=shared.options).to_table(),
    )
    assert [entry.version for entry in dataset.versions()] == [1, 2, 3, 4]
    assert dataset.create_tag("first", 1).version == 1
    assert lance.dataset(shared.uri, version="first", storage_options=shared.options).count_rows() == 1


def test_odd_names(s3_bucket: S3Bucket) -> None:
    shared = Shared(s3_bucket, "täble x%")
    shared.uri = shared.uri.replace("%", "%25")
    shared.append_by_reference(1)
    assert shared.append(2) == 2
    assert {item["base_uri"] for item in shared.items()} == {shared.base_uri}
    assert shared.values() == shared.values_by_reference() == [1, 2]


def test_an_option_does_what_the_uri_does(shared: Shared) -> None:
    options = shared.options | {"ddb_table_name": shared.bucket.manifest_table()}
    dataset = lance_spark.write(rows(1), shared.plain_uri, storage_options=options)
    assert dataset.uri == shared.plain_uri
    assert [item["version"] for item in shared.items()] == ["1"]
    shared.append_by_reference(2)
    assert lance_spark.write(rows(3), shared.plain_uri, mode="append", storage_options=options).version == 3
    assert shared.values_by_reference() == [1, 2, 3]


def test_a_branch_has_entries_of_its_own(shared: Shared) -> None:
    shared.append(1)
    reference = lance.dataset(shared.uri, storage_options=shared.options)
    branch = reference.create_branch("dev")
    lance.write_dataset(rows(2), branch, mode="append", storage_options=shared.options)
    location = TableLocation(shared.uri, shared.options, branch="dev")
    newest = location.latest()
    assert newest is not None
    assert newest.version == max(int(item["version"]) for item in shared.items(f"{shared.base_uri}/tree/dev"))
    assert location.history.load(newest.version).manifest == newest


@pytest.mark.slow
def test_a_removed_branch_can_be_made_again(shared: Shared) -> None:
    shared.append(1)
    dataset = lance_spark.open(shared.uri, storage_options=shared.options)
    for _ in range(2):
        branch = dataset.create_branch("dev")
        assert branch.to_table()["a"].to_pylist() == [1]
        assert [item["version"] for item in shared.items(f"{shared.base_uri}/tree/dev")] == ["1"]
        dataset.delete_branch("dev")
        assert shared.items(f"{shared.base_uri}/tree/dev") == []


def test_pylance_reads_what_a_killed_writer_of_ours_left_and_we_its(shared: Shared) -> None:
    client = shared.bucket.client()
    for version, append in [(1, shared.append), (2, shared.append_by_reference), (3, shared.append)]:
        append(version)
        # As it is when the writer dies right after it has created the entry.
        final = shared.items()[version - 1]["path"]
        staged = f"{final}-{uuid.uuid4()}"
        client.copy_object(Bucket=shared.bucket.name, Key=staged, CopySource=f"{shared.bucket.name}/{final}")
        client.delete_object(Bucket=shared.bucket.name, Key=final)
        shared.point(version, staged)
        read: Callable[[], list[int]] = shared.values_by_reference if append == shared.append else shared.values
        assert read() == list(range(1, version + 1))
        assert shared.items()[version - 1]["path"] == final
        assert staged not in shared.manifests()
    assert shared.values_by_reference(plain=True) == [1, 2, 3]


def test_a_table_that_was_made_in_s3_alone(shared: Shared) -> None:
    lance.write_dataset(rows(1), shared.plain_uri, storage_options=shared.bucket.storage_options)
    assert shared.append(2) == 2
    assert shared.values() == shared.values_by_reference() == [1, 2]
    assert [item["version"] for item in shared.items()] == ["2"]


def _append_many(uri: str, options: dict[str, str], first: int) -> None:
    for number in range(first, first + 4):
        lance_spark.write(rows(number), uri, mode="append", storage_options=options)


@pytest.mark.slow
def test_two_processes_and_pylance_append(shared: Shared) -> None:
    shared.append(0)
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_append_many, args=(shared.uri, shared.options, first)) for first in (10, 20)]
    for worker in workers:
        worker.start()
    while any(worker.is_alive() for worker in workers) and len(shared.items()) < 4:
        workers[0].join(0.05)
    for number in range(30, 34):
        shared.append_by_reference(number)
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    expected = [0, *(first + number for first in (10, 20, 30) for number in range(4))]
    assert shared.values() == shared.values_by_reference() == shared.values_by_reference(plain=True) == expected
    assert [int(item["version"]) for item in shared.items()] == list(range(1, 14))
    assert all(item["path"].endswith(".manifest") for item in shared.items())
    assert len(shared.manifests()) == 13


def test_one_of_two_creators_wins(shared: Shared) -> None:
    outcomes: list[object] = []
    start = threading.Barrier(2)

    def create(value: int) -> None:
        start.wait()
        try:
            outcomes.append(lance_spark.write(rows(value), shared.uri, storage_options=shared.options).version)
        except LanceError as error:
            outcomes.append(type(error).__name__)

    threads = [threading.Thread(target=create, args=(value,)) for value in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 1 in outcomes
    assert set(outcomes) - {1} <= {"IncompatibleConflictError", "InvalidInputError"}
    assert len(outcomes) - outcomes.count(1) == 1
    assert len(shared.values()) == 1


def test_a_dropped_table_can_be_made_again(shared: Shared) -> None:
    shared.append(1)
    shared.append(2)
    location = TableLocation(shared.uri, shared.options)
    for entry in list(location.store.list("", recursive=True)):
        location.store.delete(entry.path)
    with pytest.raises(NotFoundError, match="removed without its entries"):
        shared.append(3)
    location.history.manifests.forget()
    assert shared.items() == []
    assert shared.append(3) == 1
    assert shared.values_by_reference() == [3]


def test_a_dynamodb_table_of_another_shape_is_refused(shared: Shared) -> None:
    name = f"other-{uuid.uuid4().hex}"
    shared.bucket.dynamodb().create_table(
        TableName=name,
        KeySchema=[{"AttributeName": "base_uri", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "base_uri", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    uri = f"s3+ddb://{shared.bucket.name}/{shared.base_uri}?ddbTableName={name}"
    with pytest.raises(StorageError, match="sort key version"):
        lance_spark.write(rows(1), uri, storage_options=shared.options)
    with pytest.raises(StorageError, match=r"missing-table.*ResourceNotFound"):
        lance_spark.open(uri.replace(name, "missing-table"), storage_options=shared.options)
    assert shared.manifests() == []
