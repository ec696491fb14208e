"""The trigrams of texts, as NGRAM indexes know them; `index.ngram` says what they are."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.encodings.blocks import Int64Array
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.text.trigrams import group_trigrams

_BASE = 37
_NUM_TOKENS = _BASE**3
_BATCH_BYTES = 16 << 20
"""Bytes of text that are cut into trigrams at a time, in some five times as much memory."""

_CODES = np.zeros(256, np.uint8)
for _place, _character in enumerate("0123456789abcdefghijklmnopqrstuvwxyz", 1):
    _CODES[ord(_character)] = _CODES[ord(_character.upper())] = _place

_FOLDED = {
    **dict(zip("ØøŁłĐÐđðĦħŦŧŊŋıĸſ", "OoLlDDddHhTtNniks", strict=True)),
    **{"Æ": "AE", "æ": "ae", "Œ": "OE", "œ": "oe", "Þ": "TH", "þ": "th", "ß": "ss", "ẞ": "SS"},
}
"""Letters that no decomposition turns into ASCII."""


def grouped_by_trigram(texts: pa.Array) -> Iterator[tuple[int, Int64Array, npt.NDArray[np.uint32]]]:
    """Texts by their trigrams, for some of the texts at a time.

    Args:
        texts: strings or large strings; nulls have no trigrams.

    Yields:
        (the first of these texts, starts, places): those with trigram number t are `places[starts[t]:starts[t + 1]]`,
        ascending and counted from the first one.
    """
    texts = texts.cast(pa.large_string())
    for start, stop in _batches(texts):
        yield start, *_grouped(_folded(texts.slice(start, stop - start)))


def _batches(texts: pa.Array) -> Iterator[tuple[int, int]]:
    """Ranges of rows with a bounded number of bytes, at least one row each."""
    offsets = _offsets(texts)
    start = 0
    while start < len(texts):
        stop = max(start + 1, int(np.searchsorted(offsets, offsets[start] + _BATCH_BYTES, side="right")) - 1)
        yield start, stop
        start = stop


def _grouped(texts: pa.Array) -> tuple[Int64Array, npt.NDArray[np.uint32]]:
    offsets = _offsets(texts)
    data = texts.buffers()[2]
    starts = np.zeros(_NUM_TOKENS + 1, np.int64)
    num_bytes = int(offsets[-1] - offsets[0])
    if data is None or not num_bytes:
        return starts, np.empty(0, np.uint32)
    places = np.empty(num_bytes, np.uint32)
    last = np.empty(_NUM_TOKENS, np.uint32)
    found = group_trigrams(
        data.address,
        data.size,
        address_of(offsets),
        len(texts),
        address_of(_CODES),
        _BASE,
        _NUM_TOKENS,
        address_of(last),
        address_of(starts),
        address_of(places),
        len(places),
    )
    if found < 0:
        raise AssertionError(f"texts of {len(data)} bytes: {found}")
    return starts, places[:found]


def _offsets(texts: pa.Array) -> Int64Array:
    return np.frombuffer(texts.buffers()[1], np.int64)[texts.offset : texts.offset + len(texts) + 1]


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
    return text.translate(_FOLDED_CHARACTERS)


class _FoldedCharacters(dict[int, str]):
    """Folded characters by code point, computed at the first use."""

    def __missing__(self, code: int) -> str:
        folded = "".join(_fold_character(lowered) for lowered in chr(code).lower())
        self[code] = folded
        return folded


_FOLDED_CHARACTERS = _FoldedCharacters()


def _fold_character(character: str) -> str:
    if character.isascii():
        return character
    parts = _FOLDED.get(character) or "".join(
        part if part.isascii() else _FOLDED.get(part, "") for part in unicodedata.normalize("NFKD", character)
    )
    return parts or character
