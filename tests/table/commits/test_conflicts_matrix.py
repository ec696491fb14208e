"""Every ordered pair of operations, by both libraries: which may follow which, and what comes out.

Two writers have read the same version. One has committed the operation of a column, then the other commits that of a
row. Wherever it may, both libraries must read what the two operations mean, and everything that they have set is there.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import lance
import pytest

import lance_spark
from lance_spark.errors import IncompatibleConflictError, RetryableConflictError
from lance_spark.table.commits import retry
from lance_spark.table.commits.conflicts import RULES
from lance_spark.table.operations.base import OperationKind
from lance_spark.table.operations.committable import COMMITTABLE
from tests.support.rivals import OURS, THEIRS, Copies, Step, states, troubles

K = OperationKind

# Rows are ours, columns are theirs. "ok" follows, "R" is retryable, "X" is incompatible. Where the reference library
# judges otherwise, its verdict stands after the slash: "E" is another error, "-" is what it cannot do at all, and "!"
# says that what came out is wrong. The letter at the end is the reason, below.
MATRIX = """
            |append|delete 1|delete 3|delete 6|delete 0-4|update 1|update 6|upsert 1,20|set v 1|overwrite|index v|index w|rewrite 0|rewrite 1|reserve|add c|add v*2|widen w|drop v|rename w|require v|restore 1|config k|config l|schema k|field v|base a|base b|replace v|replace w
append      |ok    |ok      |ok      |ok      |ok        |ok      |ok      |ok         |ok     |ok/Xp    |ok     |ok     |ok       |ok       |ok/-n  |ok   |ok     |R/ok!a |R/okb |ok      |R        |ok/Xp    |ok      |ok      |ok      |ok     |ok    |ok    |ok       |ok
delete 1    |ok    |R       |ok      |ok      |R         |R       |ok      |R          |R      |R/Xq     |ok     |ok     |R        |ok       |ok/-n  |R    |R      |R      |ok    |ok      |ok       |R/Xq     |ok      |ok      |ok      |ok     |ok    |ok    |R        |R
delete 3    |ok    |ok      |R       |ok      |R         |ok      |ok      |ok         |R      |R/Xq     |ok     |ok     |R        |ok       |ok/-n  |R    |R      |R      |ok    |ok      |ok       |R/Xq     |ok      |ok      |ok      |ok     |ok    |ok    |R        |R
delete 6    |ok    |ok      |ok      |R       |ok        |ok      |R       |ok         |ok     |R/Xq     |ok     |ok     |ok       |R        |ok/-n  |R    |R      |R      |ok    |ok      |ok       |R/Xq     |ok      |ok      |ok      |ok     |ok    |ok    |ok       |ok
delete 0-4  |ok    |R       |R       |ok      |R         |R       |ok      |R          |R      |R/Xq     |ok     |ok     |R        |ok       |ok/-n  |R    |R      |R      |ok    |ok      |ok       |R/Xq     |ok      |ok      |ok      |ok     |ok    |ok    |R        |R
update 1    |ok    |R       |ok      |ok      |R         |R       |ok      |R          |R      |R/Xq     |ok     |ok     |R        |ok       |ok/-n  |R    |R      |R      |R/okb |ok      |R        |R/Xq     |ok      |ok      |ok      |ok     |ok    |ok    |R        |R
update 6    |ok    |ok      |ok      |R       |ok        |ok      |R       |ok         |ok     |R/Xq     |ok     |ok     |ok       |R        |ok/-n  |R    |R      |R      |R/okb |ok      |R        |R/Xq     |ok      |ok      |ok      |ok     |ok    |ok    |ok       |ok
upsert 1,20 |ok    |R       |ok      |ok      |R         |R       |ok      |R          |R      |R/Xq     |ok     |ok     |R        |ok       |ok/-n  |R    |R      |R      |R/okb |ok      |R        |R/Xq     |ok      |ok      |ok      |ok     |ok    |ok    |R        |R
set v 1     |ok    |ok/Rc   |ok/Rc   |ok      |R         |R       |ok      |R          |R      |R/Xq     |ok     |ok     |R        |ok       |ok/-n  |R    |R      |R      |R     |ok      |R        |R/Xq     |ok      |ok      |ok      |ok     |ok    |ok    |R        |R
overwrite   |ok    |ok      |ok      |ok      |ok        |ok      |ok      |ok         |ok     |R        |ok     |ok     |ok       |ok       |ok/-n  |ok   |ok     |ok     |ok    |ok      |ok       |ok       |ok      |ok      |ok      |ok     |ok    |ok    |ok       |ok
index v     |ok    |ok      |ok      |ok      |ok        |ok      |ok      |ok         |R/oko  |R/Xq     |R      |ok     |R        |R        |ok/-n  |ok   |ok     |ok     |R/ok!m|ok      |ok       |R/Xq     |ok      |ok      |ok      |ok     |ok    |ok    |R        |ok
index w     |ok    |ok      |ok      |ok      |ok        |ok      |ok      |ok         |ok     |R/Xq     |ok     |R      |R        |R        |ok/-n  |ok   |ok     |R/ok!m |ok    |ok      |ok       |R/Xq     |ok      |ok      |ok      |ok     |ok    |ok    |ok       |R
rewrite 0   |ok    |R       |R       |ok      |R         |R       |ok      |R          |R      |X        |ok/Rd  |ok/Rd  |R        |ok       |ok/-n  |ok/Re|R      |R      |R/okb |ok      |ok       |X        |ok      |ok      |ok      |ok     |ok    |ok    |R        |R
rewrite 1   |ok    |ok      |ok      |R       |ok        |ok      |R       |ok         |ok     |X        |ok/Rd  |ok/Rd  |ok       |R        |ok/-n  |ok/Re|R      |R      |R/okb |ok      |ok       |X        |ok      |ok      |ok      |ok     |ok    |ok    |ok       |ok
reserve     |ok/-n |ok/-n   |ok/-n   |ok/-n   |ok/-n     |ok/-n   |ok/-n   |ok/-n      |ok/-n  |X/-n     |ok/-n  |ok/-n  |ok/-n    |ok/-n    |ok/-n  |ok/-n|ok/-n  |ok/-n  |ok/-n |ok/-n   |ok/-n    |X/-n     |ok/-n   |ok/-n   |ok/-n   |ok/-n  |ok/-n |ok/-n |ok/-n    |ok/-n
add c       |ok/Rf |ok/Rf   |ok/Rf   |ok/Rf   |ok/Rf     |ok/Rf   |ok/Rf   |ok/Rf      |ok/Rf  |R/Xq     |ok     |ok     |ok/Rf    |ok/Rf    |ok/-n  |R    |R      |R      |R/Xg  |R/Xg    |R/Xg     |R/Xq     |ok      |ok      |ok/Rf   |R      |ok    |ok    |ok/Rf    |ok/Rf
add v*2     |ok/Rf |ok/Rf   |ok/Rf   |ok/Rf   |ok/Rf     |ok/Rf   |ok/Rf   |ok/Rf      |ok/Rf  |R/Xq     |ok     |ok     |ok/Rf    |ok/Rf    |ok/-n  |R    |R      |R      |R/Xg  |R/Xg    |R/Xg     |R/Xq     |ok      |ok      |ok/Rf   |R      |ok    |ok    |ok/Rf    |ok/Rf
widen w     |ok/Rf |ok/Rf   |ok/Rf   |ok/Rf   |ok/Rf     |ok/Rf   |ok/Rf   |ok/Rf      |ok/Rf  |R/Xq     |ok     |ok     |ok/Rf    |ok/Rf    |ok/-n  |R    |R      |R      |R/Xg  |R/Xg    |R/Xg     |R/Xq     |ok      |ok      |ok/Rf   |R      |ok    |ok    |ok/Rf    |ok/Rf
drop v      |ok    |ok      |ok      |ok      |ok        |ok      |ok      |ok         |ok     |R/Xq     |ok     |ok     |ok       |ok       |ok/-n  |R    |R      |R      |R     |R       |R        |R/Xq     |ok      |ok      |ok/ok!h |R/okh  |ok    |ok    |ok       |ok
rename w    |ok    |ok      |ok      |ok      |ok        |ok      |ok      |ok         |ok     |R/Xq     |ok     |ok     |ok       |ok       |ok/-n  |R    |R      |R      |R     |R       |R        |R/Xq     |ok      |ok      |ok/ok!h |R/ok!h |ok    |ok    |ok       |ok
require v   |R     |ok      |ok      |ok      |ok        |R       |R       |R          |R      |R/Xq     |ok     |ok     |ok       |ok       |ok/-n  |R    |R      |R      |R     |R       |R        |R/Xq     |ok      |ok      |ok/ok!h |R/ok!h |ok    |ok    |R        |R
restore 1   |ok    |ok      |ok      |ok      |ok        |ok      |ok      |ok         |ok     |ok       |ok     |ok     |ok       |ok       |ok/-n  |ok   |ok     |ok     |ok    |ok      |ok       |ok       |ok      |ok      |X       |X      |ok    |ok    |ok       |ok
config k    |ok    |ok      |ok      |ok      |ok        |ok      |ok      |ok         |ok     |ok       |ok     |ok     |ok       |ok       |ok/-n  |ok   |ok     |ok     |ok    |ok      |ok       |ok       |X       |ok      |ok      |ok     |ok    |ok    |ok       |ok
config l    |ok    |ok      |ok      |ok      |ok        |ok      |ok      |ok         |ok     |ok       |ok     |ok     |ok       |ok       |ok/-n  |ok   |ok     |ok     |ok    |ok      |ok       |ok       |ok      |X       |ok      |ok     |ok    |ok    |ok       |ok
schema k    |ok    |ok      |ok      |ok      |ok        |ok      |ok      |ok         |ok     |X        |ok     |ok     |ok       |ok       |ok/-n  |ok/Ri|ok/Ri  |ok/Ri  |ok    |ok      |ok       |X        |ok      |ok      |X       |ok     |ok    |ok    |ok       |ok
field v     |ok    |ok      |ok      |ok      |ok        |ok      |ok      |ok         |ok     |X        |ok     |ok     |ok       |ok       |ok/-n  |ok/Ri|ok/Ri  |ok/Ri  |X/Ej  |ok      |ok       |X        |ok      |ok      |ok      |X      |ok    |ok    |ok       |ok
base a      |ok    |ok      |ok      |ok      |ok        |ok      |ok      |ok         |ok     |ok       |ok     |ok     |ok       |ok       |ok/-n  |ok   |ok     |ok     |ok    |ok      |ok       |ok       |ok      |ok      |ok      |ok     |X     |ok    |ok       |ok
base b      |ok    |ok      |ok      |ok      |ok        |ok      |ok      |ok         |ok     |ok       |ok     |ok     |ok       |ok       |ok/-n  |ok   |ok     |ok     |ok    |ok      |ok       |ok       |ok      |ok      |ok      |ok     |ok    |X     |ok       |ok
replace v   |ok    |ok      |ok      |ok      |X         |R       |ok      |R          |R      |X        |ok/Rk  |ok     |R        |ok       |ok/-n  |ok/Rk|ok/Rk  |ok/Rk  |X     |ok      |R        |X        |ok      |ok      |ok      |ok     |ok    |ok    |R        |ok
replace w   |ok    |ok      |ok      |ok      |X         |R       |ok      |R          |ok     |X        |ok     |ok/Rk  |R        |ok       |ok/-n  |ok/Rk|ok/Rk  |X/Rl   |ok    |ok      |ok/Rk    |X        |ok      |ok      |ok      |ok     |ok    |ok    |ok       |R
"""  # noqa: E501

REASONS = {
    "a": "The reference leaves the column null in the new rows, whose file has it under the id that it had before.",
    "b": "The id of a dropped column can be given away again, and ours has written values under it.",
    "c": "A deleted row leaves the others where they are, so the file of ours still fits.",
    "d": "Ours takes the fragments that it rewrites out of the index.",
    "e": "The new column has no files, so the fragments are what they were.",
    "f": "Ours is computed anew for the version that it follows; the reference gives up.",
    "g": "Ours makes sense on the new columns, if it is run again.",
    "h": "Ours says what all fields and their metadata are. Made as it was, it takes back what theirs has set.",
    "i": "Metadata of what is still there has nothing to do with new columns.",
    "j": "The field is gone; the reference says so with an error that is no conflict.",
    "k": "Ours looks at the files that hold its field. They are what they were, and a new index loses the fragment.",
    "l": "The field is gone, so that running ours again does not help.",
    "m": "The reference lists an index over a field that is gone, and cannot read the table with a filter then.",
    "n": "The reference has no way to reserve fragments alone.",
    "o": "The index does not know the new value. The reference keeps the rest of it; here it is built again.",
    "p": "Rows of the same table, which have read nothing of it, may follow other rows.",
    "q": "Ours may be computed again from other rows of the same table.",
}


def cells() -> dict[tuple[str, str], tuple[str, str, str]]:
    """(verdict, that of the reference, reason) by (ours, theirs)."""
    head, *lines = (line.split("|") for line in MATRIX.strip().splitlines())
    columns = [name.strip() for name in head[1:]]
    found = {}
    for name, *verdicts in lines:
        for column, text in zip(columns, verdicts, strict=True):
            own, _, committed = text.strip().partition("/")
            reason = committed[-1:] if committed else ""
            found[name.strip(), column] = own, committed[:-1] or own, reason
    return found


CELLS = cells()
WITHOUT_REFERENCE = {step.name for step in OURS if step.reference is None}
NOT_MADE = (K.UPDATE_MEM_WAL_STATE, K.DATA_OVERLAY, K.UNKNOWN, K.CLONE)
"""What no step commits: operations that this release knows by name only, and the beginning of a table."""


def test_no_pair_is_missing() -> None:
    names = [step.name for step in OURS]
    assert len(set(names)) == len(names)
    assert names == [step.name for step in THEIRS]
    assert set(CELLS) == {(own, committed) for own in names for committed in names}
    assert {step.kind for step in OURS} == set(COMMITTABLE) - {K.CLONE}
    assert set(RULES) == set(COMMITTABLE)
    assert all(set(row) == set(K) for row in RULES.values())
    assert {step.kind for step in THEIRS}.union(NOT_MADE) == set(K)


def test_every_difference_has_a_reason() -> None:
    for pair, (verdict, reference, reason) in CELLS.items():
        assert "!" not in verdict, f"{pair} must not come out wrong"
        assert (reason in REASONS) == (verdict != reference), pair
        assert (reference == "-") == (not WITHOUT_REFERENCE.isdisjoint(pair)), pair
    assert {reason for _, _, reason in CELLS.values() if reason} == set(REASONS)


@pytest.mark.parametrize("kind", COMMITTABLE, ids=lambda kind: kind.value)
def test_what_is_not_understood_conflicts(kind: OperationKind) -> None:
    """A clone elsewhere has nothing to do with a table; one that begins there comes after nothing."""
    row = {committed: RULES[kind][committed].__name__ for committed in NOT_MADE}
    expected = {
        K.UPDATE_MEM_WAL_STATE: "incompatible",
        K.DATA_OVERLAY: "retryable",
        K.UNKNOWN: "retryable",
        K.CLONE: "compatible",
    }
    assert row == (dict.fromkeys(NOT_MADE, "incompatible") if kind is K.CLONE else expected)


@pytest.fixture(scope="module")
def copies() -> Iterator[Copies]:
    # A disk would be told to flush for each of two thousand commits.
    in_memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=in_memory) as folder:
        yield Copies(Path(folder))


@pytest.fixture(autouse=True)
def operations_run_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Verbs run again after a conflict that allows it, which would hide the verdict."""
    monkeypatch.setattr(retry, "MAX_ATTEMPTS", 1)


def our_verdict(step: Step, uri: str) -> str:
    try:
        step.own(lance_spark.open(uri, version=2))
    except RetryableConflictError:
        return "R"
    except IncompatibleConflictError:
        return "X"
    return "ok"


def reference_verdict(step: Step, uri: str) -> str:
    assert step.reference is not None
    try:
        step.reference(lance.dataset(uri, version=2))
    except (OSError, ValueError, RuntimeError) as error:
        text = str(error).lower()
        return "R" if "retryable" in text or "too many concurrent" in text else "X" if "incompatible" in text else "E"
    return "ok"


def judged(copies: Copies, own: Step, committed: Step, verdict: Callable[[Step, str], str]) -> str:
    """The verdict on `own` after `committed`, which "after" holds; with "!" if what comes out is wrong."""
    uri = copies.copy("after", "both")
    found = verdict(own, uri)
    if found != "ok":
        return found
    base = states()[2]
    newest = committed.effect(base, base)
    wrong = troubles(uri, [own.effect(base, newest), own.effect(newest, newest)])
    made = lance_spark.open(uri)
    if not own.holds(made):
        wrong.append("what ours has set is not there")
    if own.kind not in (K.OVERWRITE, K.RESTORE) and not committed.holds(made):
        wrong.append("what theirs has set is gone")
    return f"ok! {wrong}" if wrong else "ok"


@pytest.mark.parametrize("committed", THEIRS, ids=lambda step: step.name)
def test_ours(copies: Copies, committed: Step) -> None:
    committed.own(lance_spark.open(copies.copy("start", "after")))
    found = {own.name: judged(copies, own, committed, our_verdict) for own in OURS}
    assert found == {own.name: CELLS[own.name, committed.name][0] for own in OURS}


@pytest.mark.parametrize("committed", [step for step in THEIRS if step.reference], ids=lambda step: step.name)
def test_pylance(copies: Copies, committed: Step) -> None:
    assert committed.reference is not None
    committed.reference(lance.dataset(copies.copy("start", "after")))
    rows = [step for step in OURS if step.reference]
    found = {own.name: judged(copies, own, committed, reference_verdict)[:3] for own in rows}
    assert found == {own.name: CELLS[own.name, committed.name][1] for own in rows}
