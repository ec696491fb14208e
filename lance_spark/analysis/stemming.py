"""Snowball stemmers, from one of two optional packages."""

from __future__ import annotations

import functools
from collections.abc import Callable

from lance_spark.errors import UnsupportedFeatureError


@functools.cache
def stemmer(language: str) -> Callable[[str], str]:
    """The function from a word in lower case to its stem.

    Raises:
        UnsupportedFeatureError: neither PyStemmer nor snowballstemmer is installed.
    """
    name = language.lower()
    try:
        import Stemmer
    except ImportError:
        return _pure_python_stemmer(name)
    fast: Callable[[str], str] = Stemmer.Stemmer(name).stemWord
    return fast


def _pure_python_stemmer(name: str) -> Callable[[str], str]:
    try:
        import snowballstemmer
    except ImportError:
        raise UnsupportedFeatureError(
            "stemming needs PyStemmer or snowballstemmer; install lance-spark[fts], or search with stem=False",
            feature="stemming",
        ) from None
    found: Callable[[str], str] = snowballstemmer.stemmer(name).stemWord
    return found
