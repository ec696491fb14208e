"""Runs requests in parallel, on a thread pool that all stores of a process share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from threading import Lock
from typing import Generic, TypeVar

from lance_spark.storage.per_process import PerProcess

Task = TypeVar("Task")
Result = TypeVar("Result")

MAX_THREADS = 32

_pool = PerProcess(lambda: ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="lance-io"))


def overlapped(run: Callable[[Task], Result], tasks: Sequence[Task], num_threads: int) -> list[Result]:
    """``[run(task) for task in tasks]`` on up to `num_threads` threads; results are in order of the tasks.

    The caller's thread works too, so a call makes progress however busy the shared threads are. The first
    exception ends the call once the running tasks have finished; tasks that have not started are dropped.
    """
    if len(tasks) <= 1 or num_threads <= 1:
        return [run(task) for task in tasks]
    work = _TaskQueue(run, tasks)
    pool = _pool.get()
    helpers = [pool.submit(work.drain) for _ in range(min(num_threads, len(tasks)) - 1)]
    try:
        work.drain()
    finally:
        # A helper that has not started has nothing left to do.
        started = [helper for helper in helpers if not helper.cancel()]
        wait(started)
    for helper in started:
        helper.result()
    return work.results()


def submit(run: Callable[[], Result]) -> Future[Result]:
    """Starts `run` on a shared thread; it must not wait for other shared threads."""
    return _pool.get().submit(run)


class _TaskQueue(Generic[Task, Result]):
    """A task list shared by several threads."""

    def __init__(self, run: Callable[[Task], Result], tasks: Sequence[Task]) -> None:
        self._run = run
        self._tasks = tasks
        self._next = 0
        self._lock = Lock()
        self._results: dict[int, Result] = {}

    def drain(self) -> None:
        finished = False
        try:
            while (index := self._take()) is not None:
                self._results[index] = self._run(self._tasks[index])
            finished = True
        finally:
            if not finished:
                self._stop()

    def results(self) -> list[Result]:
        return [self._results[index] for index in range(len(self._tasks))]

    def _take(self) -> int | None:
        with self._lock:
            index = self._next
            if index >= len(self._tasks):
                return None
            self._next = index + 1
            return index

    def _stop(self) -> None:
        with self._lock:
            self._next = len(self._tasks)
