from __future__ import annotations

import pytest

from lance_spark.storage import open_store
from lance_spark.storage.base import ObjectStore
from tests.support.moto import S3Bucket
from tests.support.store_contract import StoreContract


class TestS3Store(StoreContract):
    @pytest.fixture
    def store(self, s3_bucket: S3Bucket) -> ObjectStore:
        return open_store(s3_bucket.folder(), s3_bucket.storage_options)
