"""Chooses the symbols of FSST from a sample (Boncz, Neumann, Leis: FSST, VLDB 2020, section 4.3).

Starting without symbols, the sample is encoded as symbols and literal bytes; these, and their adjacent pairs, are the
candidates for the next round, and those that cover the most bytes are selected.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark.encodings.blocks import Int64Array, VariableWidthBlock
from lance_spark.kernels.compression.fsst import MAX_SYMBOL_BYTES
from lance_spark.kernels.compression.fsst_encode import (
    HEAD_SLOTS,
    LITERAL,
    ROOM_BYTES,
    count_codes,
    encode_symbols,
    list_pairs,
)
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.slices import concatenate

UInt64Array: TypeAlias = npt.NDArray[np.uint64]

MAX_SYMBOLS = 255
_ROUNDS = 5
_WORTHWHILE = 0.75
_LEAST_PAIRS = 2
_SAMPLE_BYTES = 1 << 14
_SAMPLE_VALUE_BYTES = 512
_LEN_SHIFT = np.uint64(16)


@dataclass(frozen=True, slots=True)
class Sample:
    """Some of the values of a block: `offsets` is int64[n + 1]."""

    offsets: Int64Array
    data: pa.Buffer

    @classmethod
    def of(cls, block: VariableWidthBlock, phase: float) -> Sample:
        """About 16 KiB of values spread over the block; another `phase` (0 to 1) selects other values."""
        ends = np.frombuffer(block.offsets, f"<i{block.bits_per_offset // 8}", block.num_values + 1)
        mean = max(1.0, min(_SAMPLE_VALUE_BYTES, int(ends[-1]) / max(block.num_values, 1)))
        count = max(1, min(block.num_values, int(_SAMPLE_BYTES / mean)))
        step = block.num_values / count
        chosen = np.minimum((np.arange(count) + phase) * step, block.num_values - 1).astype(np.int64)
        starts = ends[chosen].astype(np.int64)
        sizes = np.minimum(ends[chosen + 1] - starts, _SAMPLE_VALUE_BYTES).astype(np.int64)
        fits = np.cumsum(sizes) <= 2 * _SAMPLE_BYTES
        starts, sizes = starts[fits], sizes[fits]
        offsets = np.zeros(len(sizes) + 1, np.int64)
        np.cumsum(sizes, out=offsets[1:])
        data = pa.allocate_buffer(int(offsets[-1]))
        concatenate(block.data.address, address_of(starts), address_of(sizes), len(sizes), data.address)
        return cls(offsets, data)


class _Counts:
    """Frequencies of codes and pairs of codes."""

    def __init__(self) -> None:
        self.codes = np.empty(512, np.int64)
        self.pairs = np.empty((512, 512), np.uint32)
        self._listed = np.empty((512 * 512, 3), np.int64)

    def frequent_pairs(self) -> Int64Array:
        """int64[n, 3]: first code, second code, count."""
        listed = list_pairs(address_of(self.codes), address_of(self.pairs), _LEAST_PAIRS, address_of(self._listed))
        return self._listed[:listed]


@dataclass(frozen=True, slots=True)
class Matcher:
    """The tables of `kernels.compression.fsst_encode` for symbols (little-endian u64) and their lengths."""

    symbols: UInt64Array
    lengths: Int64Array
    heads: UInt64Array
    pairs: npt.NDArray[np.uint32]
    singles: npt.NDArray[np.uint32]

    @classmethod
    def of(cls, symbols: UInt64Array, lengths: Int64Array) -> Matcher:
        """For symbols in the order of their codes; if two share a slot, the earlier one wins."""
        codes = np.arange(len(symbols), dtype=np.uint64)
        entries = (lengths.astype(np.uint64) << _LEN_SHIFT) | codes
        singles = (np.arange(256, dtype=np.uint32) + LITERAL) | np.uint32(1 << 16)
        one = lengths == 1
        singles[symbols[one].astype(np.int64)] = entries[one]
        pairs = np.tile(singles, 256)
        two = lengths == 2
        pairs[symbols[two].astype(np.int64)] = entries[two]
        heads = np.zeros((HEAD_SLOTS, 2), np.uint64)
        long = np.flatnonzero(lengths >= 3)[::-1]
        slots = ((symbols[long] & np.uint64(0xFFFFFF)) * np.uint64(2971215073) >> np.uint64(15)) & np.uint64(4095)
        heads[slots.astype(np.int64), 0] = symbols[long]
        heads[slots.astype(np.int64), 1] = entries[long]
        return cls(symbols, lengths, heads, pairs, singles)

    @classmethod
    def train(cls, sample: Sample) -> Matcher:
        """The best symbols for a sample that a few rounds find."""
        matcher = cls.of(np.zeros(0, np.uint64), np.zeros(0, np.int64))
        counts = _Counts()
        for _ in range(_ROUNDS):
            matcher._count(sample, counts)
            matcher = cls.of(*_best_symbols(*matcher._all_symbols(), counts))
        return matcher

    @classmethod
    def if_it_pays(cls, block: VariableWidthBlock) -> Matcher | None:
        """Symbols for a block, None if they would save less than a quarter of its bytes, including offsets."""
        matcher = cls.train(Sample.of(block, 0.0))
        others = Sample.of(block, 0.5)
        offset_bytes = (len(others.offsets) - 1) * block.bits_per_offset // 8
        before, after = (offset_bytes + size for size in (others.data.size, matcher.encoded_bytes(others)))
        return matcher if after <= _WORTHWHILE * before else None

    def encoded_bytes(self, sample: Sample) -> int:
        """Bytes of the codes for a sample."""
        return self._count(sample, _Counts())

    def encode(self, block: VariableWidthBlock) -> VariableWidthBlock:
        """The codes of every value."""
        offset_bytes = block.bits_per_offset // 8
        last = np.frombuffer(block.offsets, f"<i{offset_bytes}", block.num_values + 1)[-1]
        offsets = pa.allocate_buffer((block.num_values + 1) * offset_bytes)
        data = pa.allocate_buffer(2 * int(last) + ROOM_BYTES)
        filled = encode_symbols(
            block.offsets.address,
            offset_bytes,
            block.num_values,
            block.data.address,
            address_of(self.heads),
            address_of(self.pairs),
            address_of(self.singles),
            offsets.address,
            data.address,
        )
        return VariableWidthBlock(offsets, data.slice(0, filled), block.bits_per_offset, block.num_values)

    def _count(self, sample: Sample, counts: _Counts) -> int:
        return int(
            count_codes(
                address_of(sample.offsets),
                len(sample.offsets) - 1,
                sample.data.address,
                address_of(self.heads),
                address_of(self.pairs),
                address_of(self.singles),
                address_of(counts.codes),
                address_of(counts.pairs),
            )
        )

    def _all_symbols(self) -> tuple[UInt64Array, Int64Array]:
        """Symbols and lengths by code, literal bytes at 256 and above."""
        symbols = np.zeros(512, np.uint64)
        lengths = np.ones(512, np.int64)
        symbols[: len(self.symbols)] = self.symbols
        lengths[: len(self.symbols)] = self.lengths
        symbols[LITERAL:] = np.arange(256)
        return symbols, lengths


def _best_symbols(symbols: UInt64Array, lengths: Int64Array, counts: _Counts) -> tuple[UInt64Array, Int64Array]:
    """The 255 symbols, or pairs of symbols of up to 8 bytes, that cover the most bytes."""
    codes = counts.codes
    seen = np.flatnonzero(codes)
    # A byte without a symbol costs two bytes, so single bytes are weighted higher.
    weight = np.where(lengths[seen] == 1, 8, 1) * lengths[seen]
    first, second, together = counts.frequent_pairs().T
    joined_lengths = lengths[first] + lengths[second]
    short = joined_lengths <= MAX_SYMBOL_BYTES
    first, second, together, joined_lengths = (table[short] for table in (first, second, together, joined_lengths))
    joined = symbols[first] | (symbols[second] << (8 * lengths[first]).astype(np.uint64))
    candidates = np.concatenate([symbols[seen], joined])
    sizes = np.concatenate([lengths[seen], joined_lengths])
    gains = np.concatenate([codes[seen] * weight, together * joined_lengths])
    # Equal bytes can come from several pairs; bytes and length identify a symbol.
    order = np.lexsort((sizes, candidates))
    candidates, sizes, gains = candidates[order], sizes[order], gains[order]
    new = np.ones(len(order), np.bool_)
    new[1:] = (candidates[1:] != candidates[:-1]) | (sizes[1:] != sizes[:-1])
    places = np.flatnonzero(new)
    total = np.add.reduceat(gains, places) if len(places) else gains
    best = np.argsort(-total, kind="stable")[:MAX_SYMBOLS]
    return candidates[places][best], sizes[places][best]
