"""Scans of partitioned tables use the indexes of the partitions' tables."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.indexed_partitions import indexed_partitions

ROWS = pa.table(
    {
        "id": pa.array(range(3000), pa.int64()),
        "p": pa.array([number % 3 for number in range(3000)], pa.int32()),
        "x": pa.array([None if number % 11 == 0 else number * 7919 % 3000 for number in range(3000)], pa.int64()),
        "k": pa.array([f"name {number % 40}" for number in range(3000)]),
    }
)


@pytest.mark.parametrize("condition", ["x = 17", "x IN (1, 2, 2900)", "k = 'name 7' AND p = 1", "x IS NULL", "x < 0"])
def test_rows_are_those_of_a_scan(tmp_path: Path, condition: str) -> None:
    dataset = indexed_partitions(tmp_path, ROWS, "p", {"x": "BTREE", "k": "BITMAP"})
    scanned = dataset.to_table(["id"], condition, use_scalar_index=False)
    assert sorted(dataset.to_table(["id"], condition)["id"].to_pylist()) == sorted(scanned["id"].to_pylist())
    assert dataset.count_rows(condition) == dataset.count_rows(condition, use_scalar_index=False) == scanned.num_rows
    assert "\nindex: " in dataset.explain(condition)
    assert "\nindex: " not in dataset.explain(condition, use_scalar_index=False)


def test_explain_names_partitions_and_unindexed_fragments(tmp_path: Path) -> None:
    dataset = indexed_partitions(tmp_path, ROWS, "p", {"x": "BTREE"})
    lines = dataset.explain("x = 17 AND p = 1").splitlines()
    assert lines[0] == "partitions: 1 of 3"
    assert lines[-1] == "scanned without index: fragments 1"
