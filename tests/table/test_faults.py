"""Every call that a change makes to the store, harmed in every way: the change is there whole, or not at all.

Whatever a store does to one call, the outcome is the content after the change, or an error of this package and the
content before it; only a `CommitStateUnknownError` leaves open which. Nothing but another writer is a conflict.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from functools import cache
from pathlib import Path

import lance
import pytest

from lance_spark.errors import CommitConflictError, CommitStateUnknownError
from lance_spark.storage.faults import OPERATIONS, Fault, FaultStore, Harm
from lance_spark.table.cleanup.references import GUARD_PREFIX
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.external_manifests import ExternalManifests
from lance_spark.table.manifests.history import History
from lance_spark.table.refs.refs import Refs
from tests.support.manifest_tables import MemoryManifestTable, TableFault, TableHarm
from tests.support.table.faults import MANY, Call, harms_of, run
from tests.support.table_steps import BEGIN, STEPS, Content, Step, append, copy_table, make_table

IDS = [step.name for step in STEPS]
TABLE_OPERATIONS = ("latest", "get", "create", "replace")


class Place:
    """A table in memory (or at `uri`), with its entries in a manifest table if it is `external`."""

    def __init__(self, *, external: bool, uri: str | None = None) -> None:
        whole, entries = _whole(external)
        self.uri = uri or f"memory://faults-{uuid.uuid4().hex}"
        self.entries = None if entries is None else MemoryManifestTable(entries=dict(entries.entries))
        copy_table(whole, self.uri)

    def location(self, *faults: Fault, table_faults: tuple[TableFault, ...] = ()) -> TableLocation:
        location = TableLocation(self.uri)
        location.store = FaultStore(location.store, faults)
        location.refs = Refs(location.store)
        manifests = None
        if self.entries is not None:
            manifests = ExternalManifests(location.store, self.entries.with_faults(*table_faults))
        location.history = History(location.store, manifests)
        return location

    def harmed(self, call: Call, harm: Harm | TableHarm, run: Callable[[], object] | None = None) -> TableLocation:
        name, nth = call
        if isinstance(harm, TableHarm):
            return self.location(table_faults=(TableFault(name.removeprefix("table."), harm, nth=nth),))
        return self.location(Fault(name, harm, nth=nth, run=run and (lambda: run() and None)))


@cache
def _whole(external: bool) -> tuple[str, MemoryManifestTable | None]:
    """(URI, entries) of the table that the tests copy."""
    location = TableLocation(f"memory://faults-{uuid.uuid4().hex}")
    entries = MemoryManifestTable() if external else None
    location.history = History(location.store, None if entries is None else ExternalManifests(location.store, entries))
    make_table(location)
    return location.uri, entries


def calls_of(step: Step, *, external: bool) -> list[Call]:
    """Every call that `step` makes, in order."""
    made: list[Call] = []

    def note(name: str) -> Callable[[], None]:
        return lambda: made.append((name, 1 + sum(known == name for known, _ in made)))

    place = Place(external=external)
    faults = [Fault(name, Harm.NONE, times=MANY, run=note(name)) for name in OPERATIONS]
    tables = [TableFault(name, None, times=MANY, run=note(f"table.{name}")) for name in TABLE_OPERATIONS]
    step.do(place.location(*faults, table_faults=tuple(tables)))
    return made


@pytest.mark.parametrize("external", [False, True], ids=["object", "external"])
@pytest.mark.parametrize("step", STEPS, ids=IDS)
def test_a_call_that_is_harmed(step: Step, external: bool) -> None:
    after = step.then(BEGIN)
    calls = calls_of(step, external=external)
    assert len(calls) >= 2
    for call in calls:
        for harm in harms_of(call):
            place = Place(external=external)
            error = run(step, place.harmed(call, harm))
            found = Content.of(place.location())
            told = f"{call} {harm}: {error!r}"
            # To a writer who is shown no version, the table that is there was created meanwhile.
            is_hidden = call[0] == "list" and harm is Harm.NOT_FOUND
            assert is_hidden or not isinstance(error, CommitConflictError), told
            if error is None:
                assert found == after, told
            elif isinstance(error, CommitStateUnknownError) or "tag" in step.name:
                assert found in (BEGIN, after), told
            else:
                assert found == BEGIN, told
            # The table goes on: the change can be made if it was not.
            if found == BEGIN:
                assert run(step, place.location()) is None, told
                assert Content.of(place.location()) == after, told
            else:
                append(place.location(), 99)
                assert Content.of(place.location()) == after.with_rows(99), told


@pytest.mark.parametrize("external", [False, True], ids=["object", "external"])
@pytest.mark.parametrize("step", STEPS, ids=IDS)
def test_an_append_by_another_writer_before_any_call(step: Step, external: bool) -> None:
    """A delay of any length before any call, in which somebody else commits, is no reason to lose either change."""
    for call in calls_of(step, external=external):
        if call[0].startswith("table."):
            continue
        place = Place(external=external)
        error = run(step, place.harmed(call, Harm.NONE, run=lambda place=place: append(place.location(), 70)))
        told = f"{call}: {error!r}"
        assert error is None, told
        found = Content.of(place.location())
        # Which of the two was first is open where it makes a difference.
        assert found in (step.then(BEGIN.with_rows(70)), step.then(BEGIN).with_rows(70)), told


@pytest.mark.parametrize("step", STEPS, ids=IDS)
def test_pylance_opens_what_faults_leave(step: Step, tmp_path: Path) -> None:
    for number, call in enumerate(calls_of(step, external=False)):
        harm = Harm.ANSWER_LOST if call[0] == "put_if_absent" else Harm.FAILS
        place = Place(external=False, uri=str(tmp_path / str(number)))
        run(step, place.harmed(call, harm))
        found = Content.of(place.location())
        reference = lance.dataset(place.uri)
        assert tuple(sorted(reference.to_table()["a"].to_pylist())) == found.rows, call
        tags = {name: tag["version"] for name, tag in reference.tags.list().items()}
        assert {name: tags[name] for name in tags if not name.startswith(GUARD_PREFIX)} == dict(found.tags), call
