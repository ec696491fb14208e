"""Epochs of streaming queries: the mark is committed with the rows, once, whatever happens in between."""

from __future__ import annotations

import json
import random
import uuid
from datetime import datetime, timedelta, timezone
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import (
    CommitStateUnknownError,
    EpochCommittedError,
    InvalidInputError,
    LanceError,
    StreamBehindError,
)
from lance_spark.storage.faults import Fault, Harm
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.epoch_mark import (
    PREFIX,
    RETENTION,
    CommittedEpoch,
    EpochMark,
    Verdict,
    committed_epoch,
    committed_epochs,
)
from lance_spark.table.writing.row_source import RowSource
from lance_spark.table.writing.save import CommitOptions
from tests.support.harmed_tables import NO_WAIT, files, with_faults
from tests.support.row_verbs import save
from tests.support.table.epoch_marks import HARMS, PUT_HARMS

QUERY = "3f6b-query"


def rows(*values: int) -> pa.Table:
    return pa.table({"a": pa.array(values, pa.int64())})


def write(location: TableLocation, table: pa.Table, mark: EpochMark | None, mode: str = "append") -> int:
    return save(location, RowSource.of(table), mode=mode, options=CommitOptions(policy=NO_WAIT, mark=mark)).version


def values(uri: str) -> list[int]:
    return sorted(lance_spark.open(uri).to_table()["a"].to_pylist())


def epoch(location: TableLocation, app: str = QUERY) -> int | None:
    found = committed_epoch(location.newest().config, app)
    return None if found is None else found.epoch


@pytest.fixture
def location() -> TableLocation:
    uri = f"memory://epochs-{uuid.uuid4().hex}"
    lance_spark.write(rows(0), uri)
    return TableLocation(uri)


def test_mark_is_in_the_manifest_and_in_the_transaction(location: TableLocation) -> None:
    version = write(location, rows(1), EpochMark(QUERY, 7))
    file = location.at(version)
    transaction = location.history.transaction(file)
    assert json.loads(file.manifest.config[PREFIX + QUERY])["epoch"] == 7
    assert transaction is not None
    assert transaction.properties["lance.streaming.queryId"] == QUERY
    assert transaction.properties["lance.streaming.epochId"] == "7"


def test_replay_writes_no_version_and_leaves_no_files(location: TableLocation) -> None:
    write(location, rows(1), EpochMark(QUERY, 0))
    before = files(location.uri)
    with pytest.raises(EpochCommittedError, match="has epoch 0 of the query 3f6b-query already"):
        write(location, rows(1), EpochMark(QUERY, 0))
    assert files(location.uri) == before
    assert values(location.uri) == [0, 1]


def test_older_epoch_is_an_error_that_says_what_to_do(location: TableLocation) -> None:
    write(location, rows(1), EpochMark(QUERY, 57))
    with pytest.raises(StreamBehindError, match=r"has epoch 57 .* offers epoch 3.*txnAppId") as caught:
        write(location, rows(2), EpochMark(QUERY, 3))
    assert (caught.value.committed, caught.value.offered) == (57, 3)
    assert EpochMark(QUERY, 3, ignores_older=True).verdict(location.newest().config) is Verdict.DONE
    assert values(location.uri) == [0, 1]


def test_epoch_of_the_same_number_with_other_rows_is_an_error(location: TableLocation) -> None:
    write(location, rows(1), EpochMark(QUERY, 5, planned=1000))
    before = files(location.uri)
    with pytest.raises(EpochCommittedError):
        write(location, rows(1), EpochMark(QUERY, 5, planned=1000))
    with pytest.raises(StreamBehindError, match=r"offers another epoch 5: its checkpoint"):
        write(location, rows(2), EpochMark(QUERY, 5, planned=2000))
    config = location.newest().config
    assert EpochMark(QUERY, 5).verdict(config) is Verdict.DONE
    assert EpochMark(QUERY, 5, ignores_older=True, planned=2000).verdict(config) is Verdict.DONE
    assert files(location.uri) == before
    assert values(location.uri) == [0, 1]


def test_queries_have_marks_of_their_own(location: TableLocation) -> None:
    for number in range(3):
        write(location, rows(number), EpochMark("one", number))
        write(location, rows(number), EpochMark("other", number))
    assert [(item.app, item.epoch) for item in committed_epochs(location.newest().config)] == [("one", 2), ("other", 2)]


def test_two_drivers_at_once_commit_an_epoch_once(location: TableLocation) -> None:
    """The other driver commits between the plan of this one and its manifest."""
    other = TableLocation(location.uri)
    rival = Fault("put_if_absent", Harm.NONE, run=lambda: write(other, rows(1), EpochMark(QUERY, 5)))
    harmed = with_faults(location.uri, rival)
    with pytest.raises(EpochCommittedError):
        write(harmed, rows(1), EpochMark(QUERY, 5))
    assert values(location.uri) == [0, 1]


def test_rebase_over_other_writers_keeps_both_marks(location: TableLocation) -> None:
    other = TableLocation(location.uri)
    rival = Fault("put_if_absent", Harm.NONE, run=lambda: write(other, rows(8), EpochMark("rival", 1)))
    write(with_faults(location.uri, rival), rows(9), EpochMark(QUERY, 1))
    assert values(location.uri) == [0, 8, 9]
    assert (epoch(location), epoch(location, "rival")) == (1, 1)


def test_marks_survive_pylance(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance_spark.write(rows(0), uri)
    location = TableLocation(uri)
    write(location, rows(1), EpochMark(QUERY, 4))
    lance.write_dataset(rows(2), uri, mode="append")
    assert epoch(location) == 4
    theirs = lance.dataset(uri)
    theirs.delete("a = 0")
    theirs.optimize.compact_files()
    assert epoch(location) == 4
    theirs = lance.dataset(uri)
    theirs.cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)
    lance.write_dataset(rows(5), uri, mode="overwrite")
    with pytest.raises(EpochCommittedError):
        write(location, rows(1), EpochMark(QUERY, 4))
    assert write(location, rows(6), EpochMark(QUERY, 5))
    assert sorted(lance.dataset(uri).to_table()["a"].to_pylist()) == [5, 6]


def test_restore_keeps_the_marks_of_the_newest_version(location: TableLocation) -> None:
    write(location, rows(1), EpochMark(QUERY, 1))
    write(location, rows(2), EpochMark(QUERY, 2))
    lance_spark.open(location.uri).restore(2)
    assert values(location.uri) == [0, 1]
    assert epoch(location) == 2


def test_old_marks_of_other_queries_are_dropped(location: TableLocation) -> None:
    write(location, rows(1), EpochMark("old", 1))
    manifest = location.newest()
    late = datetime.now(timezone.utc) + timedelta(days=31)
    from_future = EpochMark(QUERY, 1).applied(_at(manifest, late))
    assert [item.app for item in committed_epochs(from_future.config)] == [QUERY]
    kept = EpochMark(QUERY, 1).applied(_at(manifest, late, {RETENTION: "60"}))
    assert [item.app for item in committed_epochs(kept.config)] == [QUERY, "old"]
    with pytest.raises(InvalidInputError, match="number of days"):
        EpochMark(QUERY, 1).applied(_at(manifest, late, {RETENTION: "a month"}))


def _at(manifest: object, moment: datetime, more: dict[str, str] | None = None) -> object:
    from dataclasses import replace

    config = {**manifest.config, **(more or {})}  # type: ignore[attr-defined]
    return replace(manifest, config=config, timestamp_nanos=int(moment.timestamp()) * 10**9)  # type: ignore[type-var]


def test_entry_of_another_program_is_an_error() -> None:
    infinite = '{"epoch":1e400,"at":"2026-11-22T00:00:00Z"}'
    for text in ("57", infinite, infinite.replace("1e400", '1,"planned":1e400'), "[" * 100_000):
        with pytest.raises(InvalidInputError, match="not the mark of a streaming query"):
            EpochMark(QUERY, 1).verdict({PREFIX + QUERY: text})
    with pytest.raises(InvalidInputError, match="choose another name"):
        EpochMark("retention", 1)
    known = CommittedEpoch("a", 1, datetime(2026, 11, 22, tzinfo=timezone.utc))
    assert committed_epochs({f"{PREFIX}a": '{"epoch":1,"at":"2026-11-22T00:00:00Z"}'}) == [known]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_random_failures_and_replays_write_each_epoch_once(seed: int) -> None:
    """A query whose store fails at random steps, which starts each failed epoch again, with rivals in between."""
    random_source = random.Random(seed)
    uri = f"memory://random-epochs-{uuid.uuid4().hex}"
    lance_spark.write(rows(-1), uri)
    others = 0
    for number in range(15):
        done = False
        while not done:
            harmed = with_faults(uri, _random_fault(random_source))
            try:
                write(harmed, rows(number * 2, number * 2 + 1), EpochMark(QUERY, number))
                # The driver may die before its checkpoint says that the epoch is done.
                done = random_source.random() < 0.7
            except EpochCommittedError:
                done = True
            except (CommitStateUnknownError, LanceError):
                done = False
            if random_source.random() < 0.2:
                lance_spark.write(rows(-1), uri, mode="append")
                others += 1
            if random_source.random() < 0.1:
                lance_spark.open(uri).compact()
    # Each file that a version names is there, because all rows are read.
    assert values(uri) == [-1] * (others + 1) + list(range(30))
    assert epoch(TableLocation(uri)) == 14


def _random_fault(random_source: random.Random) -> Fault:
    operation = random_source.choice(["put", "put_if_absent", "write", "close", "open_output", "read", "list"])
    harm = random_source.choice(PUT_HARMS if operation == "put_if_absent" else HARMS)
    return Fault(operation, harm, nth=random_source.randint(1, 4), times=random_source.choice([1, 1, 2, 30]))
