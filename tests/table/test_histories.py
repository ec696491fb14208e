"""Random histories of several writers on one table, against a dictionary of rows; the reference library reads along.

Writers hold the version that they have read, as old as it may be, and go on from it. After each step the newest version
and one older version are read again. `make soak` runs many more of them.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import lance_spark
from lance_spark.errors import CommitConflictError, InvalidInputError, NotFoundError
from lance_spark.table.dataset import Dataset
from lance_spark.table.row_source import RowSource
from lance_spark.table.save import APPEND, CommitOptions, commit_planned, plan_write
from lance_spark.table.write import FileLimits, remove_fragments, write_fragments
from tests.support.model import Row, State

WRITERS = st.integers(0, 2)
KEYS = st.integers(0, 30)
SPANS = st.tuples(KEYS, st.integers(1, 12))
VALUES = st.one_of(st.none(), st.integers(-5, 5))
HISTORIES = int(os.environ.get("LANCE_HISTORIES", "25"))
STEPS = int(os.environ.get("LANCE_HISTORY_STEPS", "14"))


class Histories(RuleBasedStateMachine):
    """Three writers, one table."""

    stable_row_ids = False

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.uri = str(self.folder / "t")
        self.next_id = 0
        self.states: dict[int, State] = {}
        self.writers: list[Dataset] = []

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    def new_rows(self, values: list[Any]) -> list[Row]:
        rows = [{"id": self.next_id + place, "v": value, "s": f"row {value}"} for place, value in enumerate(values)]
        self.next_id += len(rows)
        return rows

    def arrow(self, rows: list[Row]) -> pa.Table:
        schema = pa.schema([pa.field("id", pa.int64()), pa.field("v", pa.int64()), pa.field("s", pa.string())])
        return pa.Table.from_pylist([dict(row) for row in rows], schema)

    @initialize(values=st.lists(VALUES, min_size=4, max_size=20))
    def create(self, values: list[Any]) -> None:
        rows = self.new_rows(values)
        made = lance_spark.write(
            self.arrow(rows), self.uri, max_rows_per_file=7, enable_stable_row_ids=self.stable_row_ids
        )
        self.states[made.version] = State(("id", "v", "s"), {}).with_rows(rows)
        self.writers = [made, made, made]

    @property
    def newest(self) -> State:
        return self.states[max(self.states)]

    def run(
        self, writer: int, step: Callable[[Dataset], Dataset], allowed: Callable[[State, State], list[State]]
    ) -> None:
        """One operation of a writer: its outcome is one that is allowed, or a conflict that has changed nothing.

        Args:
            allowed: outcomes from the version that the writer has read and from the newest one.
        """
        base, newest = self.writers[writer], max(self.states)
        stale = base.version != newest
        outcomes = allowed(self.states[base.version], self.states[newest])
        try:
            made = step(base)
        except (CommitConflictError, NotFoundError, InvalidInputError):
            if not stale:
                raise
            self.writers[writer] = lance_spark.open(self.uri)
            assert self.writers[writer].version == newest, "a failed operation has made a version"
            return
        found = State.of_table(made.to_table())
        if made.version in self.states:
            # Nothing to do, seen from the version that was read, or from the newest one.
            expected = [self.states[made.version]]
            assert self.states[made.version].shown() in [
                outcome.shown() for outcome in [*outcomes, self.states[base.version]]
            ]
        else:
            assert made.version == newest + 1
            expected = outcomes
        assert found.shown() in [outcome.shown() for outcome in expected]
        self.states[made.version] = found
        self.writers[writer] = made

    @rule(writer=WRITERS)
    def refresh(self, writer: int) -> None:
        self.writers[writer] = lance_spark.open(self.uri)

    @rule(writer=WRITERS, values=st.lists(VALUES, min_size=1, max_size=9))
    def append(self, writer: int, values: list[Any]) -> None:
        rows = self.new_rows(values)

        def step(base: Dataset) -> Dataset:
            source = RowSource.of(self.arrow(rows), None)
            plan = plan_write(base.manifest, source, mode=APPEND)
            fragments = write_fragments(
                source.batches,
                base.location.store,
                plan.schema,
                file_version=plan.file_version,
                limits=FileLimits(4),
                convert=plan.conform,
            )
            try:
                return Dataset(base.location, commit_planned(base.location, plan, fragments, APPEND, CommitOptions()))
            except CommitConflictError:
                remove_fragments(base.location.store, fragments)
                raise

        if {"v", "s"} <= set(self.states[self.writers[writer].version].columns):
            self.run(writer, step, lambda _, newest: [newest.with_rows(rows)])

    @rule(writer=WRITERS, span=SPANS)
    def delete(self, writer: int, span: tuple[int, int]) -> None:
        low, high = span[0], sum(span)

        def allowed(base: State, newest: State) -> list[State]:
            return [newest.without(state.matching(lambda row: low <= row["id"] < high)) for state in (base, newest)]

        self.run(writer, lambda base: base.delete(f"id >= {low} AND id < {high}"), allowed)

    @rule(writer=WRITERS, version=st.integers(0, 20))
    def restore(self, writer: int, version: int) -> None:
        numbers = sorted(self.states)
        chosen = numbers[version % len(numbers)]
        self.run(writer, lambda base: base.restore(chosen), lambda *_: [self.states[chosen]])

    @rule(writer=WRITERS, key=st.sampled_from("ab"), value=st.one_of(st.none(), st.just("x")))
    def set_config(self, writer: int, key: str, value: str | None) -> None:
        self.run(writer, lambda base: base.update_config({key: value}), lambda _, newest: [newest])

    @invariant()
    def every_reader_sees_the_same(self) -> None:
        if not self.states:
            return
        newest = max(self.states)
        assert State.of_table(lance_spark.open(self.uri).to_table()).shown() == self.states[newest].shown()
        reference = lance.dataset(self.uri)
        assert reference.version == newest
        assert State.of_table(reference.to_table()).shown() == self.states[newest].shown()
        older = sorted(self.states)[self.next_id % len(self.states)]
        assert (
            State.of_table(lance_spark.open(self.uri, version=older).to_table()).shown() == self.states[older].shown()
        )


class HistoriesWithStableRowIds(Histories):
    """The same on a table whose rows keep their ids."""

    stable_row_ids = True


_SETTINGS = settings(
    max_examples=HISTORIES,
    stateful_step_count=STEPS,
    deadline=None,
    derandomize="LANCE_HISTORIES" not in os.environ,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
TestHistories = Histories.TestCase
TestHistories.settings = _SETTINGS
TestHistoriesWithStableRowIds = HistoriesWithStableRowIds.TestCase
TestHistoriesWithStableRowIds.settings = _SETTINGS
