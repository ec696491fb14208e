"""code: identifiers of source code, and optionally their parts and operators."""

from __future__ import annotations

from functools import partial

import numpy as np
import numpy.typing as npt

from lance_spark.analysis.alphabet import code_classes
from lance_spark.analysis.parameters import TextParameters
from lance_spark.analysis.tokenizers.base import Cut, Tokenizer
from lance_spark.analysis.tokenizers.words import checked
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.text.code import INDEX_OPERATORS, PRESERVE_ORIGINAL, SPLIT, SPLIT_ON_NUMERICS, split_code

_OPERATOR_TEXTS = (
    "!= !== %= && &&= &= ** **= *= ++ += -- -= -> // //= /= :: := <- << <<= <= <=> == === => >= >> >>= >>>= ?? ??= ^= "
    "|| ||= |= |> ~= >>>"
)
_OPERATORS = np.array([int.from_bytes(text.encode(), "big") for text in _OPERATOR_TEXTS.split()], np.int64)
"""The operators of several characters, as the kernel compares them."""


def code_tokenizer(parameters: TextParameters) -> Tokenizer:
    """Runs of letters, digits and `_`, and, with `index_operators`, at each place the longest operator.

    With `split_identifiers` also the parts between `_`, at changes from lower to upper case, before the last of several
    capitals that a small letter follows, and (`split_on_numerics`) between digits and letters. A part has a position of
    its own; the identifier (`preserve_original`) has the position of its first part. Identifiers of one part stay so.
    """
    flags = INDEX_OPERATORS if parameters.index_operators else 0
    if parameters.split_identifiers:
        flags |= SPLIT
        flags |= SPLIT_ON_NUMERICS if parameters.split_on_numerics else 0
        flags |= PRESERVE_ORIGINAL if parameters.preserve_original else 0
    return partial(_cut, flags=flags)


def _cut(data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64], flags: int) -> Cut:
    num_texts = len(offsets) - 1
    # An identifier of n bytes has at most n parts.
    capacity = 2 * int(offsets[-1] - offsets[0]) + num_texts
    starts, lengths = np.empty(capacity, np.int64), np.empty(capacity, np.int32)
    positions, counts = np.empty(capacity, np.int32), np.empty(num_texts, np.int64)
    texts = (address_of(data), len(data), address_of(offsets), num_texts)
    out = (address_of(starts), address_of(lengths), address_of(positions), address_of(counts), capacity)
    classes = (address_of(code_classes()), address_of(_OPERATORS), len(_OPERATORS))
    num_tokens = checked(split_code(*texts, *classes, flags, *out))
    return Cut(data, starts[:num_tokens], lengths[:num_tokens], counts, positions[:num_tokens])
