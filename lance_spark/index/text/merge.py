"""The documents of old segments as a new segment takes them: from their posting lists, without their texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark.analysis.analyzer import AnalyzedTexts
from lance_spark.errors import UnsupportedFeatureError
from lance_spark.index.files import IndexFiles, require_no_nulls
from lance_spark.index.text.build import Documents, TextIndexParameters
from lance_spark.index.text.partition import Partition
from lance_spark.index.text.segment import TextSegment
from lance_spark.index.text.stored import BLOBS, blobs_of, room_for_positions, starts_of
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.text.merge import decode_all_positions, decode_lists, tokens_by_document

IdMapping = Callable[[npt.NDArray[np.uint64]], tuple[npt.NDArray[np.bool_], npt.NDArray[np.uint64]]]
"""From row ids (uint64[n]) to which of them are kept (bool[n]), and the new ids of those (uint64[k])."""


def old_documents(
    files: IndexFiles, mapping: IdMapping, parameters: TextIndexParameters, item_levels: int
) -> Iterator[Documents]:
    """The documents of a segment that are kept, partition by partition.

    Args:
        parameters: of the new segment.
        item_levels: how many numbers its documents have that are items of lists; 0 for rows.

    Raises:
        UnsupportedFeatureError: the segment was built with other parameters, or its positions are stored one by one.
        CorruptFileError: a file is damaged.
    """
    segment = TextSegment.open(files)
    if segment.parameters != parameters.text:
        raise UnsupportedFeatureError(
            "a text segment was analyzed in another way than the others; it is not merged",
            feature="merging text segments",
        )
    for part in segment.partitions:
        if part.item_levels != item_levels:
            raise UnsupportedFeatureError(
                "the documents of a text segment are others than its details say; it is not merged",
                feature="merging text segments",
            )
        if parameters.with_position and not part.has_shared_positions:
            raise UnsupportedFeatureError(
                "a text segment has no shared stream of positions; it is not merged", feature="merging text segments"
            )
        yield _documents(part, mapping, with_position=parameters.with_position)


@dataclass(frozen=True, slots=True)
class _Lists:
    """The posting lists of all terms of a partition, decoded, one after the other.

    Attributes:
        docs, freqs: int32[n].
        counts: int64[terms], documents of each term.
        first_blocks: int64[terms + 1], where the blocks of each term start.
        num_tokens: the sum of `freqs`.
    """

    docs: npt.NDArray[np.int32]
    freqs: npt.NDArray[np.int32]
    counts: npt.NDArray[np.int64]
    first_blocks: npt.NDArray[np.int64]
    num_tokens: int

    @classmethod
    def of(cls, part: Partition) -> _Lists:
        file = part.lists_file
        cells, lengths = file.columns({"_posting": BLOBS, "_length": pa.uint32()})
        require_no_nulls(file, [cells, lengths])
        data, ends = blobs_of(cells.flatten())
        first_blocks = starts_of(cells.value_lengths().to_numpy())
        counts = lengths.to_numpy().astype(np.int64)
        count = int(counts.sum())
        if count > part.block * (len(ends) - 1):
            raise file.damaged(f"{count} documents of terms in {len(ends) - 1} blocks")
        docs, freqs = np.empty(count, np.int32), np.empty(count, np.int32)
        num_tokens = decode_lists(
            address_of(data),
            len(data),
            address_of(ends),
            address_of(first_blocks),
            address_of(counts),
            len(counts),
            part.block,
            int(part.has_varints),
            part.num_docs,
            address_of(docs),
            address_of(freqs),
        )
        if num_tokens < 0:
            raise file.damaged("a posting list is damaged")
        return cls(docs, freqs, counts, first_blocks, int(num_tokens))

    def positions(self, part: Partition) -> npt.NDArray[np.int32]:
        """int32[num_tokens]: the positions of all terms, one after the other."""
        file = part.lists_file
        types = {"_compressed_position": pa.large_binary(), "_position_block_offset": pa.list_(pa.uint32())}
        cells, offsets = file.columns(types)
        require_no_nulls(file, [cells, offsets])
        data, ends = blobs_of(cells)
        starts = np.ascontiguousarray(offsets.flatten().to_numpy())
        if not np.array_equal(starts_of(offsets.value_lengths().to_numpy()), self.first_blocks):
            raise file.damaged("positions have not the blocks of the posting lists")
        out = room_for_positions(file, self.num_tokens, len(data) + len(starts))
        failed = decode_all_positions(
            address_of(data),
            len(data),
            address_of(ends),
            address_of(starts),
            address_of(self.first_blocks),
            address_of(self.counts),
            len(self.counts),
            part.block,
            address_of(self.freqs),
            address_of(out),
            len(out),
        )
        if failed:
            raise file.damaged("the positions of a term are damaged")
        return out


def _documents(part: Partition, mapping: IdMapping, *, with_position: bool) -> Documents:
    is_kept, ids = mapping(part.row_ids)
    order = np.argsort(ids, kind="stable")
    docs, ids = np.flatnonzero(is_kept)[order], ids[order]
    lengths = _lengths(part)
    stops = np.cumsum(lengths[docs])
    # The tokens of a document go to [places, ends).
    places, ends = np.full(part.num_docs, -1, np.int64), np.zeros(part.num_docs, np.int64)
    places[docs], ends[docs] = stops - lengths[docs], stops
    lists = _Lists.of(part)
    num_tokens = int(stops[-1]) if len(stops) else 0
    if num_tokens > lists.num_tokens:
        raise part.lists_file.damaged(f"{lists.num_tokens} tokens of terms for {num_tokens} of documents")
    tokens, positions = np.empty(num_tokens, np.int32), np.zeros(num_tokens, np.int32)
    found = lists.positions(part) if with_position else np.empty(0, np.int32)
    failed = tokens_by_document(
        address_of(lists.docs),
        address_of(lists.freqs),
        address_of(found) if with_position else 0,
        address_of(lists.counts),
        len(lists.counts),
        address_of(places),
        address_of(ends),
        address_of(tokens),
        address_of(positions),
    )
    if failed or not np.array_equal(places[docs], stops):
        raise part.lists_file.damaged("the terms have not the tokens of the documents")
    offsets = np.concatenate([np.zeros(1, np.int64), stops])
    items = None if part.items is None else part.items[docs]
    return Documents(part.terms(), AnalyzedTexts(tokens, positions, offsets), ids, items)


def _lengths(part: Partition) -> npt.NDArray[np.int64]:
    """int64[num_docs]: the terms of each document, which scores can use rounded."""
    file = part.documents_file
    (counts,) = file.columns({"_num_tokens": pa.uint32()})
    require_no_nulls(file, [counts])
    lengths: npt.NDArray[np.int64] = counts.to_numpy().astype(np.int64)
    return lengths
