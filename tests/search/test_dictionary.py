"""Dictionaries of terms survive their serialized form."""

from __future__ import annotations

import random

import pytest

from lance_spark.errors import CorruptFileError
from lance_spark.index.text.dictionary import Dictionary


def terms(seed: int, count: int, alphabet: str, longest: int) -> list[str]:
    choose = random.Random(seed)
    found = {"".join(choose.choices(alphabet, k=choose.randint(1, longest))) for _ in range(count)}
    return choose.sample(sorted(found), len(found))


CASES = [
    [],
    [""],
    ["", "a"],
    ["a", "ab", "abc", "b"],
    terms(1, 5000, "abcdefgh", 6),
    terms(2, 3000, "".join(map(chr, range(33, 0x250))), 4),
    terms(3, 300, "".join(map(chr, range(0x4E00, 0x9000))), 3),
    ["x" * 4000, "x" * 3999 + "y"],
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{len(case)}-{case[:1]}"[:20])
def test_transducer_holds_the_terms(case: list[str]) -> None:
    data = Dictionary.of_terms(case).to_fst()
    assert data is not None
    size = sum(len(term.encode()) for term in case)
    read = Dictionary.of_fst(data, size)
    assert [read.find(term) for term in case] == list(range(len(case)))
    assert read.find("no such term") is None
    if size:
        for wrong in (size - 1, size + 1):
            with pytest.raises(CorruptFileError):
                Dictionary.of_fst(data, wrong)


def test_damaged_transducer_is_refused_or_harmless() -> None:
    data = Dictionary.of_terms(CASES[4]).to_fst()
    assert data is not None
    size = sum(len(term) for term in CASES[4])
    choose = random.Random(9)
    for _ in range(300):
        damaged = bytearray(data)
        damaged[choose.randrange(len(data))] = choose.randrange(256)
        try:
            assert len(Dictionary.of_fst(bytes(damaged), size)) <= len(CASES[4]) + 256 * len(data)
        except CorruptFileError:
            continue


def test_terms_within_a_distance() -> None:
    words = ["apple", "aple", "apples", "maple", "ape", "日本語", "日本"]
    dictionary = Dictionary.of_terms(words)
    assert dictionary.within("apple", 1, 0) == ["aple", "apple", "apples"]
    assert dictionary.within("apple", 2, 0) == ["ape", "aple", "apple", "apples", "maple"]
    assert dictionary.within("apple", 2, 1) == ["ape", "aple", "apple", "apples"]
    assert dictionary.within("日本誤", 1, 2) == ["日本", "日本語"]
