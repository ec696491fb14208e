from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from lance_spark.errors import InvalidInputError
from lance_spark.storage import open_store
from lance_spark.storage.base import ObjectStore
from lance_spark.storage.gcs import gcsfs_arguments
from tests.support.object_servers import fake_gcs
from tests.support.store_contract import StoreContract


@pytest.fixture(scope="module")
def gcs_options() -> Iterator[dict[str, str]]:
    with fake_gcs() as options:
        yield options


class TestGcsStore(StoreContract):
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
    assert gcsfs_arguments({"google_skip_signature": "true", "timeout": "30s"}) == {"token": "anon"}
    assert gcsfs_arguments({"google_skip_signature": "false"}) == {}
    assert gcsfs_arguments({"google_storage_token": "abc", "project": "p"}) == {"bearer": "abc", "project": "p"}
    with pytest.raises(InvalidInputError, match="did you mean 'google_service_account'"):
        gcsfs_arguments({"google_service_acount": "/key.json"})
