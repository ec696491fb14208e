"""Parses `lance.encodings21.PageLayout` messages.

Layouts are registered with `register`; the module of each is imported when the first page names it.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from typing import Any, TypeVar

from google.protobuf.message import DecodeError

from lance_spark._proto import encodings_v2_1_pb2 as pb
from lance_spark.encodings.base import BlockEncoding
from lance_spark.encodings.registry import parse as parse_encoding
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.layouts.base import PageLayout

PAGE_LAYOUT_URL = "/lance.encodings21.PageLayout"
"""Type URL of the pages of versions 2.1 and 2.2."""

MAX_COUNT = 1 << 40

LayoutT = TypeVar("LayoutT", bound=type[PageLayout])

_MODULES = {
    "blob_layout": "blob",
    "constant_layout": "constant.layout",
    "full_zip_layout": "full_zip.layout",
    "mini_block_layout": "mini_block.layout",
}
"""The modules of the layouts by wire name."""

_LAYOUTS: dict[str, type[PageLayout]] = {}


def register(layout: LayoutT) -> LayoutT:
    """Class decorator: registers the layout for `parse` by its `wire_name`."""
    _LAYOUTS[layout.wire_name] = layout
    return layout


def known_layouts() -> dict[str, type[PageLayout]]:
    """All layouts by their `wire_name`."""
    return {name: layout for name in _MODULES if (layout := _layout(name)) is not None}


def _layout(name: str) -> type[PageLayout] | None:
    if name not in _LAYOUTS and name in _MODULES:
        import_module(f"lance_spark.layouts.{_MODULES[name]}")
    return _LAYOUTS.get(name)


def parse(message: Any) -> PageLayout:
    """The layout of a `PageLayout` message.

    Raises:
        CorruptFileError: the message is empty or inconsistent.
        UnsupportedFeatureError: a layout that this release does not know.
    """
    name = message.WhichOneof("layout")
    if name is None:
        raise CorruptFileError("a page layout is missing")
    layout = _layout(name)
    if layout is None:
        raise UnsupportedFeatureError(f"the page layout {name!r} is not supported", feature=name)
    return layout.from_proto(getattr(message, name))


@lru_cache(maxsize=4096)
def parse_page(type_url: str, message: bytes) -> PageLayout:
    """The layout of a page; cached, because small pages and the columns of wide tables often have equal messages.

    Raises:
        CorruptFileError: the message cannot be parsed or is inconsistent.
        UnsupportedFeatureError: a page of another version, including the pre-releases of 2.1.
    """
    if type_url != PAGE_LAYOUT_URL:
        raise UnsupportedFeatureError(
            f"pages of type {type_url!r} are not supported: the file is of an unstable or pre-release version; rewrite "
            "it with a released version of its writer",
            feature="page encoding",
        )
    layout = pb.PageLayout()
    try:
        layout.ParseFromString(message)
    except DecodeError as error:
        raise CorruptFileError(f"a page layout does not parse: {error}") from error
    return parse(layout)


def bounded_count(count: int) -> int:
    """Validates a number of values or items of a layout message.

    Raises:
        CorruptFileError: more than any page has.
    """
    if count > MAX_COUNT:
        raise CorruptFileError(f"a page layout claims {count} items")
    return count


def optional_block(message: Any, name: str) -> BlockEncoding | None:
    """The block encoding in a member of a layout message, None if it is not set."""
    if not message.HasField(name):
        return None
    return parse_encoding(getattr(message, name), BlockEncoding)


def set_optional_block(message: Any, name: str, encoding: BlockEncoding | None) -> None:
    """The inverse of `optional_block`."""
    if encoding is not None:
        getattr(message, name).CopyFrom(encoding.to_proto())
