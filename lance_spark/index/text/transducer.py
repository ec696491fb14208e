"""Dictionaries of terms as text indexes store them: finite state transducers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lance_spark.errors import CorruptFileError
from lance_spark.index.text.dictionary import Dictionary
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.text.dictionary import decode_fst, masked_crc32c, value_in_fst
from lance_spark.kernels.text.fst_build import build_fst

_COMMON = np.frombuffer(b"\0te/oasripcnw.hlm-du012g=:bf3y5&_4v9678k%?xCDASFIBEjPTzRNM+LOqHG", np.uint8)
_FOOTER = 20
_CHECKSUM = 4
_MAX_TERM_BYTES = 1 << 16
_MAX_BYTES = 1 << 31
_MAX_FST_TERM = 4096
_NODE_NUMBERS = 3 + 3 * 256


@dataclass(frozen=True)
class Transducer:
    """Distinct terms, which are looked up in the stored bytes.

    Attributes:
        data: uint8, with header and footer.
        total_bytes: of all terms together.
        is_mapped: whether `data` is a part of a mapped file, which takes no memory of its own.
    """

    data: npt.NDArray[np.uint8]
    total_bytes: int
    is_mapped: bool = False

    @classmethod
    def of(cls, data: npt.NDArray[np.uint8], total_bytes: int, *, is_mapped: bool = False) -> Transducer:
        """The transducer of these bytes, whose terms have `total_bytes` together.

        Raises:
            CorruptFileError: not a transducer with terms of this size, or not the bytes that were written.
        """
        size, count = len(data), _count(data)
        # All but one of distinct terms have a byte.
        if size < 16 + _FOOTER or count > total_bytes + 1 or not 0 <= total_bytes < _MAX_BYTES:
            raise CorruptFileError(f"a token dictionary of {size} bytes claims {count} terms of {total_bytes} bytes")
        if _checksum(data[:-_CHECKSUM]) != bytes(data[-_CHECKSUM:]):
            raise CorruptFileError(f"the checksum of a token dictionary of {count} terms is wrong")
        return cls(data, total_bytes, is_mapped)

    def __len__(self) -> int:
        return _count(self.data)

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return 0 if self.is_mapped else self.data.nbytes

    def find(self, term: str) -> int | None:
        """The number of a term; None if it is not here.

        Raises:
            CorruptFileError: the transducer is damaged.
        """
        key = np.frombuffer(term.encode(), np.uint8)
        value = value_in_fst(address_of(self.data), len(self.data), address_of(_COMMON), address_of(key), len(key))
        if value < -1 or value >= len(self):
            raise CorruptFileError(f"a token dictionary of {len(self)} terms is damaged")
        return value if value >= 0 else None

    def decoded(self) -> Dictionary:
        """All terms.

        Raises:
            CorruptFileError: the transducer is damaged.
        """
        count = len(self)
        depth = min(self.total_bytes, _MAX_TERM_BYTES) + 2
        arena = np.empty(self.total_bytes, np.uint8)
        ends, values = np.empty(count, np.int64), np.empty(count, np.int64)
        scratch = np.empty(4 * depth, np.int64)
        failed = decode_fst(
            address_of(self.data),
            len(self.data),
            address_of(_COMMON),
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
        return Dictionary(arena, ends, values)


def encoded(dictionary: Dictionary) -> bytes | None:
    """The transducer of some terms; None if one of them is too long for it."""
    longest = int(np.diff(dictionary.ends, prepend=0).max(initial=0))
    if longest > _MAX_FST_TERM:
        return None
    common = np.zeros(256, np.uint8)
    common[_COMMON[1:]] = np.arange(1, len(_COMMON), dtype=np.uint8)
    nodes = np.empty(_NODE_NUMBERS * (longest + 1), np.int64)
    out = np.empty(24 * len(dictionary.arena) + 1024 * (longest + 2) + 4096, np.uint8)
    size = build_fst(
        address_of(dictionary.arena),
        address_of(dictionary.ends),
        address_of(dictionary.numbers),
        len(dictionary),
        address_of(common),
        address_of(nodes),
        address_of(out),
        len(out),
    )
    if size < 0:
        return None
    return out[:size].tobytes() + _checksum(out[:size])


def _count(data: npt.NDArray[np.uint8]) -> int:
    return int.from_bytes(data[-_FOOTER : -_FOOTER + 8], "little")


def _checksum(data: npt.NDArray[np.uint8]) -> bytes:
    scratch = np.empty(8 * 256, np.int64)
    return int(masked_crc32c(address_of(data), len(data), address_of(scratch))).to_bytes(_CHECKSUM, "little")
