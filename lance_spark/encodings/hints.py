"""Encodings that a field's metadata request (keys ``lance-encoding:...``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from lance_spark.encodings.buffer_compression import BufferCompression, CompressionScheme
from lance_spark.errors import InvalidInputError

Metadata: TypeAlias = Mapping[str, bytes]
NumberT = TypeVar("NumberT", int, float)

PREFIX = "lance-encoding:"
_SCHEMES = {"lz4": CompressionScheme.LZ4, "zstd": CompressionScheme.ZSTD}
_ZSTD_LEVELS = (-131072, 22)


@dataclass(frozen=True, slots=True)
class EncodingHints:
    """The requests for one field.

    Attributes:
        name: of the compression: "", "none", "lz4", "zstd" or "fsst".
        general: the compression of buffers, if requested.
        byte_stream_split: "off", "on" or "auto"; it has an effect only together with `general`.
        rle_threshold: runs per value below which run length encoding is used; None for the smallest encoding.
        dict_divisor: a dictionary has at most one item for this many values.
        dict_size_ratio: a dictionary is used if the page becomes smaller than this part of its size.
        counts_distinct: whether one of these two is requested; then all values of a page are counted, not a sample.
        dict_values: the compression of the items of dictionaries, None for none.
        structural: "", "miniblock" or "fullzip".
        minichunk_size: bytes of a mini-block chunk, None for the default.
    """

    name: str
    general: BufferCompression | None
    byte_stream_split: str
    rle_threshold: float | None
    dict_divisor: int
    dict_size_ratio: float
    counts_distinct: bool
    dict_values: BufferCompression | None
    structural: str
    minichunk_size: int | None

    @classmethod
    def of(cls, metadata: Metadata) -> EncodingHints:
        """The requests in the metadata of a field.

        Raises:
            InvalidInputError: a value is unknown, no number, or out of range.
        """
        # Most fields request nothing, and all pages of a column request the same.
        requests = tuple(item for item in metadata.items() if item[0].startswith(PREFIX)) if metadata else ()
        return cls._parse(dict(requests)) if requests else NO_REQUESTS

    @classmethod
    def _parse(cls, metadata: Metadata) -> EncodingHints:
        name = _word(metadata, "compression", ("", "none", "lz4", "zstd", "fsst"))
        dict_values = _word(metadata, "dict-values-compression", ("lz4", "zstd", "none"))
        return cls(
            name,
            _compression(metadata, name, "compression-level"),
            _word(metadata, "bss", ("auto", "off", "on")),
            _number(metadata, "rle-threshold", float, (0.0, 1.0)),
            _number(metadata, "dict-divisor", int, (1, 1 << 31)) or 2,
            _size_ratio(metadata),
            not metadata.keys().isdisjoint({f"{PREFIX}dict-divisor", f"{PREFIX}dict-size-ratio"}),
            _compression(metadata, dict_values, "dict-values-compression-level"),
            _word(metadata, "structural-encoding", ("", "miniblock", "fullzip")),
            _number(metadata, "minichunk-size", int, (1, 1 << 31)),
        )


def _word(metadata: Metadata, key: str, known: tuple[str, ...]) -> str:
    """The value of a key in lower case; the first of `known` if there is none."""
    text = metadata.get(PREFIX + key)
    if text is None:
        return known[0]
    word = text.decode("utf-8", "replace").lower()
    if word not in known:
        named = ", ".join(value for value in known if value)
        raise InvalidInputError(f"{PREFIX}{key} is {word!r}; use one of {named}")
    return word


def _number(
    metadata: Metadata, key: str, parse: Callable[[str], NumberT], bounds: tuple[NumberT, NumberT]
) -> NumberT | None:
    text = metadata.get(PREFIX + key)
    if text is None:
        return None
    shown = text.decode("utf-8", "replace")
    try:
        number = parse(shown)
    except ValueError:
        raise InvalidInputError(f"{PREFIX}{key} is {shown!r}; use a number") from None
    if not bounds[0] <= number <= bounds[1]:
        raise InvalidInputError(f"{PREFIX}{key} is {shown}; use {bounds[0]} to {bounds[1]}")
    return number


def _size_ratio(metadata: Metadata) -> float:
    ratio = _number(metadata, "dict-size-ratio", float, (0.0, 1.0))
    if ratio == 0.0:  # The reference library fails for it.
        raise InvalidInputError(f"{PREFIX}dict-size-ratio is 0; use more than 0, up to 1")
    return 0.8 if ratio is None else ratio


def _compression(metadata: Metadata, name: str, level_key: str) -> BufferCompression | None:
    level = _number(metadata, level_key, int, _ZSTD_LEVELS)
    return BufferCompression(_SCHEMES[name], level) if name in _SCHEMES else None


NO_REQUESTS = EncodingHints._parse({})
"""Of fields without requests: the same object for all of them."""
