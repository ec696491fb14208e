# ruff: noqa: RUF001
"""The tokenizers icu and icu/split cut as the reference library, where no dictionary is needed."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from lance_spark.analysis.alphabet import word_break_classes
from lance_spark.analysis.analyzer import Analyzer
from lance_spark.analysis.parameters import TextParameters
from lance_spark.analysis.token_filters import languages, stop_words, stop_words_of_icu
from lance_spark.errors import UnsupportedFeatureError
from tests.analysis.tokens import expected, relative

AS_CUT: dict[str, Any] = {
    "stem": False,
    "remove_stop_words": False,
    "lower_case": False,
    "ascii_folding": False,
    "max_token_length": None,
}
BOTH = pytest.mark.parametrize("name", ["icu", "icu/split"])

TEXTS = [
    "",
    "hello_world don't 3.14 1,000.5 a.b.c x:y 10:30 e-mail U.S.A. can''t _a_ a_1 \"q\" c++",
    "Ünïcödé Straße e\u0301cole \u0301x ½ ① Ⓜ\u200dⓂ a\u200d😀 👩\u200d👩\u200d👧 🇩🇪🇫🇷 a\u00adb",
    "Привет, мир! Καλημέρα κόσμε. مرحبا بالعالم צה\"ל ג'ירפה א' नमस्ते दुनिया தமிழ் 안녕하세요 세계 և Ժամ",
    "a\r\nb\u0085c\u2028d\ve \u0345 \n\u0345 \u0600١٢٣ x\u202fy",
]


@BOTH
def test_texts_equal_pylance(name: str) -> None:
    for text in TEXTS:
        for options in (AS_CUT, {}, {"custom_stop_words": ["hello"]}, {"language": "German"}):
            both = {**options, "base_tokenizer": name}
            assert relative(text, both) == expected(text, both), text


@BOTH
def test_random_texts_of_all_classes_equal_pylance(name: str) -> None:
    classes = word_break_classes()
    characters: dict[int, list[str]] = {}
    for point in [*range(0xD800), *range(0xE000, 0x20000), *range(0xE0000, 0xE0200)]:
        characters.setdefault(classes[point], []).append(chr(point))
    del characters[ord("C")]
    kinds = list(characters)
    likely = [*map(ord, "AAAHHNNXZ"), *kinds]
    choose = random.Random(name)
    options = {**AS_CUT, "base_tokenizer": name}
    for _ in range(1500):
        text = "".join(choose.choice(characters[choose.choice(likely)]) for _ in range(choose.randint(1, 25)))
        assert relative(text, options) == expected(text, options), text


@pytest.mark.slow
def test_each_character_has_the_class_of_pylance() -> None:
    options = {**AS_CUT, "base_tokenizer": "icu"}
    classes = word_break_classes()
    points = [point for point in range(0x30000) if not 0xD800 <= point < 0xE000 and classes[point] != ord("C")]
    frames = ["a{}b", "1{}2", "א{}ב", "א{}", 'א"{}', "1.{}", ".{}a", " {}\u0345", "🇦{}\u0345", "a\u200d{}", "{}{}"]
    for start in range(0, len(points), 5000):
        chosen = [chr(point) for point in points[start : start + 5000]]
        text = "\n".join(frame.replace("{}", one) for one, frame in itertools.product(chosen, frames))
        assert relative(text, options) == expected(text, options)


def test_stop_words_are_those_of_pylance() -> None:
    words = sorted(stop_words_of_icu().union(*map(stop_words, languages())))
    text = "\n".join(words)
    options: dict[str, Any] = {"base_tokenizer": "icu", "stem": False, "ascii_folding": False}
    assert relative(text, options) == expected(text, options)


@BOTH
@pytest.mark.parametrize("text", ["東京", "ひらがな", "カナ", "ภาษา", "ລາວ", "ខ្មែរ", "မြန်မာ", "ｶﾅ", "a 々"])
def test_scripts_that_need_a_dictionary_are_refused(name: str, text: str) -> None:
    analyzer = Analyzer(TextParameters(base_tokenizer=name))
    with pytest.raises(UnsupportedFeatureError, match="needs a dictionary"):
        analyzer.tokens(text)
    assert [token.text for token in analyzer.tokens("fish")] == ["fish"]
