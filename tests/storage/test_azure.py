from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from lance_spark.errors import InvalidInputError, StorageError
from lance_spark.storage import open_store, patience
from lance_spark.storage.azure import adlfs_arguments
from lance_spark.storage.base import ObjectStore, PutResult
from lance_spark.storage.per_process import PerProcess
from tests.support.object_servers import azurite
from tests.support.store_contract import StoreContract


@pytest.fixture(scope="module")
def azure_options(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with azurite(str(tmp_path_factory.mktemp("azurite"))) as options:
        yield options


class TestAzureStore(StoreContract):
    copies_objects = True

    @pytest.fixture
    def store(self, azure_options: dict[str, str]) -> ObjectStore:
        return open_store(f"az://lance-tests/{uuid.uuid4().hex}", azure_options)


def test_understands_the_names_of_the_lance_libraries() -> None:
    expected = {"account_name": "a", "account_key": "k"}
    assert adlfs_arguments({"account_name": "a", "account_key": "k"}, "") == expected
    assert adlfs_arguments({"AZURE_STORAGE_ACCOUNT_NAME": "a", "azure_storage_account_key": "k"}, "") == expected
    assert adlfs_arguments({"access_key": "k"}, "a.dfs.core.windows.net") == expected
    assert adlfs_arguments({"azure_storage_sas_key": "?sv=1"}, "a.x") == {"account_name": "a", "sas_token": "?sv=1"}
    assert "BlobEndpoint=http://h/a;" in adlfs_arguments(expected | {"endpoint": "http://h/a"}, "")["connection_string"]
    own = {"read_seconds": 30.0, "connect_seconds": 2.0, "client_retry_timeout": 60.0}
    times = {"timeout": "30s", "connect_timeout": "2s", "client_retry_timeout": "1m"}
    assert adlfs_arguments(times, "") == own
    assert own.items() <= adlfs_arguments(expected | times | {"endpoint": "http://h/a"}, "").items()
    with pytest.raises(InvalidInputError, match="account_key"):
        adlfs_arguments({"account_name": "a", "endpoint": "http://h/a"}, "")
    for host in ("2130706433#", "a/b", "a:80", ".x"):
        with pytest.raises(InvalidInputError, match="names no Azure account"):
            adlfs_arguments({}, host)
    with pytest.raises(InvalidInputError, match="'other', option account_name another"):
        adlfs_arguments({"account_name": "a"}, "other.dfs.core.windows.net")
    with pytest.raises(InvalidInputError, match="did you mean 'account_name'"):
        adlfs_arguments({"acount_name": "a"}, "")


def test_what_a_failed_commit_says(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("adlfs", reason="adlfs is not installed")
    azure = pytest.importorskip("azure.core.exceptions")
    store = open_store("az://container/t", {"account_name": "a", "account_key": "a2V5"})
    errors: list[BaseException] = []

    class Client:
        def pipe_file(self, *_: object, **__: object) -> None:
            raise errors[0]

    def answered(status: int) -> BaseException:
        error = azure.HttpResponseError("no")
        error.status_code = status
        return error

    monkeypatch.setattr(store, "_filesystem", PerProcess(Client))
    monkeypatch.setattr(patience, "_FIRST_PAUSE_SECONDS", 0.0)
    for error in [answered(500), answered(503), answered(408), azure.ServiceResponseError("lost"), TimeoutError()]:
        errors[:] = [error]
        assert store.create("a", b"") is PutResult.UNKNOWN
    for error in [FileExistsError(), answered(412)]:
        errors[:] = [error]
        assert store.create("a", b"") is PutResult.EXISTS
    for error in [answered(403), answered(404), FileNotFoundError(), ValueError("Bad")]:
        errors[:] = [error]
        with pytest.raises(StorageError):
            store.create("a", b"")
