"""Kinds of documents of a text index: texts, or JSON."""

from __future__ import annotations

import functools

from lance_spark.analysis.analyzer import Analyzer, Token
from lance_spark.analysis.parameters import JSON, TextParameters
from lance_spark.index.text.json_documents import JsonAnalyzer, value_start


def analyzer_of(parameters: TextParameters) -> Analyzer:
    """An analyzer for documents of their kind."""
    return (JsonAnalyzer if parameters.lance_tokenizer == JSON else Analyzer)(parameters)


@functools.lru_cache(maxsize=64)
def query_tokens(parameters: TextParameters, text: str) -> tuple[Token, ...]:
    """The terms of the text of a query.

    Raises:
        InvalidInputError: documents are JSON, and the text is not triples of path, type and value.
    """
    return tuple(analyzer_of(parameters).tokens(text))


def fixed_prefix(parameters: TextParameters, term: str) -> int:
    """Number of characters at the start of a fuzzy term that must match exactly: path and type of JSON documents."""
    return value_start(term) if parameters.lance_tokenizer == JSON else 0
