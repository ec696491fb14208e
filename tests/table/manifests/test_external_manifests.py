"""Commits through a table of entries beside the store: every step can fail, be killed, or be taken by another."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import (
    CommitStateUnknownError,
    CorruptFileError,
    NotFoundError,
    StorageError,
)
from lance_spark.storage.faults import Fault, FaultStore, Harm
from lance_spark.storage.manifest_table import ManifestEntry, ManifestTable
from lance_spark.table.commits.commit import RetryPolicy
from lance_spark.table.dataset import Dataset
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.external_manifests import ExternalManifests
from lance_spark.table.manifests.history import History
from lance_spark.table.paths import ManifestNaming
from lance_spark.table.writing.row_source import RowSource
from lance_spark.table.writing.save import CommitOptions
from tests.support.manifest_tables import MemoryManifestTable, TableFault, TableHarm
from tests.support.row_verbs import save
from tests.support.threads import all_at_once

NO_WAIT = RetryPolicy(sleep=lambda seconds: None)
CREATE = "create"


def rows(*values: int) -> pa.Table:
    return pa.table({"a": pa.array(values, pa.int64())})


class Shared:
    """A table with its entries. Each `location` is another writer or reader."""

    def __init__(self, uri: str | None = None) -> None:
        self.uri = uri or f"memory://external-{uuid.uuid4().hex}"
        self.table = MemoryManifestTable()

    def location(
        self, faults: Sequence[Fault] = (), table_faults: Sequence[TableFault] = (), table: ManifestTable | None = None
    ) -> TableLocation:
        location = TableLocation(self.uri)
        location.store = FaultStore(location.store, faults)
        entries = table or self.table.with_faults(*table_faults)
        location.history = History(location.store, ExternalManifests(location.store, entries))
        return location

    def append(self, *values: int, at: TableLocation | None = None) -> int:
        options = CommitOptions(policy=NO_WAIT)
        return save(at or self.location(), RowSource.of(rows(*values)), mode="append", options=options).version

    def values(self) -> list[int]:
        location = self.location()
        return sorted(Dataset(location, location.history.load_latest().manifest).to_table()["a"].to_pylist())

    def names(self) -> list[str]:
        return sorted(entry.path for entry in TableLocation(self.uri).store.list("_versions"))

    def check_settled(self, *versions: int) -> None:
        """Every entry names its final manifest, and nothing is left over."""
        paths = {version: ManifestNaming.V2.path(version) for version in versions}
        assert {version: entry.path for version, entry in self.table.entries.items()} == paths
        assert self.names() == sorted(paths.values())


@pytest.fixture
def shared() -> Shared:
    shared = Shared()
    shared.append(0)
    return shared


def test_the_memory_table_is_a_manifest_table() -> None:
    assert isinstance(MemoryManifestTable(), ManifestTable)


def test_a_commit_takes_all_five_steps(shared: Shared) -> None:
    assert shared.append(1) == 2
    shared.check_settled(1, 2)
    assert shared.values() == [0, 1]
    assert lance_spark.open(shared.uri).version == 2, "whoever knows nothing of the entries sees the same"
    size = shared.table.entries[2].size
    assert size == TableLocation(shared.uri).store.size(ManifestNaming.V2.path(2))
    assert shared.location().history.manifest_size(2) == size


@pytest.mark.parametrize("harm", [TableHarm.ANSWER_LOST, TableHarm.SENT_TWICE, TableHarm.NOT_SENT, TableHarm.LATE])
@pytest.mark.parametrize("times", [1, 3])
def test_a_lost_reply_gives_exactly_one_version(shared: Shared, harm: TableHarm, times: int) -> None:
    location = shared.location(table_faults=[TableFault(CREATE, harm, times=times)])
    assert shared.append(1, at=location) == 2
    assert shared.append(2) == 3
    assert shared.values() == [0, 1, 2]
    assert [number.version for number in Dataset(location, location.at(3).manifest).versions()] == [1, 2, 3]
    for version in (1, 2, 3):
        assert shared.table.entries[version].path == ManifestNaming.V2.path(version)


def test_a_lost_reply_after_which_a_reader_finished_the_version(shared: Shared) -> None:
    fault = TableFault("get", None, run=lambda: shared.location().latest())
    location = shared.location(table_faults=[TableFault(CREATE, TableHarm.SENT_TWICE), fault])
    assert shared.append(1, at=location) == 2
    assert shared.values() == [0, 1]
    shared.check_settled(1, 2)


def test_a_version_taken_by_another_writer(shared: Shared) -> None:
    for harm in (None, TableHarm.NOT_SENT):
        location = shared.location(table_faults=[TableFault(CREATE, harm, run=lambda: shared.append(7))])
        shared.append(1, at=location)
    assert shared.values() == [0, 1, 1, 7, 7]
    shared.check_settled(1, 2, 3, 4, 5)


def test_a_table_that_never_answers_leaves_everything_in_place(shared: Shared) -> None:
    location = shared.location(table_faults=[TableFault(CREATE, TableHarm.NOT_SENT, times=1000)])
    with pytest.raises(CommitStateUnknownError):
        shared.append(1, at=location)
    assert len(shared.names()) > 1, "the entry may still arrive, and then it needs the staged manifest"
    # It does arrive.
    staged = next(name for name in shared.names() if not name.endswith(".manifest"))
    shared.table.entries[2] = ManifestEntry(2, staged)
    assert shared.values() == [0, 1]


def test_an_answer_that_cannot_be_checked_is_unknown(shared: Shared) -> None:
    faults = [TableFault(CREATE, TableHarm.SENT_TWICE), TableFault("get", times=1000)]
    with pytest.raises(CommitStateUnknownError):
        shared.append(1, at=shared.location(table_faults=faults))
    assert shared.values() == [0, 1]


@pytest.mark.parametrize(
    ("faults", "table_faults"),
    [
        ([Fault("put", path_part="_versions/")], []),
        ([Fault("put", Harm.FAILS_AFTERWARDS, path_part="_versions/")], []),
        ([Fault("size", path_part="_versions/")], []),
        ([], [TableFault(CREATE)]),
        ([], [TableFault("latest", nth=2)]),
    ],
)
def test_a_failure_before_the_commit_leaves_nothing_behind(
    shared: Shared, faults: list[Fault], table_faults: list[TableFault]
) -> None:
    with pytest.raises(StorageError):
        shared.append(1, at=shared.location(faults, table_faults))
    shared.check_settled(1)
    assert shared.values() == [0]
    assert len(list(TableLocation(shared.uri).store.list("data"))) == 1


@pytest.mark.parametrize(
    ("faults", "table_faults"),
    [
        ([Fault("put", path_part="_versions/", nth=2)], []),
        ([Fault("put", Harm.FAILS_AFTERWARDS, path_part="_versions/", nth=2)], []),
        ([Fault("delete", path_part="_versions/")], []),
        ([Fault("delete", Harm.FAILS_AFTERWARDS, path_part="_versions/")], []),
        ([], [TableFault("replace")]),
        ([], [TableFault("replace", TableHarm.FAILS_AFTERWARDS)]),
    ],
)
def test_a_failure_after_the_commit_is_none(
    shared: Shared, faults: list[Fault], table_faults: list[TableFault]
) -> None:
    assert shared.append(1, at=shared.location(faults, table_faults)) == 2
    assert shared.values() == [0, 1]
    assert shared.append(2) == 3
    assert shared.values() == [0, 1, 2]
    assert {entry.path for entry in shared.table.entries.values()} == {ManifestNaming.V2.path(v) for v in (1, 2, 3)}


class Killed(BaseException):
    """What no code catches, like a signal that cannot be caught."""


def _kill() -> None:
    raise Killed


def _calls(shared: Shared) -> list[tuple[str, int]]:
    """(operation, which of its calls) of every call that an append makes."""
    made: list[tuple[str, int]] = []
    operations = ["list", "read", "size", "put", "open_output", "write", "close", "delete", "read_range"]

    def note(name: str) -> Callable[[], None]:
        return lambda: made.append((name, sum(known == name for known, _ in made) + 1))

    faults = [Fault(name, Harm.NONE, times=1000, run=note(name)) for name in operations]
    table_faults = [
        TableFault(name, None, times=1000, run=note(f"table.{name}")) for name in ("latest", "get", CREATE, "replace")
    ]
    shared.append(1, at=shared.location(faults, table_faults))
    return made


def _crashing(shared: Shared, name: str, nth: int) -> TableLocation:
    if name.startswith("table."):
        return shared.location(table_faults=[TableFault(name.removeprefix("table."), None, nth=nth, run=_kill)])
    return shared.location([Fault(name, Harm.NONE, nth=nth, run=_kill)])


@pytest.mark.slow
def test_a_writer_that_is_killed_before_any_step(shared: Shared) -> None:
    calls = _calls(shared)
    assert {"table.create", "table.replace", "put", "delete"} <= {name for name, _ in calls}
    committed = []
    for name, nth in calls:
        victim = Shared()
        victim.append(0)
        with pytest.raises(Killed):
            victim.append(1, at=_crashing(victim, name, nth))
        found = victim.values()
        assert found in ([0], [0, 1]), (name, nth)
        committed.append(found == [0, 1])
        number = len(victim.table.entries)
        assert victim.append(2) == number + 1
        assert victim.values() == sorted([*found, 2]), (name, nth)
        assert all(entry.path.endswith(".manifest") for entry in victim.table.entries.values())
        # Who reads without the entries sees the same versions.
        plain = lance_spark.open(victim.uri)
        assert sorted(plain.to_table()["a"].to_pylist()) == victim.values()
    # Before the entry is created nothing is committed, and from then on everything is.
    assert committed == sorted(committed)
    assert sum(committed) >= 3


def test_a_reader_finishes_what_a_killed_writer_began(shared: Shared) -> None:
    with pytest.raises(Killed):
        shared.append(1, at=_crashing(shared, "put", 3))
    assert not shared.table.entries[2].path.endswith(".manifest")
    assert lance_spark.open(shared.uri).version == 1
    assert {entry.version for entry in shared.location().history.locations()} == {1, 2}
    shared.check_settled(1, 2)
    assert lance_spark.open(shared.uri).version == 2


def test_a_version_that_is_not_finished_can_be_read_by_its_number(shared: Shared) -> None:
    with pytest.raises(Killed):
        shared.append(1, at=_crashing(shared, "put", 3))
    location = shared.location()
    assert location.at(2).manifest.version == 2
    assert location.history.manifest_size(2) == shared.table.entries[2].size
    shared.check_settled(1, 2)


def test_a_reader_that_cannot_finish_refuses_to_load(shared: Shared) -> None:
    with pytest.raises(Killed):
        shared.append(1, at=_crashing(shared, "put", 3))
    with pytest.raises(StorageError, match="on purpose"):
        shared.location([Fault("put", times=100)]).latest()
    with pytest.raises(StorageError, match="on purpose"):
        shared.location(table_faults=[TableFault("replace", times=100)]).latest()
    assert shared.values() == [0, 1]


def test_many_readers_finish_one_version(shared: Shared) -> None:
    with pytest.raises(Killed):
        shared.append(1, at=_crashing(shared, "put", 3))
    other = lambda: shared.location().latest()  # noqa: E731
    # Another reader comes in between at each step of this one.
    for fault in [Fault("read", Harm.NONE, run=other), Fault("put", Harm.NONE, run=other)]:
        location = shared.location([fault])
        found = location.latest()
        assert found is not None
        assert found.version == 2
    shared.check_settled(1, 2)


def test_a_table_that_was_written_without_entries(shared: Shared) -> None:
    plain = Shared()
    lance_spark.write(rows(0), plain.uri)
    lance_spark.write(rows(1), plain.uri, mode="append")
    assert plain.values() == [0, 1]
    assert plain.location().at(1).manifest.version == 1
    assert plain.append(2) == 3
    assert list(plain.table.entries) == [3]
    assert plain.location().at(2).manifest.version == 2
    assert plain.values() == [0, 1, 2]


def test_v1_names_are_kept(tmp_path: Any) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(0), uri, enable_v2_manifest_paths=False)
    shared = Shared(uri)
    assert shared.append(1) == 2
    assert shared.table.entries[2].path == "_versions/2.manifest"
    assert shared.append(2) == 3
    assert sorted(lance.dataset(uri).to_table()["a"].to_pylist()) == [0, 1, 2]


def test_a_missing_entry_is_looked_up_in_the_store(shared: Shared) -> None:
    shared.append(1)
    shared.append(2)
    del shared.table.entries[2]
    assert shared.location().at(2).manifest.version == 2
    assert shared.append(3) == 4
    assert shared.values() == [0, 1, 2, 3]


def test_a_writer_without_entries_loses_nothing(shared: Shared) -> None:
    lance_spark.write(rows(7), shared.uri, mode="append")
    # The entries say that version 1 is the newest; the next commit finds version 2 taken, and follows it.
    assert shared.append(1) == 3
    assert shared.values() == [0, 1, 7]
    assert sorted(lance_spark.open(shared.uri).to_table()["a"].to_pylist()) == [0, 1, 7]


def test_a_table_that_was_removed_without_its_entries(shared: Shared) -> None:
    store = TableLocation(shared.uri).store
    for entry in list(store.list("", recursive=True)):
        store.delete(entry.path)
    with pytest.raises(NotFoundError, match="removed without its entries"):
        shared.append(1)
    shared.location().history.manifests.forget()
    assert shared.append(1) == 1
    assert shared.values() == [1]


@pytest.mark.parametrize(
    "path",
    [
        "_versions/7.manifest",
        "data/x.lance",
        "_versions/2.manifest-",
        "x/_versions/2.manifest",
        "_versions/d2.manifest",
    ],
)
def test_an_entry_that_contradicts_the_protocol(shared: Shared, path: str) -> None:
    shared.table.entries[2] = ManifestEntry(2, path)
    with pytest.raises(CorruptFileError):
        shared.append(1)
    with pytest.raises(CorruptFileError):
        shared.values()


def test_an_entry_whose_staged_manifest_is_gone(shared: Shared) -> None:
    shared.table.entries[2] = ManifestEntry(2, f"{ManifestNaming.V2.path(2)}-{uuid.uuid4()}")
    with pytest.raises(NotFoundError, match="which is not there"):
        shared.values()


def test_a_table_dropped_while_a_version_is_finished(shared: Shared) -> None:
    location = shared.location(table_faults=[TableFault("replace", None, run=shared.table.entries.clear)])
    assert shared.append(1, at=location) == 2
    assert shared.names() == [ManifestNaming.V2.path(1)], "the dropped table must not come back by its last manifest"


def clean_up(shared: Shared) -> None:
    """Removes all versions but the newest, as a clean-up does: the entries stay."""
    location = shared.location()
    newest = location.latest()
    assert newest is not None
    for version in range(1, newest.version):
        location.store.delete(ManifestNaming.V2.path(version))


@pytest.mark.parametrize("harm", [None, TableHarm.SENT_TWICE])
def test_a_writer_that_wakes_up_after_a_clean_up(shared: Shared, harm: TableHarm | None) -> None:
    def meanwhile() -> None:
        shared.append(7)
        shared.append(8)
        clean_up(shared)

    location = shared.location(table_faults=[TableFault(CREATE, harm, run=meanwhile)])
    # The name is taken and its version cannot be read any more: it may have been ours, whose reply was lost.
    with pytest.raises(CommitStateUnknownError):
        shared.append(1, at=location)
    assert shared.values() == [0, 7, 8]
    assert shared.names() == [ManifestNaming.V2.path(3)]
    assert shared.append(1) == 4
    assert shared.values() == [0, 1, 7, 8]


def test_a_version_that_was_cleaned_up_is_not_found(shared: Shared) -> None:
    shared.append(1)
    clean_up(shared)
    with pytest.raises(NotFoundError, match="cleaned up"):
        shared.location().at(1)
    assert [entry.version for entry in shared.location().history.locations()] == [2]


def test_our_own_version_that_was_followed_and_cleaned_up(shared: Shared) -> None:
    def meanwhile() -> None:
        shared.append(7)
        clean_up(shared)

    # The entry is created, its answer lost; before the writer looks, others go on and clean up.
    faults = [TableFault(CREATE, TableHarm.SENT_TWICE), TableFault("get", None, run=meanwhile)]
    assert shared.append(1, at=shared.location(table_faults=faults)) == 3
    assert shared.values() == [0, 1, 7]


def test_writers_race(shared: Shared) -> None:
    def work(writer: int) -> None:
        for number in range(4):
            shared.append(10 * writer + number)

    all_at_once(lambda number: work(number + 1), 8)
    assert shared.values() == sorted([0, *(10 * writer + number for writer in range(1, 9) for number in range(4))])
    shared.check_settled(*range(1, 34))
