"""Full-text indexes: build, size and searches side by side with the reference library, in CPU time of one process.

Usage: python benchmarks/full_text.py [rows]
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa

import lance_spark

QUERIES = ["w40000", "w300", "w1", "w5 w200", "w5 w200 w17 w9000"]


def cpu(run: Callable[[], object], repeat: int = 1) -> float:
    """CPU milliseconds of one call."""
    start = time.process_time()
    for _ in range(repeat):
        run()
    return (time.process_time() - start) / repeat * 1000


def size(uri: str) -> int:
    return sum(file.stat().st_size for file in Path(uri).glob("_indices/*/*"))


def main() -> None:
    num_rows = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    choose = random.Random(1)
    words = [f"w{int(50_000 ** choose.random())}" for _ in range(12 * num_rows)]
    texts = [" ".join(words[row * 12 : row * 12 + 12]) for row in range(num_rows)]
    data = pa.table({"id": range(num_rows), "txt": texts})
    folder = tempfile.mkdtemp()
    for with_position in (False, True):
        theirs, ours = f"{folder}/theirs-{with_position}", f"{folder}/ours-{with_position}"
        reference = lance.write_dataset(data, theirs)
        lance.write_dataset(data, ours)
        build = cpu(lambda d=reference, p=with_position: d.create_scalar_index("txt", "INVERTED", with_position=p))
        warm = lance_spark.write(data.slice(0, 100), f"{ours}-warm")
        warm.create_text_index("txt", with_position=with_position)
        opened = lance_spark.open(ours)
        own = cpu(lambda d=opened, p=with_position: d.create_text_index("txt", with_position=p))
        print(f"build, positions {with_position}: {build:.0f} ms, ours {own:.0f} ms")
        print(f"bytes, positions {with_position}: {size(theirs)}, ours {size(ours)}")
    reference, opened = lance.dataset(theirs), lance_spark.open(ours)
    for query in QUERIES:
        found = reference.scanner(full_text_query=query, columns=["id", "_score"], limit=10).to_table()
        expected = sorted(found["_score"].to_pylist())
        assert sorted(opened.search(query, ["id"], 10)["_score"].to_pylist()) == expected, query
        before = cpu(
            lambda q=query: reference.to_table(full_text_query=q, columns=["id", "_score"], limit=10), repeat=20
        )
        after = cpu(lambda q=query: opened.search(q, ["id"], 10), repeat=20)
        print(f"top 10 of {query!r}: {before:.2f} ms, ours {after:.2f} ms")
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
