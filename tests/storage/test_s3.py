from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from lance_spark.errors import NotFoundError, StorageError
from lance_spark.storage import open_store, patience
from lance_spark.storage.base import ByteRange, PutResult, copy_object
from lance_spark.storage.s3.bulk import S3BulkReader
from lance_spark.storage.s3.client import S3Client
from lance_spark.storage.s3.store import S3Store
from tests.support.moto import S3Bucket
from tests.support.process_race import assert_one_of_many_processes_wins
from tests.support.s3_proxy import S3Proxy, refused, s3_proxy
from tests.support.storage.forks import in_a_fork
from tests.support.store_contract import ODD_NAMES, StoreContract


@pytest.fixture
def store(s3_bucket: S3Bucket) -> S3Store:
    store = open_store(s3_bucket.folder(), s3_bucket.storage_options)
    assert isinstance(store, S3Store)
    return store


class TestS3Store(StoreContract):
    copies_objects = True

    @pytest.fixture
    def store(self, s3_bucket: S3Bucket) -> S3Store:
        store = open_store(s3_bucket.folder(), s3_bucket.storage_options)
        assert isinstance(store, S3Store)
        return store


class TestS3StoreWithoutBulkReader(TestS3Store):
    """Where endpoint or credentials do not map onto the faster client."""

    @pytest.fixture(autouse=True)
    def unmapped(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(S3BulkReader, "_find_place", lambda self: None)


@pytest.fixture
def proxy(s3_bucket: S3Bucket) -> Iterator[S3Proxy]:
    with s3_proxy(s3_bucket.endpoint) as proxy:
        yield proxy


@pytest.fixture
def watched(s3_bucket: S3Bucket, proxy: S3Proxy) -> S3Store:
    store = open_store(s3_bucket.folder(), s3_bucket.storage_options | {"aws_endpoint": proxy.endpoint})
    assert isinstance(store, S3Store)
    return store


def key_of(store: S3Store, path: str, bucket: S3Bucket) -> str:
    return f"{store.uri}/{path}".removeprefix(f"{bucket.uri}/")


def test_keys_are_what_other_clients_see(store: S3Store, s3_bucket: S3Bucket) -> None:
    client = s3_bucket.client()
    for name in ODD_NAMES:
        store.put(name, b"ours")
        body = client.get_object(Bucket=s3_bucket.name, Key=key_of(store, name, s3_bucket))["Body"]
        assert body.read() == b"ours"
    store.put_if_absent("commit", b"ours")
    client.put_object(Bucket=s3_bucket.name, Key=key_of(store, "theirs %23#?+", s3_bucket), Body=b"theirs")
    assert store.read("theirs %23#?+").to_pybytes() == b"theirs"


def test_a_bucket_can_be_a_root(s3_bucket: S3Bucket) -> None:
    root = open_store(f"{s3_bucket.uri}/", s3_bucket.storage_options)
    root.put("at-the-root.txt", b"1")
    assert root.read("at-the-root.txt").to_pybytes() == b"1"
    assert "at-the-root.txt" in [found.path for found in root.list("")]
    root.delete("at-the-root.txt")


def test_folder_markers_are_no_objects(store: S3Store, s3_bucket: S3Bucket) -> None:
    for key in ["data/", "data/nested/"]:
        s3_bucket.client().put_object(Bucket=s3_bucket.name, Key=key_of(store, key, s3_bucket), Body=b"")
    store.put("data/a", b"1")
    assert [found.path for found in store.list("data", recursive=True)] == ["data/a"]
    assert list(store.list_folders("data")) == ["data/nested"]


def test_few_small_reads_cost_one_request_each(watched: S3Store, proxy: S3Proxy) -> None:
    watched.put("a", bytes(10_000_000))
    proxy.seen.clear()
    watched.read("a")
    watched.read_range("a", ByteRange(9_999_000, 1000))
    watched.read_ranges("a", [ByteRange(0, 10), ByteRange(100_000, 10), ByteRange(9_000_000, 10)])
    watched.size("a")
    assert [request.method for request in proxy.seen] == ["GET"] * 4 + ["HEAD"]


def test_the_service_copies_objects(watched: S3Store, proxy: S3Proxy, store: S3Store) -> None:
    watched.put("from/a b+c", bytes(range(256)) * 20)
    proxy.seen.clear()
    assert copy_object(watched, "from/a b+c", watched, "to/d", 5120)
    assert [request.method for request in proxy.seen] == ["HEAD", "PUT"]
    assert watched.read("to/d").to_pybytes() == bytes(range(256)) * 20
    assert not copy_object(watched, "from/a b+c", watched, "to/e", 5119), "the object has another size"
    assert not copy_object(store, "from/a b+c", watched, "to/e", 5120), "another client"
    assert not copy_object(open_store("memory://copies"), "a", watched, "to/e", 1)
    with pytest.raises(NotFoundError):
        copy_object(watched, "from/none", watched, "to/e", 5120)
    assert [entry.path for entry in watched.list("to")] == ["to/d"]


@pytest.mark.slow
def test_bulk_reads_go_through_the_faster_client(watched: S3Store, proxy: S3Proxy) -> None:
    data = os.urandom(30_000_000)
    watched.put("a", data)
    key = watched._key("a")
    assert not watched._bulk.is_open(key)
    assert watched.read_range("a", ByteRange(1, 29_999_998)).to_pybytes() == data[1:-1]
    assert watched._bulk.is_open(key)
    proxy.seen.clear()
    ranges = [ByteRange(start, 100) for start in range(0, 30_000_000, 1_000_000)]
    found = watched.read_ranges("a", ranges)
    assert [buffer.to_pybytes() for buffer in found] == [data[r.start : r.stop] for r in ranges]
    assert [request.method for request in proxy.seen] == ["GET"] * 30
    watched.put("a", b"changed")
    assert not watched._bulk.is_open(key)


@pytest.mark.parametrize(
    "options",
    [
        {"config_kwargs": '{"s3": {"use_dualstack_endpoint": true}}'},
        {"client_kwargs": '{"verify": false}'},
        {"aws_request_payer": "true"},
        {"proxy_url": "http://127.0.0.1:1"},
    ],
    ids=str,
)
def test_there_is_no_faster_client_where_it_would_act_differently(options: dict[str, str]) -> None:
    store = open_store("s3://bucket/t", {"aws_endpoint": "http://127.0.0.1:1", "aws_region": "x"} | options)
    assert isinstance(store, S3Store)
    assert store._bulk.open("key") is None


@pytest.mark.slow
def test_a_faster_client_uses_the_credentials_of_the_environment(
    s3_bucket: S3Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "from-environment")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_ENDPOINT", s3_bucket.endpoint)
    store = open_store(s3_bucket.folder())
    assert isinstance(store, S3Store)
    assert store.put_if_absent("a", bytes(5_000_000)) is PutResult.CREATED
    assert store.read_range("a", ByteRange(0, 5_000_000)).size == 5_000_000
    assert store._bulk._credentials() == ("from-environment", "secret", "token")
    assert store._client.filesystem.s3.meta.region_name == "eu-west-1"
    assert store._bulk._filesystem().region == "eu-west-1"


def test_renewed_credentials_reach_the_faster_client(store: S3Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put("a", bytes(5_000_000))
    whole = ByteRange(0, 5_000_000)
    store.read_range("a", whole)
    first = store._bulk._filesystem()
    store.read_range("a", whole)
    assert store._bulk._filesystem() is first
    monkeypatch.setattr(store._bulk, "_credentials", lambda: ("new", "secret", "token"))
    renewed = store._bulk._filesystem()
    assert renewed is not first
    assert not store._bulk.is_open(store._key("a"))
    assert store.read_range("a", whole).size == 5_000_000


def test_listings_come_page_by_page(store: S3Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(7):
        store.put(f"_versions/{number}", b"x")
        store.put(f"folder {number}/x", b"x")
    pages: list[str] = []
    call = S3Client.call

    def small_pages(self: S3Client, method: str, **parameters: Any) -> Any:
        pages.append(method)
        return call(self, method, **parameters, **({"MaxKeys": 2} if method == "list_objects_v2" else {}))

    monkeypatch.setattr(S3Client, "call", small_pages)
    assert next(store.list("_versions")).path == "_versions/0"
    assert len(pages) == 1
    assert [found.path for found in store.list("_versions")] == [f"_versions/{number}" for number in range(7)]
    assert len(list(store.list("", recursive=True))) == 14
    assert list(store.list_folders("")) == ["_versions", *(f"folder {number}" for number in range(7))]


def test_an_aborted_upload_leaves_no_parts(store: S3Store, s3_bucket: S3Bucket) -> None:
    output = store.open_output("data/a")
    for _ in range(40):
        output.write(bytes(1 << 20))
    client = s3_bucket.client()
    assert len(client.list_multipart_uploads(Bucket=s3_bucket.name)["Uploads"]) == 1
    output.abort()
    assert "Uploads" not in client.list_multipart_uploads(Bucket=s3_bucket.name)


def test_a_missing_bucket(s3_bucket: S3Bucket) -> None:
    store = open_store("s3://no-such-bucket/t", s3_bucket.storage_options)
    with pytest.raises(NotFoundError):
        store.read("a")
    with pytest.raises(NotFoundError):
        list(store.list(""))
    for write in [lambda: store.put("a", b""), lambda: store.put_if_absent("a", b"")]:
        with pytest.raises(StorageError, match="bucket"):
            write()


def test_a_refused_read_is_a_failure_of_the_store(watched: S3Store, proxy: S3Proxy) -> None:
    watched.put("a", b"0123456789")
    proxy.applies_to = "GET"
    for read in [
        lambda: watched.read("a"),
        lambda: watched.read_range("a", ByteRange(0, 5)),
        lambda: list(watched.list("")),
    ]:
        proxy.troubles = [refused(403, "AccessDenied")]
        with pytest.raises(StorageError, match="on purpose"):
            read()


@pytest.mark.slow
def test_a_service_that_is_not_there(s3_bucket: S3Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "_FIRST_PAUSE_SECONDS", 0.0)
    config = {"aws_endpoint": "http://127.0.0.1:1", "client_retry_timeout": "500ms"}
    store = open_store("s3://bucket/t", s3_bucket.storage_options | config)
    with pytest.raises(StorageError, match="Could not connect"):
        store.read("a")
    with pytest.raises(StorageError, match="did not answer"):
        store.put_if_absent("a", b"1")


def test_missing_credentials(s3_bucket: S3Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    store = open_store("s3://bucket/t", {"aws_endpoint": s3_bucket.endpoint})
    for attempt in [lambda: store.read("a"), lambda: store.put_if_absent("a", b"1")]:
        with pytest.raises(StorageError, match="credentials"):
            attempt()


@pytest.mark.slow
def test_one_of_many_processes_wins(store: S3Store) -> None:
    store.put_if_absent("warm-up", b"")
    assert_one_of_many_processes_wins(store, rounds=4)


@pytest.mark.slow
def test_a_used_store_works_in_a_forked_child(store: S3Store) -> None:
    data = os.urandom(6_000_000)
    store.put("a", data)
    store.put_if_absent("b", b"1")
    assert store.read_range("a", ByteRange(0, 5_000_000)).to_pybytes() == data[:5_000_000]

    def check() -> None:
        assert store.read("a").to_pybytes() == data
        assert store.read_range("a", ByteRange(0, 5_000_000)).to_pybytes() == data[:5_000_000]
        assert store.put_if_absent("b", b"2") is PutResult.EXISTS
        assert store.put_if_absent("c", b"2") is PutResult.CREATED
        output = store.open_output("d")
        output.write(bytes(20_000_000))
        output.close()
        sys.stdout.flush()

    in_a_fork(check)
    assert store.size("d") == 20_000_000
    assert store.read("c").to_pybytes() == b"2"


def test_pylance_takes_the_same_uri_and_options(s3_bucket: S3Bucket) -> None:
    lance = pytest.importorskip("lance", reason="the reference library is not installed")
    import pyarrow as pa

    uri = f"{s3_bucket.folder()}/with%20space%23/t.lance"
    lance.write_dataset(pa.table({"a": [1, 2, 3]}), uri, storage_options=s3_bucket.storage_options)
    store = open_store(uri, s3_bucket.storage_options)
    assert [found.path for found in store.list("_versions")] == ["_versions/18446744073709551614.manifest"]
    data = next(store.list("data"))
    assert store.read_range(data.path, ByteRange(data.size - 4, 4)).to_pybytes() == b"LANC"
    assert store.put_if_absent("_versions/18446744073709551614.manifest", b"") is PutResult.EXISTS
