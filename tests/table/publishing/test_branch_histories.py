"""Random histories of three branches with the verbs between them, beside a model: a dictionary of rows for each branch.

A verb must refuse where the model says that a version would be lost, or that rows would be doubled or other ones
changed; a refusal changes nothing. What the branches have is read by the reference library.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

import lance_spark
from lance_spark.errors import InvalidInputError
from lance_spark.table.dataset import Dataset
from tests.support.history_seeds import seeds
from tests.support.table.branches import Rows, reference, rows, shown

_STEPS = 14


@dataclass(frozen=True)
class State:
    """A version.

    Attributes:
        rows: by id.
        commits: numbers of all commits that it descends from.
        changes: those of them whose change is in its rows, with those that were picked.
        change: what it has done, as (number, rows before, rows after), None if it cannot be picked.
    """

    rows: Rows
    commits: frozenset[int] = frozenset()
    changes: frozenset[int] = frozenset()
    change: tuple[int, Rows, Rows] | None = None


@dataclass
class Model:
    """The states of all versions of each branch."""

    states: dict[str, dict[int, State]]
    next_commit: int = 1
    next_id: int = 1000
    seen: set[str] = field(default_factory=set)

    def newest(self, branch: str) -> State:
        return self.states[branch][max(self.states[branch])]

    def commit(self, branch: str, after: Rows, *, is_picked: bool = True, origin: int | None = None) -> None:
        before, number = self.newest(branch), self.next_commit
        self.next_commit += 1
        change = (origin or number, before.rows, after) if is_picked else None
        changes = before.changes | {origin or number}
        self.add(branch, State(after, before.commits | {number}, changes, change))

    def add(self, branch: str, state: State) -> None:
        self.states[branch][max(self.states[branch]) + 1] = state


def opened(uri: str, branch: str) -> Dataset:
    return lance_spark.open(uri, branch=branch)


def change_rows(uri: str, model: Model, branch: str, draw: random.Random) -> None:
    before = model.newest(branch).rows
    kind = draw.choice(["append", "delete", "update", "compact", "rollback"])
    chosen = sorted(draw.sample(sorted(before), min(len(before), 2)))
    listed = ", ".join(map(str, chosen)) or "-1"
    dataset = reference(uri, None if branch == "main" else branch)
    ours = draw.random() < 0.5
    if kind == "append":
        new = [model.next_id, model.next_id + 1]
        model.next_id += 2
        opened(uri, branch).append(rows(new))
        model.commit(branch, before | dict.fromkeys(new, 0))
    elif kind == "delete" and chosen:
        opened(uri, branch).delete(f"id in ({listed})") if ours else dataset.delete(f"id in ({listed})")
        model.commit(branch, {key: value for key, value in before.items() if key not in chosen})
    elif kind == "update" and chosen:
        value = str(draw.randrange(1, 100))
        condition = f"id in ({listed})"
        opened(uri, branch).update({"v": value}, condition) if ours else dataset.update({"v": value}, condition)
        model.commit(branch, before | dict.fromkeys(chosen, int(value)))
    elif kind == "compact":
        newest = max(model.states[branch])
        made = opened(uri, branch).compact().version
        if made > newest:
            model.commit(branch, before, is_picked=False)
    elif kind == "rollback":
        version = draw.choice(sorted(model.states[branch]))
        state = model.states[branch][version]
        try:
            opened(uri, branch).rollback_to_version(version)
        except InvalidInputError:
            return
        commits = model.newest(branch).commits | {model.next_commit}
        model.next_commit += 1
        model.add(branch, replace(state, commits=commits, change=None))


def fast_forward(uri: str, model: Model, branch: str, to: str) -> None:
    here, there = model.newest(branch), model.newest(to)
    number = max(model.states[branch])
    try:
        made = opened(uri, branch).fast_forward(branch, to)
    except InvalidInputError:
        assert not here.commits <= there.commits
        return
    assert here.commits <= there.commits
    model.seen.add("fast_forward")
    if made.version > number:
        model.add(branch, replace(there, change=None))
    assert model.newest(branch).rows == there.rows


def cherrypick(uri: str, model: Model, branch: str, source: str, draw: random.Random) -> None:
    version = draw.choice(sorted(model.states[source]))
    here, change = model.newest(branch), model.states[source][version].change
    try:
        opened(uri, branch).cherrypick(version, source, branch)
    except InvalidInputError:
        return
    assert change is not None
    number, before, after = change
    assert number not in here.changes
    lost = {key: value for key, value in before.items() if after.get(key) != value}
    assert lost.items() <= here.rows.items()
    model.seen.add("cherrypick")
    kept = {key: value for key, value in here.rows.items() if key not in lost}
    model.commit(branch, kept | {key: value for key, value in after.items() if before.get(key) != value}, origin=number)


def compare(uri: str, model: Model, left: str, right: str) -> None:
    one, other = model.newest(left).rows, model.newest(right).rows
    found = {item.change: item.rows for item in opened(uri, left).compare_branches(left, right)}
    # Rows that were moved for nothing may count as deleted and added; the sums and rows with one value must fit.
    assert found["added"] - found["deleted"] == len(other) - len(one)
    updated = sum(one[key] != other[key] for key in one.keys() & other.keys())
    assert found["updated"] <= updated
    assert found["added"] >= len(other.keys() - one.keys())


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable"])
@pytest.mark.parametrize("seed", seeds(4))
def test_histories(tmp_path: Path, seed: int, stable: bool) -> None:
    draw, uri = random.Random(seed), str(tmp_path / "t")
    made = lance_spark.write(rows(range(12)), uri, enable_stable_row_ids=stable, max_rows_per_file=5)
    first = State(dict.fromkeys(range(12), 0), frozenset({0}), frozenset({0}))
    model = Model({name: {1: first} for name in ("main", "a", "b")})
    made.create_branch("a")
    made.create_branch("b")
    for _ in range(_STEPS):
        branch, other = draw.sample(sorted(model.states), 2)
        verb = draw.choice(["change", "change", "fast_forward", "cherrypick", "cherrypick", "compare", "clean_up"])
        if verb == "change":
            change_rows(uri, model, branch, draw)
        elif verb == "fast_forward":
            fast_forward(uri, model, branch, other)
        elif verb == "cherrypick":
            cherrypick(uri, model, branch, other, draw)
        elif verb == "compare":
            compare(uri, model, branch, other)
        else:
            opened(uri, branch).remove_orphans()
        for name in model.states:
            newest = lance_spark.open(uri, branch=name)
            assert newest.version == max(model.states[name])
            assert shown(uri, None if name == "main" else name) == model.newest(name).rows
    for name, states in model.states.items():
        for version, state in states.items():
            assert shown(uri, None if name == "main" else name, version) == state.rows
