from __future__ import annotations

import pickle
import subprocess
import sys

import pytest

from lance_spark.errors import InvalidInputError, LanceError, StorageError
from lance_spark.storage import open_manifest_table, open_store
from lance_spark.storage.azure import AzureStore
from lance_spark.storage.local.store import LocalStore
from lance_spark.storage.manifest_table import ManifestTable
from lance_spark.storage.memory import MemoryStore
from lance_spark.storage.s3.store import S3Store


def test_the_scheme_decides() -> None:
    assert isinstance(open_store("/tmp/t"), LocalStore)
    assert isinstance(open_store("file:///tmp/t"), LocalStore)
    assert isinstance(open_store("memory://t"), MemoryStore)
    for scheme in ["s3", "s3a", "s3n"]:
        assert isinstance(open_store(f"{scheme}://bucket/t"), S3Store)


@pytest.mark.parametrize("uri", ["/tmp/t", "file:///tmp/t", "memory://x/t", "s3a://bucket/t", "s3://bucket"])
def test_the_uri_is_kept_as_given(uri: str) -> None:
    assert open_store(uri).uri == uri
    assert open_store(f"{uri}/").uri == uri


def test_opening_sends_no_request() -> None:
    open_store("s3://bucket/t", {"aws_endpoint": "http://127.0.0.1:1"})


@pytest.mark.parametrize(
    ("uri", "package", "extra"),
    [("s3://b/t", "s3fs", "s3"), ("gs://b/t", "gcsfs.core", "gcs"), ("az://c/t", "adlfs", "azure")],
)
def test_a_missing_client_is_named(uri: str, package: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package.partition(".")[0], None)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(StorageError, match=rf"pip install 'lance-spark\[{extra}\]'"):
        open_store(uri)


def test_unknown_schemes() -> None:
    with pytest.raises(InvalidInputError, match="nonsense"):
        open_store("nonsense://x/y")


def test_a_dynamodb_table_beside_the_bucket() -> None:
    store = open_store("s3+ddb://bucket/t?ddbTableName=x")
    assert isinstance(store, S3Store)
    assert store.uri == "s3://bucket/t"
    assert open_manifest_table("s3://bucket/t") is None
    assert open_manifest_table("/tmp/t") is None
    for uri, options in [
        ("s3+ddb://bucket/a%20b/t/?ddbTableName=x", {}),
        ("s3+ddb://bucket/a%20b/t", {"DDB_table_name": "x"}),
        ("s3://bucket/a%20b/t/", {"ddb_table_name": "x", "dynamodb_endpoint": "http://127.0.0.1:1"}),
    ]:
        table = open_manifest_table(uri, options)
        assert isinstance(table, ManifestTable)
        assert table.description == "the DynamoDB table 'x', base_uri 'a b/t'"
        assert pickle.loads(pickle.dumps(table)).description == table.description


@pytest.mark.parametrize(
    ("uri", "options"),
    [
        ("s3+ddb://bucket/t", {}),
        ("s3+ddb://bucket/t?ddbTableName=", {}),
        ("s3+ddb://bucket/t?ddbTableName=x&ddbTableName=y", {}),
        ("s3+ddb://bucket/t?table=x", {}),
        ("s3+ddb://bucket/t?ddbTableName=x#y", {}),
        ("s3+ddb://bucket/t?ddbTableName=x", {"ddb_table_name": "y"}),
        ("s3+ddb://bucket?ddbTableName=x", {}),
        ("/tmp/t", {"ddb_table_name": "x"}),
    ],
)
def test_uris_that_name_no_dynamodb_table(uri: str, options: dict[str, str]) -> None:
    with pytest.raises(InvalidInputError):
        open_manifest_table(uri, options)


def test_options_are_text_and_known() -> None:
    with pytest.raises(InvalidInputError, match="strings"):
        open_store("/tmp/t", {"a": 1})  # type: ignore[dict-item]
    with pytest.raises(InvalidInputError, match="did you mean 'aws_access_key_id'"):
        open_store("s3://bucket/t", {"aws_acces_key_id": "x"})


def test_a_pickled_store_has_no_client() -> None:
    store = open_store("s3://bucket/t", {"aws_region": "us-east-1"})
    assert isinstance(store, S3Store)
    store._client.filesystem.s3  # noqa: B018
    data = pickle.dumps(store)
    assert len(data) < 500
    assert pickle.loads(data).uri == store.uri


def test_a_secret_is_in_no_message() -> None:
    options = {"aws_secret_access_key": "hunter2", "secret": "hunter3"}
    with pytest.raises(LanceError) as caught:
        open_store("s3://bucket/t", options)
    assert "hunter" not in str(caught.value)
    assert "hunter" not in repr(open_store("s3://bucket/t", {"aws_secret_access_key": "hunter2"}))


def test_local_stores_import_no_client() -> None:
    code = (
        "import sys; from lance_spark.storage import open_store; open_store('/tmp/t'); open_store('memory://t');"
        "found = {'fsspec', 's3fs', 'botocore', 'aiohttp', 'pyarrow.fs', 'numba', 'pyspark'} & sys.modules.keys();"
        "assert not found, found"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_azure_takes_the_container_from_the_uri() -> None:
    pytest.importorskip("adlfs", reason="adlfs is not installed")
    store = open_store("abfss://c@account.dfs.core.windows.net/p", {"account_key": "a2V5"})
    assert isinstance(store, AzureStore)
    assert store._key("x") == "c/p/x"
