"""Tokens of a batch of texts, as tokenizers return them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Cut:
    """The tokens of n texts, text after text.

    Attributes:
        data: uint8, the bytes that hold the tokens.
        starts: int64[m], where each token starts in the data.
        lengths: int32[m], their bytes.
        counts: int64[n], the number of tokens of each text.
        positions: int32[m], the position of each token in its text; None: 0, 1, 2 and so on.
    """

    data: npt.NDArray[np.uint8]
    starts: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int32]
    counts: npt.NDArray[np.int64]
    positions: npt.NDArray[np.int32] | None = None

    @classmethod
    def of_words(cls, texts: Sequence[Sequence[tuple[str, int]]]) -> Cut:
        """From (token, position) of each text."""
        tokens = [word.encode() for words in texts for word, _ in words]
        lengths = np.fromiter(map(len, tokens), np.int32, len(tokens))
        starts = np.cumsum(lengths, dtype=np.int64) - lengths
        positions = np.array([position for words in texts for _, position in words], np.int32)
        counts = np.array([len(words) for words in texts], np.int64)
        return cls(np.frombuffer(b"".join(tokens), np.uint8), starts, lengths, counts, positions)

    def of_texts(self, chosen: npt.NDArray[np.bool_]) -> Cut:
        """Without the tokens of texts that are not `chosen` (bool[n]): a null has none, an empty text can have one."""
        keep = np.repeat(chosen, self.counts)
        positions = None if self.positions is None else self.positions[keep]
        return Cut(self.data, self.starts[keep], self.lengths[keep], self.counts * chosen, positions)


Tokenizer = Callable[[npt.NDArray[np.uint8], npt.NDArray[np.int64]], Cut]
"""Cuts texts, given their UTF-8 bytes and int64[n + 1], where each starts and ends in them.

Raises:
    InvalidInputError: an offset lies outside of the bytes.
"""


def decoded(data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]) -> list[str]:
    """The texts as strings; bytes that are not UTF-8 become U+FFFD."""
    whole = data.tobytes()
    return [whole[start:stop].decode(errors="replace") for start, stop in pairwise(offsets.tolist())]
