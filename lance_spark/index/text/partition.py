"""One partition of an INVERTED index: a dictionary, the documents and a posting list for each term.

All of its files are immutable; what is decoded is cached.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.index.files import IndexFile, IndexFiles, require_no_nulls
from lance_spark.index.text.bm25 import decode_length, encode_length, norms_of
from lance_spark.index.text.dictionary import Dictionary
from lance_spark.index.text.items import UInt32Array, ascend, keys_of
from lance_spark.index.text.list_reader import ListReader
from lance_spark.index.text.part import Postings, TextPart
from lance_spark.index.text.stored import (
    SearchedTerm,
    StoredList,
    StoredPositions,
    blobs_of,
    fields_of,
    item_column,
    room_for_positions,
)
from lance_spark.index.text.transducer import Transducer
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.text.postings import (
    decode_document_positions,
    decode_positions,
    decode_postings,
    measure_blocks,
)
from lance_spark.layouts.base import RowRanges
from lance_spark.storage.cache import shared

_DOCUMENT_BLOBS = pa.list_(pa.list_(pa.large_binary()))
_QUANTIZED_BLOCK = 256
_MAX_ROWS_SHARE = 1 / 16
"""Row ids of documents that would take more of the cache are read from the file, those of the hits each time."""
_RARE_SHARE = 64
"""A term that less than one in this many documents has is looked up in its posting list alone."""
_FEW_OF = 8
"""Up to this share of the row ids are read one by one."""
_MAX_LEVELS = 64
"""Of lists in lists."""
_MAX_FOUND = 1024
"""Terms whose numbers are remembered: a search asks for each of its terms several times."""


@dataclass(frozen=True, slots=True)
class _Documents:
    """All documents; `row_ids` is None where they would take too much of the cache."""

    row_ids: npt.NDArray[np.uint64] | None
    ascend: bool
    lengths: npt.NDArray[np.unsignedinteger[Any]]
    total_tokens: int
    items: UInt32Array | None

    @property
    def nbytes(self) -> int:
        arrays = (self.row_ids, self.lengths, self.items)
        return sum(array.nbytes for array in arrays if array is not None)


class Partition(TextPart):
    """A partition that the files `part_N_tokens`, `part_N_docs` and `part_N_invert` hold.

    Attributes:
        documents_file: the file with a row for each document.
        lists_file: the file with a row for each term.
        block: documents of a full block.
        has_varints: whether partial blocks hold varints.
        has_shared_positions: whether the positions of a term are one stream of bytes.

    Raises:
        LanceError: a file is missing, damaged or of an unknown format; from every method.
    """

    def __init__(self, files: IndexFiles, prefix: str, token_format: str) -> None:
        self._token_format = token_format
        self._found: dict[str, int | None] = {}
        self._frequencies: dict[int, int] = {}
        self._tokens_file = files.open(f"{prefix}tokens.lance")
        self.documents_file = files.open(f"{prefix}docs.lance")
        self.lists_file = files.open(f"{prefix}invert.lance")
        self.block = self.lists_file.positive_number("posting_block_size", 128)
        self.has_varints = self.lists_file.metadata.get("posting_tail_codec", "fixed32_v1") == "varint_delta_v1"
        self._check_format()
        documents = self._documents
        self.num_docs = len(documents.lengths)
        self.total_tokens = documents.total_tokens
        self._reader = ListReader(self.lists_file, self.block, self.num_docs)
        self.has_shared_positions = self.lists_file.has("_compressed_position")
        self.has_positions = self.has_shared_positions or self.lists_file.has("_position")

    def _check_format(self) -> None:
        file = self.lists_file
        known = {
            "posting_tail_codec": ("fixed32_v1", "varint_delta_v1"),
            "positions_layout": ("shared_stream_v2",),
            "positions_codec": ("packed_delta_v1",),
            "format_version": ("1", "2", "3"),
            "posting_block_size": ("128", "256"),
        }
        for key, values in known.items():
            if file.metadata.get(key, values[0]) not in values:
                raise file.damaged(f"{key} is {file.metadata[key]!r}, expected {' or '.join(values)}")
        if len(self._stored_terms) != file.num_rows:
            raise file.damaged(f"{len(self._stored_terms)} terms for {file.num_rows} posting lists")

    def find(self, term: str) -> int | None:
        found = self._found.get(term, -1)
        if found == -1:
            if len(self._found) >= _MAX_FOUND:
                self._found.clear()
            found = self._found[term] = self._stored_terms.find(term)
        return found

    def within(self, term: str, distance: int, prefix_length: int) -> list[str]:
        return self._dictionary.within(term, distance, prefix_length)

    def frequency(self, term: int) -> int:
        count = self._frequencies.get(term)
        return self.stored(term).count if count is None else count

    def stored(self, term: int) -> StoredList:
        """The posting list of a term, which is not decoded yet."""
        return self._stored([term])[0]

    def _stored(self, terms: Sequence[int]) -> list[StoredList]:
        found = self.lists_file.kept_rows("list", terms, self._read_stored)
        if len(self._frequencies) + len(terms) > _MAX_FOUND:
            self._frequencies.clear()
        for term, stored in zip(terms, found, strict=True):
            self._frequencies[term] = stored.count
        return found

    def prefetch(self, terms: Iterable[str], *, with_positions: bool) -> None:
        found = {self.find(term) for term in terms}
        numbers = sorted(number for number in found if number is not None)
        # Without one of its words a phrase is nowhere.
        if with_positions and self.has_shared_positions and None not in found:
            self.stored_positions(numbers)
        self._stored(numbers)

    def searched(self, terms: Sequence[int], average: np.float32) -> list[SearchedTerm]:
        """Posting lists of some ascending terms, with their bounds for scores; see `norms`."""
        kind = f"searched {float(average).hex()}"
        return self.lists_file.kept_rows(kind, terms, lambda missing: self._measured(missing, average))

    def stored_positions(self, terms: Sequence[int]) -> list[StoredPositions]:
        """The positions of some ascending terms, if `has_shared_positions`."""
        return self.lists_file.kept_rows("positions", terms, self._read_with_positions)

    def positions(self, term: int) -> npt.NDArray[np.int32]:
        return self._shared_positions(term) if self.has_shared_positions else self._read_positions(term)

    def norms(self, average: np.float32) -> npt.NDArray[np.float32]:
        kind = f"norms {float(average).hex()}"
        return _kept(self.documents_file, kind, lambda: norms_of(self._documents.lengths, average))

    @property
    def row_ids(self) -> npt.NDArray[np.uint64]:
        kept = self._documents.row_ids
        return self._read_row_ids(None) if kept is None else kept

    def row_ids_at(self, docs: npt.NDArray[np.int32]) -> npt.NDArray[np.uint64]:
        kept = self._documents.row_ids
        if kept is None and len(docs) * _FEW_OF < self.num_docs:
            return self._read_row_ids(RowRanges.of_numbers(docs.astype(np.int64)))
        return (self.row_ids if kept is None else kept)[docs]

    @property
    def items(self) -> UInt32Array | None:
        return self._documents.items

    @property
    def row_ids_ascend(self) -> bool:
        """Whether `row_ids` ascend, and in one row the items."""
        return self._documents.ascend

    @property
    def _stored_terms(self) -> Transducer | Dictionary:
        return _kept(self._tokens_file, "stored terms", self._read_terms)

    @property
    def _dictionary(self) -> Dictionary:
        stored = self._stored_terms
        if isinstance(stored, Dictionary):
            return stored
        return _kept(self._tokens_file, "terms", lambda: self._checked(stored.decoded()))

    @property
    def _documents(self) -> _Documents:
        return _kept(self.documents_file, "documents", self._read_documents)

    def _read_terms(self) -> Transducer | Dictionary:
        file = self._tokens_file
        if self._token_format == "arrow":
            tokens, numbers = file.columns({"_token": pa.string(), "_token_id": pa.uint32()})
            require_no_nulls(file, [tokens, numbers])
            return self._checked(_sorted_dictionary(tokens, numbers))
        if file.num_rows != 1 or self._token_format != "fst":
            raise file.damaged(f"a token dictionary of the format {self._token_format!r} with {file.num_rows} rows")
        data, length = file.columns({"_token_fst_bytes": pa.large_binary(), "_token_total_length": pa.uint64()})
        require_no_nulls(file, [data, length])
        # Arrow copies the bytes of a scalar.
        blobs, ends = blobs_of(data)
        value, whole = blobs[ends[0] : ends[1]], file.in_memory(0, 0)
        is_mapped = whole is not None and whole.address <= address_of(value) < whole.address + whole.size
        return Transducer.of(value, length[0].as_py(), is_mapped=is_mapped)

    def _checked(self, dictionary: Dictionary) -> Dictionary:
        numbers = dictionary.numbers
        is_number = np.zeros(len(dictionary), np.bool_)
        is_number[numbers[(numbers >= 0) & (numbers < len(is_number))]] = True
        if not is_number.all():
            raise self.lists_file.damaged("the numbers of terms are not those of posting lists")
        return dictionary

    def _read_documents(self) -> _Documents:
        file = self.documents_file
        of_items = list(takewhile(file.has, map(item_column, range(_MAX_LEVELS))))
        types = {"_rowid": pa.uint64(), "_num_tokens": pa.uint32(), **dict.fromkeys(of_items, pa.uint32())}
        columns = file.columns(types)
        require_no_nulls(file, columns)
        row_ids, lengths, *numbers = [column.to_numpy() for column in columns]
        items = np.column_stack(numbers) if numbers else None
        is_ascending = ascend(row_ids, items)
        # An update can leave the old document of a stable row id beside the new one.
        if not is_ascending and len(np.unique(keys_of(row_ids, items))) < len(row_ids):
            raise file.damaged("a row has several documents" if items is None else "an item has several documents")
        total = int(lengths.sum(dtype=np.int64))
        if self.block == _QUANTIZED_BLOCK:
            lengths = decode_length(encode_length(lengths.astype(np.int64))).astype(np.uint32)
        if row_ids.nbytes <= shared.max_bytes * _MAX_ROWS_SHARE:
            return _Documents(row_ids, is_ascending, lengths, total, items)
        narrow = lengths.astype(np.min_scalar_type(int(lengths.max(initial=0))))
        return _Documents(None, is_ascending, narrow, total, items)

    def _read_row_ids(self, rows: RowRanges | None) -> npt.NDArray[np.uint64]:
        columns = self.documents_file.columns({"_rowid": pa.uint64()}, rows)
        require_no_nulls(self.documents_file, columns)
        found: npt.NDArray[np.uint64] = columns[0].to_numpy()
        return found

    def _read_stored(self, terms: Sequence[int]) -> list[tuple[StoredList, int]]:
        """The posting lists of ascending terms, and their bytes."""
        return [(stored, stored.nbytes) for stored in self._reader.lists(terms)]

    def _read_with_positions(self, terms: Sequence[int]) -> list[tuple[StoredPositions, int]]:
        """The positions of ascending terms, and their bytes. Their posting lists, read with them, are kept too."""
        lists, positions = self._reader.with_positions(terms)
        own = dict(zip(terms, lists, strict=True))
        self.lists_file.kept_rows("list", terms, lambda missing: [(own[term], own[term].nbytes) for term in missing])
        return [(stored, stored.nbytes) for stored in positions]

    def postings(self, term: int) -> Postings:
        stored = self.stored(term)
        docs, freqs = np.empty(stored.count, np.int32), np.empty(stored.count, np.int32)
        failed = decode_postings(*self._blocks_of(stored), address_of(docs), address_of(freqs))
        if failed:
            raise self.lists_file.damaged(f"the posting list of term {term} is damaged")
        return Postings(docs, freqs)

    def _measured(self, terms: Sequence[int], average: np.float32) -> list[tuple[SearchedTerm, int]]:
        norms = self.norms(average)
        scratch = np.empty(2 * self.block, np.int32)
        docs, freqs = address_of(scratch), address_of(scratch) + 4 * self.block
        measured = []
        for term, stored in zip(terms, self._stored(terms), strict=True):
            blocks = self._blocks_of(stored)
            bounds = np.empty(1 + 4 * (len(stored.ends) - 1), np.float32)
            is_frequent = stored.count * _RARE_SHARE >= self.num_docs
            members = np.zeros((self.num_docs + 7) // 8, np.uint8) if is_frequent else None
            bits = 0 if members is None else address_of(members)
            most = measure_blocks(*blocks, address_of(norms), docs, freqs, bits, address_of(bounds))
            if most < 0:
                raise self.lists_file.damaged(f"the posting list of term {term} is damaged")
            fields = fields_of(blocks[:5], address_of(bounds), bits)
            searched = SearchedTerm(stored, bounds, int(most), members, fields)
            measured.append((searched, searched.nbytes))
        return measured

    def _blocks_of(self, stored: StoredList) -> tuple[int, ...]:
        return (
            address_of(stored.data),
            len(stored.data),
            address_of(stored.ends),
            len(stored.ends) - 1,
            stored.count,
            self.block,
            int(self.has_varints),
            self.num_docs,
        )

    def _shared_positions(self, term: int) -> npt.NDArray[np.int32]:
        (stored,) = self.stored_positions([term])
        freqs = self.postings(term).freqs
        out = room_for_positions(self.lists_file, int(freqs.sum(dtype=np.int64)), len(stored.data))
        failed = decode_positions(
            address_of(stored.data),
            len(stored.data),
            address_of(stored.starts),
            len(stored.starts),
            address_of(freqs),
            len(freqs),
            self.block,
            address_of(out),
            len(out),
        )
        if failed:
            raise self.lists_file.damaged(f"the positions of term {term} are damaged")
        return out

    def _read_positions(self, term: int) -> npt.NDArray[np.int32]:
        file = self.lists_file
        (cells,) = file.columns({"_position": _DOCUMENT_BLOBS}, _row(term))
        documents = cells.flatten()
        require_no_nulls(file, [cells, documents])
        data, ends = blobs_of(documents.flatten())
        blobs = np.concatenate([np.zeros(1, np.int64), np.cumsum(documents.value_lengths().to_numpy())])
        freqs = self.postings(term).freqs
        if len(documents) != len(freqs):
            raise file.damaged(f"the positions of term {term} are those of {len(documents)} documents")
        out = room_for_positions(file, int(freqs.sum(dtype=np.int64)), len(data))
        failed = decode_document_positions(
            address_of(data),
            len(data),
            address_of(ends),
            address_of(blobs),
            address_of(freqs),
            len(freqs),
            address_of(out),
            len(out),
        )
        if failed:
            raise file.damaged(f"the positions of term {term} are damaged")
        return out

    def terms(self) -> pa.LargeStringArray:
        """All terms by number."""
        return self._dictionary.terms()


_Sized = TypeVar(
    "_Sized",
    Dictionary,
    Transducer | Dictionary,
    _Documents,
    npt.NDArray[np.float32],
)


def _kept(file: IndexFile, kind: str, make: Callable[[], _Sized]) -> _Sized:
    def sized() -> tuple[_Sized, int]:
        value = make()
        return value, value.nbytes

    return file.kept(kind, sized)


def _row(number: int) -> RowRanges:
    return RowRanges(np.array([number], np.int64), np.array([number + 1], np.int64))


def _sorted_dictionary(tokens: pa.StringArray, numbers: pa.UInt32Array) -> Dictionary:
    cells = tokens.cast(pa.large_binary())
    order = pc.sort_indices(cells)
    cells, numbers = cells.take(order), numbers.take(order)
    data, ends = blobs_of(cells)
    return Dictionary(data[ends[0] : ends[-1]], ends[1:] - ends[0], numbers.to_numpy().astype(np.int64))
