"""Random text queries, asked of the reference library and of this one."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import lance
import numpy as np
import pyarrow as pa
from lance import query as reference

import lance_spark
from lance_spark.index.text import queries as own

TEXT = "txt"
WORDS = [f"w{number}" for number in range(150)]

Pair = tuple[Any, own.TextQuery]
"""The same query of the reference library and of this one."""


def texts(num_rows: int, seed: int, longest: int = 25) -> list[str | None]:
    """Texts of words with frequencies from half of all texts to a few; every 20th is null."""
    choose = random.Random(seed)
    weights = [1 / (number + 1) for number in range(len(WORDS))]
    return [
        None if row % 20 == 7 else " ".join(choose.choices(WORDS, weights, k=choose.randint(0, longest)))
        for row in range(num_rows)
    ]


def table(num_rows: int, seed: int = 1, first_id: int = 0) -> pa.Table:
    return pa.table({"id": range(first_id, first_id + num_rows), TEXT: texts(num_rows, seed)})


class Queries:
    """Random queries, each for both libraries."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def words(self, count: int) -> str:
        return " ".join(WORDS[int(len(WORDS) ** self._random.random()) - 1] for _ in range(count))

    def match(self) -> Pair:
        words = self.words(self._random.randint(1, 4))
        operator = self._random.choice(["OR", "AND"])
        boost = self._random.choice([1.0, 1.0, 0.3, 2.5])
        theirs = reference.MatchQuery(words, TEXT, operator=reference.FullTextOperator[operator], boost=boost)
        return theirs, own.MatchQuery(words, TEXT, operator=operator, boost=boost)

    def fuzzy(self) -> Pair:
        words = self.words(self._random.randint(1, 2))
        operator = self._random.choice(["OR", "AND"])
        options = {
            "fuzziness": self._random.choice([1, 2]),
            "prefix_length": self._random.choice([0, 1, 2]),
            "max_expansions": self._random.choice([3, 50, 200]),
        }
        theirs = reference.MatchQuery(words, TEXT, operator=reference.FullTextOperator[operator], **options)
        return theirs, own.MatchQuery(words, TEXT, operator=operator, **options)

    def phrase(self) -> Pair:
        words = self.words(self._random.randint(1, 3))
        return reference.PhraseQuery(words, TEXT), own.PhraseQuery(words, TEXT)

    def slop(self) -> Pair:
        words = self.words(2)
        slop = self._random.randint(1, 4)
        return reference.PhraseQuery(words, TEXT, slop=slop), own.PhraseQuery(words, TEXT, slop)

    def boolean(self) -> Pair:
        pairs = [self.match() for _ in range(4)]
        occurs = ["MUST", "SHOULD", "MUST_NOT"]
        kinds = [self._random.choice(occurs[:2]), *(self._random.choice(occurs) for _ in pairs[1:])]
        theirs = reference.BooleanQuery(
            [(reference.Occur[kind], query) for kind, (query, _) in zip(kinds, pairs, strict=True)]
        )
        parts = {
            kind: [query for this, (_, query) in zip(kinds, pairs, strict=True) if this == kind] for kind in occurs
        }
        return theirs, own.BooleanQuery(tuple(parts["MUST"]), tuple(parts["SHOULD"]), tuple(parts["MUST_NOT"]))

    def boost(self) -> Pair:
        (positive, ours), (negative, less) = self.match(), self.match()
        return reference.BoostQuery(positive, negative, negative_boost=0.25), own.BoostQuery(ours, less, 0.25)

    def all(self, rounds: int, *, phrases: bool = True, fuzzy: bool = True) -> Iterator[Pair]:
        kinds: list[Callable[[], Pair]] = [self.match, self.match, self.boolean, self.boost]
        if fuzzy:
            kinds.append(self.fuzzy)
        if phrases:
            kinds += [self.phrase, self.slop]
        for _ in range(rounds):
            for kind in kinds:
                yield kind()


def scores(found: pa.Table) -> dict[int, float]:
    ids = found["id"].to_pylist()
    assert len(set(ids)) == len(ids)
    return dict(zip(ids, found["_score"].to_pylist(), strict=True))


def asked(uri: str, query: Any, **options: Any) -> dict[int, float]:
    """The answer of the reference library."""
    return scores(lance.dataset(uri).scanner(columns=["id", "_score"], full_text_query=query, **options).to_table())


def check(uri: str, pair: Pair, *, exact: bool = True) -> int:
    """Both answer alike; the number of rows.

    Args:
        exact: scores are equal bit for bit, otherwise nearly.
    """
    theirs, ours = pair
    expected = asked(uri, theirs)
    table = lance_spark.open(uri).search(ours, columns=["id"])
    found = scores(table)
    assert found.keys() == expected.keys(), ours
    ids = list(expected)
    wanted, got = np.array([expected[id_] for id_ in ids]), np.array([found[id_] for id_ in ids])
    if exact:
        np.testing.assert_array_equal(got, wanted, err_msg=str(ours))
    else:
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5, err_msg=str(ours))
    assert table["_score"].to_pylist() == sorted(found.values(), reverse=True)
    return len(found)


def check_many(
    uri: str, rounds: int, *, seed: int = 0, exact: bool = True, phrases: bool = True, fuzzy: bool = True
) -> None:
    """`check` of random queries, some of which find rows."""
    pairs = Queries(seed).all(rounds, phrases=phrases, fuzzy=fuzzy)
    assert sum(check(uri, pair, exact=exact) for pair in pairs) > 0
