"""Credentials that a catalog sends and that end: S3 of moto, which refuses those that have ended."""

from __future__ import annotations

import pickle
import time
import uuid
from collections.abc import Iterator
from functools import partial

import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import InvalidInputError, StorageError
from lance_spark.namespace.opening import renewed
from lance_spark.storage.http_parts import HttpLimits
from lance_spark.storage.renewal import early_seconds
from lance_spark.storage.s3.renewed import metadata_of
from tests.support.moto import S3Bucket
from tests.support.object_servers import fake_gcs
from tests.support.vending_server import Vending, vending, vending_in

ONE = pa.table({"a": [1]})


@pytest.fixture
def vendor(s3_bucket: S3Bucket) -> Iterator[Vending]:
    with vending(s3_bucket, life_seconds=1.5) as seen:
        yield seen


def check_three_lives(vendor: Vending) -> None:
    """Appends to a table for three lives of its credentials."""
    table = lance_spark.connect(vendor.uri, impl="rest").create_table("t", ONE)
    sent = pickle.dumps(table)
    began = time.monotonic()
    while time.monotonic() < began + 3 * vendor.life_seconds:
        table = table.append(ONE)
        assert table.count_rows() == table.version
        time.sleep(0.2)
    assert pickle.loads(sent).count_rows() == 1, "as a task that begins late"
    assert vendor.refused == []
    assert len(vendor.issued) < 20, "not for each request"


def test_a_table_stays_open_for_three_lives_of_its_credentials(vendor: Vending) -> None:
    check_three_lives(vendor)


def test_one_write_outlives_three_credentials(vendor: Vending) -> None:
    catalog = lance_spark.connect(vendor.uri, impl="rest")

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(10):
            time.sleep(0.5)
            yield pa.record_batch({"a": [number]})

    reader = pa.RecordBatchReader.from_batches(pa.schema([("a", pa.int64())]), batches())
    table = catalog.create_table("slow", reader)
    assert table.to_table()["a"].to_pylist() == list(range(10))
    assert vendor.refused == []


def test_a_catalog_that_is_down_is_named(vendor: Vending, monkeypatch: pytest.MonkeyPatch) -> None:
    impatient = partial(HttpLimits, retry_seconds=0.1, silence_seconds=0.1)
    monkeypatch.setattr("lance_spark.storage.json_server.HttpLimits", impatient)
    table = lance_spark.connect(vendor.uri, impl="rest").create_table("t", ONE)
    vendor.is_out = True
    time.sleep(vendor.life_seconds)
    with pytest.raises(StorageError, match=r"says of t: on purpose") as failure:
        table.append(ONE)
    assert "secret-of" not in str(failure.value)
    vendor.is_out = False
    assert table.append(ONE).count_rows() == 2


def test_tokens_of_google_are_renewed() -> None:
    def options(key: str, endpoint: str) -> dict[str, str]:
        return {"google_storage_token": key, "endpoint_url": endpoint}

    folder = f"gs://lance-tests/{uuid.uuid4().hex}"
    with fake_gcs() as store, vending_in(folder, store["endpoint_url"], options, 1.5) as vendor:
        check_three_lives(vendor)


def test_how_early_credentials_are_renewed() -> None:
    now = time.time()
    assert early_seconds({"expires_at_millis": str(int((now + 3600) * 1000))}) == 60.0
    assert 0.8 < early_seconds({"expires_at_millis": str(int((now + 3) * 1000))}) <= 1.0
    assert early_seconds({"expires_at_millis": str(int((now - 9) * 1000))}) == 0.0


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"aws_access_key_id": "k", "aws_secret_access_key": "s"},
        {"aws_access_key_id": "k", "aws_secret_access_key": "s", "expires_at_millis": "soon"},
        {"aws_access_key_id": "k", "expires_at_millis": "1"},
    ],
)
def test_credentials_that_are_none(options: dict[str, str]) -> None:
    with pytest.raises(StorageError, match="the catalog sends no credentials"):
        metadata_of(options)


@pytest.mark.parametrize("text", ["x", "{}", '{"place": {}, "identifier": []}', '{"place": 3}'])
def test_the_option_is_for_catalogs_only(text: str) -> None:
    with pytest.raises(InvalidInputError, match="is set by catalogs only"):
        renewed(text)
