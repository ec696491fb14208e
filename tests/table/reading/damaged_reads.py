"""Reads of rows out of damaged pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from lance_spark.layouts.base import EncodedPage

Rows = np.ndarray[Any, Any]


def check_damaged_reads(
    read: Callable[[bytes, Rows], pa.Array | None],
    pages: Sequence[EncodedPage],
    content: bytes,
    values: pa.Array,
    *,
    refuses: bool = True,
) -> None:
    """Rows outside of the column, a file that is too short and changed bytes give a valid array or none.

    Args:
        read: some rows of a column with `values`, out of the content of a file.
        pages: of the column.
        refuses: whether pages have numbers that can contradict others.
    """
    content = content[: max(start + size for page in pages for start, size in page.buffers)]
    count = len(values)
    wanted = np.array([count - 1, 0, 1, 1023, 1024, count // 2, count - 2], np.int64)
    whole = read(content, wanted)
    assert whole is not None
    assert whole.to_pylist() == values.take(pa.array(wanted)).to_pylist()
    for outside in ([count], [-1], [1 << 62], [0, count]):
        assert read(content, np.array(outside, np.int64)) is None
    assert read(content[:-1], wanted) is None
    refused = 0
    for damaged in damaged_contents(pages, content, 500):
        array = read(damaged, wanted)
        refused += array is None
        if array is not None:
            assert len(array) == len(wanted)
            array.validate(full=True)
    assert refused > 0 or not refuses


def damaged_contents(pages: Sequence[EncodedPage], content: bytes, count: int) -> Iterator[bytes]:
    """The content of a file with one other byte in a page, so often."""
    random = np.random.default_rng(3)
    for _ in range(count):
        damaged = bytearray(content)
        page = pages[random.integers(len(pages))]
        start, size = page.buffers[random.integers(len(page.buffers))]
        near = int(random.integers(min(size, 64) if random.integers(2) else size))
        damaged[start + near] = int(random.integers(256))
        yield bytes(damaged)
