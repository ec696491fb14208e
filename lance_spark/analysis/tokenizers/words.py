"""simple, whitespace, raw and ngram."""

from __future__ import annotations

import re
from functools import partial

import numpy as np
import numpy.typing as npt

from lance_spark.analysis.alphabet import alphanumeric, not_whitespace
from lance_spark.analysis.parameters import TextParameters
from lance_spark.analysis.tokenizers.base import Cut, Tokenizer
from lance_spark.errors import InvalidInputError
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.text.tokens import split_ngrams, split_words

_ASCII_WORDS = {"simple": re.compile(r"[0-9A-Za-z]+"), "whitespace": re.compile(r"[^\t\n\f\r ]+")}


def ascii_words(parameters: TextParameters, text: str) -> list[str] | None:
    """The tokens of one text of ASCII characters; None for other texts and tokenizers than simple and whitespace.

    Queries are single short texts, for which the arrays of `word_tokenizer` take longer than the rest of an analysis.
    """
    words = _ASCII_WORDS.get(parameters.base_tokenizer)
    return words.findall(text) if words is not None and text.isascii() else None


def word_tokenizer(parameters: TextParameters) -> Tokenizer:
    """The tokenizer of the name, which is one of those above."""
    name = parameters.base_tokenizer
    if name == "raw":
        return _whole_texts
    if name == "ngram":
        sizes = (parameters.min_ngram_length, parameters.max_ngram_length, int(parameters.prefix_only))
        return partial(_ngrams, sizes=sizes)
    return partial(_runs, classes=alphanumeric() if name == "simple" else not_whitespace())


def _whole_texts(data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]) -> Cut:
    lengths = np.diff(offsets)
    return Cut(data, offsets[:-1].copy(), lengths.astype(np.int32), np.ones(len(lengths), np.int64))


def _runs(data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64], classes: npt.NDArray[np.uint8]) -> Cut:
    num_texts = len(offsets) - 1
    capacity = int(offsets[-1] - offsets[0]) // 2 + num_texts
    starts, lengths, counts = np.empty(capacity, np.int64), np.empty(capacity, np.int32), np.empty(num_texts, np.int64)
    texts = (address_of(data), len(data), address_of(offsets), num_texts)
    out = (address_of(starts), address_of(lengths), address_of(counts), capacity)
    num_tokens = checked(split_words(*texts, address_of(classes), *out))
    return Cut(data, starts[:num_tokens], lengths[:num_tokens], counts)


def _ngrams(data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64], sizes: tuple[int, int, int]) -> Cut:
    num_texts = len(offsets) - 1
    capacity = int(offsets[-1] - offsets[0]) * (sizes[1] - sizes[0] + 1)
    starts, lengths, counts = np.empty(capacity, np.int64), np.empty(capacity, np.int32), np.empty(num_texts, np.int64)
    texts = (address_of(data), len(data), address_of(offsets), num_texts)
    out = (address_of(starts), address_of(lengths), address_of(counts), capacity)
    num_tokens = checked(split_ngrams(*texts, *sizes, *out))
    return Cut(data, starts[:num_tokens], lengths[:num_tokens], counts, np.broadcast_to(np.int32(0), num_tokens))


def checked(found: int) -> int:
    """The number of tokens that a kernel returned.

    Raises:
        InvalidInputError: the kernel met an offset that lies outside of the bytes.
    """
    if found < 0:
        raise InvalidInputError("the offsets of a string column do not fit its bytes")
    return found
