"""What one lookup in a BTREE segment reads and takes, for segments of more and more rows.

    PYTHONPATH=. taskset -c 0 python benchmarks/index_growth.py [rows ...]

The segments are made without a table: even numbers in order, with row ids in a random-looking order. Requests and bytes
are those of an object store. A cold lookup opens the files, a new one reads another page with the files open, and a
warm one asks for a key of a page that was read.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from lance_spark.expr.nodes import referenced_columns
from lance_spark.expr.sql import parse
from lance_spark.file_version import FileVersion
from lance_spark.index.base import Coverage, Predicate
from lance_spark.index.btree import BTreeIndex
from lance_spark.index.builders.btree import BTreeBuilder
from lance_spark.index.builders.output import SegmentOutput
from lance_spark.index.files import IndexFiles
from lance_spark.storage import open_store
from tests.support.counting_store import CountingStore

_STEP = 2_654_435_761
"""A prime: multiples of it, modulo the number of rows, are all row ids in another order."""


class KeptStore(CountingStore):
    """A store whose objects may be cached, as those of an object store."""

    etags_are_free = False

    @property
    def identity(self) -> int:
        return id(self)

    def etag(self, path: str) -> None:
        return None


def written(folder: str, num_rows: int) -> dict[str, int]:
    """Writes a segment; the sizes of its files."""
    output = SegmentOutput(open_store(folder), "segment", FileVersion.V2_1)
    keys = pa.array(np.arange(num_rows, dtype=np.int64) * 2)
    ids = (np.arange(num_rows, dtype=np.uint64) * np.uint64(_STEP)) % np.uint64(num_rows)
    BTreeBuilder(pa.int64(), {})._write(keys, ids, output)
    return output.sizes


def asked(files: IndexFiles, num_rows: int, number: int) -> float:
    """CPU seconds of a lookup of the key of row `number`, which is found."""
    condition = parse(f"key = {number * 2}")
    predicate = Predicate(condition, ("key",), referenced_columns(condition), pa.int64(), "UTC")
    index = BTreeIndex(files, Coverage({0: num_rows}, {0: num_rows}))
    start = time.process_time()
    result = index.search(predicate)
    took = time.process_time() - start
    assert result is not None
    assert result.rows.numbers().tolist() == [number * _STEP % num_rows]
    return took


def measure(folder: str, num_rows: int) -> None:
    sizes = written(folder, num_rows)
    size = sum(file.stat().st_size for file in Path(folder).rglob("*.lance"))
    store = KeptStore(open_store(folder))
    files = IndexFiles(store, "segment", sizes)
    places = np.random.default_rng(1).integers(0, num_rows, 50).tolist()
    asked(IndexFiles(open_store(folder), "segment", sizes), num_rows, 0)  # Compiles kernels.
    line = [f"{num_rows:>12,} rows {size / 1e6:>9.1f} MB"]
    for name, numbers in (("cold", places[:1]), ("new page", places[1:]), ("warm", places)):
        store.reset()
        took = min(asked(files, num_rows, number) for number in numbers)
        counts = store.reset()
        requests, num_bytes = counts.read_requests / len(numbers), counts.bytes_read / len(numbers)
        line.append(f"{name}: {requests:.1f} requests, {num_bytes / 1e3:.1f} kB, {took * 1000:.3f} ms")
    print("; ".join(line), flush=True)


def main() -> None:
    for num_rows in [int(text) for text in sys.argv[1:]] or [1_000_000, 10_000_000, 100_000_000]:
        folder = tempfile.mkdtemp(prefix="lance-index-growth-")
        try:
            measure(folder, num_rows)
        finally:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
