"""INVERTED: for each term of the texts of a column the rows whose text has it.

Searches by words read these files in `index.text`. Here the index answers `contains_tokens`, which compares tokens as
they are written: a row that has a token has the term that the index makes of it, so the rows that have the terms of all
tokens are a superset of the answer. That is known of ASCII tokens and the tokenizer `simple` only: it cuts texts as
`contains_tokens` does, and letters beyond ASCII can have another lower case in the library that built the index.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark.analysis.analyzer import tokens_of
from lance_spark.analysis.parameters import AS_WRITTEN
from lance_spark.expr.nodes import And, Column, Expr
from lance_spark.expr.text.nodes import ContainsTokens
from lance_spark.index.base import Fit, Predicate, ScalarIndex, SearchResult
from lance_spark.index.row_set import RowSet
from lance_spark.index.text.part import TextPart
from lance_spark.index.text.segment import MAX_VERSION, TYPE_URL, TextSegment

_SELECTIVE_SHARE = 1 / 2
"""If more of the rows are candidates, reading the column is cheaper."""


class InvertedIndex(ScalarIndex):
    """A segment of an INVERTED index."""

    type_name = "INVERTED"
    type_url = TYPE_URL
    max_version = MAX_VERSION
    loses_moved_rows = True

    @classmethod
    def holds_row_ids(cls, version: int) -> bool:
        return True

    @classmethod
    def fit(cls, predicate: Predicate) -> Fit:
        is_string = pa.types.is_string(predicate.dtype) or pa.types.is_large_string(predicate.dtype)
        return Fit.SUPERSET if is_string and required_tokens(predicate.expr) else Fit.NONE

    def search(self, predicate: Predicate) -> SearchResult | None:
        segment = TextSegment.open(self._files)
        if segment.parameters.base_tokenizer != "simple":
            return None
        tokens = sorted(required_tokens(predicate.expr))
        terms = {found.text for token in tokens for found in tokens_of(segment.parameters, token)}
        if not terms:
            return None
        found = np.concatenate([np.empty(0, np.uint64), *(_rows(part, terms) for part in segment.partitions)])
        if len(found) > sum(self._coverage.fragment_rows.values()) * _SELECTIVE_SHARE:
            return None
        return SearchResult(RowSet.of_numbers(np.unique(found)), is_exact=False)


def required_tokens(expr: Expr) -> frozenset[str]:
    """The ASCII tokens that every text has for which a condition is TRUE; none if nothing is known.

    >>> from lance_spark.expr.sql.parse import parse
    >>> sorted(required_tokens(parse("contains_tokens(c, 'Ab-cd é') AND c <> 'x'")))
    ['Ab', 'cd']
    """
    if isinstance(expr, And):
        return frozenset().union(*map(required_tokens, expr.terms))
    if isinstance(expr, ContainsTokens) and isinstance(expr.value, Column):
        return _ascii_tokens(expr.words)
    return frozenset()


def _ascii_tokens(words: str) -> frozenset[str]:
    return frozenset(token.text for token in tokens_of(AS_WRITTEN, words) if token.text.isascii())


def _rows(part: TextPart, terms: set[str]) -> npt.NDArray[np.uint64]:
    """uint64[n]: the rows of the documents that have all terms."""
    docs: npt.NDArray[np.int32] | None = None
    for term in sorted(terms):
        number = part.find(term)
        if number is None:
            return np.empty(0, np.uint64)
        own = part.postings(number).docs
        docs = own if docs is None else np.intersect1d(docs, own, assume_unique=True)
    return np.empty(0, np.uint64) if docs is None else part.row_ids_at(docs)
