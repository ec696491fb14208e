"""Random histories of several writers on one partitioned table, against a dictionary of rows.

Writers hold the version that they have read, as old as it may be, and go on from it. The reference library reads along.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from lance_spark.errors import CommitConflictError, InvalidInputError, NotFoundError
from lance_spark.partitioned.backfill import (
    commit_partitioned_backfill,
    plan_partitioned_columns,
    plan_partitioned_values,
)
from lance_spark.partitioned.columns import add_columns, alter_column
from lance_spark.partitioned.evolution import set_partitioning
from lance_spark.partitioned.history import restore
from lance_spark.partitioned.maintenance.clustering import cluster
from lance_spark.partitioned.maintenance.compaction import compact
from lance_spark.partitioned.save import PartitionBy, create_partitioned
from lance_spark.partitioned.table import STABLE_ROW_IDS, PartitionedTable, open_partitioned
from lance_spark.partitioned.transforms.bucket import Bucket
from lance_spark.partitioned.transforms.identity import Identity
from lance_spark.table.columns.alter_column import Alteration
from lance_spark.table.maintenance.compaction_options import CompactionOptions
from lance_spark.table.paths import new_job
from tests.partitioned.fixtures import backfilled, by_reference
from tests.partitioned.verbs import (
    delete_rows,
    drop_columns,
    merge_rows,
    rename_columns,
    save_rows,
    update_rows,
    vacuum,
)
from tests.support.model import Row, State, shown_table

WRITERS = st.integers(0, 2)
SPANS = st.tuples(st.integers(0, 30), st.integers(1, 12))
PARTS = st.sampled_from(["a", "b", "c", None])
TYPES = {"id": pa.int64(), "p": pa.string(), "v": pa.int32()}
SPECS = {
    "p": [PartitionBy("p", ("p",), Identity())],
    "id": [PartitionBy("b", ("id",), Bucket(2))],
    "both": [PartitionBy("b", ("id",), Bucket(2)), PartitionBy("p", ("p",), Identity())],
}
HISTORIES = int(os.environ.get("LANCE_HISTORIES", "8"))
STEPS = int(os.environ.get("LANCE_HISTORY_STEPS", "12"))


class Histories(RuleBasedStateMachine):
    """Three writers, one table, partitioned by `p` at first."""

    def __init__(self) -> None:
        super().__init__()
        self.root = tempfile.mkdtemp()
        self.next_id = 0
        self.next_column = 0
        self.states: dict[int, State] = {}
        self.known: dict[int, State] = {}
        self.writers: list[PartitionedTable] = []

    def teardown(self) -> None:
        shutil.rmtree(self.root)

    def new_rows(self, parts: list[Any]) -> list[Row]:
        rows = [{"id": self.next_id + at, "p": part, "v": self.next_id + at} for at, part in enumerate(parts)]
        self.next_id += len(rows)
        return rows

    def arrow(self, rows: list[Row], base: PartitionedTable) -> pa.Table:
        names = self.known[base.version].names
        types = base.schema
        keys = [key for key in TYPES if key in names]
        return pa.table(
            {names[key]: pa.array([row[key] for row in rows], types.field(names[key]).type) for key in keys}
        )

    @initialize(parts=st.lists(PARTS, min_size=4, max_size=12), stable=st.booleans())
    def create(self, parts: list[Any], stable: bool) -> None:
        schema = pa.schema([pa.field(key, type_, key != "id") for key, type_ in TYPES.items()])
        properties = {STABLE_ROW_IDS: str(stable).lower()}
        made = create_partitioned(f"{self.root}/t", schema, SPECS["p"], properties=properties)
        state = State({key: key for key in TYPES}, {})
        self.known[made.version] = self.states[made.version] = state
        rows = self.new_rows(parts)
        made = save_rows(made, self.arrow(rows, made))
        self.known[made.version] = self.states[made.version] = state.with_rows(rows)
        self.writers = [made, made, made]

    def run(
        self,
        writer: int,
        step: Callable[[PartitionedTable], PartitionedTable],
        allowed: Callable[[State, State], list[State]],
    ) -> None:
        """One operation of a writer: its outcome is one that is allowed, or a conflict that has changed nothing."""
        base, newest = self.writers[writer], max(self.states)
        outcomes = allowed(self.known[base.version], self.states[newest])
        try:
            made = step(base)
        except (CommitConflictError, NotFoundError, InvalidInputError):
            if base.version == newest:
                raise
            self.writers[writer] = open_partitioned(base.root)
            assert self.writers[writer].version == newest, "a failed operation has made a version"
            return
        self.writers[writer] = made
        if made.version in self.known and made.version not in self.states:
            return  # Nothing has changed, and a clean-up has taken what the writer had read.
        found = shown_table(made.to_table())
        if made.version in self.known:
            state = self.known[made.version]
            assert found == state.shown()
            assert any(state.shown() == outcome.shown() for outcome in [*outcomes, *allowed(state, state)])
            return
        assert made.version == newest + 1
        matching = [outcome for outcome in outcomes if outcome.shown() == found]
        assert matching, f"{found} is none of {[outcome.shown() for outcome in outcomes]}"
        self.known[made.version] = self.states[made.version] = matching[0]

    @rule(writer=WRITERS)
    def refresh(self, writer: int) -> None:
        self.writers[writer] = self.writers[writer].newest()

    @rule(writer=WRITERS, parts=st.lists(PARTS, min_size=1, max_size=6))
    def append(self, writer: int, parts: list[Any]) -> None:
        base = self.writers[writer]
        rows = self.new_rows(parts)
        given = self.arrow(rows, base)
        keys = set(self.known[base.version].names)
        kept = [{key: value for key, value in row.items() if key in keys} for row in rows]
        self.run(writer, lambda table: save_rows(table, given), lambda _, newest: [newest.with_rows(kept)])

    @rule(writer=WRITERS, span=SPANS)
    def delete(self, writer: int, span: tuple[int, int]) -> None:
        low, high = span[0], sum(span)

        def allowed(base: State, newest: State) -> list[State]:
            return [newest.without(state.matching(lambda row: low <= row["id"] < high)) for state in (base, newest)]

        self.run(writer, lambda base: delete_rows(base, f"id >= {low} AND id < {high}"), allowed)

    @rule(writer=WRITERS, part=PARTS)
    def delete_partition(self, writer: int, part: str | None) -> None:
        name = self.known[self.writers[writer].version].name("p")
        if name is None:
            return
        condition = f"{name} IS NULL" if part is None else f"{name} = '{part}'"

        def allowed(base: State, newest: State) -> list[State]:
            return [newest.without(state.matching(lambda row: row.get("p") == part)) for state in (base, newest)]

        self.run(writer, lambda base: delete_rows(base, condition), allowed)

    @rule(writer=WRITERS, span=SPANS, part=PARTS)
    def move(self, writer: int, span: tuple[int, int], part: str | None) -> None:
        low, high = span[0], sum(span)
        name = self.known[self.writers[writer].version].name("p")
        if name is None:
            return

        def allowed(base: State, newest: State) -> list[State]:
            chosen = [state.matching(lambda row: low <= row["id"] < high) for state in (base, newest)]
            return [newest.changed(ids, lambda row: {"p": part}) for ids in chosen]

        value = "CAST(NULL AS STRING)" if part is None else f"'{part}'"
        self.run(writer, lambda base: update_rows(base, {name: value}, f"id >= {low} AND id < {high}"), allowed)

    @rule(
        writer=WRITERS, first=st.integers(0, 20), parts=st.lists(PARTS, min_size=1, max_size=6), deletes=st.booleans()
    )
    def merge(self, writer: int, first: int, parts: list[Any], deletes: bool) -> None:
        base = self.writers[writer]
        rows: list[Row] = [{"id": first + at, "p": part, "v": -at} for at, part in enumerate(parts)]
        self.next_id = max(self.next_id, first + len(rows))
        source = self.arrow(rows, base)
        keys = set(self.known[base.version].names)
        mine = {row["id"]: {key: value for key, value in row.items() if key in keys} for row in rows}

        def merged(state: State, newest: State) -> State:
            known = set(state.rows) & mine.keys()
            result = newest.without(known) if deletes else newest.changed(known, lambda row: mine[row["id"]])
            return result.with_rows(row for number, row in mine.items() if number not in state.rows)

        def allowed(seen: State, newest: State) -> list[State]:
            outcomes = [merged(newest, newest)]
            if not (mine.keys() - seen.rows.keys()) & newest.rows.keys():
                outcomes.append(merged(seen, newest))
            return outcomes

        matched = "delete" if deletes else "update"
        self.run(writer, lambda table: merge_rows(table, source, "id", when_matched=matched), allowed)

    @rule(writer=WRITERS)
    def compact(self, writer: int) -> None:
        options = CompactionOptions(target_rows_per_fragment=5)
        self.run(writer, lambda base: compact(base, compaction=options), lambda _, newest: [newest])

    @rule(writer=WRITERS)
    def cluster(self, writer: int) -> None:
        def step(base: PartitionedTable) -> PartitionedTable:
            return cluster(base, base.lance_schema.names()[:2], "hilbert")

        self.run(writer, step, lambda _, newest: [newest])

    @rule(writer=WRITERS, spec=st.sampled_from(list(SPECS)))
    def evolve(self, writer: int, spec: str) -> None:
        if self.known[self.writers[writer].version].name("p") == "p":
            self.run(writer, lambda base: set_partitioning(base, SPECS[spec]), lambda _, newest: [newest])

    @rule(writer=WRITERS)
    def add_column(self, writer: int) -> None:
        self.next_column += 1
        key = f"c{self.next_column}"

        def allowed(_: State, newest: State) -> list[State]:
            return [newest.with_column(key, key, lambda row: None)]

        self.run(writer, lambda base: add_columns(base, [pa.field(key, pa.int64())]), allowed)

    @rule(writer=WRITERS, span=SPANS)
    def fill_new_column(self, writer: int, span: tuple[int, int]) -> None:
        self.next_column += 1
        key = f"c{self.next_column}"
        told = self.told(writer, span)

        def allowed(_: State, newest: State) -> list[State]:
            return [newest.with_column(key, key, lambda row: told.get(row["id"]))]

        def step(base: PartitionedTable) -> PartitionedTable:
            plan = plan_partitioned_columns(base, pa.schema([(key, pa.int64())]), new_job())
            return commit_partitioned_backfill(
                plan, backfilled(base, plan, {number: {key: value} for number, value in told.items()})
            )

        self.run(writer, step, allowed)

    @rule(writer=WRITERS, span=SPANS)
    def fill_old_column(self, writer: int, span: tuple[int, int]) -> None:
        name = self.known[self.writers[writer].version].name("v")
        if name is None:
            return
        told = self.told(writer, span)

        def allowed(_: State, newest: State) -> list[State]:
            return [newest.changed(told.keys() & newest.rows.keys(), lambda row: {"v": told[row["id"]]})]

        def step(base: PartitionedTable) -> PartitionedTable:
            plan = plan_partitioned_values(base, [name], new_job())
            return commit_partitioned_backfill(
                plan, backfilled(base, plan, {number: {name: value} for number, value in told.items()})
            )

        self.run(writer, step, allowed)

    def told(self, writer: int, span: tuple[int, int]) -> dict[int, int]:
        """Values for some rows that the writer sees."""
        rows = self.known[self.writers[writer].version].rows
        return {number: 1000 + number for number in rows if span[0] <= number < sum(span)}

    @rule(writer=WRITERS, place=st.integers(0, 5))
    def drop_column(self, writer: int, place: int) -> None:
        names = self.known[self.writers[writer].version].names
        keys = [key for key in names if key != "id"]
        if keys:
            key = keys[place % len(keys)]
            self.run(
                writer, lambda base: drop_columns(base, [names[key]]), lambda _, newest: [newest.without_column(key)]
            )

    @rule(writer=WRITERS, place=st.integers(0, 5))
    def rename_column(self, writer: int, place: int) -> None:
        names = self.known[self.writers[writer].version].names
        keys = [key for key in names if key != "id"]
        if keys:
            key = keys[place % len(keys)]
            self.next_column += 1
            new = f"{key}_{self.next_column}"
            self.run(
                writer,
                lambda base: rename_columns(base, {names[key]: new}),
                lambda _, newest: [newest.renamed(key, new)],
            )

    @rule(writer=WRITERS)
    def widen(self, writer: int) -> None:
        name = self.known[self.writers[writer].version].name("v")
        if name is not None:
            change = Alteration(name, data_type=pa.int64())
            self.run(writer, lambda base: alter_column(base, change), lambda _, newest: [newest])

    @rule(writer=WRITERS, version=st.integers(0, 20))
    def restore(self, writer: int, version: int) -> None:
        numbers = sorted(self.states)
        chosen = numbers[version % len(numbers)]
        self.run(writer, lambda base: restore(base, chosen), lambda *_: [self.states[chosen]])

    @rule(writer=WRITERS, keep=st.integers(1, 4))
    def clean_up(self, writer: int, keep: int) -> None:
        stats = vacuum(self.writers[writer].newest(), keep_versions=keep)
        for version in stats.versions:
            self.states.pop(version, None)

    @precondition(lambda self: self.states)
    @invariant()
    def every_reader_sees_the_same(self) -> None:
        newest = max(self.states)
        table = open_partitioned(f"{self.root}/t")
        assert table.version == newest
        assert shown_table(table.to_table()) == self.states[newest].shown()
        rows = {row.pop("id"): row for row in by_reference(table)}
        assert {number: {**row, "id": number} for number, row in rows.items()} == self.states[newest].shown()[1]
        older = sorted(self.states)[self.next_id % len(self.states)]
        assert shown_table(open_partitioned(table.root, version=older).to_table()) == self.states[older].shown()


TestHistories = Histories.TestCase
TestHistories.settings = settings(
    max_examples=HISTORIES,
    stateful_step_count=STEPS,
    deadline=None,
    derandomize="LANCE_HISTORIES" not in os.environ,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
