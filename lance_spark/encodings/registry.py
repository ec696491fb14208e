"""From a `lance.encodings21.CompressiveEncoding` message to the codec that it describes.

Codecs enter themselves with `register`; `lance_spark.encodings` imports them all. A codec that holds another one asks
`parse` for it, in the role in which it uses it.
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
    """Class decorator: `parse` knows the codec by its `wire_name` from now on."""
    _CODECS[codec.wire_name] = codec
    return codec


def parse(message: Any, role: type[RoleT]) -> RoleT:
    """The codec of a `CompressiveEncoding` message, in a role that it has.

    Args:
        message: the message with the `compression` oneof.
        role: `MiniBlockEncoding`, `BlockEncoding`, `PerValueEncoding` or one codec class.

    Raises:
        CorruptFileError: the oneof is not set, or the encoding cannot stand where it stands.
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
        # A codec that nests decides by its own message what it can be; the outer type is the first test.
        raise CorruptFileError(f"the encoding {name!r} cannot stand where a {role.__name__} is needed")
    return codec.from_proto(getattr(message, name), role)
