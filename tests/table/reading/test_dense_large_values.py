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
    monkeypatch.setattr(fragment_columns, "_LARGE_VALUE", limit)
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
