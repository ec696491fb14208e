"""The terms of a part of a text index, in ascending order, and their numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lance_spark.errors import CorruptFileError
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.text.dictionary import decode_fst, place_of_term, terms_within
from lance_spark.kernels.text.fst_build import build_fst, masked_crc32c

_COMMON_INPUTS = b"\0te/oasripcnw.hlm-du012g=:bf3y5&_4v9678k%?xCDASFIBEjPTzRNM+LOqHG"
_FOOTER = 20
_MAX_TERM_BYTES = 1 << 16
_MAX_BYTES = 1 << 31
_MAX_FST_TERM = 4096
_NODE_NUMBERS = 3 + 3 * 256


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
    def of_terms(cls, terms: Sequence[str]) -> Dictionary:
        """The dictionary of terms whose numbers are their places."""
        encoded = [term.encode() for term in terms]
        order = sorted(range(len(encoded)), key=encoded.__getitem__)
        lengths = np.array([len(encoded[place]) for place in order], np.int64)
        arena = np.frombuffer(b"".join(encoded[place] for place in order), np.uint8)
        return cls(arena, np.cumsum(lengths), np.array(order, np.int64))

    @classmethod
    def of_fst(cls, data: bytes, total_bytes: int) -> Dictionary:
        """The dictionary that a transducer holds, whose terms have `total_bytes` bytes together.

        Raises:
            CorruptFileError: not a transducer with terms of this size.
        """
        count = int.from_bytes(data[-_FOOTER : -_FOOTER + 8], "little")
        if len(data) < 16 + _FOOTER or count > len(data) * 256 + total_bytes or not 0 <= total_bytes < _MAX_BYTES:
            raise CorruptFileError(f"a token dictionary of {len(data)} bytes claims {count} terms")
        depth = min(total_bytes, _MAX_TERM_BYTES) + 2
        arena = np.empty(total_bytes, np.uint8)
        ends, values = np.empty(count, np.int64), np.empty(count, np.int64)
        common, scratch = np.frombuffer(_COMMON_INPUTS, np.uint8), np.empty(4 * depth, np.int64)
        source = np.frombuffer(data, np.uint8)
        failed = decode_fst(
            address_of(source),
            len(source),
            address_of(common),
            address_of(scratch),
            depth,
            address_of(arena),
            len(arena),
            address_of(ends),
            address_of(values),
            count,
        )
        if failed:
            raise CorruptFileError(f"a token dictionary of {count} terms is damaged")
        return cls(arena, ends, values)

    def to_fst(self) -> bytes | None:
        """The transducer of these terms; None if one of them is too long for it."""
        longest = int(np.diff(self.ends, prepend=0).max(initial=0))
        if longest > _MAX_FST_TERM:
            return None
        common = np.zeros(256, np.uint8)
        for number, byte in enumerate(_COMMON_INPUTS[1:], 1):
            common[byte] = number
        nodes = np.empty(_NODE_NUMBERS * (longest + 1), np.int64)
        out = np.empty(24 * len(self.arena) + 1024 * (longest + 2) + 4096, np.uint8)
        size = build_fst(
            address_of(self.arena),
            address_of(self.ends),
            address_of(self.numbers),
            len(self),
            address_of(common),
            address_of(nodes),
            address_of(out),
            len(out),
        )
        if size < 0:
            return None
        return out[:size].tobytes() + int(masked_crc32c(address_of(out), size)).to_bytes(4, "little")

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self.arena.nbytes + self.ends.nbytes + self.numbers.nbytes

    def __len__(self) -> int:
        return len(self.ends)

    def terms(self) -> list[str]:
        """All terms by number, if the numbers are dense.

        Raises:
            CorruptFileError: a term is no text.
        """
        found = [""] * len(self)
        for place, number in enumerate(self.numbers.tolist()):
            try:
                found[number] = self._bytes(place).decode()
            except UnicodeDecodeError as error:
                raise CorruptFileError(f"term {number} of a token dictionary is no UTF-8") from error
        return found

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
