from __future__ import annotations

import pytest

from lance_spark.storage import open_store
from lance_spark.storage.base import ObjectStore
from tests.support.store_contract import StoreContract


class TestLocalStore(StoreContract):
    @pytest.fixture
    def store(self, tmp_path) -> ObjectStore:
        return open_store(str(tmp_path / "table"))

    def has_flat_names(self, store: ObjectStore) -> bool:
        return False
