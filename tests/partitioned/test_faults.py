"""Every change of a partitioned table under stores that fail and processes that are killed: whole, or not at all.

Calls are chosen at random; LANCE_FAULT_CALLS and LANCE_KILLS say how many of each change.
"""

from __future__ import annotations

import random
import time
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from lance_spark.errors import CommitConflictError, CommitStateUnknownError, LanceError, StorageError
from lance_spark.partitioned.backfill import (
    PartitionedBackfill,
    commit_partitioned_backfill,
    plan_partitioned_columns,
    plan_partitioned_values,
)
from lance_spark.partitioned.columns import alter_column
from lance_spark.partitioned.evolution import add_partition_field
from lance_spark.partitioned.history import restore
from lance_spark.partitioned.maintenance.compaction import compact
from lance_spark.partitioned.save import PartitionBy, create_partitioned
from lance_spark.partitioned.table import PartitionedTable, open_partitioned
from lance_spark.partitioned.transforms.date_part import Year
from lance_spark.storage.faults import Harm
from lance_spark.storage.overlap import overlapped
from lance_spark.table.columns.alter_column import Alteration
from lance_spark.table.paths import new_job
from lance_spark.table.row_level.write_target import WriteMode
from tests.partitioned.fixtures import BY_COUNTRY, SCHEMA, backfilled, by_reference, rows, shown
from tests.partitioned.verbs import delete_rows, drop_columns, merge_rows, save_rows, update_rows, vacuum
from tests.support.forked import Report, fork, kill_self
from tests.support.partitioned.faults import CALLS, KILLS, Plan, RandomPlan, forks, harmed
from tests.support.table_steps import copy_table

WIDE = Alteration("n", data_type=pa.int64())


def filled(table: PartitionedTable, plan: PartitionedBackfill, name: str, value: object) -> PartitionedTable:
    """As a job does it: what tasks have written goes if one of them fails."""
    try:
        written = backfilled(table, plan, {key: {name: value} for key in (1, 3, 4)})
    except LanceError:
        plan.remove_files()
        raise
    return commit_partitioned_backfill(plan, written)


Step = Callable[[PartitionedTable], PartitionedTable]
STEPS: dict[str, Step] = {
    "append": lambda table: save_rows(table, pa.concat_tables([rows(10), rows(11, country="de")])),
    "overwrite": lambda table: save_rows(table, rows(12, country="ch"), WriteMode.OVERWRITE),
    "delete": lambda table: delete_rows(table, "country = 'ch' OR id = 1"),
    "update": lambda table: update_rows(table, {"country": "'de'"}, "id IN (1, 3)"),
    "merge": lambda table: merge_rows(table, pa.concat_tables([rows(1, country="ch"), rows(13)]), "id"),
    "drop column": lambda table: drop_columns(table, ["x"]),
    "widen column": lambda table: alter_column(table, WIDE),
    "fill new column": lambda table: filled(
        table, plan_partitioned_columns(table, pa.schema([("note", pa.string())]), new_job()), "note", "x"
    ),
    "fill old column": lambda table: filled(table, plan_partitioned_values(table, ["n"], new_job()), "n", -1),
    "evolve": lambda table: add_partition_field(table, PartitionBy("year", ("ts",), Year())),
    "compact": lambda table: compact(table),
    "restore": lambda table: restore(table, 3),
}


def make(root: str) -> PartitionedTable:
    table = create_partitioned(root, SCHEMA, BY_COUNTRY)
    table = save_rows(table, pa.concat_tables([rows(1, 2), rows(3, country="ch")]))
    return save_rows(table, pa.concat_tables([rows(4), rows(5, country="ch")]))


def content(root: str) -> tuple[object, ...]:
    table = open_partitioned(root)
    return shown(table), table.schema, len(table.specs.specs)


@pytest.fixture(scope="module")
def whole() -> str:
    root = f"memory://partition-faults-{uuid.uuid4().hex}"
    make(root)
    return root


def copied(whole: str, root: str) -> PartitionedTable:
    copy_table(whole, root)
    return open_partitioned(root)


@pytest.mark.parametrize("name", STEPS)
def test_a_call_that_is_harmed(name: str, whole: str, rng: random.Random) -> None:
    step = STEPS[name]
    counted = Plan()
    good = f"{whole}-{uuid.uuid4().hex}"
    copied(whole, good)
    with harmed(counted):
        step(open_partitioned(good))
    before, after = content(whole), content(good)
    for nth in sorted(rng.sample(range(1, counted.num_calls + 1), min(CALLS, counted.num_calls))):
        for harm in (Harm.FAILS, Harm.FAILS_AFTERWARDS, Harm.ANSWER_LOST):
            root = f"{whole}-{uuid.uuid4().hex}"
            copied(whole, root)
            error: LanceError | None = None
            with harmed(Plan(nth, harm)):
                try:
                    step(open_partitioned(root))
                except LanceError as raised:
                    error = raised
            found = content(root)
            told = f"{nth} of {counted.num_calls} {harm}: {error!r}"
            if error is None:
                assert found == after, told
            elif isinstance(error, CommitStateUnknownError):
                assert found in (before, after), told
            else:
                assert found == before, told
            if found == before and name != "compact":
                step(open_partitioned(root))
            assert content(root) == after, told
            assert vacuum(open_partitioned(root), keep_versions=1).versions
            assert content(root) == after, told


pytestmark = [pytest.mark.filterwarnings("ignore:lance is not fork-safe")]


@forks
@pytest.mark.parametrize("name", STEPS)
def test_a_writer_killed_before_a_call(name: str, whole: str, tmp_path: Path, rng: random.Random) -> None:
    step = STEPS[name]
    good = str(tmp_path / "good")
    table = copied(whole, good)
    before = content(good)
    counted = Plan()
    with harmed(counted):
        step(open_partitioned(good))
    after = content(good)
    assert table.version >= 3
    for nth in sorted(rng.sample(range(1, counted.num_calls + 1), min(KILLS, counted.num_calls))):
        root = str(tmp_path / str(nth))
        copied(whole, root)

        def act(report: Report, root: str = root, nth: int = nth) -> None:
            with harmed(Plan(nth, run=kill_self)):
                step(open_partitioned(root))

        # Threads take calls in another order in each run, so that the last ones may not come.
        assert fork(act).join() in (-9, 0)
        assert content(root) in (before, after), nth
        if content(root) == before:
            step(open_partitioned(root))
        assert content(root) == after
        vacuum(open_partitioned(root), keep_versions=1, delete_unverified=True)
        assert content(root) == after
        made = save_rows(open_partitioned(root), rows(99).select(["id", "country"]))
        assert shown(made) == by_reference(made)


def test_writers_at_once_on_a_store_that_fails(whole: str, rng: random.Random) -> None:
    root = f"{whole}-{uuid.uuid4().hex}"
    copied(whole, root)
    acknowledged: list[int] = []
    unsure: set[int] = set()

    def write(writer: int) -> None:
        for number in range(4):
            key = 100 + 10 * writer + number
            both = pa.concat_tables(
                [rows(key, country="at"), rows(key, country=f"c{writer % 3}"), rows(key, country="ch")]
            )
            while True:
                try:
                    save_rows(open_partitioned(root), both)
                except CommitStateUnknownError:
                    unsure.add(key)
                except (StorageError, CommitConflictError):
                    continue
                else:
                    acknowledged.append(key)
                break

    with harmed(RandomPlan(rng, 0.004)):
        overlapped(write, range(8), 8)
    found = Counter(row["id"] for row in shown(open_partitioned(root)))
    for key in acknowledged:
        assert found.pop(key) == 3
    for key in unsure:
        assert found.pop(key, 0) in (0, 3)
    assert found == {1: 1, 2: 1, 3: 1, 4: 1, 5: 1}
    assert len(acknowledged) + len(unsure) == 32


@forks
def test_writers_killed_at_random(tmp_path: Path, rng: random.Random) -> None:
    root = str(tmp_path / "t")
    create_partitioned(root, SCHEMA, BY_COUNTRY)
    acknowledged: set[int] = set()

    def write_for_ever(report: Report, first: int) -> None:
        for number in range(first, first + 10_000):
            save_rows(open_partitioned(root), pa.concat_tables([rows(number), rows(number, country=f"c{number % 4}")]))
            report(number)

    for attempt in range(KILLS):
        workers = [
            fork(lambda report, first=1 + 20_000 * attempt + 10_000 * side: write_for_ever(report, first))
            for side in range(2)
        ]
        for worker in workers:
            worker.wait_for_report()
        time.sleep(rng.random() * 0.2)
        for worker in workers:
            worker.kill()
        for worker in workers:
            worker.join()
            acknowledged.update(worker.acknowledged)
        found = Counter(row["id"] for row in shown(open_partitioned(root)))
        assert set(found.values()) == {2}
        assert acknowledged <= found.keys()
        vacuum(open_partitioned(root), keep_versions=2, delete_unverified=attempt % 2 == 1)
    table = open_partitioned(root)
    assert shown(table) == by_reference(table)
    assert acknowledged <= {row["id"] for row in shown(table)}
