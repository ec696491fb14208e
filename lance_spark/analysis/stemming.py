"""Snowball stemmers."""

from __future__ import annotations

import functools
from collections.abc import Callable

import Stemmer


@functools.cache
def stemmer(language: str) -> Callable[[str], str]:
    """The function from a word in lower case to its stem."""
    # Each distinct word is stemmed once, so the stemmer's own cache costs more than it spares.
    found: Callable[[str], str] = Stemmer.Stemmer(language.lower(), 0).stemWord
    return found
