"""Streams whose driver is killed at any moment, again and again, while others write: no row is lost, none comes twice.

`make soak` kills more drivers (LANCE_STREAM_KILLS) in other orders (LANCE_SEED).
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lance_spark

pytestmark = pytest.mark.slow

KILLS = int(os.environ.get("LANCE_STREAM_KILLS", "2"))
SEED = int(os.environ.get("LANCE_SEED", "1"))

SCRIPT = """
import sys
from pyspark.sql import SparkSession
import lance_spark

root, is_last = sys.argv[1], sys.argv[2] == "last"
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
builder = builder.config("spark.sql.shuffle.partitions", "2").config("spark.sql.warehouse.dir", root + "/warehouse")
spark = lance_spark.configure(builder, root=root + "/names").getOrCreate()

def start(frame, target, **options):
    writer = frame.writeStream.format("lance").option("checkpointLocation", root + "/checkpoint_" + target)
    writer = writer.trigger(availableNow=True) if is_last else writer.trigger(processingTime="0 seconds")
    return writer.options(**options).start(root + "/" + target)

read = lambda name: spark.readStream.format("lance").option("maxVersionsPerTrigger", 5)
log = start(read("log").load(root + "/log"), "log_copy")
changes = read("state").option("readChangeFeed", "true").option("startingVersion", 1).load(root + "/state")
changes = changes.where("_change_type <> 'update_preimage'").select("id", "v", "_change_type", "_commit_version")
state = start(
    changes, "state_copy", key="id", delete_when="_change_type = 'delete'", sequence_by="_commit_version"
)
print("started", flush=True)
for query in (log, state):
    query.awaitTermination()
print("done", flush=True)
"""


class Writer:
    """Changes both tables at random: rows are appended to the log; the state has updates and deletes too."""

    def __init__(self, root: Path, draw: random.Random) -> None:
        self.draw, self.next = draw, 10
        first = pa.table({"id": pa.array(range(10), pa.int64()), "v": pa.array(range(10), pa.int64())})
        self.log = lance_spark.write(first, str(root / "log"))
        self.state = lance_spark.write(first, str(root / "state"), enable_stable_row_ids=True)

    def step(self) -> None:
        rows = pa.table({"id": range(self.next, self.next + 3), "v": [self.draw.randrange(1000)] * 3})
        rows = rows.cast(pa.schema([("id", pa.int64()), ("v", pa.int64())]))
        self.log = self.log.append(rows)
        kind = self.draw.choice(["append", "update", "delete", "merge", "compact"])
        key = self.draw.randrange(self.next)
        if kind == "append":
            self.state = self.state.append(rows)
        elif kind == "update":
            self.state = self.state.update({"v": str(self.draw.randrange(1000))}, f"id % 7 = {key % 7}")
        elif kind == "delete":
            self.state = self.state.delete(f"id = {key}")
        elif kind == "merge":
            self.state = self.state.merge(rows, "id")
        else:
            self.state = self.state.compact()
        self.next += 3


@contextmanager
def driver(root: Path, mode: str) -> Iterator[subprocess.Popen[str]]:
    """A Spark of its own that runs both queries; it is killed, with its workers, at the end."""
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    with (root / "errors.txt").open("a") as errors:
        process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(root), mode],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=environment,
            cwd=root,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def remove_empty_checkpoints(root: Path) -> None:
    """Removes checkpoints without one whole file of offsets, as Spark asks for.

    Killed while it writes the first offset, Spark leaves a temporary file and refuses the checkpoint from then on
    (STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY). No epoch has run then, so there is nothing to remember.
    """
    for checkpoint in root.glob("checkpoint_*"):
        if not any((checkpoint / "offsets").glob("[0-9]*")):
            shutil.rmtree(checkpoint)


def rows_of(path: Path) -> list[tuple[Any, ...]]:
    found = lance_spark.open(path).to_table(["id", "v"]).to_pylist()
    return sorted(tuple(row.values()) for row in found)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "killpg"), reason="kills a group of processes")
@pytest.mark.timeout(0 if KILLS > 2 else 600)
def test_killed_drivers_lose_and_double_no_row(jar: Path, tmp_path: Path) -> None:
    draw = random.Random(SEED)
    writer = Writer(tmp_path, draw)
    for _ in range(KILLS):
        with driver(tmp_path, "next") as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "started\n", (tmp_path / "errors.txt").read_text()[-4000:]
            until = time.monotonic() + draw.uniform(0.5, 6)
            while time.monotonic() < until:
                writer.step()
                time.sleep(0.05)  # Some versions for each epoch, not hundreds.
            assert process.poll() is None, (tmp_path / "errors.txt").read_text()[-4000:]
        remove_empty_checkpoints(tmp_path)
    with driver(tmp_path, "last") as process:
        output, _ = process.communicate(timeout=300)
        assert output == "started\ndone\n", (tmp_path / "errors.txt").read_text()[-4000:]
    assert rows_of(tmp_path / "log_copy") == rows_of(tmp_path / "log")
    assert rows_of(tmp_path / "state_copy") == rows_of(tmp_path / "state")
