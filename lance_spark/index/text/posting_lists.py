"""The posting lists of a new partition, in blocks of 128 documents."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark.index.text.bm25 import encode_length, norms_of, weights_of
from lance_spark.index.text.scoring import Statistics
from lance_spark.index.text.stored import BLOBS, starts_of
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.text.build import count_occurrences, encode_positions, encode_postings, group_by_term
from lance_spark.kernels.text.impacts import encode_impacts

BLOCK = 128
_BLOCKS_OF_GROUP = 32


@dataclass(frozen=True)
class PostingLists:
    """Posting lists of all terms, one after the other.

    Attributes:
        docs, freqs: int32[n].
        ends: int64[terms], where the documents of each term end.
        positions: int32[m].
    """

    docs: npt.NDArray[np.int32]
    freqs: npt.NDArray[np.int32]
    ends: npt.NDArray[np.int64]
    positions: npt.NDArray[np.int32]

    @classmethod
    def of(
        cls,
        terms: npt.NDArray[np.int32],
        docs: npt.NDArray[np.int32],
        positions: npt.NDArray[np.int32],
        num_terms: int,
    ) -> PostingLists:
        """The lists of tokens, of which each has a term, a document and a position; documents ascend."""
        per_term = np.bincount(terms, minlength=num_terms)
        places = np.concatenate([np.zeros(1, np.int64), np.cumsum(per_term)])[:-1].astype(np.int64)
        sorted_docs, sorted_positions = np.empty_like(docs), np.empty_like(positions)
        group_by_term(
            address_of(terms),
            address_of(docs),
            address_of(positions),
            len(terms),
            address_of(places),
            address_of(sorted_docs),
            address_of(sorted_positions),
        )
        found, freqs, ends = np.empty_like(docs), np.empty_like(docs), np.empty(num_terms, np.int64)
        size = count_occurrences(
            address_of(sorted_docs),
            address_of(places),
            num_terms,
            address_of(found),
            address_of(freqs),
            address_of(ends),
        )
        return cls(found[:size].copy(), freqs[:size].copy(), ends, sorted_positions)

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """int64[terms]: documents of each term."""
        return np.diff(self.ends, prepend=0)

    def table(self, lengths: npt.NDArray[np.int64], *, with_position: bool) -> pa.Table:
        """The rows of the file of posting lists, one for each term.

        Args:
            lengths: int64, the terms of each document.
        """
        best, blocks = self._block_scores(lengths)
        first_blocks = starts_of(blocks)
        highest = np.maximum.reduceat(best, first_blocks[:-1]) if len(blocks) else np.empty(0, np.float32)
        columns = {
            "_posting": _lists_of_blobs(self._encoded_postings(best), first_blocks),
            "_max_score": pa.array(highest, pa.float32()),
            "_length": pa.array(self.counts.astype(np.uint32)),
            "_impacts": self._impacts(encode_length(lengths), blocks),
        }
        if with_position:
            data, ends = self._encoded_positions(len(best))
            starts = np.concatenate([np.zeros(1, np.int64), ends])
            term_starts = starts[first_blocks]
            columns["_compressed_position"] = _binary(data, term_starts)
            offsets = (starts[:-1] - np.repeat(term_starts[:-1], blocks)).astype(np.uint32)
            columns["_position_block_offset"] = pa.ListArray.from_arrays(
                pa.array(first_blocks.astype(np.int32)), pa.array(offsets)
            )
        fields = [pa.field(name, column.type, nullable=False) for name, column in columns.items()]
        return pa.table(list(columns.values()), schema=pa.schema(fields))

    def _block_scores(self, lengths: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
        """(float32: the highest score in each block, int64[terms]: blocks of each term), by the statistics here."""
        counts = self.counts
        statistics = Statistics(len(lengths), int(lengths.sum()), ())
        norms = norms_of(lengths, statistics.average)
        scores = weights_of(self.freqs, norms[self.docs]) * np.repeat(statistics.idf_of(counts), counts)
        blocks = -(-counts // BLOCK)
        inside = np.arange(int(blocks.sum())) - np.repeat(np.cumsum(blocks) - blocks, blocks)
        starts = np.repeat(self.ends - counts, blocks) + BLOCK * inside
        best = np.maximum.reduceat(scores, starts) if len(starts) else np.empty(0, np.float32)
        return best.astype(np.float32), blocks

    def _impacts(self, codes: npt.NDArray[np.int64], blocks: npt.NDArray[np.int64]) -> pa.Array:
        """Impacts, by which the reference library skips blocks: the most frequent and shortest documents of each block,
        and of each group of 32 blocks.
        """
        groups = -(-blocks // _BLOCKS_OF_GROUP)
        num_blobs = int(blocks.sum() + groups.sum())
        out = np.empty(7 * len(self.docs) + 7 * 256 * int(groups.sum()) + 12 * num_blobs, np.uint8)
        ends, scratch = np.empty(num_blobs, np.int64), np.empty(256, np.int32)
        short = codes.astype(np.uint8)
        size = encode_impacts(
            address_of(self.docs),
            address_of(self.freqs),
            address_of(self.ends),
            len(self.ends),
            address_of(short),
            address_of(scratch),
            address_of(out),
            len(out),
            address_of(ends),
        )
        assert size >= 0
        return _lists_of_blobs((out[:size], ends), starts_of(blocks + groups))

    def _encoded_postings(self, best: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        out = np.empty(10 * len(self.docs) + 32 * len(best) + 10 * BLOCK, np.uint8)
        ends = np.empty(len(best), np.int64)
        scores = best.view(np.uint32)
        size = encode_postings(
            address_of(self.docs),
            address_of(self.freqs),
            address_of(self.ends),
            len(self.ends),
            address_of(scores),
            address_of(out),
            len(out),
            address_of(ends),
        )
        assert size >= 0
        return out[:size], ends

    def _encoded_positions(self, num_blocks: int) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        out = np.empty(6 * len(self.positions) + 64 * (num_blocks + 1), np.uint8)
        ends, scratch = np.empty(num_blocks, np.int64), np.empty_like(self.positions)
        size = encode_positions(
            address_of(self.positions),
            address_of(self.freqs),
            address_of(self.ends),
            len(self.ends),
            address_of(scratch),
            address_of(out),
            len(out),
            address_of(ends),
        )
        assert size >= 0
        return out[:size], ends


def _binary(data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]) -> pa.Array:
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)


def _lists_of_blobs(
    blobs: tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]], starts: npt.NDArray[np.int64]
) -> pa.Array:
    data, ends = blobs
    values = _binary(data, np.concatenate([np.zeros(1, np.int64), ends]))
    return pa.ListArray.from_arrays(pa.array(starts.astype(np.int32)), values, type=BLOBS)
