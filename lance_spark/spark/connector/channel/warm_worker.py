"""Worker processes of Spark: what makes them cheap to use again, and how they end without noise."""

from __future__ import annotations

import gc
import io
import logging
import os
import select
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

from lance_spark.errors import LanceError

_DAEMONS = ("__main__", "pyspark.daemon")
"""What the module of Spark's daemon is called in its worker processes."""

Batch = TypeVar("Batch")
Local = TypeVar("Local")

_LOG = logging.getLogger(__name__)

_frozen_modules = 0


def keep_imports() -> None:
    """Takes the objects that are there out of the reach of the garbage collector, if modules were loaded since the last
    call.

    Spark's daemon collects garbage after each task and each request of its planner. A full collection walks every
    object that imports have made, about 70 ms with pyarrow, pandas and numba, and the next one waits for it. Objects
    still go with their last reference; only cycles that exist at the time of the call stay, and those are few and do
    not grow in number with the tasks.
    """
    global _frozen_modules
    if len(sys.modules) != _frozen_modules:
        gc.freeze()
        _frozen_modules = len(sys.modules)


@contextmanager
def errors_without_traceback() -> Iterator[None]:
    """Lets users of the Python data source see the sentence of a `LanceError` without the traceback of the worker.

    Spark's setting ``spark.sql.execution.pyspark.udf.hideTraceback.enabled`` does that for all errors of a session; a
    worker looks at the variable that carries it when it reports an error, and ends then.
    """
    try:
        yield
    except LanceError:
        _LOG.debug("a task failed", exc_info=True)
        if _daemon_frame_local("sock", socket.socket) is not None:
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise


@contextmanager
def silent_early_end() -> Iterator[None]:
    """Ends the process without a word if the JVM has closed its channel to this worker before the body was done.

    A query that has its rows (LIMIT, `take`, EXISTS), fails elsewhere or is cancelled closes the channel. Spark's
    daemon ends a worker that still has something to send, and prints the traceback of a BrokenPipeError to stderr. Here
    the worker ends without it. The clean-up of the body has run by then.
    """
    try:
        yield
        # Spark's daemon would flush after this: a full socket makes it wait, and fail when the JVM closes it.
        _flush()
    finally:
        if jvm_is_gone():
            os._exit(0)


def _flush() -> None:
    outfile = _daemon_frame_local("outfile", io.BufferedWriter)
    channel = _daemon_frame_local("sock", socket.socket)
    if outfile is None or channel is None:
        return
    if channel.family in (socket.AF_INET, socket.AF_INET6):
        # The few bytes that Spark sends after this must not wait until the JVM has acknowledged these.
        channel.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    outfile.flush()


def jvm_is_gone() -> bool:
    """Whether the JVM has closed its channel to this worker; False outside of workers of Spark's daemon."""
    channel = _daemon_frame_local("sock", socket.socket)
    if channel is None:
        return False
    ended = select.POLLHUP | select.POLLERR | getattr(select, "POLLRDHUP", 0)
    poller = select.poll()
    poller.register(channel, ended)
    return any(events & ended for _, events in poller.poll(0))


def _daemon_frame_local(name: str, kind: type[Local]) -> Local | None:
    """A variable of the daemon's function that serves this worker's channel; None outside of such workers.

    Spark hands the channel to nothing that a task can reach, and a store has sockets of its own in this process.
    """
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "worker" and frame.f_globals.get("__name__") in _DAEMONS:
            found = frame.f_locals.get(name)
            return found if isinstance(found, kind) else None
        frame = frame.f_back
    return None
