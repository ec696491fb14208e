"""Every call that a change of a table with indexes makes to the store, harmed in every way.

The table has the rows from before the change or those from after it, and indexes answer as its rows say.
"""

from __future__ import annotations

import os
import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import CommitConflictError, CommitStateUnknownError
from lance_spark.storage.faults import OPERATIONS, Fault, FaultStore, Harm
from lance_spark.table.dataset import Dataset
from lance_spark.table.indexes.create import create_index
from lance_spark.table.indexes.optimize import optimize_indices
from lance_spark.table.location import TableLocation
from lance_spark.table.maintenance.compaction import compact
from lance_spark.table.maintenance.compaction_options import CompactionOptions
from lance_spark.table.manifests.history import History
from lance_spark.table.refs.refs import Refs
from lance_spark.table.writing.row_source import RowSource
from lance_spark.table.writing.save import CommitOptions
from tests.support.history_seeds import FIRST_SEED
from tests.support.row_verbs import delete_rows, save, update_rows
from tests.support.table.faults import MANY, Call, harms_of, run
from tests.support.table_steps import NO_WAIT, copy_table, newest

OPTIONS = CommitOptions(policy=NO_WAIT)
FAULT_CALLS = int(os.environ.get("LANCE_FAULT_CALLS", "10"))
"""How many calls of each change are harmed."""

Rows = frozenset[tuple[int, int | None, str]]

CONDITIONS: dict[str, Callable[[int, int | None, str], bool]] = {
    "x = 3": lambda id_, x, s: x == 3,
    "x > 5": lambda id_, x, s: x is not None and x > 5,
    "x IS NULL": lambda id_, x, s: x is None,
    "id IN (7, 12, 29, 31, 101)": lambda id_, x, s: id_ in (7, 12, 29, 31, 101),
    "contains_tokens(s, 'w4')": lambda id_, x, s: "w4" in s.split(),
}


def row(id_: int) -> tuple[int, int | None, str]:
    return id_, None if id_ % 7 == 0 else id_ % 9, f"w{id_ % 5} w{id_ % 3}"


def table_of(rows: Rows) -> pa.Table:
    ids, xs, texts = zip(*sorted(rows), strict=True)
    return pa.table({"id": pa.array(ids, pa.int64()), "x": pa.array(xs, pa.int32()), "s": list(texts)})


BEGIN: Rows = frozenset(row(id_) for id_ in range(40) if id_ not in (5, 31))


@dataclass(frozen=True)
class Change:
    """What a writer does, and the rows after it."""

    do: Callable[[TableLocation], object]
    then: Callable[[Rows], Rows] = lambda rows: rows


def _build(column: str, kind: str, name: str) -> Callable[[TableLocation], object]:
    return lambda at: create_index(at, column, kind, name, replace=True, parameters={}, options=OPTIONS)


def _compact(*, deferred: bool) -> Callable[[TableLocation], object]:
    how = CompactionOptions(target_rows_per_fragment=1000, defer_index_remap=deferred)
    return lambda at: compact(at, how, OPTIONS)


def _append(at: TableLocation) -> object:
    rows = frozenset(row(id_) for id_ in range(100, 105))
    return save(at, RowSource.of(table_of(rows)), mode="append", options=OPTIONS)


CHANGES = {
    "build": Change(_build("id", "BTREE", "by_id")),
    "build again": Change(_build("x", "BITMAP", "by_x")),
    "optimize": Change(lambda at: optimize_indices(at, options=OPTIONS)),
    "compact": Change(_compact(deferred=False)),
    "compact deferred": Change(_compact(deferred=True)),
    "append": Change(_append, lambda rows: rows | {row(id_) for id_ in range(100, 105)}),
    "delete": Change(
        lambda at: delete_rows(at, newest(at), "x = 3", OPTIONS),
        lambda rows: frozenset(item for item in rows if item[1] != 3),
    ),
    "update": Change(
        lambda at: update_rows(at, newest(at), {"x": "3"}, "x = 4 OR id = 31", OPTIONS),
        lambda rows: frozenset((id_, 3 if x == 4 else x, s) for id_, x, s in rows),
    ),
}


@cache
def _whole(stable_row_ids: bool) -> str:
    """A table of four fragments, the last two without an index; two rows are deleted."""
    uri = f"memory://index-faults-{uuid.uuid4().hex}"
    halves = [frozenset(row(id_) for id_ in range(first, first + 20)) for first in (0, 20)]
    dataset = lance_spark.write(table_of(halves[0]), uri, max_rows_per_file=10, enable_stable_row_ids=stable_row_ids)
    dataset = dataset.create_scalar_index("x", "btree", "by_x").create_scalar_index("s", "inverted", "by_s")
    dataset.create_scalar_index("id", "zonemap", "zones")
    lance_spark.write(table_of(halves[1]), uri, mode="append", max_rows_per_file=10).delete("id IN (5, 31)")
    return uri


class Place:
    """A copy of the table."""

    def __init__(self, stable_row_ids: bool) -> None:
        self.uri = f"memory://index-faults-{uuid.uuid4().hex}"
        copy_table(_whole(stable_row_ids), self.uri)

    def location(self, *faults: Fault) -> TableLocation:
        location = TableLocation(self.uri)
        location.store = FaultStore(location.store, faults)
        location.refs = Refs(location.store)
        location.history = History(location.store, None)
        return location

    def rows(self) -> Rows:
        """The rows, which indexes find as well."""
        location = self.location()
        dataset = Dataset(location, location.newest())
        rows = frozenset(tuple(item.values()) for item in dataset.to_table(["id", "x", "s"]).to_pylist())
        for condition, holds in CONDITIONS.items():
            found = dataset.to_table(["id"], filter=condition)["id"].to_pylist()
            assert sorted(found) == sorted(item[0] for item in rows if holds(*item)), condition
        return rows


def calls_of(change: Change, stable_row_ids: bool) -> list[Call]:
    """Every call that a change makes, in order."""
    made: list[Call] = []

    def note(name: str) -> Callable[[], None]:
        return lambda: made.append((name, 1 + sum(known == name for known, _ in made)))

    place = Place(stable_row_ids)
    change.do(place.location(*[Fault(name, Harm.NONE, times=MANY, run=note(name)) for name in OPERATIONS]))
    return made


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "stable_row_ids"),
    [(name, stable) for name in CHANGES for stable in (False, True) if not (stable and "deferred" in name)],
)
def test_a_call_that_is_harmed(name: str, stable_row_ids: bool) -> None:
    change = CHANGES[name]
    after = change.then(BEGIN)
    calls = calls_of(change, stable_row_ids)
    assert len(calls) >= 2
    harmed = [(call, harm) for call in calls for harm in harms_of(call)]
    for call, harm in random.Random(FIRST_SEED).sample(harmed, min(FAULT_CALLS, len(harmed))):
        place = Place(stable_row_ids)
        error = run(change, place.location(Fault(call[0], harm, nth=call[1])))
        found, told = place.rows(), f"{call} {harm}: {error!r}"
        is_hidden = call[0] == "list" and harm is Harm.NOT_FOUND
        assert is_hidden or not isinstance(error, CommitConflictError), told
        if error is None:
            assert found == after, told
        elif isinstance(error, CommitStateUnknownError):
            assert found in (BEGIN, after), told
        else:
            assert found == BEGIN, told
        if found == BEGIN:
            assert run(change, place.location()) is None, told
            assert place.rows() == after, told
