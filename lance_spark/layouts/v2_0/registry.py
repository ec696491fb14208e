"""Parses `lance.encodings.ArrayEncoding` messages.

Encodings are registered with `register`; the module of each is imported when the first message names it. An encoding
that contains another one calls `parse` for it.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from typing import Any, TypeVar

from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from lance_spark._proto import encodings_v2_0_pb2 as pb
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.layouts.base import EncodedColumn
from lance_spark.layouts.v2_0.base import ArrayEncoding

ARRAY_ENCODING_URL = "/lance.encodings.ArrayEncoding"
COLUMN_ENCODING_URL = "/lance.encodings.ColumnEncoding"

EncodingT = TypeVar("EncodingT", bound=type[ArrayEncoding])

_MODULES = {
    **{
        name: name
        for name in (
            "binary",
            "bitpacked",
            "bitpacked_for_non_neg",
            "constant",
            "dictionary",
            "fixed_size_binary",
            "fixed_size_list",
            "flat",
            "fsst",
            "nullable",
            "packed_struct",
        )
    },
    "list": "list_",
    "struct": "simple_struct",
}
"""The modules of the encodings by wire name."""

_ENCODINGS: dict[str, type[ArrayEncoding]] = {}


def register(encoding: EncodingT) -> EncodingT:
    """Class decorator: registers the encoding for `parse` by its `wire_name`."""
    _ENCODINGS[encoding.wire_name] = encoding
    return encoding


def known_array_encodings() -> dict[str, type[ArrayEncoding]]:
    """All encodings by their `wire_name`."""
    return {name: encoding for name in _MODULES if (encoding := _encoding(name)) is not None}


def _encoding(name: str | None) -> type[ArrayEncoding] | None:
    if name in _MODULES and name not in _ENCODINGS:
        import_module(f"lance_spark.layouts.v2_0.{_MODULES[name]}")
    return None if name is None else _ENCODINGS.get(name)


def parse(message: Any) -> ArrayEncoding:
    """The encoding that an `ArrayEncoding` message describes.

    Raises:
        CorruptFileError: the message is empty or inconsistent.
        UnsupportedFeatureError: an encoding of later files (previews of 2.1 shared the message).
    """
    name = message.WhichOneof("array_encoding")
    if name is None and len(UnknownFieldSet(message)) == 0:
        raise CorruptFileError("an array encoding is missing")
    encoding = _encoding(name)
    if encoding is None:
        raise UnsupportedFeatureError(
            "a page uses an array encoding that no release of 2.0 wrote, only previews of 2.1; "
            "write the table again with the release that wrote it",
            feature="array encoding",
            version="2.0",
        )
    return encoding.from_proto(getattr(message, name))


@lru_cache(maxsize=1024)
def parse_page(type_url: str, message: bytes) -> ArrayEncoding:
    """The encoding of a page; cached, since a scan in batches parses the same pages repeatedly.

    Raises:
        CorruptFileError: the bytes are not an `ArrayEncoding`.
        UnsupportedFeatureError: the page has another type of message.
    """
    if type_url != ARRAY_ENCODING_URL:
        raise UnsupportedFeatureError(
            f"a page of a 2.0 file is described by {type_url!r} instead of {ARRAY_ENCODING_URL!r}",
            feature="page encoding",
            version="2.0",
        )
    try:
        parsed = pb.ArrayEncoding.FromString(message)
    except DecodeError as error:
        raise CorruptFileError("the encoding of a page is not a protobuf message") from error
    return parse(parsed)


def first_encoding(column: EncodedColumn) -> ArrayEncoding | None:
    """The encoding of the first page of a column; None if it has no page. Raises as `parse_page`."""
    return parse_page(column.pages[0].type_url, column.pages[0].message) if column.pages else None


def holds_blobs(type_url: str, message: bytes) -> bool:
    """Whether a column's pages contain blob descriptors, according to its encoding.

    Raises:
        CorruptFileError: the bytes are not a `ColumnEncoding`.
        UnsupportedFeatureError: the encoding is wrapped in a zone map, which no release wrote.
    """
    if type_url not in ("", COLUMN_ENCODING_URL):
        raise UnsupportedFeatureError(
            f"a column of a 2.0 file is described by {type_url!r}", feature="column encoding", version="2.0"
        )
    try:
        kind = pb.ColumnEncoding.FromString(message).WhichOneof("column_encoding")
    except DecodeError as error:
        raise CorruptFileError("the encoding of a column is not a protobuf message") from error
    if kind == "zone_index":
        raise UnsupportedFeatureError("columns with zone maps are not supported", feature="zone_index", version="2.0")
    return bool(kind == "blob")
