"""Copies of the codes of IVF_SQ side by side: they change no result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lance_spark
from lance_spark.index.vector.stored.scalar import ScalarStorage
from lance_spark.storage.cache import shared
from tests.support.vector_search.old_indexes import make_old
from tests.support.vector_search.tables import clustered, vectors, write

ROWS = 1500


pytestmark = pytest.mark.usefixtures("empty_cache")


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of rows of each copy that is made."""
    made: list[int] = []
    copied = ScalarStorage.copied

    def counted(storage: Any, number: int, rows: Any) -> Any:
        made.append(len(rows.row_ids))
        return copied(storage, number, rows)

    monkeypatch.setattr(ScalarStorage, "copied", counted)
    return made


def indexed(path: Path, kind: str, metric: str) -> tuple[str, Any]:
    uri = str(path / "t")
    values = clustered(ROWS, 20, "f4")
    values[1::5] = values[::5]
    write(uri, vectors(values))
    lance_spark.open(uri).create_index("v", kind, metric=metric, num_partitions=3)
    make_old(uri)
    return uri, values


@pytest.mark.parametrize("metric", ["l2", "cosine", "dot"])
def test_results_are_those_of_the_stored_codes(tmp_path: Path, metric: str, copies: list[int]) -> None:
    uri, values = indexed(tmp_path, "IVF_SQ", metric)

    def results() -> list[Any]:
        dataset = lance_spark.open(uri)
        return [
            dataset.nearest("v", query, k, nprobes=nprobes, with_row_id=True, refine_factor=1)
            for query in values[:12:4]
            for nprobes in (1, 3)
            for k in (1, 20)
        ]

    before = shared.max_bytes
    shared.resize(ROWS * 20 * 2)
    try:
        expected = results()
    finally:
        shared.resize(before)
    assert copies == []
    shared.clear()
    assert results() == expected
    assert sum(copies) == ROWS
    assert results() == expected
    assert sum(copies) == ROWS


@pytest.mark.slow
def test_graphs_have_no_copies(tmp_path: Path, copies: list[int]) -> None:
    uri, values = indexed(tmp_path, "IVF_HNSW_SQ", "l2")
    for _ in range(3):
        lance_spark.open(uri).nearest("v", values[0], nprobes=3)
        lance_spark.open(uri).nearest("v", values[0], nprobes=3, filter="id < 20")
    assert copies == []
