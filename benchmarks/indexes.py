"""Scalar indexes beside the reference library: CPU seconds of builds, bytes, and CPU milliseconds of lookups.

    taskset -c 0 python benchmarks/indexes.py [rows]

The table has four fragments. Each figure is the least of several runs in this process; builds run once to warm up.
Lookups ask a new dataset for the rows in a warm process whose index files are read again (cold), a new dataset while
the whole cache of the process is empty (empty; what descriptions of columns and schemas were parsed to is kept by their
bytes), a new dataset with what the cache holds (new), the same dataset again (warm), and the same dataset with other
constants each time (other), by turns with the reference. Its datasets hold their own caches, so that a new one reads
everything again.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

import lance
import numpy as np
import pyarrow as pa
from lance.indices import IndexConfig

import lance_spark
from lance_spark.storage.cache import shared

_OTHERS = 1000
"""Lookups with other constants, of which the first half fills the caches."""

_RUNS = 60
"""Lookups that read files again."""

BUILDS: list[tuple[str, str, Any]] = [
    ("id", "BTREE", "BTREE"),
    ("uid", "BTREE", "BTREE"),
    ("cat", "BITMAP", "BITMAP"),
    ("tags", "LABEL_LIST", "LABEL_LIST"),
    ("uid", "NGRAM", "NGRAM"),
    ("ts", "ZONEMAP", IndexConfig("zonemap", {})),
    ("uid", "BLOOMFILTER", IndexConfig("bloomfilter", {})),
]


def table(num_rows: int) -> pa.Table:
    random = np.random.default_rng(1)
    offsets = pa.array(np.arange(num_rows + 1, dtype=np.int32) * 3)
    return pa.table(
        {
            "id": pa.array(random.permutation(num_rows)),
            "uid": pa.array([f"u{number:012d}" for number in random.permutation(num_rows)]),
            "cat": pa.array([f"category {number}" for number in random.integers(0, 200, num_rows)]),
            "tags": pa.ListArray.from_arrays(offsets, pa.array(random.integers(0, 100, 3 * num_rows))),
            "ts": pa.array(np.arange(num_rows) * 1000 + random.integers(0, 5000, num_rows)),
        }
    )


def lookups(num_rows: int, number: int) -> list[tuple[str, str, str]]:
    """(the index, our condition, the reference's), with constants made of a number below `num_rows`."""
    some = ", ".join(str(key) for key in np.random.default_rng(number).integers(0, num_rows, 1000))
    same = [
        ("id BTREE", f"id = {number}"),
        ("id BTREE", f"id BETWEEN {number} AND {number + 999}"),
        ("id BTREE", f"id IN ({some})"),
        ("uid BTREE", f"uid = 'u{number:012d}'"),
        ("id and uid BTREE", f"id = {number} OR uid = 'u{number // 2:012d}'"),
        ("id BTREE, cat BITMAP", f"id = {number} AND cat = 'category {number % 200}'"),
        ("cat BITMAP", f"cat = 'category {number % 200}'"),
        ("uid NGRAM", f"contains(uid, '{number % 100_000:05d}')"),
        ("ts ZONEMAP", f"ts BETWEEN {number * 1000} AND {number * 1000 + 100_000}"),
    ]
    return [
        *((name, condition, condition) for name, condition in same),
        ("tags LABEL_LIST", f"array_contains(tags, {number % 100})", f"array_has(tags, {number % 100})"),
    ]


def least_cpu(work: Callable[[], object], runs: int) -> float:
    """CPU seconds of the fastest of some runs."""
    found = []
    for _ in range(runs):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return min(found)


def report(name: str, own: float, other: float, unit: str) -> None:
    print(f"{name:<70} {own:>12.3f} {other:>12.3f} {unit:<6} {own / other:>6.2f}x")


def builds(uri: str) -> None:
    for column, kind, config in BUILDS:
        name = f"{column} {kind}"

        def own(column: str = column, kind: str = kind, name: str = name) -> object:
            return lance_spark.open(uri).create_scalar_index(column, kind, name)

        def other(column: str = column, config: Any = config, name: str = name) -> object:
            return lance.dataset(uri).create_scalar_index(column, config, name=f"{name} of the reference")

        own()
        report(f"build {name}", least_cpu(own, 3), least_cpu(other, 3), "s")
        opened = lance_spark.open(uri)
        sizes = [opened.index_statistics(found)["size_bytes"] for found in (name, f"{name} of the reference")]
        report(f"size of {name}", sizes[0] / 1e6, sizes[1] / 1e6, "MB")
        opened.drop_index(f"{name} of the reference")


def searches(uri: str, num_rows: int) -> None:
    random = np.random.default_rng(5)
    for place, (name, own, other) in enumerate(lookups(num_rows, num_rows // 3)):
        ours, theirs = lance_spark.open(uri), lance.dataset(uri)

        def empty(own: str = own) -> pa.Table:
            shared.clear()
            return lance_spark.open(uri).to_table(["id"], filter=own)

        work = [
            empty,
            lambda own=own: lance_spark.open(uri).to_table(["id"], filter=own),
            lambda other=other: lance.dataset(uri).to_table(["id"], filter=other),
            lambda own=own, ours=ours: ours.to_table(["id"], filter=own),
            lambda other=other, theirs=theirs: theirs.to_table(["id"], filter=other),
        ]
        found = [one().num_rows for one in work]
        assert len(set(found)) == 1, (own, found)
        label = f"{name}: {own[:30]} ({found[0]} rows)"
        report(f"cold {label}", *in_turn(work[1], work[2], [()] * _RUNS, before=forget_indexes), "ms")
        report(f"empty {label}", *in_turn(work[0], work[2], [()] * _RUNS), "ms")
        new, warm, other_warm = (least_cpu(one, 10) * 1000 for one in (work[1], *work[3:]))
        report(f"new {label}", new, least_cpu(work[2], 10) * 1000, "ms")
        report(f"warm {label}", warm, other_warm, "ms")
        others = [lookups(num_rows, number)[place][1:] for number in random.integers(0, num_rows, _OTHERS).tolist()]
        found_by = [
            lambda own, _, ours=ours: ours.to_table(["id"], filter=own),
            lambda _, other, theirs=theirs: theirs.to_table(["id"], filter=other),
        ]
        report(f"other {label}", *in_turn(*found_by, others), "ms")


def forget_indexes() -> None:
    """Takes all that was made of index files, and of the indexes of a version, out of the cache of the process."""
    for key, kept in list(shared._kept.items()):
        kind, part = key[0], key[1]
        is_of_file = (isinstance(kind, str) and kind.startswith("index")) or "_indices/" in getattr(
            kept.owner, "path", ""
        )
        if is_of_file or (isinstance(part, tuple) and part[0] == "indexes"):
            shared._num_bytes -= shared._kept.pop(key).num_bytes


def in_turn(
    ours: Callable[..., object],
    theirs: Callable[..., object],
    arguments: Sequence[tuple[Any, ...]],
    before: Callable[[], object] | None = None,
) -> tuple[float, float]:
    """The medians of CPU milliseconds of both libraries, of the second half of the calls, one for each of `arguments`,
    after a call of `before`.

    Each finds the caches of the processor as the other one has left them.
    """
    times = []
    for each in arguments:
        if before is not None:
            before()
        start = time.process_time()
        ours(*each)
        middle = time.process_time()
        theirs(*each)
        times.append((middle - start, time.process_time() - middle))
    found = np.median(times[len(times) // 2 :], axis=0) * 1000
    return float(found[0]), float(found[1])


def main() -> None:
    num_rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    uri = tempfile.mkdtemp(prefix="lance-indexes-")
    try:
        lance.write_dataset(table(num_rows), uri, mode="overwrite", max_rows_per_file=-(-num_rows // 4))
        print(f"{'':<70} {'lance_spark':>12} {'reference':>12}")
        builds(uri)
        searches(uri, num_rows)
    finally:
        shutil.rmtree(uri)


if __name__ == "__main__":
    main()
