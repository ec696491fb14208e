"""Answers of indexes are combined as sets of rows are, fragment by fragment."""

from __future__ import annotations

import random

import pyroaring
import pytest

from lance_spark.index.answers import Answer, any_of

Plain = dict[int, tuple[frozenset[int], bool]]
"""(rows, whether they are exact) by fragment id."""


def random_answer(rng: random.Random) -> Plain:
    known = [id_ for id_ in range(6) if rng.random() < 0.7]
    return {id_: (frozenset(rng.sample(range(8), rng.randrange(4))), rng.random() < 0.5) for id_ in known}


def sparse(plain: Plain) -> Answer:
    return Answer(
        pyroaring.BitMap(plain),
        pyroaring.BitMap([id_ for id_, (_, is_exact) in plain.items() if not is_exact]),
        {id_: pyroaring.BitMap(rows) for id_, (rows, _) in plain.items() if rows},
    )


def dense(answer: Answer) -> Plain:
    assert answer.num_rows == sum(len(found.offsets) for found in answer.values())
    assert all(answer.rows.values())
    assert answer.inexact <= answer.known
    return {id_: (frozenset(found.offsets), found.is_exact) for id_, found in answer.items()}


def refined(one: Plain, other: Plain, id_: int) -> tuple[frozenset[int], bool]:
    if id_ not in one or id_ not in other:
        return one.get(id_) or other[id_]
    if one[id_][1] or other[id_][1]:
        return one[id_] if one[id_][1] else other[id_]
    return one[id_][0] & other[id_][0], False


def both(one: Plain, other: Plain, id_: int) -> tuple[frozenset[int], bool]:
    if id_ not in one or id_ not in other:
        return (one.get(id_) or other[id_])[0], False
    return one[id_][0] & other[id_][0], one[id_][1] and other[id_][1]


@pytest.mark.parametrize("seed", range(200))
def test_answers_are_combined_as_their_rows_are(seed: int) -> None:
    rng = random.Random(seed)
    one, other, third = random_answer(rng), random_answer(rng), random_answer(rng)
    first, second = sparse(one), sparse(other)

    assert dense(first) == one
    assert dense(first.over(second)) == {**other, **one}
    assert dense(first.refined(second)) == {id_: refined(one, other, id_) for id_ in one.keys() | other.keys()}
    assert dense(first.and_also(second)) == {id_: both(one, other, id_) for id_ in one.keys() | other.keys()}
    shared = one.keys() & other.keys() & third.keys()
    assert dense(any_of([first, second, sparse(third)])) == {
        id_: (one[id_][0] | other[id_][0] | third[id_][0], one[id_][1] and other[id_][1] and third[id_][1])
        for id_ in shared
    }
    assert dense(first.as_superset()) == {id_: (rows, False) for id_, (rows, _) in one.items()}
