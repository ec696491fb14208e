"""An operation after several ones of other writers, of either library: if it may follow them, the outcome is right.

The table of pairs cannot show what two of them do together, such as a column that goes and another one that comes.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import lance
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lance_spark
from lance_spark.errors import CommitConflictError, LanceError
from lance_spark.table.commits import retry
from lance_spark.table.operations.base import OperationKind
from tests.support.model import State
from tests.support.rivals import OURS, THEIRS, Copies, Step, append, states, troubles

CHAINS = int(os.environ.get("LANCE_HISTORIES", "25"))
ROOM = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
# What is put in place of a column goes by place, and does not mean a certain row once rows have moved.
LINKS = [step.name for step in THEIRS if step.name != "set v 1" and step.kind is not OperationKind.DATA_REPLACEMENT]


@pytest.fixture(scope="module", params=[False, True], ids=["addresses", "stable row ids"])
def copies(request: pytest.FixtureRequest) -> Iterator[Copies]:
    with tempfile.TemporaryDirectory(dir=ROOM) as folder:
        yield Copies(Path(folder), stable_row_ids=request.param)


@pytest.fixture(autouse=True, scope="module")
def operations_run_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(retry, "MAX_ATTEMPTS", 1)
        yield


def link(uri: str, state: State, step: Step, *, by_reference: bool) -> State:
    """What another writer makes of the newest version; nothing, if its column is not there any more."""
    # An index knows the version that it was built from, so it is built by who can do it.
    by_reference = step.reference is not None and (by_reference or step.kind is OperationKind.CREATE_INDEX)
    before = lance_spark.open(uri).version
    try:
        if by_reference and step.reference is not None:
            step.reference(lance.dataset(uri))
        else:
            step.own(lance_spark.open(uri))
    except (LanceError, OSError, ValueError, KeyError):
        assert lance_spark.open(uri).version == before
        return state
    return step.effect(state, state)


@settings(
    max_examples=CHAINS,
    deadline=None,
    derandomize="LANCE_HISTORIES" not in os.environ,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    chain=st.lists(st.tuples(st.sampled_from(LINKS), st.booleans()), min_size=2, max_size=4),
    own=st.lists(st.sampled_from(OURS), min_size=5, max_size=5, unique_by=lambda step: step.name),
)
def test_whatever_follows_is_right(copies: Copies, chain: list[tuple[str, bool]], own: list[Step]) -> None:
    uri = copies.copy("start", "after")
    base = newest = states()[2]
    for place, (name, by_reference) in enumerate(chain):
        step = append(40 + 10 * place) if name == "append" else next(step for step in THEIRS if step.name == name)
        newest = link(uri, newest, step, by_reference=by_reference)
    assert not troubles(uri, [newest])
    for step in own:
        both = copies.copy("after", "both")
        try:
            step.own(lance_spark.open(both, version=2))
        except CommitConflictError:
            continue
        assert not troubles(both, [step.effect(base, newest), step.effect(newest, newest)]), step.name
        assert step.holds(lance_spark.open(both)), step.name
