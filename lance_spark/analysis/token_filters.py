"""Filters of tokens: lower case, ASCII folding, Snowball stems and stop words."""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Callable
from importlib.resources import files

import Stemmer

# ruff: noqa: RUF001

# Letters that Unicode does not decompose.
_SPECIAL = {
    "ß": "ss", "ẞ": "SS", "Æ": "AE", "æ": "ae", "Œ": "OE", "œ": "oe", "Ø": "O", "ø": "o", "Ł": "L", "ł": "l",
    "Đ": "D", "Ð": "D", "đ": "d", "ð": "d", "Þ": "TH", "þ": "th", "Ħ": "H", "ħ": "h", "Ŧ": "T", "ŧ": "t",
    "Ŋ": "N", "ŋ": "n", "ı": "i", "ĸ": "k", "ſ": "s",
}  # fmt: skip

# Words of a language that are none for the tokenizer icu, and words of its list that no language has.
_ICU_KEPT = "icu_kept"
_ICU_ADDED = "icu_added"


def fold_to_ascii(token: str) -> str:
    """`token` with each character replaced by its ASCII form, if it has one.

    >>> fold_to_ascii("Ærø déjà 東京")
    'AEro deja 東京'
    """
    return token if token.isascii() else "".join(map(_folded, token))


def _folded(character: str) -> str:
    if character.isascii():
        return character
    if character in _SPECIAL:
        return _SPECIAL[character]
    parts = unicodedata.normalize("NFKD", character)
    return "".join(part if part.isascii() else _SPECIAL.get(part, "") for part in parts) or character


def to_lower_case(token: str) -> str:
    """`token` in lower case, each character on its own.

    Unlike `str.lower`, a sigma at the end of a word becomes the same letter as elsewhere.

    >>> to_lower_case("ΑΣ")
    'ασ'
    """
    return token.lower() if token.isascii() else "".join(character.lower() for character in token)


def stemmer(language: str) -> Callable[[str], str]:
    """The function from a word in lower case to its stem."""
    # Each distinct word is stemmed once, so the stemmer's own cache costs more than it spares.
    stem: Callable[[str], str] = Stemmer.Stemmer(language.lower(), 0).stemWord
    return stem


@functools.cache
def _lists() -> dict[str, frozenset[str]]:
    text = files("lance_spark.analysis").joinpath("data/stop_words.txt").read_text("utf-8")
    lines = (line.split(" ") for line in text.splitlines())
    return {line[0]: frozenset(line[1:]) for line in lines}


def languages() -> tuple[str, ...]:
    """The languages with stop words and a stemmer."""
    return tuple(name for name in _lists() if name not in (_ICU_KEPT, _ICU_ADDED))


def stop_words(language: str) -> frozenset[str]:
    """The stop words of one of `languages()`.

    >>> "the" in stop_words("English"), "not" in stop_words("English")
    (True, False)
    """
    return _lists()[language]


@functools.cache
def stop_words_of_icu() -> frozenset[str]:
    """The stop words of the tokenizer icu: of all languages, and of Korean.

    >>> "und" in stop_words_of_icu(), "man" in stop_words_of_icu()
    (True, False)
    """
    of_languages = frozenset().union(*map(stop_words, languages()))
    return of_languages - _lists()[_ICU_KEPT] | _lists()[_ICU_ADDED]
