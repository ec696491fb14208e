"""Scans of partitioned tables use the indexes of the partitions' tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import lance_spark
from lance_spark.partitioned.dataset import PartitionedDataset
from tests.support.index.geometry_rows import WHERE
from tests.support.index.geometry_rows import rows as geometries
from tests.support.index.json_documents import documents
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


def geometries_and_documents(num_rows: int, num_partitions: int) -> pa.Table:
    keys = pa.array([number % num_partitions for number in range(num_rows)], pa.int32())
    return geometries(0, num_rows).append_column("j", documents(0, num_rows)).append_column("p", keys)


CHANGES: tuple[Callable[[PartitionedDataset], PartitionedDataset], ...] = (
    lambda dataset: dataset.append(geometries_and_documents(60, 4)),
    lambda dataset: dataset.delete("id % 5 = 1"),
    lambda dataset: dataset.update({"id": "id + 10000"}, "id % 7 = 3"),
    lambda dataset: dataset.optimize_indices(),
    lambda dataset: dataset.compact(target_rows_per_fragment=1000),
    lambda dataset: dataset.append(geometries_and_documents(60, 4)),
    lambda dataset: dataset.compact(target_rows_per_fragment=1000, defer_index_remap=True),
    lambda dataset: dataset.optimize_indices(),
)


@pytest.mark.slow
def test_geometries_and_documents_are_found_through_changes(tmp_path: Path) -> None:
    dataset = indexed_partitions(tmp_path, geometries_and_documents(600, 3), "p", {"g": "RTREE", "pt": "RTREE"})
    for name, path, kind in (("a", "$.a", "btree"), ("c", "$.b.c", "bitmap"), ("f", "$.f", "zonemap")):
        dataset = dataset.create_scalar_index("j", "JSON", name, path=path, target_index_type=kind)
    for change in (None, *CHANGES):
        dataset = dataset if change is None else change(dataset)
        for condition in (
            f"st_intersects(g, {WHERE})",
            f"st_intersects(pt, {WHERE}) AND p = 1",
            "g IS NULL",
            "json_get_int(j, '$.a') = 3",
            "json_get_string(j, '$.b.c') IN ('s1', 's9')",
            "json_get_float(j, '$.f') > 250 AND p = 2",
            f"json_get_int(j, '$.a') = 3 OR st_intersects(g, {WHERE})",
        ):
            scanned = dataset.to_table(["id"], condition, use_scalar_index=False)["id"].to_pylist()
            assert sorted(dataset.to_table(["id"], condition)["id"].to_pylist()) == sorted(scanned), condition
            assert dataset.count_rows(condition) == len(scanned) > 0, condition
    for condition, index in (("json_get_int(j, '$.a') = 3", "a"), (f"st_intersects(g, {WHERE})", "g_idx")):
        explained = lance_spark.open(tmp_path).explain(condition)
        assert f"index: {index} " in explained
        assert explained.endswith("scanned without index: none")
