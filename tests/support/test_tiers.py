"""The cases that a tier chooses have every value, or every pair of values, of a test's parameters."""

from __future__ import annotations

import itertools
import random

import pytest

from tests.support.tiers import Tier, covering, selected

CASES = list(itertools.product(range(4), "abc", [True, False], range(5)))


@pytest.mark.parametrize(("strength", "most"), [(1, 5), (2, 28), (3, 90), (4, len(CASES)), (9, len(CASES))])
def test_every_combination_is_covered(strength: int, most: int) -> None:
    chosen = [CASES[number] for number in covering(CASES, strength, random.Random(1))]
    for group in itertools.combinations(range(4), min(strength, 4)):
        assert {tuple(case[i] for i in group) for case in chosen} == {tuple(case[i] for i in group) for case in CASES}
    assert len(chosen) <= most


def test_a_single_parameter_keeps_all_of_its_values() -> None:
    assert covering([(value,) for value in range(9)], 1, random.Random(1)) == list(range(9))


def test_missing_combinations_are_not_needed() -> None:
    assert covering([(1, "a"), (2, "b"), (2, "a")], 2, random.Random(1)) == [0, 1, 2]


@pytest.mark.parametrize(("tier", "fewest", "most"), [(Tier.QUICK, 3, 3), (Tier.CHECK, 6, 6), (Tier.ALL, 12, 12)])
def test_cases_of_a_module(pytester: pytest.Pytester, tier: Tier, fewest: int, most: int) -> None:
    items, _ = pytester.inline_genitems(
        pytester.makepyfile(
            """
            import pytest

            @pytest.mark.parametrize("a", [1, 2, 3])
            @pytest.mark.parametrize(("b", "c"), [(1, 1), (2, 2)])
            @pytest.mark.parametrize("d", [1, 2])
            def test_product(a, b, c, d): ...

            @pytest.mark.parametrize("a", [1, 2])
            @pytest.mark.parametrize("b", [1, 2])
            @pytest.mark.product
            def test_whole(a, b): ...

            @pytest.mark.slow
            def test_slow(): ...

            def test_plain(): ...
            """
        )
    )
    names = [item.name.partition("[")[0] for item in selected(items, tier, 1)]
    assert fewest <= names.count("test_product") <= most
    assert names.count("test_whole") == 4
    assert names.count("test_slow") == (0 if tier is Tier.QUICK else 1)
    assert names.count("test_plain") == 1
    assert selected(items, tier, 1) == selected(items, tier, 1)
