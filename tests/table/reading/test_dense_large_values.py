"""Every second row of large values, which are read by themselves, equals what the reference library reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.table.reading import fragment_columns

ROWS = 600


@pytest.mark.parametrize("limit", [0, 1024, 1 << 60])
@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_rows_of_dense_filters(tmp_path: Path, version: Any, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fragment_columns, "_SHARES", ((limit, 4),))
    rng = np.random.default_rng(0)
    mask = rng.random(ROWS) < 0.1
    texts = pa.array([rng.bytes(int(size)) for size in rng.integers(0, 8000, ROWS)], pa.binary(), mask=mask)
    lists = pa.array([rng.integers(0, 99, size).tolist() for size in rng.integers(0, 2000, ROWS)])
    table = pa.table({"k": np.arange(ROWS) % 10, "texts": texts, "lists": lists})
    reference = lance.write_dataset(table, str(tmp_path / "t"), data_storage_version=version, max_rows_per_file=400)
    reference.delete("k = 4")
    dataset = lance_spark.open(str(tmp_path / "t"))
    for condition in ("k < 3", "k % 2 = 0", "k > 1"):
        assert dataset.to_table(filter=condition).equals(reference.to_table(filter=condition))
    rows = np.sort(rng.choice(dataset.count_rows(), 300, replace=False)).tolist()
    assert dataset.take(rows).equals(reference.take(rows))


def scattered_columns(rows: int) -> dict[str, pa.Array]:
    rng = np.random.default_rng(1)
    mask = rng.random(rows) < 0.1
    return {
        "words": pa.array(rng.integers(-(2**62), 2**62, rows)),
        "packed": pa.array(rng.integers(0, 1000, rows), mask=mask),
        "bits": pa.array(rng.random(rows) < 0.5, mask=mask),
        "texts": pa.array([f"{number:x}" for number in rng.integers(0, 2**60, rows).tolist()], mask=mask),
        "lists": pa.array([[number] * (number % 4) for number in range(rows)]),
    }


@pytest.mark.parametrize("name", ["words", "packed", "bits", "texts", "lists"])
def test_rows_of_scattered_filters(tmp_path: Path, name: str) -> None:
    rows = 20_000
    keys = np.random.default_rng(2).integers(0, 1000, rows)
    table = pa.table({"k": keys, "x": scattered_columns(rows)[name]})
    lance.write_dataset(table, str(tmp_path / "t"), data_storage_version="2.2", max_rows_per_file=12_000)
    dataset = lance_spark.open(str(tmp_path / "t"))
    for kept in (4, 20, 90, 300, 700):
        expected = table.filter(keys < kept).select(["x"])
        assert dataset.to_table(columns=["x"], filter=f"k < {kept}").equals(expected)


@pytest.mark.parametrize(
    ("name", "kept", "is_whole"),
    [("words", 4, False), ("words", 20, True), ("bits", 20, True), ("texts", 20, False), ("texts", 150, True)],
)
def test_words_are_cut_where_one_row_in_a_hundred_is_kept(
    tmp_path: Path, name: str, kept: int, is_whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = 20_000
    keys = np.random.default_rng(2).integers(0, 1000, rows)
    table = pa.table({"k": keys, "x": scattered_columns(rows)[name]})
    lance.write_dataset(table, str(tmp_path / "t"), data_storage_version="2.2")
    cut = []
    original = fragment_columns.filter_chunked

    def counted(column: pa.ChunkedArray, keep: pa.ChunkedArray) -> pa.ChunkedArray:
        cut.append(len(column))
        return original(column, keep)

    monkeypatch.setattr(fragment_columns, "filter_chunked", counted)
    found = lance_spark.open(str(tmp_path / "t")).to_table(columns=["x"], filter=f"k < {kept}")
    assert found.num_rows == int((keys < kept).sum())
    assert len(cut) == int(is_whole)
