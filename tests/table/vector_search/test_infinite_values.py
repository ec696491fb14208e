"""Rows whose vectors have an infinity are in no index; searches find them where a scan does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_spark
from tests.support.vector_search.tables import clustered, write

ROWS = 600
KINDS: dict[str, dict[str, Any]] = {
    "IVF_FLAT": {},
    "IVF_PQ": {"num_sub_vectors": 4},
    "IVF_HNSW_SQ": {},
}


def with_infinities() -> list[list[float] | None]:
    """Vectors, of which some have an infinity, are no numbers, or null."""
    values = clustered(ROWS, 16, "f4")
    values[3, 2], values[150, 1], values[260, 0], values[590] = np.inf, -np.inf, np.nan, np.inf
    values[320, 5] = np.inf
    rows: list[list[float] | None] = values.tolist()
    rows[7], rows[333] = None, None
    return rows


def build(uri: str, kind: str, metric: str, builder: str) -> None:
    dataset: Any = lance_spark.open(uri) if builder == "own" else lance.dataset(uri)
    dataset.create_index("v", kind, metric=metric, num_partitions=4, **KINDS[kind])


def same_ends(dataset: lance_spark.Dataset, query: Any, metric: str, **options: Any) -> None:
    """Passes if the infinite distances of a search are those of a scan, with the same rows."""
    for k in (5, ROWS):
        rows, expected = (
            dataset.nearest("v", query, k, metric, columns=["id"], use_index=use_index, **options)
            for use_index in (True, False)
        )
        assert rows.num_rows == expected.num_rows
        found, wanted = ([row for row in table.to_pylist() if np.isinf(row["_distance"])] for table in (rows, expected))
        assert found == wanted


@pytest.mark.parametrize("builder", ["own", "reference"])
@pytest.mark.parametrize("metric", ["l2", "dot", "cosine"])
@pytest.mark.parametrize("kind", KINDS)
def test_searches_find_what_a_scan_finds(tmp_path: Path, kind: str, metric: str, builder: str) -> None:
    uri = str(tmp_path / "t")
    write(uri, pa.array(with_infinities(), pa.list_(pa.float32(), 16)), max_rows_per_file=150)
    build(uri, kind, metric, builder)
    for query in (np.ones(16, "f4"), -np.ones(16, "f4")):
        same_ends(lance_spark.open(uri), query, metric)


@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("metric", ["l2", "dot"])
def test_tables_that_have_changed(tmp_path: Path, metric: str, stable: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lance_spark.table.vector_search.indexed._MAX_FILTERED_ROWS", 5)
    uri, query = str(tmp_path / "t"), np.ones(16, "f4")
    rows = pa.array(with_infinities(), pa.list_(pa.float32(), 16))
    write(uri, rows, max_rows_per_file=150, enable_stable_row_ids=stable)
    lance.dataset(uri).delete("id = 10")
    build(uri, "IVF_FLAT", metric, "own")
    same_ends(lance_spark.open(uri), query, metric)
    lance.dataset(uri).delete("id = 3 or id % 50 = 11")
    lance.write_dataset(pa.table({"id": range(ROWS, ROWS + 9), "v": rows[:9]}), uri, mode="append")
    for where in (None, "id % 2 = 0", "id > 400"):
        same_ends(lance_spark.open(uri), query, metric, filter=where)
    lance.dataset(uri).delete("id >= 450 and id < 600")
    lance.dataset(uri).optimize.compact_files()
    same_ends(lance_spark.open(uri), query, metric)
    queries = np.stack([query, -query])
    found = lance_spark.open(uri).nearest("v", queries, ROWS, metric, columns=["id"])
    assert found.equals(lance_spark.open(uri).nearest("v", queries, ROWS, metric, columns=["id"], use_index=False))


def test_fast_searches_and_limited_ones_leave_them_out(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    write(uri, pa.array(with_infinities(), pa.list_(pa.float32(), 16)))
    build(uri, "IVF_FLAT", "l2", "own")
    dataset, query = lance_spark.open(uri), np.ones(16, "f4")
    for options in ({"fast_search": True}, {"nprobes": 4}):
        assert np.isfinite(dataset.nearest("v", query, ROWS, **options)["_distance"].to_numpy()).all()
