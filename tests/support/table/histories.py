"""Random histories of tables beside the reference library."""

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
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import lance_spark
from lance_spark.errors import CommitConflictError, InvalidInputError, NotFoundError
from lance_spark.table.dataset import Dataset
from lance_spark.table.row_level.plain_target import PlainTarget
from lance_spark.table.row_level.row_verbs import write_rows
from lance_spark.table.row_level.write_target import WriteMode
from lance_spark.table.writing.file_limits import FileLimits
from lance_spark.table.writing.row_source import RowSource
from lance_spark.table.writing.save import CommitOptions
from tests.support.model import Row, State, shown_table

WRITERS = st.integers(0, 2)


MODES = st.sampled_from(["auto", "columns", "rows"])
SPANS = st.tuples(st.integers(0, 30), st.integers(1, 12))


VALUES = st.one_of(st.none(), st.integers(-5, 5))


HISTORIES = int(os.environ.get("LANCE_HISTORIES", "25"))


SHORT = "LANCE_HISTORIES" not in os.environ


STEPS = int(os.environ.get("LANCE_HISTORY_STEPS", "14"))


TYPES = {"id": pa.int64(), "v": pa.int64(), "s": pa.string()}


class Histories(RuleBasedStateMachine):
    """Three writers, one table. Columns are identified by key: "id", "v" (a number), "s" (a text), and "c1", "c2"..."""

    stable_row_ids = False
    file_version = "2.2"

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.uri = str(self.folder / "t")
        self.next_id = 0
        self.next_column = 0
        self.states: dict[int, State] = {}
        self.writers: list[Dataset] = []

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    def new_rows(self, values: list[Any]) -> list[Row]:
        rows = [{"id": self.next_id + place, "v": value, "s": f"row {value}"} for place, value in enumerate(values)]
        self.next_id += len(rows)
        return rows

    def arrow(self, rows: list[Row], state: State | None = None) -> pa.Table:
        """The rows in the columns that they share with `state`."""
        names = {key: key for key in TYPES} if state is None else state.names
        columns = {names[key]: pa.array([row[key] for row in rows], TYPES[key]) for key in TYPES if key in names}
        return pa.table(columns)

    @initialize(values=st.lists(VALUES, min_size=4, max_size=20))
    def create(self, values: list[Any]) -> None:
        rows = self.new_rows(values)
        made = lance_spark.write(
            self.arrow(rows),
            self.uri,
            file_format_version=self.file_version,
            max_rows_per_file=7,
            enable_stable_row_ids=self.stable_row_ids,
        )
        self.states[made.version] = State({key: key for key in TYPES}, {}).with_rows(rows)
        self.writers = [made, made, made]

    def seen(self, writer: int) -> State:
        """What a writer has read."""
        return self.states[self.writers[writer].version]

    def versions_left(self) -> list[int]:
        """The versions that can be read, oldest first."""
        return sorted(self.states)

    def run(
        self, writer: int, step: Callable[[Dataset], Dataset], allowed: Callable[[State, State], list[State]]
    ) -> None:
        """One operation of a writer: its outcome is one that is allowed, or a conflict that has changed nothing.

        Args:
            allowed: outcomes from the version that the writer has read and from the newest one.
        """
        base, newest = self.writers[writer], max(self.states)
        outcomes = allowed(self.states[base.version], self.states[newest])
        try:
            made = step(base)
        except (CommitConflictError, NotFoundError, InvalidInputError):
            if base.version == newest:
                raise
            self.writers[writer] = lance_spark.open(self.uri)
            assert self.writers[writer].version == newest, "a failed operation has made a version"
            return
        found = shown_table(made.to_table())
        self.writers[writer] = made
        if made.version in self.states:
            # Nothing to do, as seen from the version that was read or from the newest one.
            state = self.states[made.version]
            assert found == state.shown()
            assert any(state.shown() == outcome.shown() for outcome in [*outcomes, *allowed(state, state)])
            return
        matching = [outcome for outcome in outcomes if outcome.shown() == found]
        assert matching, f"{found} is none of {[outcome.shown() for outcome in outcomes]}"
        made_by = {found.version: found.operation for found in made.versions()}
        for version in range(newest + 1, made.version):
            # A compaction that takes an index along reserves the numbers of its fragments first; zone maps follow a
            # clustering.
            assert made_by[version] == "reserve_fragments" or made_by[version + 1] == "create_index"
            self.states[version] = self.states[newest]
        assert made.version <= newest + 3
        self.states[made.version] = matching[0]

    @rule(writer=WRITERS)
    def refresh(self, writer: int) -> None:
        self.writers[writer] = lance_spark.open(self.uri)

    @rule(writer=WRITERS, values=st.lists(VALUES, min_size=1, max_size=9))
    def append(self, writer: int, values: list[Any]) -> None:
        rows = self.new_rows(values)
        written = self.arrow(rows, self.seen(writer))

        def step(base: Dataset) -> Dataset:
            target = PlainTarget.of(base.location, base.manifest).taking(written.schema, FileLimits(4))
            made = write_rows(target, RowSource.of(written), CommitOptions(), WriteMode.APPEND)
            return Dataset(base.location, made)

        keys = set(self.seen(writer).names)
        kept = [{key: value for key, value in row.items() if key in keys} for row in rows]
        self.run(writer, step, lambda _, newest: [newest.with_rows(kept)])

    @rule(writer=WRITERS, span=SPANS)
    def delete(self, writer: int, span: tuple[int, int]) -> None:
        low, high = span[0], sum(span)

        def allowed(base: State, newest: State) -> list[State]:
            return [newest.without(state.matching(lambda row: low <= row["id"] < high)) for state in (base, newest)]

        self.run(writer, lambda base: base.delete(f"id >= {low} AND id < {high}"), allowed)

    @rule(writer=WRITERS, span=SPANS, mode=MODES)
    def update(self, writer: int, span: tuple[int, int], mode: str) -> None:
        low, high = span[0], sum(span)
        name = self.seen(writer).name("v")
        if name is None:
            return

        def allowed(base: State, newest: State) -> list[State]:
            def plus(row: Row) -> Row:
                return {"v": None if row.get("v") is None else row["v"] + 1}

            chosen = [state.matching(lambda row: low <= row["id"] < high) for state in (base, newest)]
            return [newest.changed(ids, plus) for ids in chosen]

        where = f"id >= {low} AND id < {high}"
        self.run(writer, lambda base: base.update({name: f"{name} + 1"}, where, mode=mode), allowed)

    @rule(
        writer=WRITERS,
        first=st.integers(0, 40),
        values=st.lists(VALUES, min_size=1, max_size=8),
        matched=st.sampled_from(["update", "delete", None]),
        not_matched=st.sampled_from(["insert", None]),
        by_source=st.sampled_from([None, None, None, "delete"]),
        mode=MODES,
    )
    def merge(
        self,
        writer: int,
        first: int,
        values: list[Any],
        matched: str | None,
        not_matched: str | None,
        by_source: str | None,
        mode: str,
    ) -> None:
        rows: list[Row] = [{"id": first + at, "v": value, "s": f"m {value}"} for at, value in enumerate(values)]
        self.next_id = max(self.next_id, first + len(rows))
        seen = self.seen(writer)
        source = self.arrow(rows, seen)
        kept = [{key: value for key, value in row.items() if key in seen.names} for row in rows]

        def merged(state: State, newest: State) -> State:
            """What happens to rows follows from `state`, and happens to those of `newest`."""
            mine = {row["id"]: row for row in kept}
            known = set(state.rows)
            result = newest
            if matched == "update":
                result = result.changed(mine.keys() & known, lambda row: mine[row["id"]])
            if matched == "delete":
                result = result.without(mine.keys() & known)
            if not_matched:
                result = result.with_rows(row for number, row in mine.items() if number not in known)
            if by_source:
                result = result.without(known - mine.keys())
            return result

        def allowed(base: State, newest: State) -> list[State]:
            outcomes = [merged(newest, newest)]
            inserted = {row["id"] for row in kept} - set(base.rows)
            if not (not_matched and inserted & set(newest.rows)):
                outcomes.append(merged(base, newest))
            return outcomes

        def step(base: Dataset) -> Dataset:
            return base.merge(
                source,
                ["id"],
                when_matched=matched,
                when_not_matched=not_matched,
                when_not_matched_by_source=by_source,
                mode=mode,
            )

        if matched or not_matched or by_source:
            self.run(writer, step, allowed)

    @rule(writer=WRITERS)
    def compact(self, writer: int) -> None:
        self.run(writer, lambda base: base.compact(target_rows_per_fragment=9), lambda _, newest: [newest])

    @rule(writer=WRITERS, curve=st.sampled_from(["hilbert", "sort"]))
    def cluster(self, writer: int, curve: str) -> None:
        names = [name for key in ("v", "s") if (name := self.seen(writer).name(key)) is not None]
        columns = names or [self.seen(writer).names["id"]]
        self.run(writer, lambda base: base.optimize.cluster(columns, curve), lambda _, newest: [newest])

    @rule(writer=WRITERS, computed=st.booleans())
    def add_column(self, writer: int, computed: bool) -> None:
        source = self.seen(writer).name("v")
        if len(self.seen(writer).names) > 6:
            return
        self.next_column += 1
        key = f"c{self.next_column}"

        def double(row: Row) -> Any:
            return None if row.get("v") is None else row["v"] * 2

        def allowed(_: State, newest: State) -> list[State]:
            return [newest.with_column(key, key, double if computed and source else lambda row: None)]

        columns: Any = {key: f"{source} * 2"} if computed and source else pa.field(key, pa.int64())
        self.run(writer, lambda base: base.add_columns(columns), allowed)

    @rule(writer=WRITERS, place=st.integers(0, 5))
    def drop_column(self, writer: int, place: int) -> None:
        keys = [key for key in self.seen(writer).names if key != "id"]
        if not keys:
            return
        key = keys[place % len(keys)]
        name = self.seen(writer).names[key]
        self.run(writer, lambda base: base.drop_columns([name]), lambda _, newest: [newest.without_column(key)])

    @rule(writer=WRITERS, place=st.integers(0, 5))
    def rename_column(self, writer: int, place: int) -> None:
        keys = [key for key in self.seen(writer).names if key != "id"]
        if not keys:
            return
        key = keys[place % len(keys)]
        name = self.seen(writer).names[key]
        self.next_column += 1
        new = f"{key}_{self.next_column}"
        self.run(writer, lambda base: base.rename_columns({name: new}), lambda _, newest: [newest.renamed(key, new)])

    @rule(writer=WRITERS, version=st.integers(0, 20))
    def restore(self, writer: int, version: int) -> None:
        numbers = self.versions_left()
        chosen = numbers[version % len(numbers)]
        self.run(writer, lambda base: base.restore(chosen), lambda *_: [self.states[chosen]])

    @rule(writer=WRITERS, key=st.sampled_from("ab"), value=st.one_of(st.none(), st.just("x")))
    def set_config(self, writer: int, key: str, value: str | None) -> None:
        self.run(writer, lambda base: base.update_config({key: value}), lambda _, newest: [newest])

    @precondition(lambda self: self.states)
    @invariant()
    def every_reader_sees_the_same(self) -> None:
        newest = max(self.states)
        assert shown_table(lance_spark.open(self.uri).to_table()) == self.states[newest].shown()
        reference = lance.dataset(self.uri)
        assert (reference.version, reference.data_storage_version) == (newest, self.file_version)
        for fragment in reference.get_fragments():
            written = {f"{file.file_major_version}.{file.file_minor_version}" for file in fragment.data_files()}
            assert written == {self.file_version}
        assert shown_table(reference.to_table()) == self.states[newest].shown()
        left = self.versions_left()
        older = left[self.next_id % len(left)]
        assert shown_table(lance_spark.open(self.uri, version=older).to_table()) == self.states[older].shown()


SETTINGS = settings(
    max_examples=HISTORIES,
    stateful_step_count=STEPS,
    deadline=None,
    derandomize=SHORT,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
