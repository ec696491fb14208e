"""Stores of clients that this package does not know: tried out before they are trusted with a commit."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from lance_spark.errors import StorageError
from lance_spark.storage import conditional_put, open_store
from lance_spark.storage.base import ObjectStore, PutResult
from tests.support.store_contract import StoreContract


class StrictFileSystem(MemoryFileSystem):  # type: ignore[misc]
    """Honours mode "create", and is safe among threads."""

    protocol = "strict"
    store: dict[str, Any] = {}  # noqa: RUF012
    pseudo_dirs = [""]  # noqa: RUF012

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:
        if mode == "create":
            staged = type(self)._strip_protocol(f"/staged-{uuid.uuid4().hex}")
            super().pipe_file(staged, value)
            file = self.store.pop(staged)
            if self.store.setdefault(self._strip_protocol(path), file) is not file:
                raise FileExistsError(path)
        else:
            super().pipe_file(path, value)


class OverwritingFileSystem(MemoryFileSystem):  # type: ignore[misc]
    """Takes mode "create" and ignores it."""

    protocol = "overwriting"
    store: dict[str, Any] = {}  # noqa: RUF012
    pseudo_dirs = [""]  # noqa: RUF012

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:
        super().pipe_file(path, value)


class LyingFileSystem(OverwritingFileSystem):
    """Says that the object was there, and overwrites it all the same."""

    protocol = "lying"
    store: dict[str, Any] = {}  # noqa: RUF012
    pseudo_dirs = [""]  # noqa: RUF012

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:
        existed = self.exists(path)
        super().pipe_file(path, value)
        if existed and mode == "create":
            raise FileExistsError(path)


class ModelessFileSystem(OverwritingFileSystem):
    """Does not know mode "create"."""

    protocol = "modeless"
    store: dict[str, Any] = {}  # noqa: RUF012
    pseudo_dirs = [""]  # noqa: RUF012

    def pipe_file(self, path: str, value: bytes) -> None:  # type: ignore[override]
        super().pipe_file(path, value)


class SilentFileSystem(StrictFileSystem):
    """Loses every other answer once it is told to."""

    protocol = "silent"
    store: dict[str, Any] = {}  # noqa: RUF012
    pseudo_dirs = [""]  # noqa: RUF012
    silent = False

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:
        super().pipe_file(path, value, mode, **kwargs)
        if type(self).silent:
            raise TimeoutError("no answer")


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(conditional_put, "_trusted", set())
    for client in [StrictFileSystem, OverwritingFileSystem, LyingFileSystem, ModelessFileSystem, SilentFileSystem]:
        fsspec.register_implementation(client.protocol, client, clobber=True)
        client.store.clear()
    yield
    SilentFileSystem.silent = False


class TestFsspecStore(StoreContract):
    @pytest.fixture
    def store(self) -> ObjectStore:
        return open_store(f"strict://{uuid.uuid4().hex}")

    def has_flat_names(self, store: ObjectStore) -> bool:
        return False


@pytest.mark.parametrize("scheme", ["overwriting", "lying", "modeless"])
def test_a_store_that_overwrites_is_refused_before_anything_is_written(scheme: str) -> None:
    store = open_store(f"{scheme}://x/table")
    store.put("other", b"1")
    for _ in range(2):
        with pytest.raises(StorageError, match="only if"):
            store.put_if_absent("_versions/1.manifest", b"ours")
    assert [found.path for found in store.list("", recursive=True)] == ["other"]


def test_what_is_not_answered_is_unknown() -> None:
    store = open_store("silent://x/table")
    assert store.put_if_absent("a", b"1") is PutResult.CREATED
    SilentFileSystem.silent = True
    assert store.put_if_absent("b", b"1") is PutResult.UNKNOWN
    SilentFileSystem.silent = False
    assert store.read("b").to_pybytes() == b"1"


def test_the_trial_leaves_nothing_and_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store("strict://x/table")
    calls: list[str] = []
    pipe_file = StrictFileSystem.pipe_file

    def counted(self: Any, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:
        calls.append(mode)
        pipe_file(self, path, value, mode, **kwargs)

    monkeypatch.setattr(StrictFileSystem, "pipe_file", counted)
    store.put_if_absent("a", b"1")
    store.put_if_absent("b", b"1")
    open_store("strict://x/other table").put_if_absent("c", b"1")
    assert calls == ["create"] * 5
    names = sorted(name.removeprefix("strict://") for name in StrictFileSystem.store)
    assert names == ["x/other table/c", "x/table/a", "x/table/b"]


def test_options_reach_the_client() -> None:
    seen: dict[str, Any] = {}

    class Wanting(StrictFileSystem):
        protocol = "wanting"

        def __init__(self, **options: Any) -> None:
            super().__init__()
            seen.update(options)

    fsspec.register_implementation("wanting", Wanting, clobber=True)
    store = open_store("wanting://x/y", {"password": "12345", "secure": "true", "extra": '{"a": 1}', "odd": "{"})
    store.put("a", b"1")
    expected = {"password": "12345", "secure": True, "extra": {"a": 1}, "odd": "{", "use_listings_cache": False}
    assert seen == expected


def test_an_option_that_the_client_does_not_know() -> None:
    pytest.importorskip("aiohttp", reason="aiohttp is not installed")
    store = open_store("http://127.0.0.1:1/t", {"aws_access_key_id": "hunter2"})
    with pytest.raises(StorageError, match=r"http://127\.0\.0\.1:1/t.* argument 'aws_access_key_id'") as caught:
        store.read("a")
    assert "hunter2" not in str(caught.value)
