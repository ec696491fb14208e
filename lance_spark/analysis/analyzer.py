"""Texts to terms: the tokenizer cuts, the filters change or drop each distinct token once.

>>> analyzer = Analyzer(TextParameters())
>>> [(token.text, token.position) for token in analyzer.tokens("The running of two Dogs")]
[('run', 1), ('two', 3), ('dog', 4)]
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.analysis.alphabet import alphanumeric, not_whitespace
from lance_spark.analysis.ascii_folding import fold_to_ascii
from lance_spark.analysis.lower_case import to_lower_case
from lance_spark.analysis.parameters import TextParameters
from lance_spark.analysis.stemming import stemmer
from lance_spark.analysis.stop_words import stop_words
from lance_spark.analysis.token_numbers import TokenNumbers
from lance_spark.errors import InvalidInputError
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.text.tokens import split_ngrams, split_words

_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Token:
    """A term of a text.

    Attributes:
        text: the term.
        position: the index of its token in the text, dropped tokens counted.
    """

    text: str
    position: int


@dataclass(frozen=True, slots=True)
class AnalyzedTexts:
    """The terms of n texts.

    Attributes:
        terms: int32[m], numbers of terms (`Analyzer.terms`), text after text.
        positions: int32[m], the index of each term's token in its text.
        offsets: int64[n + 1], where the terms of each text start.
    """

    terms: npt.NDArray[np.int32]
    positions: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int64]


class Analyzer:
    """Analyzes texts. Numbers of terms are the same in all results of one analyzer.

    Attributes:
        terms: the distinct terms so far; the index is the number.
    """

    def __init__(self, parameters: TextParameters) -> None:
        self.parameters = parameters
        self.terms: list[str] = []
        self._numbers: dict[str, int] = {}
        self._tokens = TokenNumbers()
        self._term_of_token = np.empty(0, np.int32)
        self._filters = _filters(parameters)

    def tokens(self, text: str) -> list[Token]:
        """The terms of one text."""
        found = self.analyze(pa.array([text], pa.large_string()))
        return [
            Token(self.terms[term], position)
            for term, position in zip(found.terms.tolist(), found.positions.tolist(), strict=True)
        ]

    def analyze(self, values: pa.Array) -> AnalyzedTexts:
        """The terms of strings, or of lists of strings, each of which is one text. Null strings have no terms.

        Raises:
            InvalidInputError: the values are neither strings nor lists of strings.
        """
        texts = _texts(values)
        chunks = [self._analyze_chunk(chunk) for chunk in _chunks(texts)]
        terms = np.concatenate([np.empty(0, np.int32), *(found for found, _ in chunks)])
        counts = np.concatenate([np.zeros(1, np.int64), *(found for _, found in chunks)])
        ends = np.cumsum(counts)
        if self.parameters.base_tokenizer == "ngram":
            positions = np.zeros(len(terms), np.int32)
        else:
            positions = (np.arange(len(terms)) - np.repeat(ends[:-1], np.diff(ends))).astype(np.int32)
        kept = terms >= 0
        if kept.all():
            return AnalyzedTexts(terms, positions, ends)
        before = np.concatenate([np.zeros(1, np.int64), np.cumsum(kept)])
        return AnalyzedTexts(terms[kept], positions[kept], before[ends])

    def _analyze_chunk(self, texts: pa.Array) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
        """(the term of each token or -1, the number of tokens of each text)."""
        data, offsets = _buffers(texts)
        starts, lengths, counts = self._cut(data, offsets)
        if texts.null_count and self.parameters.base_tokenizer == "raw":
            is_valid = texts.is_valid().to_numpy(zero_copy_only=False)
            starts, lengths, counts = starts[is_valid], lengths[is_valid], is_valid.astype(np.int64)
        tokens = self._tokens.of(data, starts, lengths)
        known = len(self._term_of_token)
        if len(self._tokens) > known:
            new = [self._number(token.decode(errors="replace")) for token in self._tokens.tokens_from(known)]
            self._term_of_token = np.concatenate([self._term_of_token, np.array(new, np.int32)])
        return self._term_of_token[tokens], counts

    def _cut(
        self, data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], npt.NDArray[np.int64]]:
        """The tokens: int64 starts and int32 lengths in bytes, and the number of them in each text (int64[n])."""
        parameters = self.parameters
        num_texts = len(offsets) - 1
        if parameters.base_tokenizer == "raw":
            return offsets[:-1].copy(), np.diff(offsets).astype(np.int32), np.ones(num_texts, np.int64)
        num_bytes = int(offsets[-1] - offsets[0])
        counts = np.empty(num_texts, np.int64)
        texts = (address_of(data), len(data), address_of(offsets), num_texts)
        if parameters.base_tokenizer == "ngram":
            widths = parameters.max_ngram_length - parameters.min_ngram_length + 1
            starts, lengths = np.empty(num_bytes * widths, np.int64), np.empty(num_bytes * widths, np.int32)
            sizes = (parameters.min_ngram_length, parameters.max_ngram_length, int(parameters.prefix_only))
            out = (address_of(starts), address_of(lengths), address_of(counts), len(starts))
            found = split_ngrams(*texts, *sizes, *out)
        else:
            capacity = num_bytes // 2 + num_texts
            starts, lengths = np.empty(capacity, np.int64), np.empty(capacity, np.int32)
            classes = alphanumeric() if parameters.base_tokenizer == "simple" else not_whitespace()
            out = (address_of(starts), address_of(lengths), address_of(counts), capacity)
            found = split_words(*texts, address_of(classes), *out)
        if found < 0:
            raise InvalidInputError("the offsets of a string column do not fit its bytes")
        return starts[:found], lengths[:found], counts

    def _number(self, token: str) -> int:
        """The number of the term that a token becomes; -1 if it is dropped."""
        limit = self.parameters.max_token_length
        if limit is not None and len(token.encode()) >= limit:
            return -1
        for change in self._filters:
            changed = change(token)
            if changed is None:
                return -1
            token = changed
        return self.number_of_term(token)

    def number_of_term(self, term: str) -> int:
        """The number of a term, a new one if need be."""
        number = self._numbers.setdefault(term, len(self.terms))
        if number == len(self.terms):
            self.terms.append(term)
        return number


@functools.lru_cache(maxsize=256)
def tokens_of(parameters: TextParameters, text: str) -> tuple[Token, ...]:
    """The terms of the text of a query."""
    return tuple(Analyzer(parameters).tokens(text))


def _filters(parameters: TextParameters) -> list[Callable[[str], str | None]]:
    """What happens to a token, in order. Stop words are compared with stems, as the reference library does."""
    found: list[Callable[[str], str | None]] = []
    if parameters.lower_case:
        found.append(to_lower_case)
    if parameters.stem:
        found.append(stemmer(parameters.language))
    if parameters.remove_stop_words:
        words = parameters.custom_stop_words
        refused = stop_words(parameters.language) if words is None else frozenset(words)
        found.append(lambda token: None if token in refused else token)
    if parameters.ascii_folding:
        found.append(fold_to_ascii)
    return found


def is_text(dtype: pa.DataType) -> bool:
    """Whether values of a type can be analyzed: strings and lists of strings."""
    if pa.types.is_list(dtype) or pa.types.is_large_list(dtype):
        dtype = dtype.value_type
    return bool(pa.types.is_string(dtype) or pa.types.is_large_string(dtype))


def _texts(values: pa.Array) -> pa.LargeStringArray:
    """One text for each value; a list is the text of its items with a space between them, as in the reference library.

    Null items, and empty ones at the start, leave no space. A null list is an empty text.
    """
    if not is_text(values.type):
        raise InvalidInputError(f"text search needs strings or lists of strings, not {values.type}")
    if not (pa.types.is_list(values.type) or pa.types.is_large_list(values.type)):
        return values.cast(pa.large_string())
    lengths = values.value_lengths().fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    lists = np.repeat(np.arange(len(values)), lengths)
    items = values.flatten().cast(pa.large_string())
    has_text = pc.fill_null(pc.greater(pc.binary_length(items), 0), False).to_numpy(zero_copy_only=False)
    texts_before = np.concatenate([np.zeros(1, np.int64), np.cumsum(has_text)])
    first_items = np.cumsum(lengths) - lengths
    is_joined = texts_before[1:] > texts_before[first_items][lists]
    kept = items.is_valid().to_numpy(zero_copy_only=False) & is_joined
    ends = np.cumsum(np.bincount(lists[kept], minlength=len(values)))
    offsets = pa.array(np.concatenate([np.zeros(1, np.int64), ends]), pa.int32())
    joined = pa.ListArray.from_arrays(offsets, items.filter(pa.array(kept)))
    return pc.binary_join(joined, pa.scalar(" ", pa.large_string()))


def _chunks(texts: pa.Array) -> list[pa.Array]:
    """The texts in pieces of about `_CHUNK_BYTES`, which bounds the memory for tokens."""
    if texts.nbytes <= 2 * _CHUNK_BYTES:
        return [texts] if len(texts) else []
    offsets = _buffers(texts)[1]
    targets = np.arange(int(offsets[0]) + _CHUNK_BYTES, int(offsets[-1]), _CHUNK_BYTES)
    cuts = np.unique([0, *np.searchsorted(offsets, targets).tolist(), len(texts)]).tolist()
    return [texts.slice(start, stop - start) for start, stop in pairwise(cuts)]


def _buffers(texts: pa.Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """(bytes, int64[n + 1] offsets); nulls are empty."""
    if texts.null_count:
        texts = texts.fill_null("")
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    return np.frombuffer(data or b"", np.uint8), ends
