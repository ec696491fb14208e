"""Analyzer parameters of a text column."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from lance_spark.analysis.token_filters import languages
from lance_spark.errors import InvalidInputError, UnsupportedFeatureError

TOKENIZERS = ("simple", "whitespace", "raw", "ngram", "code", "icu", "icu/split", "jieba/NAME")
_NOT_AVAILABLE = ("lindera",)
_MAX_NGRAM = 255
_DICTIONARY_NAME = re.compile(r"[^/\\\0:]+(/[^/\\\0:]+)*")

TEXT, JSON = "text", "json"
"""The kinds of documents."""

CODE_OPTIONS = ("split_identifiers", "split_on_numerics", "preserve_original", "index_operators")
"""The names of the options that only the tokenizer code has."""


@dataclass(frozen=True)
class TextParameters:
    """The analysis of a text. The defaults equal the reference library's.

    Attributes:
        base_tokenizer: simple (runs of letters and digits), whitespace, raw (the text is one token), ngram, code
            (identifiers), icu (words by the rules of Unicode), icu/split (without marks inside of words) or jieba/NAME
            (Chinese words of the dictionary NAME).
        language: of the stemmer and the stop words, such as ``English``.
        max_token_length: tokens of this many UTF-8 bytes or more are dropped; None for no limit.
        lower_case: whether tokens are put into lower case.
        stem: whether words are reduced to their stems; None: unless the tokenizer is ngram or code.
        remove_stop_words: whether stop words are dropped; None: unless the tokenizer is ngram or code.
        custom_stop_words: replace the language's list.
        ascii_folding: whether letters with accents become letters without.
        min_ngram_length, max_ngram_length: characters of an n-gram.
        prefix_only: whether only n-grams at the start of a text are kept.
        split_identifiers: whether parts of identifiers are tokens too, for code.
        split_on_numerics: whether identifiers are split between digits and letters; None: if the tokenizer is code.
        preserve_original: whether split identifiers stay tokens; None: if the tokenizer is code.
        index_operators: whether operators such as ``->`` are tokens, for code.
        lance_tokenizer: the kind of documents, text or json; the column decides it, not the user.
    """

    base_tokenizer: str = "simple"
    language: str = "English"
    max_token_length: int | None = 40
    lower_case: bool = True
    stem: bool | None = None
    remove_stop_words: bool | None = None
    custom_stop_words: tuple[str, ...] | None = None
    ascii_folding: bool = True
    min_ngram_length: int = 3
    max_ngram_length: int = 3
    prefix_only: bool = False
    split_identifiers: bool = False
    split_on_numerics: bool | None = None
    preserve_original: bool | None = None
    index_operators: bool = False
    lance_tokenizer: str = TEXT

    def __post_init__(self) -> None:
        self._check_types()
        _check_tokenizer(self.base_tokenizer)
        if self.lance_tokenizer not in (TEXT, JSON):
            raise UnsupportedFeatureError(
                f"documents of the kind {self.lance_tokenizer!r} cannot be searched", feature="text search"
            )
        if self.language not in languages():
            raise InvalidInputError(f"language {self.language!r} is not one of {', '.join(languages())}")
        if not 0 < self.min_ngram_length <= self.max_ngram_length <= _MAX_NGRAM:
            raise InvalidInputError(
                f"min_ngram_length {self.min_ngram_length} and max_ngram_length {self.max_ngram_length} must satisfy "
                f"0 < min <= max <= {_MAX_NGRAM}"
            )
        is_code = self.base_tokenizer == "code"
        for name in ("stem", "remove_stop_words"):
            if getattr(self, name) is None:
                object.__setattr__(self, name, not is_code and self.base_tokenizer != "ngram")
        for name in ("split_on_numerics", "preserve_original"):
            if getattr(self, name) is None:
                object.__setattr__(self, name, is_code)
        for name in CODE_OPTIONS:
            if getattr(self, name) and not is_code:
                raise InvalidInputError(f"{name} needs the tokenizer code, not {self.base_tokenizer!r}")

    def _check_types(self) -> None:
        for name in ("lower_case", "ascii_folding", "prefix_only", "split_identifiers", "index_operators"):
            _require(name, getattr(self, name), bool)
        for name in ("stem", "remove_stop_words", "split_on_numerics", "preserve_original"):
            _require(name, getattr(self, name), bool, optional=True)
        for name in ("min_ngram_length", "max_ngram_length"):
            _require(name, getattr(self, name), int)
        for name in ("base_tokenizer", "language", "lance_tokenizer"):
            _require(name, getattr(self, name), str)
        _require("max_token_length", self.max_token_length, int, optional=True)
        if self.max_token_length is not None and not 0 <= self.max_token_length < 1 << 32:
            raise InvalidInputError(f"max_token_length {self.max_token_length} is not between 0 and 4294967295")
        words = self.custom_stop_words
        if words is not None and not all(isinstance(word, str) for word in words):
            raise InvalidInputError("custom_stop_words must be strings")

    @classmethod
    def of(cls, options: Mapping[str, Any], others: Iterable[str] = ()) -> TextParameters:
        """The parameters with these values, defaults for the others.

        Args:
            others: names of options that the caller has taken out, for the error.

        Raises:
            InvalidInputError: an unknown name, or an invalid value.
            UnsupportedFeatureError: a tokenizer that this release does not have.
        """
        names_here = {field.name for field in fields(cls)}
        unknown = sorted(options.keys() - names_here)
        if unknown:
            names = ", ".join(sorted(names_here.union(others)))
            raise InvalidInputError(f"unknown text option {unknown[0]!r}; the options are {names}")
        words = options.get("custom_stop_words")
        if isinstance(words, str) or not (words is None or isinstance(words, Iterable)):
            raise InvalidInputError("custom_stop_words must be a list of words")
        return cls(**{**options, "custom_stop_words": None if words is None else tuple(words)})

    @classmethod
    def from_json(cls, text: str) -> TextParameters:
        """The parameters of an index file; unknown keys are ignored, missing ones have defaults.

        Raises:
            InvalidInputError: not the JSON of parameters.
            UnsupportedFeatureError: an analysis that this release does not have.
        """
        try:
            document = json.loads(text)
        except ValueError as error:
            raise InvalidInputError(f"the text parameters are no JSON: {error}") from error
        if not isinstance(document, dict):
            raise InvalidInputError("the text parameters are no JSON object")
        names = {field.name for field in fields(cls)}
        kind = document.get("lance_tokenizer") or TEXT
        return cls.of({**{key: value for key, value in document.items() if key in names}, "lance_tokenizer": kind})

    def to_json_fields(self) -> dict[str, Any]:
        """The parameters as JSON values."""
        words = self.custom_stop_words
        return {**asdict(self), "custom_stop_words": None if words is None else list(words)}


def _check_tokenizer(name: str) -> None:
    kind, _, dictionary = name.partition("/")
    if kind in _NOT_AVAILABLE:
        raise UnsupportedFeatureError(
            f"the tokenizer {name!r} is not available; use one of {', '.join(TOKENIZERS)}", feature=f"tokenizer {name}"
        )
    if kind == "jieba" and name != "jieba":
        # The name comes from a table and becomes a path.
        if not _DICTIONARY_NAME.fullmatch(dictionary) or ".." in dictionary.split("/"):
            raise InvalidInputError(f"the tokenizer {name!r} has no valid name of a dictionary")
    elif name not in (*TOKENIZERS, "jieba"):
        raise InvalidInputError(f"unknown tokenizer {name!r}; use one of {', '.join(TOKENIZERS)}")


def _require(name: str, value: object, kind: type, *, optional: bool = False) -> None:
    if optional and value is None:
        return
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise InvalidInputError(f"{name} is {value!r}, not of type {kind.__name__}")


AS_WRITTEN = TextParameters(
    max_token_length=None, lower_case=False, stem=False, remove_stop_words=False, ascii_folding=False
)
"""Runs of letters and digits, unchanged."""
