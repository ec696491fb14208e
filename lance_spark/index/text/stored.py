"""Posting lists and positions as they are stored, and what is known of their blocks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark.index.files import IndexFile
from lance_spark.kernels.text import best as kernel

BLOBS = pa.list_(pa.large_binary())


def item_column(level: int) -> str:
    """The column of documents that are items of lists with their numbers at a level of lists, from 0."""
    return f"_doc_index_{level}"


@dataclass(frozen=True, slots=True)
class StoredList:
    """A posting list as it is stored.

    Attributes:
        data: uint8, its blocks.
        ends: int64[blocks + 1], where they start and end.
        count: documents.
    """

    data: npt.NDArray[np.uint8]
    ends: npt.NDArray[np.int64]
    count: int

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self.data.nbytes + self.ends.nbytes


@dataclass(frozen=True, slots=True)
class SearchedTerm:
    """Posting list of a term with the bounds for top-k searches.

    Attributes:
        stored: its posting list.
        bounds: decide whether a search needs the blocks of the list, as the kernel `measure_blocks` writes them.
        most_positions: the largest sum of the frequencies of a block.
        members: uint8, a bit for each document of the partition, set for documents of the term, lowest bits first; None
            for rare terms, whose blocks suffice.
        fields: the row that the kernel `best_documents` reads, with the entries that are the same in all queries.
    """

    stored: StoredList
    bounds: npt.NDArray[np.float32]
    most_positions: int
    members: npt.NDArray[np.uint8] | None
    fields: tuple[int, ...]

    @property
    def highest(self) -> np.float32:
        """The highest weight in the list."""
        weight: np.float32 = self.bounds[0]
        return weight

    @property
    def nbytes(self) -> int:
        """Bytes in memory, beside those of `stored`, which is kept itself."""
        return self.bounds.nbytes + 8 * len(self.fields) + (0 if self.members is None else self.members.nbytes)


def fields_of(data: tuple[int, ...], bounds: int, members: int) -> tuple[int, ...]:
    """A row of the kernel `best_documents` for a term.

    Args:
        data: the address and number of the bytes of its posting list, the address of their ends, and the numbers of
            blocks and documents.
        bounds, members: the addresses of `SearchedTerm.bounds` and `SearchedTerm.members`; 0 without these.
    """
    row = [0] * kernel.NUM_FIELDS
    row[kernel.DATA], row[kernel.NUM_BYTES], row[kernel.ENDS], num_blocks, row[kernel.COUNT] = data
    row[kernel.NUM_BLOCKS] = num_blocks
    row[kernel.BOUNDS] = bounds + 4
    row[kernel.NORMS] = bounds + 4 + 4 * num_blocks
    row[kernel.FIRSTS] = bounds + 4 + 8 * num_blocks
    row[kernel.LASTS] = bounds + 4 + 12 * num_blocks
    row[kernel.MEMBERS] = members
    row[kernel.DECODED] = row[kernel.POSITIONS_OF] = -1
    return tuple(row)


@dataclass(frozen=True, slots=True)
class StoredPositions:
    """The positions of a term as a shared stream stores them.

    Attributes:
        data: uint8, a run of bytes for each block of the posting list.
        starts: uint32[blocks], where they start.
    """

    data: npt.NDArray[np.uint8]
    starts: npt.NDArray[np.uint32]

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self.data.nbytes + self.starts.nbytes


def blobs_of(array: pa.LargeBinaryArray) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """(all bytes, int64[n + 1]: where each blob starts)."""
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    return np.frombuffer(data or b"", np.uint8), np.ascontiguousarray(ends)


def room_for_positions(file: IndexFile, count: int, num_bytes: int) -> npt.NDArray[np.int32]:
    """An array for `count` positions in `num_bytes`; 128 positions that are all the same need one byte.

    Raises:
        CorruptFileError: there cannot be this many.
    """
    if count > 128 * (num_bytes + 1):
        raise file.damaged(f"{count} positions of terms in {num_bytes} bytes")
    return np.empty(count, np.int32)


def starts_of(sizes: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
    """int64[n + 1]: where parts of these sizes start, one after the other, and where the last one ends."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)])
