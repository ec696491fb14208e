"""Words that are too frequent to search for."""

from __future__ import annotations

import functools
from importlib.resources import files

# Words of a language that are none for the tokenizer icu, and words of its list that no language has.
_ICU_KEPT = "icu_kept"
_ICU_ADDED = "icu_added"


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
    """The stop words of the tokenizer icu: those of all languages, and of Korean.

    >>> "und" in stop_words_of_icu(), "man" in stop_words_of_icu()
    (True, False)
    """
    of_languages = frozenset().union(*map(stop_words, languages()))
    return of_languages - _lists()[_ICU_KEPT] | _lists()[_ICU_ADDED]
