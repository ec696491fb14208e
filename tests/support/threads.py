"""Threads that start together."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Outcome = TypeVar("Outcome")


def all_at_once(work: Callable[[int], Outcome], num_threads: int) -> list[Outcome]:
    """The outcomes of `work` for each number, on threads that start together. Raises what one of them has raised."""
    start = threading.Barrier(num_threads)

    def run(number: int) -> Outcome:
        start.wait()
        return work(number)

    with ThreadPoolExecutor(num_threads) as pool:
        return list(pool.map(run, range(num_threads)))
