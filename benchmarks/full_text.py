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
from statistics import median
from typing import Any

import lance
import pyarrow as pa
from lance import query as reference

import lance_spark
from lance_spark.index.text.queries import MatchQuery, PhraseQuery, TextQuery
from lance_spark.partitioned.dataset import create_partitioned_dataset
from lance_spark.partitioned.save import PartitionBy
from lance_spark.partitioned.transforms.identity import Identity
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


def ask(dataset: Any, query: Any) -> pa.Table:
    """The ten best rows of the reference library."""
    return dataset.to_table(full_text_query=query, columns=["id", "_score"], limit=10)


def searches(theirs: str, ours: str) -> None:
    same, own = lance.dataset(theirs), lance_spark.open(ours)

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


def new_words(uri: str) -> None:
    """Words that were not searched before, of a table of the reference library and its index."""
    same, own = lance.dataset(uri), lance_spark.open(uri)
    choose = random.Random(2)
    for kind, num_words in (("term", 1), ("OR", 2), ("AND", 2), ("phrase", 2)):
        numbers = choose.sample(range(20, 1500), 100 * num_words)
        before, after = [], []
        for first in range(0, len(numbers), num_words):
            words = " ".join(f"w{number}" for number in numbers[first : first + num_words])
            wanted, query = pair("OR" if kind == "term" else kind, words)
            after.append(cpu(lambda q=query, o=own: o.search(q, ["id"], 10)))
            before.append(cpu(lambda q=wanted, s=same: ask(s, q)))
        print(f"new words, {kind}: {median(before):.2f} ms, ours {median(after):.2f} ms")
        shared.clear()
        same, own = lance.dataset(uri), lance_spark.open(uri)


def other_indexes(folder: str, data: pa.Table) -> None:
    """Indexes of several segments, rows without an index, and a partitioned table with the same rows."""
    half = data.num_rows // 2
    several, uncovered = f"{folder}/several", f"{folder}/uncovered"
    for uri, first in ((several, half), (uncovered, data.num_rows * 99 // 100)):
        lance.write_dataset(data.slice(0, first), uri).create_scalar_index("txt", "INVERTED", with_position=True)
        lance.write_dataset(data.slice(first), uri, mode="append")
    lance.dataset(several).optimize.optimize_indices(num_indices_to_merge=0)
    parts = data.append_column("part", pa.array([row % 4 for row in range(data.num_rows)]))
    partitioned = f"{folder}/partitioned"
    table = create_partitioned_dataset(partitioned, parts.schema, [PartitionBy("part", ("part",), Identity())])
    table.append(parts).create_scalar_index("txt", "INVERTED", with_position=True)
    for name, theirs, ours in (
        ("two segments", several, several),
        ("1 % without an index", uncovered, uncovered),
        ("four partitions, reference two segments", several, partitioned),
    ):
        same, own = lance.dataset(theirs), lance_spark.open(ours)
        for kind, words in QUERIES[1:]:
            wanted, query = pair(kind, words)
            assert len(own.search(query, ["id"], 10)) == len(ask(same, wanted)), words
            before = cpu(lambda q=wanted, s=same: ask(s, q), 10)
            after = cpu(lambda q=query, o=own: o.search(q, ["id"], 10), 10)
            print(f"{name}: {kind} {words!r}: {before:.2f} ms, ours {after:.2f} ms")


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
    new_words(theirs)
    other_indexes(folder, data)
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
