"""The memory of processes, as Linux tells it."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_PAUSE_SECONDS = 0.02


class Peak:
    """The most anonymous memory, in bytes, that one of the watched processes took, and that one had in all.

    Mapped files do not count.
    """

    num_bytes = 0
    whole_bytes = 0


@contextmanager
def peak_of_python_processes() -> Iterator[Peak]:
    """Watches the Python processes below this one, such as those of Spark's tasks.

    What a process has already when the watch begins, as the planner's worker late in a session, was not taken.
    """
    peak, done = Peak(), threading.Event()
    had = {process: anonymous_bytes(process) for process in _descendants(os.getpid())}

    def watch() -> None:
        while not done.wait(_PAUSE_SECONDS):
            for process in _descendants(os.getpid()):
                with suppress(OSError):
                    if "python" in Path(f"/proc/{process}/cmdline").read_text().split("\0", 1)[0]:
                        num_bytes = anonymous_bytes(process)
                        peak.whole_bytes = max(peak.whole_bytes, num_bytes)
                        peak.num_bytes = max(peak.num_bytes, num_bytes - had.get(process, 0))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield peak
    finally:
        done.set()
        thread.join()


def anonymous_bytes(process: int | str = "self") -> int:
    """The anonymous memory of a process that is in use; 0 if it has ended."""
    with suppress(OSError):
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) << 10
    return 0


def _descendants(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(folder.name))
    found, waiting = [], [root]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found
