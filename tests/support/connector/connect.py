"""A process with a session of Spark Connect, in which several tests run their code one after the other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.session_scripts import connect_port, spark_environment

REPOSITORY = Path(__file__).parents[3]

_LOOP = """
import json, sys, traceback
from pyspark.sql import SparkSession
import lance_spark

root = sys.argv[1]
builder = (
    SparkSession.builder.config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.sql.shuffle.partitions", "2")
    .config("spark.sql.session.timeZone", "UTC")
    .config("spark.sql.warehouse.dir", root + "/warehouse")
)
spark = lance_spark.configure(builder.remote("local[2]"), root=root + "/tables").getOrCreate()
for line in sys.stdin:
    try:
        exec(compile(json.loads(line), "<test>", "exec"), {"__name__": "__main__", "spark": spark, "root": root})
        failure = ""
    except Exception:
        failure = traceback.format_exc()
    print("reply " + json.dumps(failure), flush=True)
spark.stop()
"""


class ConnectSession:
    """Runs code in the process of the session.

    Args:
        root: a folder; the catalog `lance` is in `tables` below it.
        process: what runs the loop.
    """

    def __init__(self, root: Path, process: subprocess.Popen[str]) -> None:
        self.root = root
        self._process = process

    def run(self, code: str) -> None:
        """Run code that sees `spark` and `root`; an error of it is an AssertionError with its traceback."""
        requests, replies = self._process.stdin, self._process.stdout
        assert requests is not None
        assert replies is not None
        requests.write(json.dumps(code) + "\n")
        requests.flush()
        for line in replies:
            if line.startswith("reply "):
                failure = json.loads(line.removeprefix("reply "))
                assert not failure, failure
                return
        raise AssertionError(f"the process of the session ended with {self._process.wait()}")


@contextmanager
def connect_session(root: Path) -> Iterator[ConnectSession]:
    """A session with a server of its own, which is stopped at the end."""
    environment = {
        **spark_environment(),
        "PYTHONPATH": os.pathsep.join(filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH", "")])),
    }
    with (
        connect_port(),
        subprocess.Popen(
            [sys.executable, "-c", _LOOP, str(root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=root,
        ) as process,
    ):
        try:
            yield ConnectSession(root, process)
            assert process.stdin is not None
            process.stdin.close()
            process.wait(120)
        finally:
            process.kill()
