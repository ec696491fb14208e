"""Distinct tokens, numbered in the order of their first occurrence."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark.kernels.jit import address_of
from lance_spark.kernels.text.tokens import fill_slots, number_tokens

_FIRST_SLOTS = 64


class TokenNumbers:
    """A growing table of distinct tokens in UTF-8; as a sequence, their texts by number."""

    def __init__(self) -> None:
        self._slots = np.full(_FIRST_SLOTS, -1, np.int32)
        self._ends = np.zeros(_FIRST_SLOTS // 2, np.int64)
        self._arena = np.zeros(_FIRST_SLOTS, np.uint8)
        self._known = 0

    def __len__(self) -> int:
        return self._known

    def __getitem__(self, number: int) -> str:
        if not 0 <= number < self._known:
            raise IndexError(number)
        start = int(self._ends[number - 1]) if number else 0
        return self._arena[start : int(self._ends[number])].tobytes().decode()

    def __iter__(self) -> Iterator[str]:
        return iter(self.binaries().cast(pa.large_string()).to_pylist())

    def binaries(self) -> pa.LargeBinaryArray:
        """The tokens by number."""
        offsets = np.concatenate([np.zeros(1, np.int64), self._ends[: self._known]])
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(self._arena)]
        return pa.Array.from_buffers(pa.large_binary(), self._known, buffers)

    def of(
        self, data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int32]
    ) -> npt.NDArray[np.int32]:
        """int32[n]: the numbers of the tokens at `starts` (int64[n]) of `data`; new tokens are added."""
        self._reserve(len(starts), int(lengths.sum()))
        numbers = np.empty(len(starts), np.int32)
        num_tokens = number_tokens(
            address_of(data),
            len(data),
            address_of(starts),
            address_of(lengths),
            len(starts),
            address_of(self._slots),
            len(self._slots),
            address_of(self._arena),
            len(self._arena),
            address_of(self._ends),
            self._known,
            address_of(numbers),
        )
        assert num_tokens >= 0, num_tokens
        self._known = num_tokens
        return numbers

    def tokens_from(self, first: int) -> list[bytes]:
        """The tokens number `first` and following."""
        bounds = [int(self._ends[first - 1]) if first else 0, *self._ends[first : self._known].tolist()]
        data = self._arena[bounds[0] : bounds[-1]].tobytes()
        return [data[start - bounds[0] : end - bounds[0]] for start, end in pairwise(bounds)]

    def _reserve(self, num_tokens: int, num_bytes: int) -> None:
        used = int(self._ends[self._known - 1]) if self._known else 0
        if used + num_bytes > len(self._arena):
            self._arena = np.concatenate([self._arena[:used], np.zeros(used + 2 * num_bytes, np.uint8)])
        needed = 2 * (self._known + num_tokens + 1)
        if needed > len(self._slots):
            size = 1 << (needed - 1).bit_length()
            ends = np.zeros(size // 2, np.int64)
            ends[: self._known] = self._ends[: self._known]
            self._ends = ends
            self._slots = np.full(size, -1, np.int32)
            fill_slots(
                address_of(self._arena), address_of(self._ends), self._known, address_of(self._slots), len(self._slots)
            )
