"""Runs inputs of one target in this process until the time is up or something unexpected is raised.

Usage: python -m tests.fuzz.worker TARGET FIRST_SEED SECONDS FOLDER. The input that runs is in FOLDER/current, so that
it is known after a crash. The exit status is 0, or 3 after an unexpected exception.
"""

from __future__ import annotations

import faulthandler
import resource
import shutil
import signal
import sys
import time
import traceback
from pathlib import Path

import pyarrow as pa
import pytest

from tests.fuzz.targets import TARGETS, _folder, made
from tests.support.guarded_memory import allocate_guarded, guarded

MORE_MEMORY = 2 << 30
"""Bytes of address space that inputs may take beyond what the process has with all modules loaded."""
CASE_SECONDS = 30
UNEXPECTED = 3


def main(target: str, first_seed: int, seconds: float, folder: Path) -> int:
    faulthandler.enable()
    TARGETS[target].run(made(target, first_seed))
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + MORE_MEMORY, taken + MORE_MEMORY))
    # Nobody handles the alarm: an input that hangs kills the process.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    stop = time.monotonic() + seconds
    seed = first_seed
    try:
        while time.monotonic() < stop:
            data = made(target, seed)
            (folder / "current").write_bytes(data)
            (folder / "seed").write_text(str(seed))
            signal.alarm(CASE_SECONDS)
            TARGETS[target].run(data)
            signal.alarm(0)
            seed += 1
    except BaseException:  # noqa: BLE001 - whatever it is, it is the finding
        (folder / "error").write_text(traceback.format_exc())
        return UNEXPECTED
    finally:
        signal.alarm(0)
        shutil.rmtree(_folder(), ignore_errors=True)
    return 0


if __name__ == "__main__":
    patch = pytest.MonkeyPatch()
    patch.setattr(pa, "allocate_buffer", allocate_guarded)
    patch.setattr("lance_spark.storage.memory._copied", guarded)
    sys.exit(main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), Path(sys.argv[4])))
