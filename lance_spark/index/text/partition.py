"""One partition of an INVERTED index: a dictionary, the documents and a posting list for each term.

All of its files are immutable; what is decoded is cached.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.index.files import IndexFiles, require_no_nulls
from lance_spark.index.text.dictionary import Dictionary
from lance_spark.index.text.lengths import decode_length, encode_length
from lance_spark.index.text.part import Postings, TextPart
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.text.postings import decode_document_positions, decode_positions, decode_postings
from lance_spark.layouts.base import RowRanges

Value = TypeVar("Value")

_BLOBS = pa.list_(pa.large_binary())
_DOCUMENT_BLOBS = pa.list_(pa.list_(pa.large_binary()))
_QUANTIZED_BLOCK = 256


@dataclass(frozen=True, slots=True)
class _Documents:
    row_ids: npt.NDArray[np.uint64]
    lengths: npt.NDArray[np.float32]
    total_tokens: int

    @property
    def nbytes(self) -> int:
        return self.row_ids.nbytes + self.lengths.nbytes


class Partition(TextPart):
    """A partition that the files `part_N_tokens`, `part_N_docs` and `part_N_invert` hold.

    Raises:
        LanceError: a file is missing, damaged or of an unknown format; from every method.
    """

    def __init__(self, files: IndexFiles, prefix: str, token_format: str) -> None:
        self._files = files
        self._token_format = token_format
        self._tokens_name = f"{prefix}tokens.lance"
        self._docs_name = f"{prefix}docs.lance"
        self._invert_name = f"{prefix}invert.lance"
        self._invert = files.open(self._invert_name)
        self._block = self._invert.positive_number("posting_block_size", 128)
        self._has_varints = self._invert.metadata.get("posting_tail_codec", "fixed32_v1") == "varint_delta_v1"
        self._check_format()
        documents = self._documents
        self.num_docs = len(documents.row_ids)
        self.total_tokens = documents.total_tokens
        self.has_positions = self._invert.has("_position") or self._invert.has("_compressed_position")

    def _check_format(self) -> None:
        file = self._invert
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
        if len(self._dictionary) != file.num_rows:
            raise file.damaged(f"{len(self._dictionary)} terms for {file.num_rows} posting lists")

    def find(self, term: str) -> int | None:
        return self._dictionary.find(term)

    def within(self, term: str, distance: int, prefix_length: int) -> list[str]:
        return self._dictionary.within(term, distance, prefix_length)

    def frequency(self, term: int) -> int:
        return len(self.postings(term).docs)

    def postings(self, term: int) -> Postings:
        return self._kept(self._invert_name, f"postings {term}", lambda: self._read_postings(term))

    def positions(self, term: int) -> npt.NDArray[np.int32]:
        read = self._read_shared_positions if self._invert.has("_compressed_position") else self._read_positions
        return self._kept(self._invert_name, f"positions {term}", lambda: read(term))

    @property
    def lengths(self) -> npt.NDArray[np.float32]:
        return self._documents.lengths

    @property
    def row_ids(self) -> npt.NDArray[np.uint64]:
        return self._documents.row_ids

    def _kept(self, name: str, kind: str, make: Callable[[], _Sized]) -> _Sized:
        def sized() -> tuple[_Sized, int]:
            value = make()
            return value, value.nbytes

        return self._files.kept(name, kind, sized)

    @cached_property
    def _dictionary(self) -> Dictionary:
        return self._kept(self._tokens_name, "tokens", self._read_dictionary)

    @cached_property
    def _documents(self) -> _Documents:
        return self._kept(self._docs_name, "documents", self._read_documents)

    def _read_dictionary(self) -> Dictionary:
        dictionary = self._decode_dictionary()
        if not np.array_equal(np.sort(dictionary.numbers), np.arange(len(dictionary))):
            raise self._invert.damaged("the numbers of terms are not those of posting lists")
        return dictionary

    def _decode_dictionary(self) -> Dictionary:
        file = self._files.open(self._tokens_name)
        if self._token_format == "arrow":
            tokens, numbers = file.columns({"_token": pa.string(), "_token_id": pa.uint32()})
            require_no_nulls(file, [tokens, numbers])
            return _sorted_dictionary(tokens, numbers)
        if file.num_rows != 1 or self._token_format != "fst":
            raise file.damaged(f"a token dictionary of the format {self._token_format!r} with {file.num_rows} rows")
        data, length = file.columns({"_token_fst_bytes": pa.large_binary(), "_token_total_length": pa.uint64()})
        require_no_nulls(file, [data, length])
        return Dictionary.of_fst(data[0].as_py(), length[0].as_py())

    def _read_documents(self) -> _Documents:
        file = self._files.open(self._docs_name)
        if file.has("_doc_index_0"):
            raise file.damaged("documents that are items of lists are not supported")
        rows, counts = file.columns({"_rowid": pa.uint64(), "_num_tokens": pa.uint32()})
        require_no_nulls(file, [rows, counts])
        row_ids = rows.to_numpy()
        lengths = counts.to_numpy().astype(np.int64)
        # An update can leave the old document of a stable row id beside the new one.
        if not bool(np.all(row_ids[1:] > row_ids[:-1])) and len(np.unique(row_ids)) < len(row_ids):
            raise file.damaged("a row has several documents")
        scored = decode_length(encode_length(lengths)) if self._block == _QUANTIZED_BLOCK else lengths
        return _Documents(row_ids, scored.astype(np.float32), int(lengths.sum()))

    def _read_postings(self, term: int) -> Postings:
        file = self._invert
        cells, counts = file.columns({"_posting": _BLOBS, "_length": pa.uint32()}, _row(term))
        require_no_nulls(file, [cells, counts])
        count = counts[0].as_py()
        data, ends = _blobs(cells.flatten())
        if count > self.num_docs or count == 0:
            raise file.damaged(f"a posting list of {count} documents")
        docs, freqs = np.empty(count, np.int32), np.empty(count, np.int32)
        failed = decode_postings(
            address_of(data),
            len(data),
            address_of(ends),
            len(ends) - 1,
            count,
            self._block,
            int(self._has_varints),
            self.num_docs,
            address_of(docs),
            address_of(freqs),
        )
        if failed:
            raise file.damaged(f"the posting list of term {term} is damaged")
        return Postings(docs, freqs)

    def _read_shared_positions(self, term: int) -> npt.NDArray[np.int32]:
        file = self._invert
        types = {"_compressed_position": pa.large_binary(), "_position_block_offset": pa.list_(pa.uint32())}
        cells, offsets = file.columns(types, _row(term))
        require_no_nulls(file, [cells, offsets])
        data = np.frombuffer(cells[0].as_buffer(), np.uint8)
        starts = offsets.flatten().to_numpy()
        freqs = self.postings(term).freqs
        if len(starts) != -(-len(freqs) // self._block):
            raise file.damaged(f"the positions of term {term} have {len(starts)} blocks")
        out = self._room_for_positions(term, freqs, len(data))
        failed = decode_positions(
            address_of(data),
            len(data),
            address_of(starts),
            len(starts),
            address_of(freqs),
            len(freqs),
            self._block,
            address_of(out),
            len(out),
        )
        if failed:
            raise file.damaged(f"the positions of term {term} are damaged")
        return out

    def _read_positions(self, term: int) -> npt.NDArray[np.int32]:
        file = self._invert
        (cells,) = file.columns({"_position": _DOCUMENT_BLOBS}, _row(term))
        documents = cells.flatten()
        require_no_nulls(file, [cells, documents])
        data, ends = _blobs(documents.flatten())
        blobs = np.concatenate([np.zeros(1, np.int64), np.cumsum(documents.value_lengths().to_numpy())])
        freqs = self.postings(term).freqs
        if len(documents) != len(freqs):
            raise file.damaged(f"the positions of term {term} are those of {len(documents)} documents")
        out = self._room_for_positions(term, freqs, len(data))
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

    def _room_for_positions(self, term: int, freqs: npt.NDArray[np.int32], num_bytes: int) -> npt.NDArray[np.int32]:
        """An array for the positions of a list; 128 positions that are all the same need one byte."""
        total = int(freqs.sum(dtype=np.int64))
        if total > 128 * (num_bytes + 1):
            raise self._invert.damaged(f"term {term} has {total} positions in {num_bytes} bytes")
        return np.empty(total, np.int32)


_Sized = TypeVar("_Sized", Postings, Dictionary, _Documents, npt.NDArray[np.int32])


def _row(number: int) -> RowRanges:
    return RowRanges(np.array([number], np.int64), np.array([number + 1], np.int64))


def _blobs(array: pa.LargeBinaryArray) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """(all bytes, int64[n + 1]: where each blob starts)."""
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    return np.frombuffer(data or b"", np.uint8), np.ascontiguousarray(ends)


def _sorted_dictionary(tokens: pa.StringArray, numbers: pa.UInt32Array) -> Dictionary:
    cells = tokens.cast(pa.large_binary())
    order = pc.sort_indices(cells)
    cells, numbers = cells.take(order), numbers.take(order)
    data, ends = _blobs(cells)
    return Dictionary(data[ends[0] : ends[-1]], ends[1:] - ends[0], numbers.to_numpy().astype(np.int64))
