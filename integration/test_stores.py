"""The contract of stores on the services themselves."""

from __future__ import annotations

import uuid

import pytest

from integration.conftest import Service
from lance_spark.storage import open_store
from lance_spark.storage.base import ObjectStore
from tests.support.store_contract import StoreContract


class TestStores(StoreContract):
    copies_objects = True

    @pytest.fixture
    def store(self, service: Service) -> ObjectStore:
        return open_store(f"{service.root}/{uuid.uuid4().hex}", service.options)

    def has_flat_names(self, store: ObjectStore) -> bool:
        # Two of the three keep objects in something like folders.
        return store.uri.startswith("az:")

    def test_lists_a_folder_in_order(self, store: ObjectStore) -> None:
        self.skip_where_folders_come_first(store)
        super().test_lists_a_folder_in_order(store)

    def test_lists_folders(self, store: ObjectStore) -> None:
        self.skip_where_folders_come_first(store)
        super().test_lists_folders(store)

    def skip_where_folders_come_first(self, store: ObjectStore) -> None:
        if store.uri.startswith("s3:"):
            # Names within one folder are in order, and no more is needed of `_versions/`.
            pytest.skip("SeaweedFS lists a/x before a-b/x: folder by folder, not by the bytes of keys as S3 does")
