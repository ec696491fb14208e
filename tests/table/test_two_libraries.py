"""A process of this library and one of the reference library that change one table at the same time.

Each has rows of its own, so what it was told has happened says what must be there, and both add to one shared counter.
`make soak` does it longer (LANCE_RACE_ROUNDS).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_spark

STEPS = 25 * int(os.environ.get("LANCE_RACE_ROUNDS", "1"))

WORK = """
import json, random, sys
import pyarrow as pa

OURS, uri, first, count = sys.argv[1] == "ours", sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
if OURS:
    import lance_spark
    from lance_spark.errors import CommitConflictError as Conflict
else:
    import lance
    Conflict = OSError

def table(ids):
    return pa.table({"id": pa.array(ids, pa.int64()), "v": pa.array([0] * len(ids), pa.int64())})

def append(low, high):
    rows = table(range(low, high))
    return lance_spark.write(rows, uri, mode="append") if OURS else lance.write_dataset(rows, uri, mode="append")

def delete(low, high):
    where = f"id >= {low} AND id < {high}"
    return lance_spark.open(uri).delete(where) if OURS else lance.dataset(uri).delete(where)

def update(low, high):
    where = f"id >= {low} AND id < {high}"
    if OURS:
        return lance_spark.open(uri).update({"v": "v + 1"}, where)
    return lance.dataset(uri).update({"v": "v + 1"}, where=where)

def upsert(low, high):
    rows = table(range(low, high))
    if OURS:
        return lance_spark.open(uri).merge(rows, ["id"])
    return lance.dataset(uri).merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(rows)

def compact(low, high):
    if OURS:
        return lance_spark.open(uri).compact(target_rows_per_fragment=50)
    return lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=50)

rng, fresh = random.Random(first), first
print("ready", flush=True)
sys.stdin.readline()
for step in range(count):
    name = rng.choice(["append", "append", "delete", "update", "upsert", "compact", "count"])
    low = rng.randrange(first, fresh + 5)
    high = low + rng.randrange(1, 6)
    if name == "append":
        low, high = fresh, fresh + rng.randrange(1, 6)
    if name == "count":
        low, high = 0, 1
    if name in ("append", "upsert"):
        fresh = max(fresh, high)
    operation = {"append": append, "delete": delete, "update": update, "count": update, "upsert": upsert}
    try:
        operation.get(name, compact)(low, high)
        done = True
    except Conflict as error:
        done = False
        print(name, type(error), error, file=sys.stderr)
    print(json.dumps([name, low, high, done]), flush=True)
"""


def start(library: str, uri: str, first: int, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WORK, library, uri, str(first), str(count)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def rows_after(steps: list[list[Any]]) -> dict[int, int]:
    """What the acknowledged steps of one writer leave of its rows."""
    rows: dict[int, int] = {}
    for name, low, high, done in steps:
        ids = range(low, high)
        if not done:
            continue
        if name in ("append", "upsert"):
            rows.update(dict.fromkeys(ids, 0))
        elif name == "update":
            rows.update({number: rows[number] + 1 for number in ids if number in rows})
        elif name == "delete":
            rows = {number: value for number, value in rows.items() if number not in ids}
    return rows


@pytest.mark.slow
@pytest.mark.parametrize("stable_row_ids", [False, True], ids=["addresses", "stable row ids"])
def test_what_was_acknowledged_is_there(tmp_path: Path, stable_row_ids: bool) -> None:
    uri = str(tmp_path / "t")
    counter = pa.table({"id": pa.array([0], pa.int64()), "v": pa.array([0], pa.int64())})
    lance_spark.write(counter, uri, enable_stable_row_ids=stable_row_ids)
    workers = [start("ours", uri, 10_000, STEPS), start("theirs", uri, 90_000, STEPS)]
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
    steps = []
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    for worker in workers:
        out, errors = worker.communicate(timeout=60 + 4 * STEPS)
        assert worker.returncode == 0, errors
        steps.append([json.loads(line) for line in out.splitlines()])
        assert len(steps[-1]) == STEPS
    expected = {0: sum(name == "count" and done for worker_steps in steps for name, _, _, done in worker_steps)}
    for worker_steps in steps:
        expected |= rows_after(worker_steps)
    reference = lance.dataset(uri)
    reference.validate()
    for table in (lance_spark.open(uri).to_table(), reference.to_table()):
        assert table.num_rows == len(expected)
        assert dict(zip(table["id"].to_pylist(), table["v"].to_pylist(), strict=True)) == expected
    assert sum(done for worker_steps in steps for *_, done in worker_steps) > STEPS
