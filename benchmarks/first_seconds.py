"""Seconds until the first rows: of a new process beside the reference library, of a new Spark session beside Parquet.

    python -m benchmarks.first_seconds [--rounds 5] [--no-spark]

Each step is a process of its own, in turns; the median of all rounds. Process: time that passes, CPU time and peak
memory until a table of 1,000 rows and three columns is written or read, with the start of Python. Spark: time of the
first and of the second statement of a session, without the session's start. Run it with nothing else running.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_ROWS = """
import pyarrow as pa
rows = pa.ipc.open_file({rows!r}).read_all()
"""

STEPS = {
    "write": {
        "ours": f"{_ROWS}import lance_spark\nlance_spark.write(rows, {{table!r}}, mode='overwrite')",
        "reference": f"{_ROWS}import lance\nlance.write_dataset(rows, {{table!r}}, mode='overwrite')",
    },
    "read": {
        "ours": "import lance_spark\nlance_spark.open({table!r}).to_table()",
        "reference": "import lance\nlance.dataset({table!r}).to_table()",
    },
}

STATEMENTS = {
    "read": {
        "ours": "SELECT k, sum(v) FROM lance.t WHERE v > 10 GROUP BY k",
        "Parquet": "SELECT k, sum(v) FROM parquet.`{folder}/t.parquet` WHERE v > 10 GROUP BY k",
    },
    "CTAS": {
        "ours": "CREATE TABLE lance.w{turn} USING lance AS SELECT id, cast(id AS string) k FROM range(1000)",
        "Parquet": "CREATE TABLE w{turn} USING parquet LOCATION '{folder}/w{turn}.parquet' AS "
        "SELECT id, cast(id AS string) k FROM range(1000)",
    },
}

_SESSION = """
import json, sys, time
from pyspark.sql import SparkSession
statements, folder, ours = json.loads(sys.argv[1]), sys.argv[2], sys.argv[3] == "ours"
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
builder = builder.config("spark.sql.warehouse.dir", folder + "/warehouse")
if ours:
    import lance_spark
    builder = lance_spark.configure(builder, root=folder + "/tables")
spark = builder.getOrCreate()
taken = []
for statement in statements:
    began = time.perf_counter()
    spark.sql(statement).collect()
    taken.append(time.perf_counter() - began)
if not statements:
    rows = spark.range(100000).selectExpr("id v", "id % 7 k").coalesce(2)
    rows.write.parquet(folder + "/t.parquet")
    rows.writeTo("lance.t").using("lance").create()
print("TAKEN", json.dumps(taken))
spark.stop()
"""


def process(code: str) -> dict[str, float]:
    """Seconds, CPU seconds and peak MB of a new process that runs `code`."""
    began = time.perf_counter()
    child = subprocess.Popen([sys.executable, "-c", code])
    _, status, usage = os.wait4(child.pid, 0)
    assert status == 0, code
    seconds = time.perf_counter() - began
    return {"s": seconds, "CPU s": usage.ru_utime + usage.ru_stime, "MB": usage.ru_maxrss / 1024}


def session(statements: list[str], folder: Path, kind: str) -> dict[str, float]:
    """Seconds of each statement in a new session of Spark."""
    command = [sys.executable, "-c", _SESSION, json.dumps(statements), str(folder), kind]
    run = subprocess.run(command, check=True, capture_output=True, text=True, cwd=folder)
    (line,) = (line for line in run.stdout.splitlines() if line.startswith("TAKEN"))
    return dict(zip(("first s", "second s"), json.loads(line.removeprefix("TAKEN ")), strict=False))


def report(name: str, found: dict[str, list[dict[str, float]]]) -> None:
    """Prints medians of one step, and the ratio to the other side."""
    ours, (label, other) = found["ours"], next(item for item in found.items() if item[0] != "ours")
    for measure in ours[0]:
        mine = statistics.median(run[measure] for run in ours)
        theirs = statistics.median(run[measure] for run in other)
        print(f"{name:10} {measure:9} {mine:8.2f}   {label} {theirs:8.2f}   ratio {mine / theirs:.2f}")


def main() -> None:
    """Runs all steps and prints them."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--no-spark", action="store_true")
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path)
        rows = str(folder / "rows.arrow")
        subprocess.run([sys.executable, "-c", _MAKE_ROWS, rows], check=True)
        for step, sides in STEPS.items():
            found: dict[str, list[dict[str, float]]] = {side: [] for side in sides}
            for turn in range(given.rounds + 1):
                for side, code in sides.items():
                    measured = process(code.format(rows=rows, table=str(folder / f"{side}.lance")))
                    if turn:  # The first one reads files that are not in memory.
                        found[side].append(measured)
            report(step, found)
        if given.no_spark:
            return
        session([], folder, "ours")
        for step, sides in STATEMENTS.items():
            found = {side: [] for side in sides}
            for turn in range(given.rounds):
                for side, statement in sides.items():
                    texts = [statement.format(folder=folder, turn=2 * turn + part) for part in range(2)]
                    found[side].append(session(texts, folder, side))
            report(f"Spark {step}", found)


_MAKE_ROWS = """
import sys
import pyarrow as pa
rows = pa.table({"id": range(1000), "x": [n / 7 for n in range(1000)], "s": [f"text {n % 99}" for n in range(1000)]})
with pa.ipc.new_file(sys.argv[1], rows.schema) as file:
    file.write_table(rows)
"""

if __name__ == "__main__":
    main()
