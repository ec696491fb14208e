"""Words that are too frequent to search for."""

from __future__ import annotations

import functools
from importlib.resources import files


@functools.cache
def _lists() -> dict[str, frozenset[str]]:
    text = files("lance_spark.analysis").joinpath("data/stop_words.txt").read_text("utf-8")
    lines = (line.split(" ") for line in text.splitlines())
    return {line[0]: frozenset(line[1:]) for line in lines}


def languages() -> tuple[str, ...]:
    """The languages with stop words and a stemmer."""
    return tuple(_lists())


def stop_words(language: str) -> frozenset[str]:
    """The stop words of one of `languages()`.

    >>> "the" in stop_words("English"), "not" in stop_words("English")
    (True, False)
    """
    return _lists()[language]
