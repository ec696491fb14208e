"""Commits to S3 when the network and the service misbehave. What counts is that no answer is a lie."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lance_spark.errors import NotFoundError, StorageError
from lance_spark.storage import conditional_put, open_store, patience
from lance_spark.storage.base import ObjectStore, PutResult
from tests.support.moto import S3Bucket
from tests.support.s3_proxy import ANSWER_LOST, NOT_SENT, S3Proxy, Trouble, landed_but, refused, s3_proxy

PATH = "_versions/1.manifest"
MANY = 20


@pytest.fixture(scope="module")
def running_proxy(s3_bucket: S3Bucket) -> Iterator[S3Proxy]:
    with s3_proxy(s3_bucket.endpoint) as proxy:
        yield proxy


@pytest.fixture
def proxy(running_proxy: S3Proxy, monkeypatch: pytest.MonkeyPatch) -> S3Proxy:
    monkeypatch.setattr(patience, "_FIRST_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(conditional_put, "_trusted", set())
    running_proxy.reset()
    return running_proxy


@pytest.fixture
def untried(s3_bucket: S3Bucket, proxy: S3Proxy) -> ObjectStore:
    options = s3_bucket.storage_options | {"aws_endpoint": proxy.endpoint, "timeout": "5s", "connect_timeout": "2s"}
    return open_store(s3_bucket.folder(), options)


@pytest.fixture
def store(untried: ObjectStore, proxy: S3Proxy) -> ObjectStore:
    untried.put_if_absent("warm-up", b"")
    proxy.seen.clear()
    return untried


@pytest.mark.slow
def test_a_lost_answer_is_not_reported_as_created_or_failed(store: ObjectStore, proxy: S3Proxy) -> None:
    proxy.troubles = [ANSWER_LOST]
    assert store.put_if_absent(PATH, b"ours") is PutResult.EXISTS
    assert store.read(PATH).to_pybytes() == b"ours"


def test_no_answer_at_all_is_unknown(store: ObjectStore, proxy: S3Proxy) -> None:
    proxy.troubles = [ANSWER_LOST] * MANY
    assert store.put_if_absent(PATH, b"ours") is PutResult.UNKNOWN
    proxy.troubles = []
    assert store.read(PATH).to_pybytes() == b"ours"


def test_a_request_that_never_arrives_is_unknown(store: ObjectStore, proxy: S3Proxy) -> None:
    proxy.troubles = [NOT_SENT] * MANY
    assert store.put_if_absent(PATH, b"ours") is PutResult.UNKNOWN
    proxy.troubles = []
    with pytest.raises(NotFoundError):
        store.read(PATH)


def test_a_request_that_arrives_in_the_end_is_created(store: ObjectStore, proxy: S3Proxy) -> None:
    proxy.troubles = [NOT_SENT, refused(500, "InternalError"), refused(503, "SlowDown")]
    assert store.put_if_absent(PATH, b"ours") is PutResult.CREATED
    assert proxy.count("PUT", conditional=True) == 4


@pytest.mark.slow
def test_a_timeout_is_unknown(s3_bucket: S3Bucket, store: ObjectStore, proxy: S3Proxy) -> None:
    options = s3_bucket.storage_options | {"aws_endpoint": proxy.endpoint, "timeout": "100ms"}
    impatient = open_store(store.uri, options)
    impatient.put_if_absent("warm-up 2", b"")
    proxy.troubles = [Trouble(delay_seconds=1.0)] * MANY
    assert impatient.put_if_absent(PATH, b"ours") is PutResult.UNKNOWN


@pytest.mark.slow
@pytest.mark.parametrize("code", ["ConditionalRequestConflict", "OperationAborted"])
def test_a_conflict_of_requests_is_tried_again(store: ObjectStore, proxy: S3Proxy, code: str) -> None:
    proxy.troubles = [refused(409, code)]
    assert store.put_if_absent(PATH, b"ours") is PutResult.CREATED
    proxy.troubles = [refused(409, code)]
    assert store.put_if_absent(PATH, b"theirs") is PutResult.EXISTS
    proxy.troubles = [refused(409, code)] * MANY
    assert store.put_if_absent("other", b"ours") is PutResult.UNKNOWN


@pytest.mark.slow
@pytest.mark.parametrize("trouble", [landed_but(500, "InternalError"), landed_but(503, "ServiceUnavailable")], ids=str)
def test_a_server_error_after_the_object_landed_is_not_a_failure(
    store: ObjectStore, proxy: S3Proxy, trouble: Trouble
) -> None:
    proxy.troubles = [trouble]
    assert store.put_if_absent(PATH, b"ours") is PutResult.EXISTS
    proxy.troubles = [trouble] * MANY
    assert store.put_if_absent("other", b"ours") is PutResult.UNKNOWN
    assert store.read("other").to_pybytes() == b"ours"


def test_a_refusal_is_a_failure_and_is_not_repeated(store: ObjectStore, proxy: S3Proxy) -> None:
    proxy.troubles = [refused(403, "AccessDenied")]
    with pytest.raises(StorageError, match="on purpose"):
        store.put_if_absent(PATH, b"ours")
    assert proxy.count("PUT", conditional=True) == 1


def test_a_refusal_after_a_lost_answer_is_unknown(store: ObjectStore, proxy: S3Proxy) -> None:
    # As with credentials that expire between two tries: the first one may be there.
    proxy.troubles = [ANSWER_LOST, refused(403, "ExpiredToken")]
    assert store.put_if_absent(PATH, b"ours") is PutResult.UNKNOWN
    assert store.read(PATH).to_pybytes() == b"ours"


def test_a_service_without_the_condition_is_refused(untried: ObjectStore, proxy: S3Proxy) -> None:
    proxy.troubles = [refused(501, "NotImplemented")]
    with pytest.raises(StorageError, match="only if it is absent"):
        untried.put_if_absent(PATH, b"ours")


def test_a_service_that_ignores_the_condition_is_refused(
    untried: ObjectStore, proxy: S3Proxy, s3_bucket: S3Bucket
) -> None:
    proxy.drops_conditions = True
    for _ in range(2):
        with pytest.raises(StorageError, match="overwrites"):
            untried.put_if_absent(PATH, b"ours")
    folder = untried.uri.removeprefix(s3_bucket.uri + "/")
    assert "Contents" not in s3_bucket.client().list_objects_v2(Bucket=s3_bucket.name, Prefix=folder)


def test_a_silent_service_does_not_pass_the_trial(untried: ObjectStore, proxy: S3Proxy) -> None:
    proxy.troubles = [NOT_SENT] * MANY
    with pytest.raises(StorageError, match="did not answer"):
        untried.put_if_absent(PATH, b"ours")
    proxy.troubles = []
    assert untried.put_if_absent(PATH, b"ours") is PutResult.CREATED


def test_the_trial_survives_lost_answers(untried: ObjectStore, proxy: S3Proxy) -> None:
    proxy.troubles = [ANSWER_LOST]
    assert untried.put_if_absent(PATH, b"ours") is PutResult.CREATED


def test_a_service_is_tried_once_per_process(untried: ObjectStore, proxy: S3Proxy) -> None:
    assert untried.put_if_absent(PATH, b"ours") is PutResult.CREATED
    assert proxy.count("PUT", conditional=True) == 3
    assert proxy.count("DELETE") == 1
    assert untried.put_if_absent("other", b"ours") is PutResult.CREATED
    assert len(proxy.seen) == 6
    assert [found.path for found in untried.list("", recursive=True)] == [PATH, "other"]


@pytest.mark.slow
def test_a_large_commit_is_one_request(store: ObjectStore, proxy: S3Proxy) -> None:
    data = bytes(105 << 20)
    assert store.put_if_absent(PATH, data) is PutResult.CREATED
    assert [(request.method, request.conditional) for request in proxy.seen] == [("PUT", True)]
    assert store.size(PATH) == len(data)
    store.delete(PATH)


@pytest.mark.slow
def test_a_lost_answer_to_the_last_request_of_a_stream_is_no_failure(store: ObjectStore, proxy: S3Proxy) -> None:
    output = store.open_output("data/a.lance")
    output.write(b"x" * (17 << 20))
    proxy.applies_to = "POST"
    proxy.troubles = [ANSWER_LOST]
    output.close()
    assert store.size("data/a.lance") == 17 << 20


def test_a_stream_whose_part_fails_reports_it_and_leaves_nothing(
    store: ObjectStore, proxy: S3Proxy, s3_bucket: S3Bucket
) -> None:
    output = store.open_output("data/a.lance")
    proxy.applies_to = "partNumber=2"
    proxy.troubles = [refused(403, "AccessDenied")]
    output.write(b"x" * (40 << 20))
    with pytest.raises(StorageError, match=r"data/a\.lance.*on purpose"):
        output.close()
    assert list(store.list("", recursive=True)) == [next(store.list(""))]
    folder = store.uri.removeprefix(s3_bucket.uri + "/")
    uploads = s3_bucket.client().list_multipart_uploads(Bucket=s3_bucket.name).get("Uploads", [])
    assert not [upload for upload in uploads if upload["Key"].startswith(folder)]
