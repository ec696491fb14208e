"""How much this process has read from stores, and how long it waited for that."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from time import perf_counter


@dataclass(frozen=True, slots=True)
class ReadCounts:
    """What was read.

    Attributes:
        requests: reads that the stores were asked for, as they are sent: near ranges together, long ones in pieces.
        num_bytes: bytes of what was wanted.
        seconds: of waiting, reads that ran at the same time for one caller counted once.
    """

    requests: int = 0
    num_bytes: int = 0
    seconds: float = 0.0

    def __sub__(self, earlier: ReadCounts) -> ReadCounts:
        return ReadCounts(
            self.requests - earlier.requests, self.num_bytes - earlier.num_bytes, self.seconds - earlier.seconds
        )


@dataclass(slots=True)
class Reading:
    """Reads that are going on."""

    num_bytes: int


class ReadMeter:
    """Sums of what stores were asked for. Thread safe."""

    def __init__(self) -> None:
        self._counts = ReadCounts()
        self._lock = Lock()

    @property
    def counts(self) -> ReadCounts:
        """Everything so far."""
        with self._lock:
            return self._counts

    @contextmanager
    def reading(self, requests: int, num_bytes: int = 0) -> Iterator[Reading]:
        """Counts the reads that happen inside, failed ones too; who learns the size inside can still set it."""
        reading = Reading(num_bytes)
        start = perf_counter()
        try:
            yield reading
        finally:
            seconds = perf_counter() - start
            with self._lock:
                so_far = self._counts
                self._counts = ReadCounts(
                    so_far.requests + requests, so_far.num_bytes + reading.num_bytes, so_far.seconds + seconds
                )


READS = ReadMeter()
"""All reads of data of this process. Tasks of Spark run one after the other in a process of their own."""
