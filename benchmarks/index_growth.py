"""What a lookup in a BTREE segment reads and takes, for segments of more and more rows.

    PYTHONPATH=. taskset -c 0 python benchmarks/index_growth.py [rows ...]

The segments are made without a table, piece by piece: even numbers in order, with row ids in a random-looking order.
Asked are one key, a range of 100 rows and a list of 1,000 keys. Requests and bytes are those of an object store. A cold
lookup opens the files, a new one asks for other keys with the files open, and a warm one for keys that were asked for.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lance_spark.expr.nodes import referenced_columns
from lance_spark.expr.sql.parse import parse
from lance_spark.file.writer import FileWriter
from lance_spark.file_version import FileVersion
from lance_spark.index.base import Coverage, Predicate
from lance_spark.index.btree import BTreeIndex
from lance_spark.index.builders.output import SegmentOutput
from lance_spark.index.files import IndexFiles
from lance_spark.schema.arrow import internal_schema
from lance_spark.storage import open_store
from tests.support.counting_store import CountingStore

_PAGE_ROWS = 4096
_BATCH_ROWS = 1 << 22
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
    fields = [pa.field("values", pa.int64()), pa.field("ids", pa.uint64(), nullable=False)]
    store, schema = open_store(folder), internal_schema(pa.schema(fields))
    with FileWriter(store, "segment/page_data.lance", schema, version=FileVersion.V2_1) as writer:
        for batch in _entries(num_rows):
            writer.write(batch)
        output.sizes["page_data.lance"] = writer.close().size_bytes
    firsts = np.arange(0, num_rows, _PAGE_ROWS, dtype=np.int64)
    lasts = np.minimum(firsts + _PAGE_ROWS, num_rows) - 1
    lookup = pa.table(
        {
            "min": firsts * 2,
            "max": lasts * 2,
            "null_count": np.zeros(len(firsts), np.uint32),
            "page_idx": np.arange(len(firsts), dtype=np.uint32),
        }
    )
    output.write("page_lookup.lance", lookup, {"batch_size": str(_PAGE_ROWS), "range_partitioned": "false"})
    return output.sizes


def _entries(num_rows: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, num_rows, _BATCH_ROWS):
        numbers = np.arange(start, min(start + _BATCH_ROWS, num_rows), dtype=np.uint64)
        ids = numbers * np.uint64(_STEP) % np.uint64(num_rows)
        yield pa.record_batch({"values": pa.array(numbers.astype(np.int64) * 2), "ids": pa.array(ids)})


class Lookup(NamedTuple):
    """A condition, and the places of the rows that it keeps."""

    condition: str
    places: list[int]

    @classmethod
    def key(cls, place: int) -> Lookup:
        return cls(f"key = {place * 2}", [place])

    @classmethod
    def span(cls, place: int) -> Lookup:
        return cls(f"key BETWEEN {place * 2} AND {place * 2 + 199}", list(range(place, place + 100)))

    @classmethod
    def keys(cls, place: int, num_rows: int) -> Lookup:
        places = np.unique(np.random.default_rng(place).integers(0, num_rows, 1000)).tolist()
        return cls(f"key IN ({', '.join(str(place * 2) for place in places)})", places)


def asked(files: IndexFiles, num_rows: int, lookup: Lookup) -> float:
    """CPU seconds of a lookup, which is right; -1 if the column would be scanned instead."""
    condition = parse(lookup.condition)
    predicate = Predicate(condition, ("key",), referenced_columns(condition), pa.int64(), "UTC")
    index = BTreeIndex(files, Coverage({0: num_rows}, {0: num_rows}))
    start = time.process_time()
    result = index.search(predicate)
    took = time.process_time() - start
    if result is None:
        return -1
    assert sorted(result.rows.numbers().tolist()) == sorted(place * _STEP % num_rows for place in lookup.places)
    return took


def measure(folder: str, num_rows: int) -> None:
    sizes = written(folder, num_rows)
    print(f"{num_rows:,} rows, {sum(sizes.values()) / 1e6:.1f} MB", flush=True)
    places = np.random.default_rng(1).integers(0, num_rows - 100, 20).tolist()
    for kind, lookups in (
        ("key", [Lookup.key(place) for place in places]),
        ("range of 100", [Lookup.span(place) for place in places]),
        ("IN of 1,000", [Lookup.keys(place, num_rows) for place in places[:4]]),
    ):
        asked(IndexFiles(open_store(folder), "segment", sizes), num_rows, lookups[0])  # Compiles kernels.
        store = KeptStore(open_store(folder))
        files = IndexFiles(store, "segment", sizes)
        line = []
        for name, chosen in (("cold", lookups[:1]), ("new", lookups[1:]), ("warm", lookups)):
            store.reset()
            took = min(asked(files, num_rows, lookup) for lookup in chosen)
            counts = store.reset()
            requests, num_bytes = counts.read_requests / len(chosen), counts.bytes_read / len(chosen)
            shown = "scans" if took < 0 else f"{took * 1000:.2f} ms"
            line.append(f"{name}: {requests:.1f} requests, {num_bytes / 1e3:.1f} kB, {shown}")
        print(f"    {kind:<13} {'; '.join(line)}", flush=True)


def main() -> None:
    for num_rows in [int(text) for text in sys.argv[1:]] or [1_000_000, 10_000_000, 100_000_000]:
        folder = tempfile.mkdtemp(prefix="lance-index-growth-")
        try:
            measure(folder, num_rows)
        finally:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
