"""Random histories in which the reference library is one of the writers, beside indices, clean-ups, tags and branches.

The reference works on the version that it has opened, as old as it may be, as our writers do. Its indices must find
what a scan finds, whatever happened to the rows since they were built.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lance
import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

import lance_spark
from tests.support.model import Row, State, shown_table
from tests.support.table.histories import HISTORIES, SETTINGS, SPANS, TYPES, VALUES, WRITERS, Histories

READERS = st.integers(0, 1)
INDEXED = {"id": "id_index", "v": "v_index"}


class MixedHistories(Histories):
    """The writers of `Histories`, the reference library, and what keeps a table in good order."""

    def __init__(self) -> None:
        super().__init__()
        self.deleted: set[int] = set()
        self.tagged: dict[str, int] = {}
        self.branches: dict[str, State] = {}
        self.roots: dict[str, int] = {}

    @initialize()
    def no_reference_yet(self) -> None:
        self.references: dict[int, lance.LanceDataset] = {}

    def versions_left(self) -> list[int]:
        return sorted(set(self.states) - self.deleted)

    def opened(self, reader: int, *, newest: bool = False) -> lance.LanceDataset:
        """What one of two readers of the reference works on.

        It gives ids of dropped columns away again, and lets rows that were written before follow under the new meaning
        (the reason for `same_columns` in our rules). So it looks at the newest version wherever columns have changed.
        """
        known = self.references.get(reader)
        latest = max(self.states)
        if known is None or newest or self.states[known.version].names != self.states[latest].names:
            known = self.references[reader] = lance.dataset(self.uri)
        return known

    def run_reference(
        self,
        reader: int,
        dataset: lance.LanceDataset,
        step: Callable[[lance.LanceDataset], Any],
        allowed: Callable[[State, State], list[State]],
    ) -> None:
        """One operation of the reference, which may make several versions, and some though it fails."""
        base, newest = dataset.version, max(self.states)
        before = self.states[newest]
        outcomes = allowed(self.states[base], before)
        try:
            step(dataset)
        except (OSError, ValueError, RuntimeError):
            if base == newest:
                raise
            outcomes = [before]
        made = lance_spark.open(self.uri).version
        for version in range(newest + 1, made + 1):
            found = shown_table(lance_spark.open(self.uri, version=version).to_table())
            known = [before, *outcomes] if version < made else [*outcomes, before]
            matching = [state for state in known if state.shown() == found]
            assert matching, f"{found} is none of {[state.shown() for state in known]}"
            self.states[version] = matching[0]
        self.references[reader] = lance.dataset(self.uri)

    @rule(reader=READERS, values=st.lists(VALUES, min_size=1, max_size=6))
    def reference_appends(self, reader: int, values: list[Any]) -> None:
        dataset = self.opened(reader)
        state = self.states[dataset.version]
        rows = self.new_rows(values)
        written = self.arrow(rows, state)
        kept = [{key: value for key, value in row.items() if key in state.names} for row in rows]
        self.run_reference(
            reader,
            dataset,
            lambda base: lance.write_dataset(written, base, mode="append", max_rows_per_file=4),
            lambda _, newest: [newest.with_rows(kept)],
        )

    @rule(reader=READERS, span=SPANS)
    def reference_deletes(self, reader: int, span: tuple[int, int]) -> None:
        low, high = span[0], sum(span)

        def allowed(base: State, newest: State) -> list[State]:
            return [newest.without(state.matching(lambda row: low <= row["id"] < high)) for state in (base, newest)]

        self.run_reference(
            reader, self.opened(reader), lambda base: base.delete(f"id >= {low} AND id < {high}"), allowed
        )

    @rule(reader=READERS, span=SPANS)
    def reference_updates(self, reader: int, span: tuple[int, int]) -> None:
        low, high = span[0], sum(span)
        dataset = self.opened(reader)
        name = self.states[dataset.version].name("v")
        if name is None:
            return

        def allowed(base: State, newest: State) -> list[State]:
            def plus(row: Row) -> Row:
                return {"v": None if row.get("v") is None else row["v"] + 1}

            chosen = [state.matching(lambda row: low <= row["id"] < high) for state in (base, newest)]
            return [newest.changed(ids, plus) for ids in chosen]

        self.run_reference(
            reader,
            dataset,
            lambda base: base.update({name: f"{name} + 1"}, where=f"id >= {low} AND id < {high}"),
            allowed,
        )

    @rule(
        reader=READERS, first=st.integers(0, 40), values=st.lists(VALUES, min_size=1, max_size=6), inserts=st.booleans()
    )
    def reference_merges(self, reader: int, first: int, values: list[Any], inserts: bool) -> None:
        """All columns and an upsert, or a part of the columns, which the reference may rewrite where they are.

        The reference does not look for the keys that it inserts among rows that others have appended meanwhile, so that
        one of them would be there twice.
        """
        dataset = self.opened(reader, newest=inserts)
        state = self.states[dataset.version]
        rows: list[Row] = [{"id": first + at, "v": value, "s": f"r {value}"} for at, value in enumerate(values)]
        source = self.arrow(rows, state)
        kept: list[Row] = [{key: value for key, value in row.items() if key in state.names} for row in rows]
        if inserts:
            self.next_id = max(self.next_id, first + len(rows))
            for key, name in state.names.items():
                if key not in TYPES:
                    source = source.append_column(name, pa.nulls(len(rows), pa.int64()))
                    kept = [{**row, key: None} for row in kept]
        elif len(source.column_names) < 2:
            return
        mine = {row["id"]: row for row in kept}

        def merged(known: set[int], newest: State) -> State:
            result = newest.changed(mine.keys() & known, lambda row: mine[row["id"]])
            new = [row for number, row in mine.items() if number not in known]
            return result.with_rows(new) if inserts else result

        def allowed(base: State, newest: State) -> list[State]:
            return [merged(set(newest.rows), newest), merged(set(base.rows), newest)]

        def step(base: lance.LanceDataset) -> None:
            builder = base.merge_insert("id").when_matched_update_all()
            (builder.when_not_matched_insert_all() if inserts else builder).execute(source)

        self.run_reference(reader, dataset, step, allowed)

    @rule(reader=READERS)
    def reference_compacts(self, reader: int) -> None:
        self.run_reference(
            reader,
            self.opened(reader),
            lambda base: base.optimize.compact_files(target_rows_per_fragment=9),
            lambda _, newest: [newest],
        )

    @rule(reader=READERS, computed=st.booleans())
    def reference_adds_a_column(self, reader: int, computed: bool) -> None:
        dataset = self.opened(reader, newest=True)
        state = self.states[dataset.version]
        source = state.name("v")
        if len(state.names) > 6:
            return
        self.next_column += 1
        key = f"c{self.next_column}"

        def triple(row: Row) -> Any:
            return None if row.get("v") is None else row["v"] * 3

        value = triple if computed and source else lambda row: None
        columns: Any = {key: f"{source} * 3"} if computed and source else pa.field(key, pa.int64())
        self.run_reference(
            reader,
            dataset,
            lambda base: base.add_columns(columns),
            lambda _, newest: [newest.with_column(key, key, value)],
        )

    @rule(reader=READERS, place=st.integers(0, 5))
    def reference_drops_a_column(self, reader: int, place: int) -> None:
        dataset = self.opened(reader, newest=True)
        names = self.states[dataset.version].names
        keys = [key for key in names if key != "id"]
        if keys:
            key = keys[place % len(keys)]
            self.run_reference(
                reader,
                dataset,
                lambda base: base.drop_columns([names[key]]),
                lambda _, newest: [newest.without_column(key)],
            )

    @rule(reader=READERS, key=st.sampled_from(sorted(INDEXED)), again=st.booleans())
    def reference_indexes(self, reader: int, key: str, again: bool) -> None:
        """A new index, or the ones that are there over rows that they do not know yet."""
        dataset = self.opened(reader, newest=True)
        name = self.states[dataset.version].name(key)

        def step(base: lance.LanceDataset) -> None:
            if again:
                base.optimize.optimize_indices()
            elif name is not None:
                base.create_scalar_index(name, "BTREE", name=INDEXED[key], replace=True)

        self.run_reference(reader, dataset, step, lambda _, newest: [newest])

    @rule(keep=st.integers(1, 4), unverified=st.booleans())
    def clean_up(self, keep: int, unverified: bool) -> None:
        """Old versions go, but for those with tags and branches."""
        dataset = lance_spark.open(self.uri)
        before = self.versions_left()
        dataset.cleanup(keep_versions=keep, delete_unverified=unverified, error_if_tagged_old_versions=False)
        left = {entry.version for entry in dataset.versions()}
        assert left == {*before[-keep:], *self.tagged.values(), *self.roots.values()}
        self.deleted = set(self.states) - left

    @rule(writer=WRITERS, number=st.integers(0, 2))
    def tag(self, writer: int, number: int) -> None:
        dataset, name = self.writers[writer], f"t{number}"
        if dataset.version not in self.versions_left():
            return
        if name in self.tagged:
            dataset.delete_tag(name)
            del self.tagged[name]
        else:
            dataset.create_tag(name)
            self.tagged[name] = dataset.version

    @rule(writer=WRITERS, number=st.integers(0, 1))
    def branch(self, writer: int, number: int) -> None:
        dataset, name = self.writers[writer], f"b{number}"
        if name in self.branches:
            dataset.delete_branch(name)
            del self.branches[name], self.roots[name]
        elif dataset.version in self.versions_left():
            dataset.create_branch(name)
            self.branches[name], self.roots[name] = self.states[dataset.version], dataset.version

    @precondition(lambda self: self.branches)
    @rule(place=st.integers(0, 1), span=SPANS, values=st.lists(VALUES, min_size=1, max_size=5), compacted=st.booleans())
    def work_on_a_branch(self, place: int, span: tuple[int, int], values: list[Any], compacted: bool) -> None:
        name = sorted(self.branches)[place % len(self.branches)]
        low, high = span[0], sum(span)
        state = self.branches[name]
        rows = self.new_rows(values)
        branch = lance_spark.open(self.uri, branch=name)
        branch = branch.merge(self.arrow(rows, state), ["id"]).delete(f"id >= {low} AND id < {high}")
        kept = [{key: value for key, value in row.items() if key in state.names} for row in rows]
        state = state.with_rows(kept)
        self.branches[name] = state.without(state.matching(lambda row: low <= row["id"] < high))
        if compacted:
            branch.compact(target_rows_per_fragment=9)

    @precondition(lambda self: self.states)
    @invariant()
    def other_ways_to_read(self) -> None:
        for name, version in self.tagged.items():
            assert shown_table(lance_spark.open(self.uri, tag=name).to_table()) == self.states[version].shown()
        for name, state in self.branches.items():
            assert shown_table(lance_spark.open(self.uri, branch=name).to_table()) == state.shown()
            reference = lance.dataset(self.uri).checkout_version((name, None))
            assert shown_table(reference.to_table()) == state.shown()
        newest = self.states[max(self.states)]
        reference = lance.dataset(self.uri)
        reference.validate()
        low = self.next_id // 3
        rows = reference.to_table(filter=f"id >= {low} AND id < {low + 9}")["id"].to_pylist()
        assert sorted(rows) == sorted(newest.matching(lambda row: low <= row["id"] < low + 9))
        name = newest.name("v")
        if name is not None:
            rows = reference.to_table(filter=f"{name} >= 1")["id"].to_pylist()
            assert sorted(rows) == sorted(newest.matching(lambda row: None if row.get("v") is None else row["v"] >= 1))


class MixedHistoriesWithStableRowIds(MixedHistories):
    """The same on a table whose rows keep their ids."""

    stable_row_ids = True


# The reference makes its steps three times as long.
_SETTINGS = settings(SETTINGS, max_examples=max(1, HISTORIES // 3))
TestMixedHistories = MixedHistories.TestCase
TestMixedHistories.settings = _SETTINGS
TestMixedHistoriesWithStableRowIds = MixedHistoriesWithStableRowIds.TestCase
TestMixedHistoriesWithStableRowIds.settings = _SETTINGS
