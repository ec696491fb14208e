"""Texts to terms: the tokenizer cuts, the filters change or drop each distinct token once.

>>> analyzer = Analyzer(TextParameters())
>>> [(token.text, token.position) for token in analyzer.tokens("The running of two Dogs")]
[('run', 1), ('two', 3), ('dog', 4)]
"""

from __future__ import annotations

import functools
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.analysis.parameters import TextParameters
from lance_spark.analysis.token_filters import fold_to_ascii, stemmer, stop_words, stop_words_of_icu, to_lower_case
from lance_spark.analysis.token_numbers import TokenNumbers
from lance_spark.analysis.tokenizers.base import Tokenizer
from lance_spark.analysis.tokenizers.code import code_tokenizer
from lance_spark.analysis.tokenizers.icu import icu_tokenizer
from lance_spark.analysis.tokenizers.jieba import jieba_tokenizer
from lance_spark.analysis.tokenizers.words import ascii_words, word_tokenizer
from lance_spark.errors import InvalidInputError

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
    """Analyzes texts. Numbers of terms are the same in all results of one analyzer."""

    def __init__(self, parameters: TextParameters) -> None:
        self.parameters = parameters
        self._term_of_token = array("i")
        self._filters = _filters(parameters)

    def tokens(self, text: str) -> list[Token]:
        """The terms of one text, in the order of the tokenizer."""
        words = ascii_words(self.parameters, text)
        if words is not None:
            terms = map(self._term, words)
            return [Token(term, position) for position, term in enumerate(terms) if term is not None]
        analyzed = self.in_order(pa.array([text], pa.large_string()))
        return [
            Token(self.terms[term], position)
            for term, position in zip(analyzed.terms.tolist(), analyzed.positions.tolist(), strict=True)
        ]

    def analyze(self, values: pa.Array) -> AnalyzedTexts:
        """The terms of strings, or of lists of strings, whose items are one text with a space between two of them.

        The positions of a text ascend. Nulls have no terms.

        Raises:
            InvalidInputError: the values are neither strings nor lists of strings.
            UnsupportedFeatureError: the tokenizer needs a package or a dictionary that is not there.
        """
        analyzed = self.in_order(values)
        return analyzed if self._positions_ascend else _by_position(analyzed)

    def in_order(self, values: pa.Array) -> AnalyzedTexts:
        """The terms in the order of the tokenizer. Arguments and errors as `analyze`."""
        chunks = [self._analyze_chunk(chunk) for chunk in _chunks(_texts(values))]
        terms = np.concatenate([np.empty(0, np.int32), *(found for found, _, _ in chunks)])
        ends = np.cumsum(np.concatenate([np.zeros(1, np.int64), *(counts for _, counts, _ in chunks)]))
        places = [found for _, _, found in chunks if found is not None]
        if places:
            positions = np.concatenate(places)
        else:
            positions = (np.arange(len(terms)) - np.repeat(ends[:-1], np.diff(ends))).astype(np.int32)
        is_term = terms >= 0
        if is_term.all():
            return AnalyzedTexts(terms, positions, ends)
        before = np.concatenate([np.zeros(1, np.int64), np.cumsum(is_term)])
        return AnalyzedTexts(terms[is_term], positions[is_term], before[ends])

    def _analyze_chunk(
        self, texts: pa.Array
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64], npt.NDArray[np.int32] | None]:
        """(the term of each token or -1, `Cut.counts`, `Cut.positions`)."""
        cut = self._tokenizer(*_buffers(texts))
        if texts.null_count:
            cut = cut.of_texts(texts.is_valid().to_numpy(zero_copy_only=False))
        tokens = self._tokens.of(cut.data, cut.starts, cut.lengths)
        num_terms = len(self._term_of_token)
        if len(self._tokens) > num_terms:
            new = [self._term(token.decode(errors="replace")) for token in self._tokens.tokens_from(num_terms)]
            self._term_of_token.frombytes(self.numbers_of(pa.array(new, pa.large_string())).tobytes())
        return np.frombuffer(self._term_of_token, np.int32)[tokens], cut.counts, cut.positions

    @functools.cached_property
    def terms(self) -> TokenNumbers:
        """The distinct terms so far; the index is the number."""
        # Many texts have many terms, which take a fifth of the memory of Python strings and a dictionary of them.
        return TokenNumbers()

    @functools.cached_property
    def _tokens(self) -> TokenNumbers:
        return TokenNumbers()

    @functools.cached_property
    def _tokenizer(self) -> Tokenizer:
        # Made when a text comes: a merge of segments needs no dictionary.
        return tokenizer_of(self.parameters)

    @property
    def _positions_ascend(self) -> bool:
        return not self.parameters.base_tokenizer.startswith("jieba")

    def _term(self, token: str) -> str | None:
        """The term that a token becomes; None if it is dropped."""
        limit = self.parameters.max_token_length
        if limit is not None and len(token.encode()) >= limit:
            return None
        for change in self._filters:
            changed = change(token)
            if changed is None:
                return None
            token = changed
        return token

    def numbers_of(self, terms: pa.LargeStringArray) -> npt.NDArray[np.int32]:
        """int32[n]: the numbers of terms, new ones where they are not known; -1 for nulls."""
        present = terms.drop_null()
        data, ends = _buffers(present)
        numbers = self.terms.of(data, ends[:-1], np.diff(ends).astype(np.int32))
        if len(present) == len(terms):
            return numbers
        all_numbers = np.full(len(terms), -1, np.int32)
        all_numbers[terms.is_valid().to_numpy(zero_copy_only=False)] = numbers
        return all_numbers


def tokens_of(parameters: TextParameters, text: str) -> tuple[Token, ...]:
    """The terms of the text of a query."""
    return tuple(Analyzer(parameters).tokens(text))


def _filters(parameters: TextParameters) -> list[Callable[[str], str | None]]:
    """Token filters in order of application. Stop words are compared with stems, as the reference library does."""
    filters: list[Callable[[str], str | None]] = []
    if parameters.lower_case:
        filters.append(to_lower_case)
    if parameters.stem:
        filters.append(stemmer(parameters.language))
    if parameters.remove_stop_words:
        refused = _stop_words(parameters)
        filters.append(lambda token: None if token in refused else token)
    if parameters.ascii_folding:
        filters.append(fold_to_ascii)
    return filters


def _stop_words(parameters: TextParameters) -> frozenset[str]:
    if parameters.custom_stop_words is not None:
        return frozenset(parameters.custom_stop_words)
    is_icu = parameters.base_tokenizer.startswith("icu")
    return stop_words_of_icu() if is_icu else stop_words(parameters.language)


def is_text(dtype: pa.DataType) -> bool:
    """Whether values of a type can be analyzed: strings and lists of strings."""
    if pa.types.is_list(dtype) or pa.types.is_large_list(dtype):
        dtype = dtype.value_type
    return bool(pa.types.is_string(dtype) or pa.types.is_large_string(dtype))


def _by_position(found: AnalyzedTexts) -> AnalyzedTexts:
    texts = np.repeat(np.arange(len(found.offsets) - 1), np.diff(found.offsets))
    order = np.lexsort((found.positions, texts))
    return AnalyzedTexts(found.terms[order], found.positions[order], found.offsets)


def _texts(values: pa.Array) -> pa.LargeStringArray:
    if not is_text(values.type):
        raise InvalidInputError(f"text search needs strings or lists of strings, not {values.type}")
    if pa.types.is_list(values.type) or pa.types.is_large_list(values.type):
        return _joined(values)
    return values.cast(pa.large_string())


def _joined(lists: pa.Array) -> pa.LargeStringArray:
    """The strings of each list with a space between two. Nulls, and empty strings at the start, are left out."""
    counts = lists.value_lengths().fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    items = lists.flatten().cast(pa.large_string())
    sizes = pc.binary_length(items).fill_null(0).to_numpy(zero_copy_only=False)
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    has_text_up_to = before[1:] > np.repeat(before[ends[:-1]], counts)
    keep = has_text_up_to & items.is_valid().to_numpy(zero_copy_only=False)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(keep)])[ends]
    joined = pa.LargeListArray.from_arrays(pa.array(offsets), items.filter(pa.array(keep)))
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


def tokenizer_of(parameters: TextParameters) -> Tokenizer:
    """The tokenizer.

    Raises:
        UnsupportedFeatureError: it needs a package or a dictionary that is not there.
        InvalidInputError: its dictionary cannot be read.
    """
    if parameters.base_tokenizer == "code":
        return code_tokenizer(parameters)
    if parameters.base_tokenizer.startswith("jieba"):
        return jieba_tokenizer(parameters)
    if parameters.base_tokenizer.startswith("icu"):
        return icu_tokenizer(parameters)
    return word_tokenizer(parameters)
