"""Addresses of rows by value."""

from __future__ import annotations

from lance_spark.table.dataset import Dataset


def addresses(dataset: Dataset) -> dict[int, int]:
    table = dataset.to_table(columns=["a"], with_row_address=True)
    return dict(zip(table["a"].to_pylist(), table["_rowaddr"].to_pylist(), strict=True))
