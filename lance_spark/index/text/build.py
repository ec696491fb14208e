"""Writing INVERTED segments: posting lists in blocks of 128, positions as shared streams.

The format version is 2, or 3 for source code; with blocks of 128 they differ in nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyroaring

from lance_spark._proto import index_pb2
from lance_spark.analysis.analyzer import AnalyzedTexts
from lance_spark.analysis.parameters import CODE_OPTIONS, TextParameters
from lance_spark.analysis.token_numbers import TokenNumbers
from lance_spark.errors import InvalidInputError
from lance_spark.index.text.dictionary import Dictionary
from lance_spark.index.text.documents import analyzer_of
from lance_spark.index.text.items import Granularity, UInt32Array, items_of
from lance_spark.index.text.posting_lists import BLOCK, PostingLists
from lance_spark.index.text.stored import item_column
from lance_spark.index.text.transducer import encoded

_WITH_POSITION, _GRANULARITY = "with_position", "document_granularity"
_OF_INDEX = (_WITH_POSITION, _GRANULARITY)
"""Options of an index that are not those of the analysis."""

_PARTITION_TOKENS = 1 << 27
_PARTITION_TERMS = 1 << 22
"""A partition with as many tokens, or as many distinct terms, is closed: both are in memory until then. A search asks
each partition."""

_FORMAT = {"posting_block_size": str(BLOCK), "posting_tail_codec": "varint_delta_v1"}
_POSITIONS_FORMAT = {"positions_layout": "shared_stream_v2", "positions_codec": "packed_delta_v1"}


_NUMBERS = {
    Granularity.ROW: index_pb2.InvertedIndexDetails.ROW,
    Granularity.LIST_ELEMENT: index_pb2.InvertedIndexDetails.LIST_ELEMENT,
}


class Output(Protocol):
    """Destination of the files of a segment."""

    def write(self, name: str, table: pa.Table, metadata: Mapping[str, str]) -> None:
        """Writes one file; `metadata` are entries of its schema."""


@dataclass(frozen=True)
class TextIndexParameters:
    """Parameters of a text index.

    Attributes:
        text: the analysis.
        with_position: whether positions are stored, which phrases need.
        granularity: what a document is.
    """

    text: TextParameters
    with_position: bool = False
    granularity: Granularity = Granularity.ROW

    @property
    def has_items(self) -> bool:
        """Whether documents are items of lists."""
        return self.granularity is Granularity.LIST_ELEMENT

    @property
    def format_version(self) -> int:
        """The version of the files and of the index."""
        return 3 if self.text.base_tokenizer == "code" else 2

    @classmethod
    def of(cls, options: Mapping[str, object]) -> TextIndexParameters:
        """The parameters with these values, defaults for the others.

        Raises:
            InvalidInputError: an unknown name, or an invalid value.
            UnsupportedFeatureError: a tokenizer or block size that is not written.
        """
        rest = dict(options)
        with_position = rest.pop(_WITH_POSITION, False)
        if not isinstance(with_position, bool):
            raise InvalidInputError(f"with_position is {with_position!r}, not of type bool")
        block_size = rest.pop("block_size", BLOCK)
        if block_size != BLOCK:
            raise InvalidInputError(f"block_size {block_size!r} is not written; leave it out or use {BLOCK}")
        granularity = Granularity.of(rest.pop(_GRANULARITY, Granularity.ROW))
        return cls(TextParameters.of(rest, _OF_INDEX), with_position, granularity)

    def details(self) -> bytes:
        """The serialized `InvertedIndexDetails`."""
        text = self.text
        message = index_pb2.InvertedIndexDetails(
            base_tokenizer=text.base_tokenizer,
            language=json.dumps(text.language),
            with_position=self.with_position,
            lower_case=text.lower_case,
            stem=bool(text.stem),
            remove_stop_words=bool(text.remove_stop_words),
            ascii_folding=text.ascii_folding,
            min_ngram_length=text.min_ngram_length,
            max_ngram_length=text.max_ngram_length,
            prefix_only=text.prefix_only,
            block_size=BLOCK,
            posting_format_version=self.format_version,
        )
        message.document_granularity = _NUMBERS[self.granularity]
        if text.base_tokenizer == "code":
            for name in CODE_OPTIONS:
                setattr(message.code_config, name, getattr(text, name))
        if text.max_token_length is not None:
            message.max_token_length = text.max_token_length
        return message.SerializeToString(deterministic=True)

    def to_json(self) -> str:
        """The parameters as `metadata.lance` holds them."""
        fields = {**self.text.to_json_fields(), "with_position": self.with_position}
        return json.dumps({**fields, "block_size": BLOCK}, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Documents:
    """Documents whose terms are known.

    Attributes:
        terms: the terms by the numbers that `tokens` uses.
        tokens: the terms and positions of the documents; those of one document are ordered by position, or by term and
            then by position.
        row_ids: uint64[n]: their rows.
        items: uint32[n, levels]: their numbers in the lists of these rows; None if documents are rows.
    """

    terms: pa.LargeStringArray
    tokens: AnalyzedTexts
    row_ids: npt.NDArray[np.uint64]
    items: UInt32Array | None


def write_segment_files(
    old: Iterable[Documents],
    batches: Iterable[tuple[pa.Array, npt.NDArray[np.uint64]]],
    parameters: TextIndexParameters,
    item_levels: int,
    output: Output,
) -> None:
    """Writes the files of a segment.

    Args:
        old: documents of older segments.
        batches: the values of the column and their row ids (uint64[n]).
        item_levels: how many numbers documents have that are items of lists; 0 for rows.

    Raises:
        InvalidInputError: the values are no text.
        CorruptFileError: old documents cannot be read.
        StorageError: the store failed.
    """
    partitions: list[int] = []
    part = _Part(parameters, item_levels)
    sources: Iterator[Documents | tuple[pa.Array, npt.NDArray[np.uint64]]] = chain(old, batches)
    for source in sources:
        if isinstance(source, Documents):
            part.add_documents(source)
        else:
            values, row_ids = source
            part.add(values, row_ids)
        if part.num_tokens >= _PARTITION_TOKENS or part.num_terms >= _PARTITION_TERMS:
            part.write(len(partitions), output)
            partitions.append(len(partitions))
            part = _Part(parameters, item_levels)
    if part.num_tokens or not partitions:
        part.write(len(partitions), output)
        partitions.append(len(partitions))
    deleted = pa.array([pyroaring.BitMap().serialize()], pa.binary())
    schema = pa.schema([pa.field("deleted_fragments", pa.binary(), nullable=False)])
    metadata = {
        "partitions": json.dumps(partitions),
        "params": parameters.to_json(),
        "token_set_format": "fst",
        **_format(parameters),
    }
    output.write("metadata.lance", pa.table([deleted], schema=schema), metadata)


def _format(parameters: TextIndexParameters) -> dict[str, str]:
    version = {"format_version": str(parameters.format_version)}
    return {**version, **_FORMAT, **(_POSITIONS_FORMAT if parameters.with_position else {})}


class _Part:
    """A partition in memory."""

    def __init__(self, parameters: TextIndexParameters, item_levels: int) -> None:
        self._parameters = parameters
        self._item_levels = item_levels
        self._analyzer = analyzer_of(parameters.text)
        self._texts: list[AnalyzedTexts] = []
        self._row_ids: list[npt.NDArray[np.uint64]] = [np.empty(0, np.uint64)]
        self._items: list[UInt32Array] = []
        self.num_tokens = 0

    @property
    def num_terms(self) -> int:
        """The distinct terms so far."""
        return len(self._analyzer.terms)

    def add(self, values: pa.Array, row_ids: npt.NDArray[np.uint64]) -> None:
        items = None
        if self._item_levels:
            values, owners, items = items_of(values)
            row_ids = row_ids[owners]
        self._add(self._analyzer.analyze(values), row_ids, items)

    def add_documents(self, documents: Documents) -> None:
        # Terms without a document are left out, so a term is numbered when a document has it.
        is_used = np.zeros(len(documents.terms), np.bool_)
        is_used[documents.tokens.terms] = True
        numbers = np.full(len(documents.terms), -1, np.int32)
        numbers[is_used] = self._analyzer.numbers_of(documents.terms.filter(pa.array(is_used)))
        self._add(replace(documents.tokens, terms=numbers[documents.tokens.terms]), documents.row_ids, documents.items)

    def _add(self, found: AnalyzedTexts, row_ids: npt.NDArray[np.uint64], items: UInt32Array | None) -> None:
        self._texts.append(found)
        self._row_ids.append(row_ids)
        if items is not None:
            self._items.append(items)
        self.num_tokens += len(found.terms)

    def write(self, number: int, output: Output) -> None:
        """Writes the files of the partition, to which nothing can be added then."""
        # Many distinct terms take more memory than all else, and so do the tokens that they were made of.
        terms = self._analyzer.terms
        del self._analyzer
        num_terms = len(terms)
        _write_tokens(number, terms, output)
        del terms
        counts = np.concatenate([np.empty(0, np.int64), *(np.diff(found.offsets) for found in self._texts)])
        none = np.empty((0, self._item_levels), np.uint32)
        items = np.concatenate([none, *self._items]) if self._item_levels else None
        is_document = counts > 0 if items is None else np.ones(len(counts), np.bool_)
        lengths = counts[is_document]
        tokens = np.concatenate([np.empty(0, np.int32), *(found.terms for found in self._texts)])
        positions = np.concatenate([np.empty(0, np.int32), *(found.positions for found in self._texts)])
        self._texts.clear()
        _write_docs(number, np.concatenate(self._row_ids)[is_document], lengths, items, output)
        docs = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
        lists = PostingLists.of(tokens, docs, positions, num_terms)
        table = lists.table(lengths, with_position=self._parameters.with_position)
        output.write(f"part_{number}_invert.lance", table, _format(self._parameters))


def _write_tokens(number: int, terms: TokenNumbers, output: Output) -> None:
    dictionary = Dictionary.of_terms(terms)
    fst = encoded(dictionary)
    if fst is None:
        raise InvalidInputError(
            "a term is too long for a text index; set max_token_length, or use another tokenizer than raw"
        )
    columns = {
        "_token_fst_bytes": pa.array([fst], pa.large_binary()),
        "_token_next_id": pa.array([len(terms)], pa.uint32()),
        "_token_total_length": pa.array([len(dictionary.arena)], pa.uint64()),
    }
    fields = [pa.field(name, column.type, nullable=False) for name, column in columns.items()]
    output.write(f"part_{number}_tokens.lance", pa.table(list(columns.values()), schema=pa.schema(fields)), {})


def _write_docs(
    number: int,
    row_ids: npt.NDArray[np.uint64],
    lengths: npt.NDArray[np.int64],
    items: UInt32Array | None,
    output: Output,
) -> None:
    columns = {"_rowid": pa.array(row_ids), "_num_tokens": pa.array(lengths.astype(np.uint32))}
    if items is not None:
        columns |= {item_column(level): pa.array(numbers) for level, numbers in enumerate(items.T)}
    fields = [pa.field(name, column.type, nullable=False) for name, column in columns.items()]
    table = pa.table(list(columns.values()), schema=pa.schema(fields))
    output.write(f"part_{number}_docs.lance", table, {"total_tokens": str(int(lengths.sum()))})
