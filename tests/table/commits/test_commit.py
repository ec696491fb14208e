"""Commits under races, lost replies, stores that fail, and clean-ups: one transaction is one version, or none."""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import (
    CommitStateUnknownError,
    IncompatibleConflictError,
    LanceError,
    RetryableConflictError,
    StorageError,
    UnsupportedFeatureError,
)
from lance_spark.storage.faults import Fault, FaultStore, Harm
from lance_spark.table.commits.commit import RetryPolicy
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.features import FeatureFlag
from lance_spark.table.manifests.history import History
from lance_spark.table.manifests.manifest_file import ManifestFile
from lance_spark.table.manifests.manifest_store import ManifestLocation
from lance_spark.table.writing.row_source import RowSource
from lance_spark.table.writing.save import CommitOptions
from tests.support.harmed_tables import NO_WAIT, PUT, files, with_faults
from tests.support.row_verbs import save
from tests.support.threads import all_at_once

MANIFESTS = "_versions/"


def rows(*values: int) -> pa.Table:
    return pa.table({"a": pa.array(values, pa.int64())})


def new_uri() -> str:
    return f"memory://commit-{uuid.uuid4().hex}"


def manifest_path(version: int) -> str:
    return f"_versions/{(1 << 64) - 1 - version:020d}.manifest"


def values(uri: str) -> list[int]:
    return sorted(lance_spark.open(uri).to_table()["a"].to_pylist())


def append(location: TableLocation, table: pa.Table, **options: object) -> int:
    settings = CommitOptions(policy=NO_WAIT, **options)  # type: ignore[arg-type]
    return save(location, RowSource.of(table), mode="append", options=settings).version


@pytest.fixture
def uri() -> str:
    uri = new_uri()
    lance_spark.write(rows(0), uri)
    return uri


@pytest.mark.parametrize("harm", [Harm.ANSWER_LOST, Harm.SENT_TWICE, Harm.NOT_SENT])
@pytest.mark.parametrize("times", [1, 3])
def test_a_lost_reply_gives_exactly_one_version(uri: str, harm: Harm, times: int) -> None:
    assert append(with_faults(uri, Fault(PUT, harm, times=times)), rows(1)) == 2
    assert [entry.version for entry in lance_spark.open(uri).versions()] == [1, 2]
    assert values(uri) == [0, 1]
    assert len(files(uri, "data")) == 2


@pytest.mark.parametrize("harm", [Harm.ANSWER_LOST, Harm.SENT_TWICE])
def test_a_lost_reply_at_creation(harm: Harm) -> None:
    uri = new_uri()
    location = with_faults(uri, Fault(PUT, harm))
    assert save(location, RowSource.of(rows(1)), options=CommitOptions(policy=NO_WAIT)).version == 1
    assert values(uri) == [1]


def test_a_name_is_not_given_up_before_it_is_known_to_be_taken(uri: str) -> None:
    # The request is lost, another writer takes the version, and ours goes to the next one.
    taken = Fault(PUT, Harm.NOT_SENT, run=lambda: lance_spark.write(rows(7), uri, mode="append") and None)
    assert append(with_faults(uri, taken), rows(1)) == 3
    assert values(uri) == [0, 1, 7]


def test_a_store_that_never_answers_leaves_everything_in_place(uri: str) -> None:
    location = with_faults(uri, Fault(PUT, Harm.NOT_SENT, times=1000))
    with pytest.raises(CommitStateUnknownError) as caught:
        append(location, rows(1))
    assert caught.value.table_version == 2
    assert caught.value.transaction
    assert len(files(uri, "data")) == 2, "the version may still appear, and then it needs its data"
    assert len(files(uri, "_transactions")) == 2


def test_an_answer_that_cannot_be_checked_is_unknown(uri: str) -> None:
    unreadable = Fault("read", Harm.FAILS, nth=2, times=1000, path_part=MANIFESTS)
    with pytest.raises(CommitStateUnknownError):
        append(with_faults(uri, Fault(PUT, Harm.ANSWER_LOST), unreadable), rows(1))
    assert values(uri) == [0, 1]


def test_an_answer_is_checked_until_the_store_reads_again(uri: str) -> None:
    unreadable = Fault("read", Harm.FAILS, nth=2, times=5, path_part=MANIFESTS)
    assert append(with_faults(uri, Fault(PUT, Harm.ANSWER_LOST), unreadable), rows(1)) == 2
    assert values(uri) == [0, 1]


def test_a_store_that_breaks_its_word_costs_no_row(uri: str) -> None:
    assert append(with_faults(uri, Fault(PUT, Harm.FAILS_AFTERWARDS)), rows(1)) == 2
    assert values(uri) == [0, 1]


@pytest.mark.parametrize(
    "fault",
    [
        Fault("open_output", path_part="data/"),
        Fault("write", path_part="data/", nth=3),
        Fault("close", path_part="data/"),
        Fault("close", Harm.FAILS_AFTERWARDS, path_part="data/"),
        Fault("put", path_part="_transactions/"),
        Fault("list", path_part="_versions", nth=2),
        Fault(PUT),
    ],
    ids=lambda fault: f"{fault.operation}-{fault.harm.value}",
)
def test_a_failure_before_the_commit_leaves_nothing_behind(uri: str, fault: Fault) -> None:
    before = files(uri, "data"), files(uri, "_versions")
    with pytest.raises(StorageError):
        append(with_faults(uri, fault), rows(1))
    assert (files(uri, "data"), files(uri, "_versions")) == before
    assert values(uri) == [0]
    assert append(TableLocation(uri), rows(2)) == 2


@pytest.mark.parametrize("operation", ["list", "read"])
def test_trouble_after_the_commit_is_no_failure(uri: str, operation: str) -> None:
    # Whatever happens when a writer looks around after the manifest is there, its data must stay.
    count = {"list": 0, "read": 0}
    location = TableLocation(uri)
    store = location.store

    class Late(FaultStore):
        committed = False

        def put_if_absent(self, path: str, data: pa.Buffer | bytes):  # type: ignore[no-untyped-def]
            result = store.put_if_absent(path, data)
            self.committed = True
            return result

        def _call(self, name: str, path: str, do: Callable[[], object]) -> object:  # type: ignore[override]
            if self.committed and name == operation:
                count[name] += 1
                raise StorageError("late")
            return do()

    location.store = Late(store, [])
    location.history = History(location.store)
    assert append(location, rows(1)) == 2
    assert values(uri) == [0, 1]


def test_appends_from_eight_threads_lose_nothing(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")

    def work(worker: int) -> None:
        for number in range(5):
            lance_spark.write(rows(worker * 100 + number), uri, mode="append")

    all_at_once(work, 8)
    expected = sorted(worker * 100 + number for worker in range(8) for number in range(5))
    assert values(uri) == expected
    reference = lance.dataset(uri)
    assert sorted(reference.to_table()["a"].to_pylist()) == expected
    assert reference.version == 40
    ids = [fragment.fragment_id for fragment in reference.get_fragments()]
    assert sorted(ids) == list(range(40))


def test_pylance_and_we_append_at_the_same_time(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(0), uri)

    def own() -> None:
        for number in range(6):
            lance_spark.write(rows(100 + number), uri, mode="append")

    def committed() -> None:
        for number in range(6):
            lance.write_dataset(rows(200 + number), uri, mode="append")

    threads = [threading.Thread(target=own), threading.Thread(target=committed)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert values(uri) == [0, *range(100, 106), *range(200, 206)]


def test_two_writers_that_create_the_same_table(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    rival = Fault(PUT, Harm.NONE, run=lambda: lance_spark.write(rows(7), uri) and None)
    with pytest.raises(IncompatibleConflictError, match="created the table"):
        save(with_faults(uri, rival), RowSource.of(rows(1)), options=CommitOptions(policy=NO_WAIT))
    assert values(uri) == [7]
    assert len(list((tmp_path / "t" / "data").iterdir())) == 1
    # In mode "append" both wanted the same thing.
    other = str(tmp_path / "other")
    rival = Fault(PUT, Harm.NONE, run=lambda: lance_spark.write(rows(7), other) and None)
    assert append(with_faults(other, rival), rows(1)) == 2
    assert values(other) == [1, 7]


def test_an_append_is_rebased_on_what_came_in_between(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(*range(10)), uri)

    def meanwhile() -> None:
        lance.write_dataset(rows(50), uri, mode="append")
        dataset = lance.dataset(uri)
        dataset.delete("a < 3")
        dataset.update({"a": "a + 1000"}, where="a = 9")
        dataset.create_scalar_index("a", "BTREE")
        dataset.update_config({"k": "v"})
        dataset.tags.create("t", 1)

    assert append(with_faults(uri, Fault(PUT, Harm.NONE, run=meanwhile)), rows(77)) == 7
    expected = sorted([*range(3, 9), 1009, 50, 77])
    assert values(uri) == expected
    reference = lance.dataset(uri)
    assert sorted(reference.to_table()["a"].to_pylist()) == expected
    assert reference.to_table(filter="a = 77").num_rows == 1, "the index must not claim to cover the new fragment"
    assert reference.config()["k"] == "v"
    assert len(reference.list_indices()) == 1


@pytest.mark.parametrize(
    ("meanwhile", "error"),
    [
        (
            lambda dataset: lance.write_dataset(
                pa.table({"a": [5]}, pa.schema([("a", pa.int32())])), dataset.uri, mode="overwrite"
            ),
            IncompatibleConflictError,
        ),
        (
            lambda dataset: lance.write_dataset(rows(5), dataset.uri, mode="overwrite", data_storage_version="2.1"),
            IncompatibleConflictError,
        ),
        (lambda dataset: dataset.alter_columns({"path": "a", "data_type": pa.int32()}), RetryableConflictError),
        (lambda dataset: dataset.alter_columns({"path": "a", "name": "renamed"}), None),
        (lambda dataset: dataset.add_columns({"b": "a + 1"}), None),
        (lambda dataset: dataset.add_columns(pa.field("c", pa.string())), None),
    ],
)
def test_an_append_against_changes_of_schema_and_content(
    tmp_path: Path, meanwhile: Callable[[lance.LanceDataset], object], error: type[LanceError] | None
) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(1, 2), uri)
    lance.write_dataset(rows(3), uri, mode="append")
    run = Fault(PUT, Harm.NONE, run=lambda: meanwhile(lance.dataset(uri)) and None)
    if error is None:
        assert append(with_faults(uri, run), rows(9)) == 4
        assert lance.dataset(uri).to_table().num_rows == 4
        assert lance_spark.open(uri).to_table().to_pylist() == lance.dataset(uri).to_table().to_pylist()
    else:
        with pytest.raises(error) as caught:
            append(with_faults(uri, run), rows(9))
        assert caught.value.own == "append"
        assert caught.value.table_version == 3
        assert len(list((tmp_path / "t" / "_transactions").glob("2-*.txn"))) == 1, "ours is removed"


def test_an_append_does_not_follow_when_its_column_was_dropped_and_the_id_given_away(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    two = pa.table({"a": [1], "b": ["x"]})
    lance.write_dataset(two, uri)

    def meanwhile() -> None:
        lance.dataset(uri).drop_columns(["b"])
        lance.dataset(uri).add_columns({"c": "a * 2"})

    with pytest.raises(RetryableConflictError):
        append(with_faults(uri, Fault(PUT, Harm.NONE, run=meanwhile)), two)


def test_overwrite_against_append_and_overwrite(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(0), uri)
    options = CommitOptions(policy=NO_WAIT)
    run = Fault(PUT, Harm.NONE, run=lambda: lance.write_dataset(rows(1), uri, mode="append") and None)
    assert save(with_faults(uri, run), RowSource.of(rows(5)), mode="overwrite", options=options).version == 3
    assert values(uri) == [5]
    run = Fault(PUT, Harm.NONE, run=lambda: lance.write_dataset(rows(1), uri, mode="overwrite") and None)
    with pytest.raises(RetryableConflictError):
        save(with_faults(uri, run), RowSource.of(rows(6)), mode="overwrite", options=options)
    assert values(uri) == [1]


def test_a_writer_gives_up_after_its_attempts(uri: str) -> None:
    # It does not wait in between: it would have to follow what others commit meanwhile, and be late again.
    waits: list[float] = []
    always = Fault(PUT, Harm.NONE, times=100, run=lambda: lance_spark.write(rows(7), uri, mode="append") and None)
    policy = RetryPolicy(max_attempts=3, sleep=waits.append)
    with pytest.raises(RetryableConflictError, match="3 times in a row"):
        save(with_faults(uri, always), RowSource.of(rows(1)), mode="append", options=CommitOptions(policy=policy))
    assert values(uri) == [0, 7, 7, 7]
    assert waits == []


def test_a_writer_waits_for_a_listing_that_is_behind(uri: str) -> None:
    location = TableLocation(uri)
    latest, shown, waits = location.history.latest_to_follow, list[ManifestLocation | None](), list[float]()

    def behind() -> ManifestLocation | None:
        if not shown:
            shown.append(latest())
            lance_spark.write(rows(7), uri, mode="append")
        shown.append(shown[0] if len(shown) < 4 else latest())
        return shown[-1]

    location.history.latest_to_follow = behind  # type: ignore[method-assign]
    options = CommitOptions(policy=RetryPolicy(sleep=waits.append))
    assert save(location, RowSource.of(rows(8)), mode="append", options=options).version == 3
    assert values(uri) == [0, 7, 8]
    assert len(waits) == 2, "the first conflict may be that of a writer who was first"


def test_waits_grow_and_are_random() -> None:
    waits: list[float] = []
    policy = RetryPolicy(first_delay=1.0, max_delay=8.0, sleep=waits.append)
    for attempt in range(200):
        policy.wait(attempt % 10)
    assert all(0 <= wait <= min(8.0, 2 ** (number % 10)) for number, wait in enumerate(waits))
    assert len(set(waits)) > 100


def test_a_writer_that_wakes_up_after_a_clean_up(tmp_path: Path) -> None:
    # It has listed version 1 as the newest; meanwhile 2 and 3 are committed and 1 and 2 cleaned up.
    uri = str(tmp_path / "t")
    lance_spark.write(rows(0), uri)

    def meanwhile() -> None:
        lance_spark.write(rows(7), uri, mode="append")
        lance_spark.write(rows(8), uri, mode="append")
        location = TableLocation(uri)
        for version in (1, 2):
            location.store.delete(f"_versions/{(1 << 64) - 1 - version:020d}.manifest")

    with pytest.raises(RetryableConflictError, match="cleaned up"):
        append(with_faults(uri, Fault(PUT, Harm.NONE, run=meanwhile)), rows(1))
    assert [entry.version for entry in lance_spark.open(uri).versions()] == [3]
    assert values(uri) == [0, 7, 8]


@pytest.mark.parametrize("older", [0, 3])
def test_a_writer_that_sleeps_after_others_have_seen_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, older: int
) -> None:
    """What others build on it is not older: rows that are compacted meanwhile are not added again."""
    uri = str(tmp_path / "t")
    for _ in range(older):
        lance_spark.write(rows(), uri, mode="overwrite")
    lance_spark.write(rows(0), uri, mode="overwrite")
    link, linked = os.link, []

    def slow_link(staged: str, final: str) -> None:
        link(staged, final)
        linked.append(final)
        if len(linked) == 1:
            lance_spark.open(uri).compact()
            time.sleep(0.02)

    monkeypatch.setattr(os, "link", slow_link)
    assert append(TableLocation(uri), rows(1)) == older + 2
    assert values(uri) == [0, 1]
    assert lance_spark.open(uri, version=older + 2).to_table()["a"].to_pylist() == [0, 1]


def test_a_delete_whose_base_is_cleaned_up_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest version names its deletion file, so the delete was committed."""
    uri = str(tmp_path / "t")
    table = lance_spark.write(rows(0, 1), uri)
    link, linked = os.link, []

    def slow_link(staged: str, final: str) -> None:
        link(staged, final)
        linked.append(final)
        if len(linked) == 1:
            lance_spark.write(rows(7), uri, mode="append")
            TableLocation(uri).store.delete(manifest_path(1))

    monkeypatch.setattr(os, "link", slow_link)
    table.delete("a = 0")
    assert values(uri) == [1, 7]


@pytest.mark.parametrize("removed_last", [False, True])
def test_a_writer_that_wakes_up_while_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, removed_last: bool
) -> None:
    """Its base is tagged, and the newest version is newer than the one with the name of a removed version."""
    uri = str(tmp_path / "t")
    lance_spark.write(rows(0), uri).create_tag("base")
    link, linked = os.link, []

    def remove_old() -> None:
        lance_spark.open(uri).cleanup(older_than=timedelta(0), error_if_tagged_old_versions=False)

    def slow_link(staged: str, final: str) -> None:
        linked.append(final)
        if len(linked) > 1:
            link(staged, final)
            return
        for number in (7, 8):
            lance_spark.write(rows(number), uri, mode="append")
        remove_old()
        time.sleep(0.02)
        link(staged, final)
        lance_spark.open(uri, version=2).create_tag("ours")
        lance_spark.write(rows(9), uri, mode="append")
        if removed_last:
            remove_old()

    monkeypatch.setattr(os, "link", slow_link)
    with pytest.raises(CommitStateUnknownError if removed_last else RetryableConflictError):
        append(TableLocation(uri), rows(1))
    assert values(uri) == [0, 7, 8, 9]


@pytest.mark.parametrize("harm", [Harm.ANSWER_LOST, Harm.SENT_TWICE])
@pytest.mark.parametrize("removed", [(2,), (2, 3)], ids=["named_by_older_version", "named_by_no_version"])
def test_lost_reply_after_compaction_and_clean_up(uri: str, harm: Harm, removed: tuple[int, ...]) -> None:
    def meanwhile() -> None:
        lance_spark.write(rows(7), uri, mode="append")
        lance_spark.open(uri).compact()
        for version in removed:
            TableLocation(uri).store.delete(manifest_path(version))

    # The reply of our version 2 is lost. Before it can be read back, it is compacted and cleaned up.
    location = with_faults(uri, Fault(PUT, harm), Fault("read", Harm.NONE, path_part=manifest_path(2), run=meanwhile))
    if removed == (2,):
        assert append(location, rows(1)) == 3, "version 3 names our data file"
        assert sorted(lance_spark.open(uri, version=3).to_table()["a"].to_pylist()) == [0, 1, 7]
    else:
        with pytest.raises(CommitStateUnknownError) as caught:
            append(location, rows(1))
        assert caught.value.table_version == 2
        assert len(files(uri)) == 4, "a file of a commit in doubt is never removed"
    assert values(uri) == [0, 1, 7]


def test_lost_reply_and_failing_listing_is_unknown(uri: str) -> None:
    def meanwhile() -> None:
        lance_spark.write(rows(7), uri, mode="append")
        lance_spark.open(uri).compact()
        TableLocation(uri).store.delete(manifest_path(2))

    gone = Fault("read", Harm.NONE, path_part=manifest_path(2), run=meanwhile)
    location = with_faults(uri, Fault(PUT, Harm.SENT_TWICE), gone)
    seen: list[None] = []

    def newest_to_follow() -> ManifestLocation | None:
        seen.append(None)
        if len(seen) > 1:
            raise StorageError("no answer")
        return listed()

    listed = location.history.latest_to_follow
    location.history.latest_to_follow = newest_to_follow  # type: ignore[method-assign]
    with pytest.raises(CommitStateUnknownError):
        append(location, rows(1))
    assert len(files(uri)) == 4
    assert sorted(lance_spark.open(uri, version=3).to_table()["a"].to_pylist()) == [0, 1, 7]


def test_a_version_without_a_transaction_conflicts(uri: str) -> None:
    def meanwhile() -> None:
        location = TableLocation(uri)
        current = location.history.load_latest().manifest
        from dataclasses import replace

        anonymous = ManifestFile(replace(current, version=2, transaction_file=""), None)
        location.store.put(f"_versions/{(1 << 64) - 1 - 2:020d}.manifest", anonymous.encode())

    with pytest.raises(RetryableConflictError) as caught:
        append(with_faults(uri, Fault(PUT, Harm.NONE, run=meanwhile)), rows(1))
    assert caught.value.committed == "unknown"


def patch_flags(uri: str, reader: int, writer: int) -> None:
    from dataclasses import replace

    location = TableLocation(uri)
    file = location.history.load_latest()
    manifest = replace(file.manifest, reader_flags=reader, writer_flags=writer)
    path = f"_versions/{(1 << 64) - 1 - manifest.version:020d}.manifest"
    location.store.put(path, ManifestFile(manifest, file.transaction).encode())


@pytest.mark.parametrize("bit", [64, 128, 512, 1024, 4096, 8192, 65536, 1 << 40])
def test_unknown_writer_flags_are_refused(uri: str, bit: int) -> None:
    paired = bit if bit == 1024 else 0
    patch_flags(uri, paired, bit)
    assert values(uri) == [0]
    with pytest.raises(UnsupportedFeatureError, match=str(bit)):
        append(TableLocation(uri), rows(1))
    assert len(files(uri, "data")) == 1


def test_a_flag_that_appears_meanwhile_is_refused(uri: str) -> None:
    def meanwhile() -> None:
        lance_spark.write(rows(7), uri, mode="append")
        patch_flags(uri, 0, 1 << 20)

    with pytest.raises(UnsupportedFeatureError):
        append(with_faults(uri, Fault(PUT, Harm.NONE, run=meanwhile)), rows(1))
    assert values(uri) == [0, 7]


def test_tables_without_transaction_files_stay_so(uri: str) -> None:
    flag = int(FeatureFlag.DISABLE_TRANSACTION_FILE)
    patch_flags(uri, flag, flag)
    assert append(TableLocation(uri), rows(1)) == 2
    file = TableLocation(uri).history.load_latest()
    assert file.manifest.transaction_file == ""
    assert file.transaction is not None
    assert file.manifest.writer_flags & flag
    assert len(files(uri, "_transactions")) == 1


def test_message_and_properties_are_kept(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance_spark.write(rows(1), uri, commit_message="first", transaction_properties={"job": "7"})
    properties = lance.dataset(uri).read_transaction(1).transaction_properties
    assert properties == {"__lance_commit_message": "first", "job": "7"}
