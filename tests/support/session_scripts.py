"""Runs scripts that start a Spark of their own."""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

_CONNECT_PORT = 15002
"""Where each local server of Spark Connect listens."""

_LONGEST_WAIT = 120


def spark_environment() -> dict[str, str]:
    """The environment of a process whose Spark starts this Python."""
    return {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def run_script(script: str, argument: str, folder: Path, *, timeout: int = 500) -> None:
    """Runs a script with one argument in `folder`; fails unless the last word that it prints is "done".

    Scripts with a server of Spark Connect run one after the other, whichever process of the tests starts them.
    """
    with connect_port() if ".remote(" in script else nullcontext():
        result = subprocess.run(
            [sys.executable, "-c", script, argument],
            capture_output=True,
            text=True,
            env=spark_environment(),
            cwd=folder,
            timeout=timeout,
            check=False,
        )
    assert result.stdout.strip().endswith("done"), result.stderr[-6000:]


@contextmanager
def connect_port() -> Iterator[None]:
    """Waits for the port of Spark Connect, and keeps other processes of the tests from it."""
    with (Path(tempfile.gettempdir()) / "lance-spark-tests-connect.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        # The server of the script before can outlive it for a while.
        end = time.monotonic() + _LONGEST_WAIT
        while _is_taken(_CONNECT_PORT):
            assert time.monotonic() < end, f"port {_CONNECT_PORT} is taken"
            time.sleep(0.1)
        yield


def _is_taken(port: int) -> bool:
    """Whether a server cannot listen on a port; a connection that was closed a moment ago does not matter to it."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return True
        return False
