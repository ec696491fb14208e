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


def run_script(script: str, argument: str, folder: Path, *, timeout: int = 500) -> None:
    """Runs a script with one argument in `folder`; fails unless the last word that it prints is "done".

    Scripts with a server of Spark Connect run one after the other, whichever process of the tests starts them.
    """
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    with _connect_port() if ".remote(" in script else nullcontext():
        result = subprocess.run(
            [sys.executable, "-c", script, argument],
            capture_output=True,
            text=True,
            env=environment,
            cwd=folder,
            timeout=timeout,
            check=False,
        )
    assert result.stdout.strip().endswith("done"), result.stderr[-6000:]


@contextmanager
def _connect_port() -> Iterator[None]:
    with (Path(tempfile.gettempdir()) / "lance-spark-tests-connect.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
        # The server can outlive the script for a moment.
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", _CONNECT_PORT)) != 0:
                    return
            time.sleep(0.1)
