"""Parses `lance.encodings21.CompressiveEncoding` messages.

Codecs are registered with `register`; the module of each is imported when the first message names it. A codec that
contains another one calls `parse` for it, with the role in which it uses it.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, TypeVar

from google.protobuf.unknown_fields import UnknownFieldSet

from lance_spark.encodings.base import CompressiveEncoding
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError

CodecT = TypeVar("CodecT", bound=type[CompressiveEncoding])
RoleT = TypeVar("RoleT", bound=CompressiveEncoding)

_MODULES = (
    "byte_stream_split",
    "constant",
    "fixed_size_list",
    "flat",
    "fsst",
    "general",
    "inline_bitpacking",
    "out_of_line_bitpacking",
    "packed_struct",
    "rle",
    "variable",
    "variable_packed_struct",
)
"""The modules of the codecs, which have their wire names."""

_CODECS: dict[str, type[CompressiveEncoding]] = {}


def register(codec: CodecT) -> CodecT:
    """Class decorator: registers the codec for `parse` by its `wire_name`."""
    _CODECS[codec.wire_name] = codec
    return codec


def known_codecs() -> dict[str, type[CompressiveEncoding]]:
    """All codecs by their `wire_name`."""
    return {name: codec for name in _MODULES if (codec := _codec(name)) is not None}


def _codec(name: str) -> type[CompressiveEncoding] | None:
    if name not in _CODECS and name in _MODULES:
        import_module(f"lance_spark.encodings.{name}")
    return _CODECS.get(name)


def parse(message: Any, role: type[RoleT]) -> RoleT:
    """The codec of a `CompressiveEncoding` message, for a role.

    Args:
        message: the message with the `compression` oneof.
        role: `MiniBlockEncoding`, `BlockEncoding`, `PerValueEncoding` or one codec class.

    Raises:
        CorruptFileError: the oneof is not set, or the encoding does not support the role.
        UnsupportedFeatureError: an encoding that this release does not know (file version 2.3 has some).
    """
    name = message.WhichOneof("compression")
    if name is None:
        if len(UnknownFieldSet(message)) > 0:
            raise UnsupportedFeatureError(
                "a page uses a compressive encoding that this release does not know; it may come from a file version "
                "after 2.2",
                feature="compressive encoding",
            )
        raise CorruptFileError("a compressive encoding is missing")
    codec = _codec(name)
    if codec is None:
        raise UnsupportedFeatureError(f"the compressive encoding {name!r} is not supported", feature=name)
    if not issubclass(codec, role):
        # The roles of a nested codec depend on its message; the outer type is only the first test.
        raise CorruptFileError(f"the encoding {name!r} cannot stand where a {role.__name__} is needed")
    return codec.from_proto(getattr(message, name), role)
