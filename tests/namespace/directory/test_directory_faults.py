"""What is left when the store fails in the middle of a change."""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Callable, Mapping

import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import AlreadyExistsError, CommitStateUnknownError, StorageError
from lance_spark.namespace.directory import catalog_table, listing, places
from lance_spark.namespace.directory.namespace import DirectoryNamespace
from lance_spark.storage import open_store
from lance_spark.storage.base import ObjectStore
from lance_spark.storage.faults import Fault, FaultStore, Harm
from lance_spark.table import location
from lance_spark.table.commits.commit import RetryPolicy

Failing = Callable[..., DirectoryNamespace]


@pytest.fixture
def root() -> str:
    return f"memory://{uuid.uuid4().hex}"


@pytest.fixture
def failing(root: str, monkeypatch: pytest.MonkeyPatch) -> Failing:
    """Makes a namespace whose stores fail in the given ways; stores that are opened later do not."""
    few = RetryPolicy(max_attempts=3, max_requests=3, sleep=lambda _: None)
    monkeypatch.setattr(catalog_table, "RetryPolicy", lambda: few)

    def make(*faults: Fault) -> DirectoryNamespace:
        def open_failing(uri: str, storage_options: Mapping[str, str] | None = None) -> ObjectStore:
            return FaultStore(open_store(uri, storage_options), faults)

        with monkeypatch.context() as patch:
            patch.setattr(location, "open_store", open_failing)
            patch.setattr(places, "open_store", open_failing)
            return DirectoryNamespace(root)

    return make


def objects(root: str) -> set[str]:
    return {
        entry.path for entry in open_store(root).list("", recursive=True) if not entry.path.startswith("__manifest")
    }


def write(uri: str) -> None:
    lance_spark.write(pa.table({"a": [1]}), uri)


def test_a_commit_that_fails_leaves_no_directory(root: str, failing: Failing) -> None:
    DirectoryNamespace(root).create_namespace(("n",))
    for identifier in (("t",), ("n", "t")):
        with pytest.raises(StorageError):
            failing(Fault("put_if_absent", path_part="_versions")).declare_table(identifier)
        assert objects(root) == set()
        assert not DirectoryNamespace(root).table_exists(identifier)


def test_a_commit_in_doubt_keeps_the_directory(root: str, failing: Failing) -> None:
    DirectoryNamespace(root).create_namespace(("n",))
    lost = Fault("put_if_absent", Harm.ANSWER_LOST, path_part="_versions")
    blind = Fault("read", nth=2, times=1000, path_part="_versions")
    with pytest.raises(CommitStateUnknownError):
        failing(lost, blind).declare_table(("n", "t"))
    entry = DirectoryNamespace(root).table_location(("n", "t"))
    assert {f"{root}/{path}" for path in objects(root)} == {f"{entry.uri}/.lance-reserved"}


def test_a_lost_answer_is_no_failure(root: str, failing: Failing) -> None:
    for turn, harm in enumerate((Harm.ANSWER_LOST, Harm.SENT_TWICE, Harm.NOT_SENT)):
        failing(Fault("put_if_absent", harm, path_part="_versions")).create_namespace((f"n{turn}",))
    assert DirectoryNamespace(root).list_namespaces() == ["n0", "n1", "n2"]


@pytest.mark.parametrize("harm", [Harm.ANSWER_LOST, Harm.SENT_TWICE, Harm.NOT_SENT])
def test_a_reservation_whose_reply_is_lost_is_ours(root: str, failing: Failing, harm: Harm) -> None:
    entry = failing(Fault("put_if_absent", harm, path_part=".lance-reserved")).declare_table(("t",))
    assert entry.uri == f"{root}/t.lance"
    with pytest.raises(AlreadyExistsError):
        DirectoryNamespace(root).declare_table(("t",))


def test_a_reservation_in_doubt_makes_no_table(root: str, failing: Failing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "_POLICY", RetryPolicy(max_requests=3, sleep=lambda _: None))
    with pytest.raises(StorageError, match="reserved"):
        failing(Fault("put_if_absent", Harm.NOT_SENT, times=3, path_part=".lance-reserved")).declare_table(("t",))
    assert DirectoryNamespace(root).list_tables() == []


def test_a_reservation_that_another_writer_has_is_not_ours(root: str, failing: Failing) -> None:
    """The other one is first after the listing, and our own request then gets no answer."""
    marker = f"t.lance/{listing.RESERVED_MARKER}"
    first = Fault("put_if_absent", Harm.ANSWER_LOST, path_part=marker, run=lambda: open_store(root).put(marker, b""))
    with pytest.raises(AlreadyExistsError):
        failing(first).declare_table(("t",))
    assert bytes(open_store(root).read(marker)) == b""


def test_a_marker_that_cannot_be_removed_does_not_hide_why_the_commit_failed(root: str, failing: Failing) -> None:
    faults = Fault("put_if_absent", path_part="_versions"), Fault("delete", path_part=".lance-reserved")
    with pytest.raises(StorageError, match="put_if_absent"):
        failing(*faults).declare_table(("t",))


def test_a_drop_that_fails_changes_nothing(root: str, failing: Failing) -> None:
    namespace = DirectoryNamespace(root)
    write(namespace.declare_table(("t",)).uri)
    before = objects(root)
    with pytest.raises(StorageError):
        failing(Fault("put_if_absent", path_part="_versions")).drop_table(("t",), purge=True)
    assert objects(root) == before
    assert DirectoryNamespace(root, manifest=False).list_tables() == namespace.list_tables() == ["t"]


def test_files_that_cannot_be_deleted_do_not_come_back_as_a_table(root: str, failing: Failing) -> None:
    namespace = DirectoryNamespace(root)
    old = namespace.declare_table(("t",)).uri
    write(old)
    with pytest.raises(StorageError, match="the table is dropped"):
        failing(Fault("delete", path_part="data/")).drop_table(("t",), purge=True)
    assert namespace.list_tables() == []
    assert DirectoryNamespace(root, manifest=False).list_tables() == []
    new = namespace.declare_table(("t",))
    assert new.uri != old
    assert new.is_declared


def test_a_namespace_whose_tables_cannot_be_deleted_is_gone_all_the_same(root: str, failing: Failing) -> None:
    namespace = DirectoryNamespace(root)
    namespace.create_namespace(("n",))
    for name in ("a", "b"):
        write(namespace.declare_table(("n", name)).uri)
    with pytest.raises(StorageError, match="dropped"):
        failing(Fault("delete", path_part="data/")).drop_namespace(("n",), cascade=True, purge=True)
    assert namespace.list_namespaces() == []


def test_namespaces_and_tables_travel(root: str) -> None:
    namespace = DirectoryNamespace(root)
    entry = namespace.declare_table(("t",), properties={"k": "v"})
    assert pickle.loads(pickle.dumps(entry)) == entry
    assert pickle.loads(pickle.dumps(namespace)).table_location(("t",)) == entry
