from __future__ import annotations

import uuid

import pytest

from lance_spark.storage import open_store
from lance_spark.storage.base import ObjectStore
from tests.support.store_contract import StoreContract


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def store(self) -> ObjectStore:
        return open_store(f"memory://{uuid.uuid4().hex}")


def test_is_shared_in_the_process() -> None:
    name = uuid.uuid4().hex
    open_store(f"memory://{name}").put("t.lance/data/a", b"1")
    assert open_store(f"memory://{name}/").read("t.lance/data/a").to_pybytes() == b"1"
    assert open_store(f"memory://{name}/t.lance").read("data/a").to_pybytes() == b"1"
    assert list(open_store(f"memory://{name}x").list("", recursive=True)) == []
