"""Full-text indexes: build, size and searches side by side with the reference library, in CPU time of one process.

    taskset -c 0 python benchmarks/full_text.py [rows]

Searches ask a new dataset for the ten best rows (cold: the index is read again) and the same dataset again (warm).
The reference library searches its own index. Columns of the hits are a part of each search; "hits" is ours without.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
from lance import query as reference

import lance_spark
from lance_spark.index.text.queries import MatchQuery, PhraseQuery, TextQuery
from lance_spark.storage.cache import shared
from lance_spark.table.search.text_search import SearchRequest, found_rows

QUERIES = [
    ("term", "w40000"),
    ("term", "w300"),
    ("term", "w1"),
    ("OR", "w5 w200"),
    ("OR", "w5 w200 w17 w9000"),
    ("AND", "w5 w200"),
    ("AND", "w1 w2"),
    ("phrase", "w5 w20"),
    ("phrase", "w1 w2"),
]


def cpu(run: Callable[[], object], repeat: int = 1) -> float:
    """CPU milliseconds of the fastest call."""
    found = []
    for _ in range(repeat):
        start = time.process_time()
        run()
        found.append(time.process_time() - start)
    return min(found) * 1000


def pair(kind: str, words: str) -> tuple[Any, TextQuery]:
    """A query of the reference library and of this one."""
    if kind == "phrase":
        return reference.PhraseQuery(words, "txt"), PhraseQuery(words, "txt")
    operator = "AND" if kind == "AND" else "OR"
    theirs = reference.MatchQuery(words, "txt", operator=reference.FullTextOperator[operator])
    return theirs, MatchQuery(words, "txt", operator=operator)


def searches(theirs: str, ours: str) -> None:
    same, own = lance.dataset(theirs), lance_spark.open(ours)

    def ask(dataset: Any, query: Any) -> pa.Table:
        return dataset.to_table(full_text_query=query, columns=["id", "_score"], limit=10)

    def cold(query: TextQuery) -> pa.Table:
        shared.clear()
        return lance_spark.open(ours).search(query, ["id"], 10)

    for kind, words in QUERIES:
        wanted, query = pair(kind, words)
        expected = sorted(ask(same, wanted)["_score"].to_pylist())
        assert sorted(own.search(query, ["id"], 10)["_score"].to_pylist()) == expected, words
        before = cpu(lambda q=wanted: ask(lance.dataset(theirs), q), 5)
        after = cpu(lambda q=query: cold(q), 5)
        own.search(query, ["id"], 10)
        warm_before = cpu(lambda q=wanted: ask(same, q), 20)
        warm = cpu(lambda q=query: own.search(q, ["id"], 10), 20)
        request = SearchRequest(query, limit=10)
        parts, _ = own._searched_parts(["id"], None, False, False)
        hits = cpu(lambda r=request, p=parts: found_rows(r, p), 20)
        print(
            f"{kind} {words!r}: cold {before:.2f} ms, ours {after:.2f} ms; "
            f"warm {warm_before:.2f} ms, ours {warm:.2f} ms, hits {hits:.2f} ms"
        )


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
        written = lance.write_dataset(data, theirs)
        lance.write_dataset(data, ours)
        build = cpu(lambda d=written, p=with_position: d.create_scalar_index("txt", "INVERTED", with_position=p))
        warm = lance_spark.write(data.slice(0, 100), f"{ours}-warm")
        warm.create_text_index("txt", with_position=with_position)
        opened = lance_spark.open(ours)
        own = cpu(lambda d=opened, p=with_position: d.create_text_index("txt", with_position=p))
        print(f"build, positions {with_position}: {build:.0f} ms, ours {own:.0f} ms")
        print(f"bytes, positions {with_position}: {size(theirs)}, ours {size(ours)}")
    searches(theirs, ours)
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
