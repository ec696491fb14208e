"""The table of manifest entries in DynamoDB when the network and the service misbehave: no answer is a lie."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from lance_spark.errors import CorruptFileError, StorageError
from lance_spark.storage.base import PutResult
from lance_spark.storage.manifest_table import ManifestEntry, ManifestTable
from lance_spark.storage.s3 import dynamodb
from lance_spark.storage.s3.dynamodb import DynamoManifestTable
from tests.support.moto import S3Bucket
from tests.support.s3_proxy import ANSWER_LOST, NOT_SENT, S3Proxy, landed_but, refused, s3_proxy

MANY = 20
ENTRY = ManifestEntry(1, "_versions/1.manifest-staged", 100)


@pytest.fixture(scope="module")
def running_proxy(s3_bucket: S3Bucket) -> Iterator[S3Proxy]:
    with s3_proxy(s3_bucket.endpoint) as proxy:
        yield proxy


@pytest.fixture
def proxy(running_proxy: S3Proxy, monkeypatch: pytest.MonkeyPatch) -> S3Proxy:
    monkeypatch.setattr(dynamodb, "_FIRST_PAUSE_SECONDS", 0.0)
    running_proxy.reset()
    running_proxy.applies_to = "POST"
    return running_proxy


@pytest.fixture
def table(s3_bucket: S3Bucket, proxy: S3Proxy) -> DynamoManifestTable:
    options = s3_bucket.storage_options | {"dynamodb_endpoint": proxy.endpoint, "timeout": "5s"}
    table = DynamoManifestTable(s3_bucket.manifest_table(), f"{s3_bucket.name}/{uuid.uuid4().hex}", options)
    table._require_keys()
    proxy.seen.clear()
    return table


@pytest.mark.slow
def test_entries_come_back(table: DynamoManifestTable) -> None:
    assert isinstance(table, ManifestTable)
    assert table.latest() is None
    assert table.get(1) is None
    assert not table.replace(ENTRY)
    assert table.create(ENTRY) is PutResult.CREATED
    assert table.create(ManifestEntry(1, "other")) is PutResult.EXISTS
    assert table.get(1) == table.latest() == ENTRY
    for version in (2, 10, 9, (1 << 63) - 1):
        assert table.create(ManifestEntry(version, f"{version}")) is PutResult.CREATED
    assert table.latest() == ManifestEntry((1 << 63) - 1, f"{(1 << 63) - 1}")
    assert table.replace(ManifestEntry(9, "nine", 9))
    assert table.get(9) == ManifestEntry(9, "nine", 9)
    table.clear()
    assert table.latest() is None


@pytest.mark.slow
def test_roots_do_not_see_each_other(s3_bucket: S3Bucket) -> None:
    options = s3_bucket.storage_options | {"dynamodb_endpoint": s3_bucket.endpoint}
    name, root = s3_bucket.manifest_table(), f"{s3_bucket.name}/{uuid.uuid4().hex}"
    outer, inner = (DynamoManifestTable(name, place, options) for place in (root, f"{root}/tree/b"))
    assert outer.create(ENTRY) is PutResult.CREATED
    assert inner.latest() is None
    assert inner.create(ENTRY) is PutResult.CREATED
    inner.clear()
    assert outer.latest() == ENTRY


def test_a_lost_answer_is_not_reported_as_created_or_failed(table: DynamoManifestTable, proxy: S3Proxy) -> None:
    proxy.troubles = [ANSWER_LOST]
    assert table.create(ENTRY) is PutResult.EXISTS
    assert table.get(1) == ENTRY


def test_no_answer_at_all_is_unknown(table: DynamoManifestTable, proxy: S3Proxy) -> None:
    for trouble in (ANSWER_LOST, NOT_SENT, refused(500, "InternalServerError")):
        proxy.troubles = [trouble] * MANY
        assert table.create(ENTRY) is PutResult.UNKNOWN
    proxy.troubles = []
    assert table.get(1) == ENTRY


def test_a_refusal_after_a_lost_answer_is_unknown(table: DynamoManifestTable, proxy: S3Proxy) -> None:
    proxy.troubles = [ANSWER_LOST, refused(400, "ExpiredTokenException")]
    assert table.create(ENTRY) is PutResult.UNKNOWN
    proxy.troubles = [landed_but(503, "ServiceUnavailable"), refused(400, "AccessDeniedException")]
    assert table.create(ManifestEntry(2, "x")) is PutResult.UNKNOWN
    assert table.get(2) == ManifestEntry(2, "x")


@pytest.mark.slow
def test_throttling_passes(table: DynamoManifestTable, proxy: S3Proxy) -> None:
    trouble = refused(400, "ProvisionedThroughputExceededException")
    proxy.troubles = [trouble] * 3
    assert table.create(ENTRY) is PutResult.CREATED
    for call in (table.latest, lambda: table.get(1)):
        proxy.troubles = [trouble, NOT_SENT, refused(500, "InternalServerError"), ANSWER_LOST]
        assert call() == ENTRY
    proxy.troubles = [trouble, ANSWER_LOST]
    assert table.replace(ManifestEntry(1, "final"))
    proxy.troubles = [ANSWER_LOST, trouble]
    table.clear()
    assert table.latest() is None


def test_a_refusal_is_an_error_at_once(table: DynamoManifestTable, proxy: S3Proxy) -> None:
    for call in (lambda: table.create(ENTRY), lambda: table.replace(ENTRY), lambda: table.get(1), table.latest):
        proxy.seen.clear()
        proxy.troubles = [refused(400, "AccessDeniedException")]
        with pytest.raises(StorageError, match=r"base_uri.*AccessDenied"):
            call()
        assert len(proxy.seen) == 1
    proxy.troubles = []
    assert table.latest() is None


def test_a_service_that_is_not_there(s3_bucket: S3Bucket, proxy: S3Proxy) -> None:
    options = s3_bucket.storage_options | {"dynamodb_endpoint": "http://127.0.0.1:1"}
    table = DynamoManifestTable("t", "bucket/x", options)
    for call in (lambda: table.create(ENTRY), lambda: table.replace(ENTRY), lambda: table.get(1), table.clear):
        with pytest.raises(StorageError, match="base_uri"):
            call()


@pytest.mark.parametrize(
    "item",
    [
        {"version": {"N": "1"}},
        {"version": {"N": "1"}, "path": {"N": "7"}},
        {"version": {"N": "1"}, "path": {"S": "somewhere/else"}},
        {"version": {"N": "-1"}, "path": {"S": "{root}/x"}},
        {"version": {"N": "1.5"}, "path": {"S": "{root}/x"}},
        {"version": {"N": str(1 << 64)}, "path": {"S": "{root}/x"}},
        {"version": {"N": "1"}, "path": {"S": "{root}/x"}, "size": {"N": "-1"}},
        {"version": {"N": "1"}, "path": {"S": "{root}/x"}, "size": {"S": "10"}},
    ],
)
def test_entries_that_contradict_the_protocol(s3_bucket: S3Bucket, item: dict[str, dict[str, str]]) -> None:
    root = uuid.uuid4().hex
    options = s3_bucket.storage_options | {"dynamodb_endpoint": s3_bucket.endpoint}
    table = DynamoManifestTable(s3_bucket.manifest_table(), f"{s3_bucket.name}/{root}", options)
    filled = {
        name: {kind: text.replace("{root}", root) for kind, text in value.items()} for name, value in item.items()
    }
    s3_bucket.dynamodb().put_item(TableName=s3_bucket.manifest_table(), Item={"base_uri": {"S": root}, **filled})
    with pytest.raises(CorruptFileError, match="base_uri"):
        table.latest()
