"""The terms of a part of a text index, in ascending order, and their numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.analysis.token_numbers import TokenNumbers
from lance_spark.errors import CorruptFileError
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.text.dictionary import place_of_term, terms_within


@dataclass(frozen=True)
class Dictionary:
    """Distinct terms.

    Attributes:
        arena: uint8, the terms in UTF-8, ascending.
        ends: int64[n], where each term ends.
        numbers: int64[n], the number of each term.
    """

    arena: npt.NDArray[np.uint8]
    ends: npt.NDArray[np.int64]
    numbers: npt.NDArray[np.int64]

    @classmethod
    def of_terms(cls, terms: TokenNumbers | Sequence[str]) -> Dictionary:
        """The dictionary of terms whose numbers are their places."""
        words = terms.binaries() if isinstance(terms, TokenNumbers) else pa.array(terms, pa.large_binary())
        order = pc.sort_indices(words)
        words = words.take(order)
        _, ends, arena = words.buffers()
        data = np.frombuffer(arena or b"", np.uint8)
        return cls(data, np.frombuffer(ends, np.int64)[1 : len(words) + 1], order.to_numpy().astype(np.int64))

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self.arena.nbytes + self.ends.nbytes + self.numbers.nbytes

    def __len__(self) -> int:
        return len(self.ends)

    def terms(self) -> pa.LargeStringArray:
        """All terms by number.

        Raises:
            CorruptFileError: a term is no text, or the numbers are not 0, 1, 2 and so on.
        """
        order = np.argsort(self.numbers)
        if not np.array_equal(self.numbers[order], np.arange(len(self))):
            raise CorruptFileError(f"the {len(self)} terms of a token dictionary do not have the numbers from 0")
        offsets = np.concatenate([np.zeros(1, np.int64), self.ends])
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(self.arena))]
        words = pa.Array.from_buffers(pa.large_binary(), len(self), buffers)
        try:
            return words.take(pa.array(order)).cast(pa.large_string())
        except pa.ArrowInvalid as error:
            raise CorruptFileError(f"a term of a token dictionary is no UTF-8: {error}") from error

    def find(self, term: str) -> int | None:
        """The number of a term; None if it is not here."""
        word = np.frombuffer(term.encode(), np.uint8)
        place = place_of_term(address_of(self.arena), address_of(self.ends), len(self), address_of(word), len(word))
        return int(self.numbers[place]) if place >= 0 else None

    def within(self, term: str, distance: int, prefix_length: int) -> list[str]:
        """The terms within an edit distance in characters, whose first `prefix_length` characters are the same."""
        word = np.array([ord(character) for character in term], np.int32)
        scratch = np.empty(2 * (len(word) + 1), np.int32)
        marks = np.empty(len(self), np.uint8)
        terms_within(
            address_of(self.arena),
            address_of(self.ends),
            len(self),
            address_of(word),
            len(word),
            distance,
            min(prefix_length, len(word)),
            address_of(scratch),
            address_of(marks),
        )
        return [self._bytes(place).decode(errors="replace") for place in np.flatnonzero(marks).tolist()]

    def _bytes(self, place: int) -> bytes:
        start = int(self.ends[place - 1]) if place else 0
        return self.arena[start : int(self.ends[place])].tobytes()
