"""Parts of a scan that are read at once, where each request waits for a network.

A part takes several rounds of requests: the end of a file, its metadata, the pages of the filter, those of the other
columns. One part after the other leaves the connection idle most of the time. A large part is read in windows, and the
requests of one window wait while another is decoded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TypeVar

import pyarrow as pa

from lance_spark.errors import LanceError
from lance_spark.storage.overlap import overlapped, submit

_GROWTH = 4

Window = TypeVar("Window")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Part:
    """Rows that are read together.

    Attributes:
        read: reads them.
        num_bytes: about how many bytes they decode to; infinite if that is not known.
    """

    read: Callable[[], Iterator[pa.RecordBatch]]
    num_bytes: float


def read_parts(parts: Iterable[Part], *, at_once: int, window_bytes: int) -> Iterator[pa.RecordBatch]:
    """The rows of all parts in order.

    Args:
        at_once: how many parts are read at once at most; 1 reads one after the other, batch by batch.
        window_bytes: about how many decoded bytes may wait for those before them.

    Raises:
        LanceError: what the first failing part raises, after the rows before it.
    """
    for lane in _lanes(parts, at_once, window_bytes):
        if len(lane) == 1:
            yield from lane[0].read()
            continue
        for batches, error in overlapped(_collected, lane, at_once):
            yield from batches
            if error is not None:
                raise error


def read_ahead(read: Callable[[Window], Result], windows: Iterable[Window], *, is_remote: bool) -> Iterator[Result]:
    """Yields the result of `read` for each window, in order; on a remote store two are read at once.

    The first window is read alone, because many readers stop after it. `windows` is advanced on the caller's thread,
    when a window is started. An error comes after the results before it.
    """
    if not is_remote:
        yield from map(read, windows)
        return
    coming = iter(windows)
    for window in coming:
        yield read(window)
        break
    running: list[Future[Result]] = []
    try:
        while True:
            running += [submit(partial(read, window)) for window in islice(coming, 2 - len(running))]
            if not running:
                return
            yield running.pop(0).result()
    finally:
        for future in running:
            future.cancel()


def _lanes(parts: Iterable[Part], at_once: int, window_bytes: int) -> Iterator[list[Part]]:
    """The parts in lists that are read at once. The first ones are short, for readers that stop early."""
    lane: list[Part] = []
    num_bytes, limit = 0.0, 1
    for part in parts:
        if lane and (len(lane) >= limit or num_bytes + part.num_bytes > window_bytes):
            limit = min(limit * _GROWTH, at_once) if len(lane) >= limit else limit
            yield lane
            lane, num_bytes = [], 0.0
        lane.append(part)
        num_bytes += part.num_bytes
    if lane:
        yield lane


def _collected(part: Part) -> tuple[list[pa.RecordBatch], LanceError | None]:
    """The batches of a part, and the error that ended it."""
    batches: list[pa.RecordBatch] = []
    try:
        for batch in part.read():
            batches.append(batch)  # noqa: PERF402 - batches before an error are kept
    except LanceError as error:
        return batches, error
    return batches, None
