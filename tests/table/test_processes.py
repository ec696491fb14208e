"""Writers in processes of their own: at the same time, and killed in the middle."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_spark

APPEND = """
import sys, pyarrow as pa, lance_spark
uri, first, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
print("ready", flush=True)
for number in range(first, first + count):
    lance_spark.write(pa.table({"a": [number, -number]}), uri, mode="append")
    print(number, flush=True)
"""


def start(uri: str, first: int, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", APPEND, uri, str(first), str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_appends_from_several_processes_lose_nothing(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance_spark.write(pa.table({"a": [0, 0]}), uri)
    writers = [start(uri, 1000 * (worker + 1), 6) for worker in range(3)]
    for writer in writers:
        writer.communicate(timeout=120)
        assert writer.returncode == 0
    written = [0, *(1000 * worker + number for worker in range(1, 4) for number in range(6))]
    expected = sorted([*written, *(-number for number in written)])
    assert sorted(lance_spark.open(uri).to_table()["a"].to_pylist()) == expected
    assert sorted(lance.dataset(uri).to_table()["a"].to_pylist()) == expected
    assert lance_spark.open(uri).version == 19


@pytest.mark.slow
def test_a_writer_that_is_killed_leaves_whole_versions(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance_spark.write(pa.table({"a": pa.array([], pa.int64())}), uri)
    rng = random.Random(3)
    for attempt in range(3):
        writer = start(uri, 1 + 10_000 * attempt, 10_000)
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        writer.stdout.readline()
        time.sleep(rng.random() * 0.05)
        writer.kill()
        acknowledged = [int(line) for line in writer.stdout.read().split()]
        writer.wait()
        dataset = lance_spark.open(uri)
        values = dataset.to_table()["a"].to_pylist()
        assert sum(values) == 0, "a commit is both of its rows or none"
        assert set(acknowledged) <= set(values)
        assert len(values) == len(set(values)) == dataset.count_rows()
        assert lance.dataset(uri).to_table()["a"].to_pylist() == values
