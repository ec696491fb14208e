"""The contract of stores on the services themselves."""

from __future__ import annotations

import uuid

import pytest

from integration.conftest import Service
from lance_spark.storage import open_store
from lance_spark.storage.base import ObjectStore
from tests.support.store_contract import StoreContract


class TestStores(StoreContract):
    @pytest.fixture
    def store(self, service: Service) -> ObjectStore:
        return open_store(f"{service.root}/{uuid.uuid4().hex}", service.options)

    def has_flat_names(self, store: ObjectStore) -> bool:
        # Two of the three keep objects in something like folders.
        return store.uri.startswith("az:")
