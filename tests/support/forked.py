"""Work in a forked process that may be killed at any moment; it reports over a pipe what it has finished."""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field

Report = Callable[[int], None]


@dataclass
class Worker:
    """A child process.

    Attributes:
        acknowledged: what it has reported so far, as far as it was read.
    """

    pid: int
    pipe: int
    acknowledged: list[int] = field(default_factory=list)
    _rest: bytes = b""

    def wait_for_report(self) -> bool:
        """Reads one report or more; False at the end of the process."""
        data = os.read(self.pipe, 1 << 16)
        *lines, self._rest = (self._rest + data).split(b"\n")
        self.acknowledged += [int(line) for line in lines]
        return bool(data)

    def kill(self) -> None:
        """SIGKILL; nothing in the child runs any more."""
        os.kill(self.pid, signal.SIGKILL)

    def join(self) -> int:
        """Reads all reports and waits for the end; the exit status, negative for a signal."""
        while self.wait_for_report():
            pass
        os.close(self.pipe)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def fork(work: Callable[[Report], None]) -> Worker:
    """Runs `work` in a child, which ends with status 0, or 1 if it raises. Reports are whole or not there."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return Worker(pid, reading)
    status = 1
    try:
        os.close(reading)
        work(lambda number: _write(writing, number))
        status = 0
    finally:
        if status:
            traceback.print_exc()
        os._exit(status)


def _write(pipe: int, number: int) -> None:
    os.write(pipe, b"%d\n" % number)


def kill_self() -> None:
    """SIGKILL to this process."""
    os.kill(os.getpid(), signal.SIGKILL)
