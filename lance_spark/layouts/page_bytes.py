"""An encoded page before it is written."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from lance_spark.layouts.base import PageLayout


@dataclass(frozen=True, slots=True)
class PageBytes:
    """A page to be written.

    Attributes:
        num_rows: `Page.length` of the wire format.
        layout: describes the buffers.
        buffers: the page's buffers in the order of the layout.
    """

    num_rows: int
    layout: PageLayout
    buffers: tuple[pa.Buffer, ...]
