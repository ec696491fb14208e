# ruff: noqa: RUF001
"""The tokenizer `code` cuts as the reference library."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest

from lance_spark.analysis.parameters import CODE_OPTIONS, TextParameters
from lance_spark.analysis.tokenizers.code import code_tokenizer
from lance_spark.errors import InvalidInputError
from tests.analysis.tokens import expected, relative

CODE: dict[str, Any] = {"base_tokenizer": "code"}


@pytest.mark.slow
def test_identifiers_and_their_parts() -> None:
    text = "parseHTML2JSON(__init__, the_running) -> a_ >>>= b"
    assert [term for term, _ in relative(text, CODE)] == ["parsehtml2json", "__init__", "the_running", "a_", "b"]
    parts = relative(text, {**CODE, "split_identifiers": True, "index_operators": True})
    assert parts[:5] == [("parsehtml2json", 0), ("parse", 0), ("html", 1), ("2", 2), ("json", 3)]
    assert parts == expected(text, {**CODE, "split_identifiers": True, "index_operators": True})


@pytest.mark.parametrize("values", itertools.product([False, True], repeat=4), ids=str)
def test_random_code_equals_pylance(values: tuple[bool, ...]) -> None:
    choose = random.Random(str(values))
    letters = [*"abcXYZ019__-->::=!~<>|&?*/%^+ .,;éÉßǅſΣσ京①²٣ ", "\u0345", "\u0301", "𐐀", "𐐨", "Ⅰ", "Ⓐ"]
    more: list[dict[str, Any]] = [{}, {"stem": True, "remove_stop_words": True}, {"lower_case": False}]
    for other in more:
        options = {**CODE, **dict(zip(CODE_OPTIONS, values, strict=True)), **other}
        for _ in range(60):
            text = "".join(choose.choices(letters, k=choose.randint(0, 60)))
            assert relative(text, options) == expected(text, options), text


@pytest.mark.slow
def test_each_character_has_the_case_of_pylance() -> None:
    options = {**CODE, "split_identifiers": True, "lower_case": False, "ascii_folding": False, "max_token_length": None}
    points = [point for point in range(0x20000) if not 0xD800 <= point <= 0xDFFF]
    for start in range(0, len(points), 10_000):
        chosen = map(chr, points[start : start + 10_000])
        text = " ".join(f"a{one} {one}A A{one}a A{one} 1{one}2" for one in chosen)
        assert relative(text, options) == expected(text, options)


def test_operators_are_the_longest_ones() -> None:
    options = {**CODE, "index_operators": True}
    for count in (1, 2, 3):
        text = " ".join(map("".join, itertools.product("!%&*+-/:<=>?^|~.@", repeat=count)))
        assert relative(text, options) == expected(text, options)


def test_offsets_outside_of_the_bytes_are_refused() -> None:
    cut = code_tokenizer(TextParameters(base_tokenizer="code"))
    with pytest.raises(InvalidInputError, match="do not fit"):
        cut(np.zeros(4, np.uint8), np.array([0, 5], np.int64))
    with pytest.raises(InvalidInputError, match="do not fit"):
        cut(np.zeros(4, np.uint8), np.array([2, 1, 4], np.int64))


def test_bytes_that_are_not_utf8_separate_words() -> None:
    cut = code_tokenizer(TextParameters(base_tokenizer="code", split_identifiers=True))
    data = np.frombuffer(b"aB\xff\xf0\x90\x90c_\xe2", np.uint8)
    found = cut(data, np.array([0, len(data)], np.int64))
    tokens = [bytes(data[start : start + size]) for start, size in zip(found.starts, found.lengths, strict=True)]
    assert tokens == [b"aB", b"a", b"B", b"c_"]
