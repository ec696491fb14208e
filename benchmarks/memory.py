"""Peak memory and CPU time of verbs over one big table, beside the reference library.

    python -m benchmarks.memory [--rows 10000000] [--only NGRAM]

Each verb runs in a process of its own over a table of four fragments: a key, two numbers, a text of some 25 letters
with a word of its own, a double. Memory is the greatest sum of anonymous pages minus that after the table was opened;
pages of mapped files do not count. Times are user and system time; ours include a second for numba and machine code.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

_BATCH = 500_000
_WATCH_SECONDS = 0.01
INDEXES = {"BTREE k": "k", "BTREE t": "t", "BITMAP c": "c", "ZONEMAP k": "k", "BLOOMFILTER k": "k", "NGRAM t": "t"}


def batches(rows: int) -> Iterator[pa.RecordBatch]:
    """The rows of the table."""
    rng = np.random.default_rng(0)
    for start in range(0, rows, _BATCH):
        count = min(_BATCH, rows - start)
        numbers = rng.integers(0, 1 << 40, count)
        columns = {
            "id": np.arange(start, start + count),
            "k": numbers,
            "c": rng.integers(0, 1000, count),
            "t": pa.array([f"name of {number} and more" for number in numbers.tolist()]),
            "f": rng.random(count),
        }
        yield pa.record_batch(columns)


def source(rows: int, step: int) -> pa.Table:
    """New values for each row number `step`."""
    ids = np.arange(0, rows, step)
    texts = pa.array(["another text"]).take(pa.array(np.zeros(len(ids), np.int64)))
    return pa.table({"id": ids, "k": ids, "c": ids % 1000, "t": texts, "f": ids / 2})


def consume(found: Iterator[Any]) -> None:
    """Reads batches and forgets them."""
    for _ in found:
        pass


def verbs(dataset: Any, rows: int) -> dict[str, Callable[[], Any]]:
    """What is measured; both libraries know these names."""

    def merge(step: int) -> Any:
        merged = dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        return merged.execute(source(rows, step))

    indexes = {
        name: (lambda name=name, column=column: dataset.create_scalar_index(column, name.split()[0]))
        for name, column in {**INDEXES, "INVERTED t": "t"}.items()
    }
    return {
        "scan": lambda: consume(dataset.to_batches()),
        "filter": lambda: consume(dataset.to_batches(filter="t LIKE '%99999%'")),
        "DELETE of one in 1,000": lambda: dataset.delete("c = 7"),
        "UPDATE of one in 1,000": lambda: dataset.update({"c": "c + 1"}, where="c = 7"),
        "UPDATE of all": lambda: dataset.update({"c": "c + 1"}),
        "MERGE of one in 100": lambda: merge(100),
        "MERGE of one in 3": lambda: merge(3),
        "add a column": lambda: dataset.add_columns({"g": "f * 2"}),
        "compact": lambda: dataset.optimize.compact_files(target_rows_per_fragment=2 * rows),
        **indexes,
    }


def anonymous_megabytes() -> float:
    """Pages of this process that are in memory and not of files."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1024
    raise OSError("this system does not tell RssAnon")


def measure(library: str, uri: str, verb: str, rows: int) -> None:
    """Prints megabytes and seconds of one verb."""
    if library == "ours":
        import lance_spark

        dataset: Any = lance_spark.open(uri)
    else:
        import lance

        dataset = lance.dataset(uri)
    run = verbs(dataset, rows)[verb]
    before = most = anonymous_megabytes()
    done = threading.Event()

    def watch() -> None:
        nonlocal most
        while not done.wait(_WATCH_SECONDS):
            most = max(most, anonymous_megabytes())

    watcher = threading.Thread(target=watch)
    watcher.start()
    start = time.process_time()
    run()
    taken = time.process_time() - start
    done.set()
    watcher.join()
    print(f"{most - before:.0f} {taken:.2f}")


def compared(folder: Path, verb: str, rows: int) -> list[tuple[float, float]]:
    """(megabytes, seconds) of both libraries, each on a copy of the table."""
    found = []
    for library in ("ours", "reference"):
        copy = folder / "copy"
        shutil.copytree(folder / "table", copy, copy_function=os.link)
        command = [sys.executable, "-m", "benchmarks.memory", "--measure", library, str(copy), verb, str(rows)]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
        found.append((float(printed[0]), float(printed[1])))
        shutil.rmtree(copy)
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--only", default="")
    parser.add_argument("--measure", nargs=4)
    arguments = parser.parse_args()
    if arguments.measure:
        library, uri, verb, rows = arguments.measure
        measure(library, uri, verb, int(rows))
        return
    import lance

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = arguments.rows
        first = next(batches(1))
        reader = pa.RecordBatchReader.from_batches(first.schema, batches(rows))
        lance.write_dataset(reader, folder / "table", max_rows_per_file=-(-rows // 4))
        print("| verb | MB, ours | MB, reference | s, ours | s, reference |\n|---|---|---|---|---|")
        for verb in verbs(None, rows):
            if arguments.only in verb:
                (ours, our_seconds), (other, other_seconds) = compared(folder, verb, rows)
                print(f"| {verb} | {ours:.0f} | {other:.0f} | {our_seconds:.1f} | {other_seconds:.1f} |", flush=True)


if __name__ == "__main__":
    main()
