"""Writers that are killed: no torn file is ever visible, no acknowledged commit is lost, and the table goes on.

`make soak` kills many more of them (LANCE_KILLS is the number for each store).
"""

from __future__ import annotations

import os
import random
import select
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import LanceError
from lance_spark.file.open_file import open_data_file
from lance_spark.storage import open_store
from lance_spark.storage.base import ObjectStore
from lance_spark.storage.faults import OPERATIONS, Fault, FaultStore, Harm
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.history import History
from lance_spark.table.manifests.transaction import Transaction
from lance_spark.table.refs.refs import Refs
from tests.support.forked import Report, fork, kill_self
from tests.support.moto import S3Bucket
from tests.support.table_steps import BEGIN, STEPS, Content, Step, append, copy_table, make_table

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forked processes"),
    # The children leave the reference library alone.
    pytest.mark.filterwarnings("ignore:lance is not fork-safe"),
]

KILLS = int(os.environ.get("LANCE_KILLS", "6"))
MANY = 10_000
CHANGES = ("put", "put_if_absent", "open_output", "write", "close", "delete")
"""Operations after which a store is not what it was; the others of `OPERATIONS` only look."""


def check_no_torn_file(store: ObjectStore) -> None:
    """Every object that a listing shows is whole."""
    for entry in store.list("", recursive=True):
        folder, _, name = entry.path.rpartition("/")
        if name.endswith(".lance"):
            open_data_file(store, entry.path).read_table()
        elif folder == "_transactions":
            Transaction.from_bytes(store.read(entry.path))
    for location in History(store).locations():
        History(store).load(location.version)


def location_with(uri: str, *faults: Fault) -> TableLocation:
    location = TableLocation(uri)
    location.store = FaultStore(location.store, faults)
    location.refs = Refs(location.store)
    location.history = History(location.store)
    return location


def calls_of(step: Step, uri: str) -> list[tuple[str, int]]:
    made: list[tuple[str, int]] = []

    def note(name: str) -> Callable[[], None]:
        return lambda: made.append((name, 1 + sum(known == name for known, _ in made)))

    copy = f"{uri}-calls"
    copy_table(uri, copy)
    step.do(location_with(copy, *[Fault(name, Harm.NONE, times=MANY, run=note(name)) for name in OPERATIONS]))
    return made


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS, ids=[step.name for step in STEPS])
def test_a_writer_killed_before_each_of_its_calls(step: Step, tmp_path: Path) -> None:
    whole = f"memory://kills-{uuid.uuid4().hex}"
    make_table(TableLocation(whole))
    calls = calls_of(step, whole)
    for number, (name, nth) in enumerate(calls):
        if number and calls[number - 1][0] not in CHANGES:
            continue  # Nothing has changed since the call before.
        uri = str(tmp_path / str(number))
        copy_table(whole, uri)
        fatal = Fault(name, Harm.NONE, nth=nth, run=kill_self)
        assert fork(lambda report, uri=uri, fatal=fatal: step.do(location_with(uri, fatal)) and None).join() == -9
        told = f"{name} {nth}"
        found = Content.of(TableLocation(uri))
        assert found in (BEGIN, step.then(BEGIN)), told
        check_no_torn_file(open_store(uri))
        assert tuple(sorted(lance.dataset(uri).to_table()["a"].to_pylist())) == found.rows, told
        append(TableLocation(uri), 99)
        assert Content.of(TableLocation(uri)) == found.with_rows(99), told


def rows(*values: int) -> pa.Table:
    return pa.table({"a": pa.array(values, pa.int64())})


def append_for_ever(uri: str, options: dict[str, str] | None, first: int, report: Report) -> None:
    for number in range(first, first + 10_000):
        dataset = lance_spark.write(rows(number, -number), uri, mode="append", storage_options=options)
        report(number)
        if number % 5 == 4:
            # A row of another commit goes, in both of its halves.
            dataset.delete(f"a = {number - 2} OR a = {2 - number}")
            report(-(number - 2))


def kill_writers(uri: str, options: dict[str, str] | None, rng: random.Random, kills: int, max_seconds: float) -> None:
    lance_spark.write(rows(0, 0), uri, storage_options=options)
    acknowledged: set[int] = {0}
    deleted: set[int] = set()
    for attempt in range(kills):
        first = 1 + 10_000 * attempt
        workers = [
            fork(lambda report, first=first + 5_000 * side: append_for_ever(uri, options, first, report))
            for side in range(2)
        ]
        for worker in workers:
            worker.wait_for_report()
        time.sleep(rng.random() * max_seconds)
        for worker in workers:
            worker.kill()
        for worker in workers:
            assert worker.join() == -9
            acknowledged |= {number for number in worker.acknowledged if number > 0}
            deleted |= {-number for number in worker.acknowledged if number < 0}
        dataset = lance_spark.open(uri, storage_options=options)
        values = dataset.to_table()["a"].to_pylist()
        assert sum(values) == 0, "a commit is both of its rows or none"
        assert len(values) - values.count(0) == len(set(values)) - 1
        present = {value for value in values if value >= 0}
        # A delete may have landed without having been acknowledged, hence only those of rows that nobody deletes.
        lost = {number for number in acknowledged - present if number % 5 != 2}
        assert not lost
        assert not deleted & present
        assert dataset.count_rows() == len(values)
    check_no_torn_file(TableLocation(uri, options).store)


@pytest.mark.slow
def test_writers_killed_at_random_on_a_local_disk(tmp_path: Path, rng: random.Random) -> None:
    uri = str(tmp_path / "t")
    kill_writers(uri, None, rng, KILLS, 0.05)
    values = sorted(lance_spark.open(uri).to_table()["a"].to_pylist())
    assert sorted(lance.dataset(uri).to_table()["a"].to_pylist()) == values


@pytest.mark.slow
def test_writers_killed_at_random_on_s3(s3_bucket: S3Bucket, rng: random.Random) -> None:
    kill_writers(s3_bucket.folder(), s3_bucket.storage_options, rng, KILLS // 3, 0.3)


@pytest.mark.slow
def test_writers_killed_at_random_with_dynamodb(s3_bucket: S3Bucket, rng: random.Random) -> None:
    uri = f"s3+ddb://{s3_bucket.name}/{uuid.uuid4().hex}?ddbTableName={s3_bucket.manifest_table()}"
    options = {**s3_bucket.storage_options, "dynamodb_endpoint": s3_bucket.endpoint}
    kill_writers(uri, options, rng, KILLS // 3, 0.3)
    values = sorted(lance_spark.open(uri, storage_options=options).to_table()["a"].to_pylist())
    assert sorted(lance.dataset(uri, storage_options=options).to_table()["a"].to_pylist()) == values


def test_a_killed_writer_keeps_no_other_waiting(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    make_table(TableLocation(uri))
    fatal = Fault("put_if_absent", Harm.NONE, run=kill_self)
    assert fork(lambda report: append(location_with(uri, fatal), 1) and None).join() == -9
    worker = fork(lambda report: report(append(TableLocation(uri), 2)))
    assert select.select([worker.pipe], [], [], 30)[0]
    assert worker.join() == 0
    assert worker.acknowledged == [5]


@pytest.mark.slow
def test_a_killed_creator_leaves_no_table(tmp_path: Path) -> None:
    for name in ("put", "put_if_absent", "open_output", "close"):
        uri = str(tmp_path / name)
        fatal = Fault(name, Harm.NONE, run=kill_self)
        assert fork(lambda report, uri=uri, fatal=fatal: make_table(location_with(uri, fatal))).join() == -9
        with pytest.raises(LanceError, match="no table"):
            lance_spark.open(uri)
        make_table(TableLocation(uri))
        assert Content.of(TableLocation(uri)) == BEGIN
