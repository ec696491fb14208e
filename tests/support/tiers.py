"""Which cases a tier runs: `make test` the quick ones, `make check` all that CI runs, `make soak` products too.

A test with several parameters has the product of their values as cases. Faults depend on one value or on two of them
far more often than on three, so `make check` runs cases that have all pairs of values, and `make test` cases that have
all values. A seed chooses them (`LANCE_SEED`). A test that is run by its file or name runs whole, and so does one with
the marker `product`.

Source: D. R. Kuhn, D. R. Wallace, A. M. Gallo, "Software fault interactions and implications for software testing",
IEEE Transactions on Software Engineering 30 (6), 2004; the greedy choice is that of AETG (D. M. Cohen et al., 1997).
"""

from __future__ import annotations

import itertools
import os
import random
from collections import defaultdict
from collections.abc import Hashable, Sequence
from enum import Enum

import pytest


class Tier(Enum):
    """How much of the suite runs."""

    QUICK = "quick"
    CHECK = "check"
    ALL = "all"


TIER = Tier(os.environ.get("LANCE_TIER", Tier.ALL.value))
"""The tier of this run."""

_STRENGTHS = {Tier.QUICK: 1, Tier.CHECK: 2}


def covering(cases: Sequence[Sequence[Hashable]], strength: int, rng: random.Random) -> list[int]:
    """Choose cases that together have every combination of `strength` values that any case has.

    Args:
        cases: the value of each parameter, for each case.
        strength: number of parameters that are combined; 1 for every value, 2 for every pair.
        rng: decides between cases that add equally many combinations.

    Returns:
        The chosen positions in `cases`, in ascending order.
    """
    width = len(cases[0])
    groups = list(itertools.combinations(range(width), min(strength, width)))
    combinations = [{(group, tuple(case[i] for i in group)) for group in groups} for case in cases]
    missing = set().union(*combinations)
    left = list(range(len(cases)))
    rng.shuffle(left)
    chosen = []
    while missing:
        best = max(left, key=lambda number: len(combinations[number] & missing))
        left.remove(best)
        chosen.append(best)
        missing -= combinations[best]
    return sorted(chosen)


def selected(items: Sequence[pytest.Item], tier: Tier, seed: int) -> list[pytest.Item]:
    """The tests of `items` that a tier runs, in their order."""
    if tier is Tier.ALL:
        return list(items)
    by_test: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if tier is Tier.CHECK or item.get_closest_marker("slow") is None:
            by_test[item.nodeid.partition("[")[0]].append(item)
    kept: set[pytest.Item] = set()
    for name, cases in by_test.items():
        values = [_values(case) for case in cases]
        if len(cases) > 1 and values[0] and cases[0].get_closest_marker("product") is None:
            numbers = covering(values, _STRENGTHS[tier], random.Random(f"{seed} {name}"))
            kept.update(cases[number] for number in numbers)
        else:
            kept.update(cases)
    return [item for item in items if item in kept]


def _values(item: pytest.Item) -> list[Hashable]:
    """The value of each parameter of a case; parameters that one decorator sets together are one."""
    if not isinstance(item, pytest.Function) or not hasattr(item, "callspec"):
        return []
    params = item.callspec.params
    groups = []
    for marker in item.iter_markers("parametrize"):
        names = marker.args[0] if marker.args else marker.kwargs["argnames"]
        groups.append([name.strip() for name in names.split(",")] if isinstance(names, str) else list(names))
    grouped = {name for group in groups for name in group}
    groups += [[name] for name in sorted(params) if name not in grouped]
    # The cases of a test share the objects that its decorators list.
    return [tuple(id(params.get(name)) for name in group) for group in groups]
