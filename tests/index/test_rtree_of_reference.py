"""RTREE indexes, which this release does not search: they are shown, and stay right for the reference library."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.table.dataset import Dataset
from tests.index.comparisons import ID, ids

QUERY = "St_Intersects(pt, ST_GeomFromText('POLYGON((0 0, 30 0, 30 30, 0 30, 0 0))'))"


def points(first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)
    values = pa.StructArray.from_arrays(
        [pa.array([float(i % 97) for i in numbers]), pa.array([float(i * 7 % 50) for i in numbers])], ["x", "y"]
    )
    metadata = {"ARROW:extension:name": "geoarrow.point", "ARROW:extension:metadata": "{}"}
    schema = pa.schema([pa.field(ID, pa.int64()), pa.field("pt", values.type, metadata=metadata)])
    return pa.table({ID: pa.array(numbers, pa.int64()), "pt": values}, schema=schema)


OPERATIONS: dict[str, Callable[[Dataset], object]] = {
    "delete": lambda dataset: dataset.delete("id % 5 = 1"),
    "update": lambda dataset: dataset.update({"pt": {"x": 1.0, "y": 2.0}}, "id % 7 = 3"),
    "merge": lambda dataset: dataset.merge(points(290, 20), "id"),
    "compact": lambda dataset: dataset.compact(target_rows_per_fragment=1000),
    "deferred compaction": lambda dataset: dataset.compact(target_rows_per_fragment=1000, defer_index_remap=True),
    "optimize": lambda dataset: dataset.optimize_indices(),
    "append": lambda dataset: lance_spark.write(points(400, 50), dataset.location.uri, mode="append"),
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_reference_finds_all_rows_after_our_operations(tmp_path: Path, operation: str, warnings: list[str]) -> None:
    uri = str(tmp_path)
    lance.write_dataset(points(0, 300), uri, max_rows_per_file=100).create_scalar_index("pt", "RTREE")
    assert [item["type"] for item in lance_spark.open(uri).list_indices()] == ["RTree"]
    OPERATIONS[operation](lance_spark.open(uri))
    dataset = lance.dataset(uri)
    scanned = ids(dataset.to_table(columns=[ID], filter=QUERY, use_scalar_index=False))
    assert ids(dataset.to_table(columns=[ID], filter=QUERY)) == scanned
    assert len(scanned) > 40
    found = lance_spark.open(uri)
    assert found.count_rows("pt.x < 10") == len(ids(dataset.to_table(columns=[ID], filter="pt.x < 10")))
    assert "\nindex:" not in found.explain("pt.x < 10")
    assert warnings == []
