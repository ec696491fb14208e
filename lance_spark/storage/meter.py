"""Read metrics of this process: requests, bytes and waiting time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from time import perf_counter


@dataclass(frozen=True, slots=True)
class ReadCounts:
    """Totals of reads.

    Attributes:
        requests: requests as sent: close ranges coalesced, long ones split.
        num_bytes: requested bytes.
        seconds: waiting time; parallel reads of one caller are counted once.
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
    """Reads in progress."""

    num_bytes: int


class ReadMeter:
    """Counts reads. Thread safe."""

    def __init__(self) -> None:
        self._requests = self._num_bytes = 0
        self._seconds = 0.0
        self._lock = Lock()

    @property
    def counts(self) -> ReadCounts:
        """The totals so far."""
        with self._lock:
            return ReadCounts(self._requests, self._num_bytes, self._seconds)

    @contextmanager
    def reading(self, requests: int, num_bytes: int = 0) -> Iterator[Reading]:
        """Counts the reads in the block, failed ones too; a size that is known only inside can be set there."""
        reading = Reading(num_bytes)
        start = perf_counter()
        try:
            yield reading
        finally:
            self.add(requests, reading.num_bytes, perf_counter() - start)

    def add(self, requests: int, num_bytes: int, seconds: float) -> None:
        """Counts finished reads."""
        with self._lock:
            self._requests += requests
            self._num_bytes += num_bytes
            self._seconds += seconds


READS = ReadMeter()
"""All data reads of this process. A Python worker runs Spark tasks one after the other."""
