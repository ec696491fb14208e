"""An encoded page before it is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa


class PageDescription(Protocol):
    """Description of a page in the metadata: a layout, or in file version 2.0 an array encoding."""

    def __hash__(self) -> int: ...

    def to_proto(self) -> Any:
        """The complete message."""
        ...


@dataclass(frozen=True, slots=True)
class PageBytes:
    """A page to be written.

    Attributes:
        num_rows: `Page.length` of the wire format.
        layout: describes the buffers.
        buffers: the page's buffers in the order of the layout.
        file_rows: rows of the file that the page belongs to; None if that follows from `num_rows`.
    """

    num_rows: int
    layout: PageDescription
    buffers: tuple[pa.Buffer, ...]
    file_rows: int | None = None
