"""Builds NGRAM segments; `index.ngram` describes the file."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lance_spark.encodings.blocks import Int64Array
from lance_spark.index.builders.base import IndexBuilder, IndexedRows, OldSegment
from lance_spark.index.builders.entries import Entries, united
from lance_spark.index.builders.output import SegmentOutput
from lance_spark.index.files import IndexFiles
from lance_spark.index.ngram import POSTINGS_FILE, NGramIndex, read_postings
from lance_spark.index.row_set import treemaps

_BASE = 37
_BATCH_BYTES = 16 << 20
"""Bytes of text that are cut into trigrams at a time, in about ten times as much memory."""

_NULL_TOKEN = 0
_CODES = np.zeros(256, np.uint32)
for _place, _character in enumerate("0123456789abcdefghijklmnopqrstuvwxyz", 1):
    _CODES[ord(_character)] = _CODES[ord(_character.upper())] = _place

_FOLDED = {
    **dict(zip("ØøŁłĐÐđðĦħŦŧŊŋıĸſ", "OoLlDDddHhTtNniks", strict=True)),
    **{"Æ": "AE", "æ": "ae", "Œ": "OE", "œ": "oe", "Þ": "TH", "þ": "th", "ß": "ss", "ẞ": "SS"},
}
"""Letters that no decomposition turns into ASCII."""


class NGramBuilder(IndexBuilder):
    """NGRAM."""

    index_type = NGramIndex

    @classmethod
    def supports(cls, dtype: pa.DataType) -> bool:
        return bool(pt.is_string(dtype) or pt.is_large_string(dtype))

    @classmethod
    def statistics(cls, files: IndexFiles, dtype: pa.DataType) -> dict[str, object]:
        return {"num_ngrams": files.open(POSTINGS_FILE).num_rows}

    def train(self, rows: IndexedRows, output: SegmentOutput) -> None:
        _write([_trigrams(rows)], output)

    def merge(self, old: Sequence[OldSegment], rows: IndexedRows, output: SegmentOutput) -> None:
        parts = [_trigrams(rows)]
        for segment in old:
            tokens, sets = read_postings(segment.files)
            parts.append(Entries.of_sets(pa.array(tokens, pa.uint32()), sets, segment.mapping))
        _write(parts, output)


def _write(parts: list[Entries], output: SegmentOutput) -> None:
    tokens, bounds, ids = united(parts).sorted()
    fields = [
        pa.field("tokens", pa.uint32()),
        pa.field("posting_list", pa.binary(), nullable=False, metadata={"lance-encoding:compression": "none"}),
    ]
    table = pa.table([tokens, pa.array(treemaps(ids, bounds), pa.binary())], schema=pa.schema(fields))
    output.write(POSTINGS_FILE, table, {})


def _trigrams(rows: IndexedRows) -> Entries:
    """The pairs of a token and a row: tokens of trigrams, and one for rows without a text."""
    texts = rows.values.cast(pa.large_string())
    is_null = texts.is_null().to_numpy(zero_copy_only=False)
    tokens = [np.full(int(is_null.sum()), _NULL_TOKEN, np.uint32)]
    places: list[Int64Array] = [np.flatnonzero(is_null)]
    for start, stop in _batches(texts):
        found, row = _trigrams_of(_folded(texts.slice(start, stop - start)))
        tokens.append(found)
        places.append(row + start)
    return Entries.of_values(pa.array(np.concatenate(tokens), pa.uint32()), rows.ids[np.concatenate(places)])


def _batches(texts: pa.Array) -> list[tuple[int, int]]:
    """Ranges of rows with a bounded number of bytes, at least one row each."""
    offsets = np.frombuffer(texts.buffers()[1], np.int64)[texts.offset : texts.offset + len(texts) + 1]
    ranges = []
    start = 0
    while start < len(texts):
        stop = max(start + 1, int(np.searchsorted(offsets, offsets[start] + _BATCH_BYTES, side="right")) - 1)
        ranges.append((start, stop))
        start = stop
    return ranges


def _trigrams_of(texts: pa.Array) -> tuple[npt.NDArray[np.uint32], Int64Array]:
    """(tokens, rows) of the distinct trigrams of each text without nulls: three letters or digits in a row."""
    offsets = np.frombuffer(texts.buffers()[1], np.int64)[texts.offset : texts.offset + len(texts) + 1]
    data = texts.buffers()[2]
    if data is None or offsets[-1] - offsets[0] < 3:
        return np.empty(0, np.uint32), np.empty(0, np.int64)
    codes = _CODES[np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]]]
    rows = np.repeat(np.arange(len(texts)), np.diff(offsets))
    is_known = codes > 0
    places = np.flatnonzero(is_known[:-2] & is_known[1:-1] & is_known[2:] & (rows[2:] == rows[:-2]))
    tokens = codes[places] * np.uint32(_BASE * _BASE) + codes[places + 1] * np.uint32(_BASE) + codes[places + 2]
    return tokens, rows[places]


def _folded(texts: pa.Array) -> pa.Array:
    """The texts with characters beyond ASCII folded where that is possible; nulls are empty."""
    texts = texts.fill_null("")
    is_ascii = pc.string_is_ascii(texts)
    if pc.all(is_ascii).as_py() is not False:
        return texts
    folded = [fold(text) for text in texts.filter(pc.invert(is_ascii)).to_pylist()]
    return pc.replace_with_mask(texts, pc.invert(is_ascii), pa.array(folded, pa.large_string()))


def fold(text: str) -> str:
    """A text in lower case, with ASCII for accented letters.

    >>> fold("Größe Ångström Ж")
    'grosse angstrom ж'
    """
    return "".join(_fold_character(lowered) for character in text for lowered in character.lower())


def _fold_character(character: str) -> str:
    if character.isascii():
        return character
    parts = _FOLDED.get(character) or "".join(
        part if part.isascii() else _FOLDED.get(part, "") for part in unicodedata.normalize("NFKD", character)
    )
    return parts or character
