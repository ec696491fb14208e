"""CPU time of blobs beside the reference library and Parquet; with --spark elapsed time beside Spark's binaryFile.

    python -m benchmarks.blobs [--scale 0.1] [--rounds 3] [--spark] [--large 10]

At scale 1 there are 10,000 values of 100 KB, and 200 of 20 MB. CPU times are user and system time, the best of several
rounds in which the formats take turns. Parquet has the values in a BINARY column, uncompressed, in row groups of about
64 MB; it updates and compacts by writing the file again. With --large so many GB of values of 20 MB are written, moved
and read in one process, whose memory is printed (Linux).
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from lance.blob import blob_array
from lance.blob import blob_field as reference_field

import lance_spark
from lance_spark import blob_field

GROUP_BYTES = 64 << 20
SHAPES = {"10,000 x 100 KB": (10_000, 100_000), "200 x 20 MB": (200, 20_000_000)}


def batches(count: int, size: int, *, described: bool = False) -> Iterator[pa.RecordBatch]:
    """Rows of random values, some 64 MB at a time."""
    value = reference_field("img") if described else blob_field("img")
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("label", pa.string()), value])
    random = np.random.default_rng(0)
    block = random.bytes(size + count)
    for start in range(0, count, max(1, GROUP_BYTES // size)):
        ids = range(start, min(count, start + max(1, GROUP_BYTES // size)))
        values = [block[number : number + size] for number in ids]
        images = blob_array(values) if described else pa.array(values, pa.large_binary())
        yield pa.RecordBatch.from_arrays([pa.array(ids), pa.array([f"l{n % 10}" for n in ids]), images], schema=schema)


@dataclass
class Format:
    """One way to keep the values, in `path`; `wanted` are the random rows."""

    path: str
    count: int
    size: int
    wanted: list[int] = field(default_factory=list)

    def write(self) -> None:
        raise NotImplementedError

    def read_random(self) -> int:
        """The bytes of the wanted rows."""
        raise NotImplementedError

    def scan_labels(self) -> int:
        """The number of labels."""
        raise NotImplementedError

    def update_label(self) -> None:
        """Changes the label of each tenth row."""
        raise NotImplementedError

    def compact(self) -> None:
        raise NotImplementedError


class Ours(Format):
    def write(self) -> None:
        rows = -(-self.count // 4)
        lance_spark.write(batches(self.count, self.size), self.path, max_rows_per_file=rows)

    def read_random(self) -> int:
        found = lance_spark.open(self.path).read_blobs("img", indices=self.wanted)
        return sum(len(value or b"") for _, value in found)

    def scan_labels(self) -> int:
        return int(lance_spark.open(self.path).to_table(["label"]).num_rows)

    def update_label(self) -> None:
        lance_spark.open(self.path).update({"label": "'new'"}, "label = 'l3'")

    def compact(self) -> None:
        lance_spark.open(self.path).compact()


class Reference(Format):
    def write(self) -> None:
        rows = batches(self.count, self.size, described=True)
        first = next(rows)
        reader = pa.RecordBatchReader.from_batches(first.schema, iter([first, *rows]))
        limit = -(-self.count // 4)
        lance.write_dataset(reader, self.path, data_storage_version="2.2", max_rows_per_file=limit)

    def read_random(self) -> int:
        found = lance.dataset(self.path).read_blobs("img", indices=self.wanted)
        return sum(len(value or b"") for _, value in found)

    def scan_labels(self) -> int:
        return int(lance.dataset(self.path).to_table(columns=["label"]).num_rows)

    def update_label(self) -> None:
        lance.dataset(self.path).update({"label": "'new'"}, where="label = 'l3'")

    def compact(self) -> None:
        lance.dataset(self.path).optimize.compact_files()


class Parquet(Format):
    def write(self) -> None:
        self._write(batches(self.count, self.size))

    def _write(self, rows: Iterator[pa.RecordBatch]) -> None:
        schema = pa.schema([("id", pa.int64()), ("label", pa.string()), ("img", pa.large_binary())])
        with pq.ParquetWriter(f"{self.path}.new", schema, compression="NONE", use_dictionary=False) as writer:
            for batch in rows:
                writer.write_batch(pa.RecordBatch.from_arrays(batch.columns, schema=schema))
        os.replace(f"{self.path}.new", self.path)

    def read_random(self) -> int:
        file = pq.ParquetFile(self.path)
        ends = np.cumsum([file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)])
        total = 0
        groups = np.searchsorted(ends, self.wanted, side="right")
        for group in sorted(set(groups.tolist())):
            start = int(ends[group - 1]) if group else 0
            places = [row - start for row, found in zip(self.wanted, groups, strict=True) if found == group]
            values = file.read_row_group(group, columns=["img"])["img"].take(places)
            total += sum(len(value) for value in values.to_pylist())
        return total

    def scan_labels(self) -> int:
        return int(pq.read_table(self.path, columns=["label"]).num_rows)

    def update_label(self) -> None:
        def changed() -> Iterator[pa.RecordBatch]:
            for batch in pq.ParquetFile(self.path).iter_batches(batch_size=max(1, GROUP_BYTES // self.size)):
                labels = ["new" if label == "l3" else label for label in batch["label"].to_pylist()]
                yield batch.set_column(1, "label", pa.array(labels))

        self._write(changed())

    def compact(self) -> None:
        self._write(pq.ParquetFile(self.path).iter_batches(batch_size=max(1, GROUP_BYTES // self.size)))


FORMATS = {"ours": Ours, "reference": Reference, "Parquet": Parquet}


def timed(work: Callable[[], object]) -> float:
    """Its CPU seconds."""
    start = time.process_time()
    work()
    return time.process_time() - start


def measure(count: int, size: int, rounds: int, folder: Path) -> dict[str, dict[str, float]]:
    """Seconds by case and format, the best of the rounds; answers are compared."""
    wanted = np.sort(np.random.default_rng(1).choice(count, max(1, count // 100), replace=False)).tolist()
    best: dict[str, dict[str, float]] = {}
    for _ in range(rounds):
        for name, kind in FORMATS.items():
            path = folder / f"{name}.data"
            shutil.rmtree(path, ignore_errors=True)
            path.unlink(missing_ok=True)
            made = kind(str(path), count, size, wanted)
            answers: list[object] = []
            cases: dict[str, Callable[[], object]] = {
                "write": made.write,
                "read a random 1 %": lambda made=made, answers=answers: answers.append(made.read_random()),
                "scan the other columns": lambda made=made, answers=answers: answers.append(made.scan_labels()),
                "update a label": made.update_label,
                "compact": made.compact,
            }
            for case, work in cases.items():
                seconds = timed(work)
                best.setdefault(case, {})
                best[case][name] = min(seconds, best[case].get(name, seconds))
            assert answers == [len(wanted) * size, count], (name, answers)
    return best


def binary_files(count: int, size: int, folder: Path) -> dict[str, float]:
    """Seconds of elapsed time: a random 1 % through Spark, of files by binaryFile and of a Lance table."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = lance_spark.configure(builder.config("spark.driver.memory", "2g"), "lance").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    wanted = np.sort(np.random.default_rng(1).choice(count, max(1, count // 100), replace=False)).tolist()
    (folder / "files").mkdir()
    for batch in batches(count, size):
        for number, value in zip(batch["id"].to_pylist(), batch["img"].to_pylist(), strict=True):
            (folder / "files" / f"{number:06}.bin").write_bytes(value)
    table = str(folder / "spark.lance")
    lance_spark.write(batches(count, size), table)
    paths = [str(folder / "files" / f"{number:06}.bin") for number in wanted]
    ids = ", ".join(map(str, wanted))
    frames = {
        "Spark: binaryFile": lambda: spark.read.format("binaryFile").load(paths).selectExpr("sum(length(content))"),
        "Spark: ours": lambda: (
            spark.read.format("lance").load(table).where(f"id IN ({ids})").selectExpr("sum(length(img__blob_bytes))")
        ),
    }
    best: dict[str, float] = {}
    for _ in range(4):
        for name, frame in frames.items():
            start = time.perf_counter()
            row = frame().first()
            seconds = time.perf_counter() - start
            assert row == (len(wanted) * size,), (name, row)
            best[name] = min(seconds, best.get(name, seconds))
    return best


@contextmanager
def peak_memory() -> Iterator[list[int]]:
    """A list that gets the anonymous memory of this process, in KiB, every few ms. Mapped files do not count."""
    found, done = [0], threading.Event()

    def watch() -> None:
        while not done.wait(0.01):
            lines = Path("/proc/self/status").read_text().splitlines()
            found.append(next(int(line.split()[1]) for line in lines if line.startswith("RssAnon:")))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield found
    finally:
        done.set()
        thread.join()


def large(num_bytes: int, folder: Path) -> None:
    """Writes, updates, compacts and reads values of so many bytes; prints elapsed time and the most memory so far."""
    path, size = str(folder / "large.lance"), 20_000_000
    count = max(1, num_bytes // size)

    def write() -> object:
        schema = pa.schema([pa.field("id", pa.int64()), blob_field("img")])
        block = np.random.default_rng(0).bytes(size)
        rows = (pa.RecordBatch.from_arrays([pa.array([n]), pa.array([block])], schema=schema) for n in range(count))
        return lance_spark.write(rows, path, max_rows_per_file=max(1, count // 4), schema=schema)

    def read() -> object:
        batches = lance_spark.open(path).scan(blob_handling="all_binary")
        assert sum(len(value.as_buffer()) for batch in batches for value in batch["img"]) == count * size

    cases: dict[str, Callable[[], object]] = {
        "write": write,
        "update a tenth": lambda: lance_spark.open(path).update({"id": "-id"}, "id % 10 = 3"),
        "compact": lambda: lance_spark.open(path).compact(),
        "read all": read,
    }
    for case, work in cases.items():
        start = time.perf_counter()
        with peak_memory() as peak:
            work()
        print(f"{case:24}{time.perf_counter() - start:8.1f} s{max(peak) >> 10:8} MiB at most", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=0.1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--spark", action="store_true")
    parser.add_argument("--large", type=float, metavar="GB")
    options = parser.parse_args()
    if options.large is not None:
        with tempfile.TemporaryDirectory() as folder:
            large(int(options.large * 1e9), Path(folder))
        return
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    for label, (full, size) in SHAPES.items():
        count = max(10, int(full * options.scale))
        print(f"{label}, scale {options.scale:g}: {count} values, CPU ms")
        print(f"{'':24}" + "".join(f"{name:>12}" for name in FORMATS))
        with tempfile.TemporaryDirectory() as folder:
            for case, times in measure(count, size, options.rounds, Path(folder)).items():
                print(f"{case:24}" + "".join(f"{times[name] * 1e3:12.1f}" for name in FORMATS))
                sys.stdout.flush()
        if options.spark:
            with tempfile.TemporaryDirectory() as folder:
                for name, seconds in binary_files(count, size, Path(folder)).items():
                    print(f"{name + ', a random 1 %':40}{seconds * 1e3:8.1f} ms elapsed")


if __name__ == "__main__":
    main()
