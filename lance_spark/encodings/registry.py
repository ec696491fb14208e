"""Parses `lance.encodings21.CompressiveEncoding` messages.

Codecs are registered with `register`; `lance_spark.encodings` imports them all. A codec that contains another one
calls `parse` for it, with the role in which it uses it.
"""

from __future__ import annotations

from typing import Any, TypeVar

from google.protobuf.unknown_fields import UnknownFieldSet

from lance_spark.encodings.base import CompressiveEncoding
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError

CodecT = TypeVar("CodecT", bound=type[CompressiveEncoding])
RoleT = TypeVar("RoleT", bound=CompressiveEncoding)

_CODECS: dict[str, type[CompressiveEncoding]] = {}


def register(codec: CodecT) -> CodecT:
    """Class decorator: registers the codec for `parse` by its `wire_name`."""
    _CODECS[codec.wire_name] = codec
    return codec


def known_codecs() -> dict[str, type[CompressiveEncoding]]:
    """The registered codecs by their `wire_name`."""
    return dict(_CODECS)


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
    codec = _CODECS.get(name)
    if codec is None:
        raise UnsupportedFeatureError(f"the compressive encoding {name!r} is not supported", feature=name)
    if not issubclass(codec, role):
        # The roles of a nested codec depend on its message; the outer type is only the first test.
        raise CorruptFileError(f"the encoding {name!r} cannot stand where a {role.__name__} is needed")
    return codec.from_proto(getattr(message, name), role)
