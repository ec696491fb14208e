"""The terms of JSON documents: one for each word of a text and for each other scalar, with its path and type.

Terms are written `path,type,value`. A path has the keys of objects with dots between them, and nothing for arrays;
types are `str`, `number`, `bool` and `null`. Only the words of texts go through the analysis, and their positions count
on from one value to the next.

>>> analyzer = JsonAnalyzer(TextParameters(lance_tokenizer="json"))
>>> [token.text for token in analyzer.tokens("a.b,str,Running dogs;c,number,1.5")]
['a.b,str,run', 'a.b,str,dog', 'c,number,1.5']
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark.analysis.analyzer import AnalyzedTexts, Analyzer, Token
from lance_spark.analysis.parameters import TextParameters
from lance_spark.errors import InvalidInputError
from lance_spark.expr.json_path.documents import JsonItem, json_item
from lance_spark.index.text.stored import starts_of

_WORD_BITS = 32


class JsonAnalyzer(Analyzer):
    """Analyzes binary JSON documents, and the triples of queries."""

    def __init__(self, parameters: TextParameters) -> None:
        super().__init__(parameters)
        self._words = Analyzer(replace(parameters, lance_tokenizer="text"))
        self._heads: dict[str, int] = {}

    def tokens(self, text: str) -> list[Token]:
        """The terms of a query: triples `path,type,value` with semicolons between them.

        Raises:
            InvalidInputError: it is not of this form.
        """
        found: list[str] = []
        for triple in text.split(";"):
            path, kind, value = _triple(triple)
            words = [token.text for token in self._words.tokens(value)] if kind == "str" else [value]
            found += [f"{path},{kind},{word}" for word in words]
        return [Token(term, place) for place, term in enumerate(found)]

    def analyze(self, values: pa.Array) -> AnalyzedTexts:
        """The terms of documents. Nulls have none.

        Raises:
            InvalidInputError: the values are not binary JSON.
        """
        if not pa.types.is_large_binary(values.type):
            raise InvalidInputError(f"JSON documents are needed, not {values.type}")
        owners, heads, texts = [], [], []
        for place, data in enumerate(values.to_pylist()):
            for head, text in () if data is None else _leaves(json_item(data)):
                owners.append(place)
                heads.append(self._heads.setdefault(head, len(self._heads)))
                texts.append(text)
        words = self._words.in_order(pa.array(texts, pa.large_string()))
        is_text = np.array([text is not None for text in texts], np.bool_)
        sizes = np.where(is_text, np.diff(words.offsets), 1)
        numbers = np.zeros(int(sizes.sum()), np.int64)
        numbers[np.repeat(is_text, sizes)] = words.terms.astype(np.int64) + 1
        keys = np.repeat(np.array(heads, np.int64), sizes) << _WORD_BITS | numbers
        counts = np.bincount(np.repeat(np.array(owners, np.int64), sizes), minlength=len(values))
        offsets = starts_of(counts)
        positions = np.arange(len(keys)) - np.repeat(offsets[:-1], counts)
        return AnalyzedTexts(self._terms_of(keys), positions.astype(np.int32), offsets)

    def _terms_of(self, keys: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
        """The terms of keys: the number of what is before the word, and 1 + the number of the word or 0."""
        distinct, places = np.unique(keys, return_inverse=True)
        heads = list(self._heads)
        terms = []
        for key in distinct.tolist():
            word = key & ((1 << _WORD_BITS) - 1)
            terms.append(heads[key >> _WORD_BITS] + (self._words.terms[word - 1] if word else ""))
        return self.numbers_of(pa.array(terms, pa.large_string()))[places]


def value_start(term: str) -> int:
    """Start of the value of a triple.

    >>> value_start("a,str,dog")
    6
    """
    return term.index(",", term.index(",") + 1) + 1


def _triple(text: str) -> list[str]:
    parts = text.split(",", 2)
    if len(parts) < 3 or parts[1] not in ("str", "number", "bool", "null"):
        raise InvalidInputError(
            f"{text!r} is not of the form path,type,value with a type of str, number, bool or null, which queries of "
            "JSON documents need; semicolons are between several of them"
        )
    return parts


def _leaves(document: JsonItem) -> Iterator[tuple[str, str | None]]:
    """(the term up to its word, the text), or (the term, None), of each scalar in its order."""
    pending: list[tuple[JsonItem, str]] = [(document, "")]
    while pending:
        item, path = pending.pop()
        if isinstance(item, dict):
            pending += reversed([(member, f"{path}.{key}" if path else key) for key, member in item.items()])
        elif isinstance(item, list):
            pending += [(member, path) for member in reversed(item)]
        elif isinstance(item, str):
            yield f"{path},str,", item
        elif isinstance(item, bool):
            yield f"{path},bool,{str(item).lower()}", None
        elif item is None or (isinstance(item, float) and not math.isfinite(item)):
            yield f"{path},null,null", None
        else:
            yield f"{path},number,{_number(item)}", None


def _number(value: int | float) -> str:
    """A number as the reference library writes it.

    >>> [_number(value) for value in (3, 1.0, 1e16, 1.25e-5, 1e-6)]
    ['3', '1.0', '1e+16', '0.0000125', '1e-6']
    """
    digits, _, exponent = repr(value).partition("e")
    if not exponent:
        return digits
    if exponent == "-05":
        sign = "-" if value < 0 else ""
        return f"{sign}0.0000{digits.lstrip('-').replace('.', '')}"
    return f"{digits}e{exponent[0]}{exponent[1:].lstrip('0')}"
