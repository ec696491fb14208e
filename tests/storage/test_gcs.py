from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from lance_spark.errors import InvalidInputError, StorageError
from lance_spark.storage import open_store, patience
from lance_spark.storage.base import ObjectStore, PutResult
from lance_spark.storage.gcs import gcsfs_arguments
from lance_spark.storage.per_process import PerProcess
from tests.support.object_servers import fake_gcs
from tests.support.store_contract import StoreContract


@pytest.fixture(scope="module")
def gcs_options() -> Iterator[dict[str, str]]:
    with fake_gcs() as options:
        yield options


class TestGcsStore(StoreContract):
    copies_objects = True

    @pytest.fixture
    def store(self, gcs_options: dict[str, str]) -> ObjectStore:
        return open_store(f"gs://lance-tests/{uuid.uuid4().hex}", gcs_options)

    def has_flat_names(self, store: ObjectStore) -> bool:
        # The emulator keeps objects in files.
        return False


def test_understands_the_names_of_the_lance_libraries() -> None:
    assert gcsfs_arguments({"GOOGLE_SERVICE_ACCOUNT": "/key.json"}) == {"token": "/key.json"}
    assert gcsfs_arguments({"google_service_account_key": '{"type": "service_account"}'}) == {
        "token": {"type": "service_account"}
    }
    assert gcsfs_arguments({"google_skip_signature": "true", "user_agent": "x"}) == {"token": "anon"}
    assert gcsfs_arguments({"timeout": "30s", "connect_timeout": "2s", "client_retry_timeout": "1m"}) == {
        "read_seconds": 30.0,
        "connect_seconds": 2.0,
        "client_retry_timeout": 60.0,
    }
    assert gcsfs_arguments({"google_skip_signature": "false"}) == {}
    assert gcsfs_arguments({"google_storage_token": "abc", "project": "p"}) == {"bearer": "abc", "project": "p"}
    with pytest.raises(InvalidInputError, match="did you mean 'google_service_account'"):
        gcsfs_arguments({"google_service_acount": "/key.json"})


def test_what_a_failed_commit_says(monkeypatch: pytest.MonkeyPatch) -> None:
    retry = pytest.importorskip("gcsfs.retry", reason="gcsfs is not installed")
    store = open_store("gs://bucket/t", {"google_skip_signature": "true"})
    errors: list[BaseException] = []

    class Client:
        def pipe_file(self, *_: object, **__: object) -> None:
            raise errors[0]

    monkeypatch.setattr(store, "_filesystem", PerProcess(Client))
    monkeypatch.setattr(patience, "_FIRST_PAUSE_SECONDS", 0.0)
    http = [retry.HttpError({"code": code, "message": "no"}) for code in (500, 503, 429, 408)]
    for error in [*http, TimeoutError(), ConnectionResetError()]:
        errors[:] = [error]
        assert store.create("a", b"") is PutResult.UNKNOWN
    errors[:] = [FileExistsError()]
    assert store.create("a", b"") is PutResult.EXISTS
    for error in [retry.HttpError({"code": 401}), OSError("Forbidden: x"), FileNotFoundError(), ValueError("Bad")]:
        errors[:] = [error]
        with pytest.raises(StorageError):
            store.create("a", b"")
