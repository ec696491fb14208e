"""A partitioned table for tests, and what readers see of it."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa

from lance_spark.partitioned.backfill import (
    PartitionedBackfill,
)
from lance_spark.partitioned.save import PartitionBy
from lance_spark.partitioned.table import PartitionedTable
from lance_spark.partitioned.transforms.identity import Identity
from lance_spark.table.columns.backfill_writer import BackfillWriter
from lance_spark.table.writing.filled_columns import BackfilledSplit

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("country", pa.string()),
        pa.field("ts", pa.timestamp("us", "UTC")),
        pa.field("x", pa.float64()),
        pa.field("n", pa.int32()),
    ]
)
BY_COUNTRY = [PartitionBy("country", ("country",), Identity())]


def rows(*ids: int, country: str | None = "at", year: int = 2025, x: float | None = 0.5) -> pa.Table:
    moment = datetime(year, 3, 1, tzinfo=timezone.utc)
    values = [{"id": key, "country": country, "ts": moment, "x": x, "n": key} for key in ids]
    return pa.Table.from_pylist(values, SCHEMA)


def ids(table: PartitionedTable, filter: str | None = None) -> list[int]:
    return sorted(table.to_table(["id"], filter)["id"].to_pylist())


def shown(table: PartitionedTable) -> list[dict[str, object]]:
    found: list[dict[str, object]] = table.to_table().to_pylist()
    return sorted(found, key=lambda row: int(str(row["id"])))


def by_reference(table: PartitionedTable) -> list[dict[str, object]]:
    """All rows as the reference library reads the partitions that `__manifest` names."""
    found: list[dict[str, object]] = []
    listed = lance.dataset(f"{table.root}/__manifest", version=table.version).to_table().to_pylist()
    for row in listed:
        if row["object_type"] == "table":
            data = lance.dataset(f"{table.root}/{row['location']}", version=row["read_version"])
            found += data.to_table().to_pylist()
    return sorted(found, key=lambda row: int(str(row["id"])))


def files(root: str) -> set[str]:
    return {str(path.relative_to(root)) for path in Path(root).rglob("*") if path.is_file()}


def backfilled(
    table: PartitionedTable, plan: PartitionedBackfill, values: Mapping[int, Mapping[str, object]]
) -> list[BackfilledSplit]:
    """What tasks make of values by `id`, each fragment's on a machine of its own."""
    found: dict[tuple[str, int], list[tuple[int, Mapping[str, object]]]] = {}
    for opened in table.open_all(table.partitions()):
        scan = table.plan(opened, ["id"], with_row_address=True)
        for fragment in opened.manifest.fragments:
            for batch in scan.read([fragment]):
                for key, address in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                    if key in values:
                        home = (opened.partition.object_id, fragment.id)
                        found.setdefault(home, []).append((address, values[key]))
    done = []
    for (object_id, _), listed in found.items():
        writer = BackfillWriter(pickle.loads(pickle.dumps(plan)))
        told = pa.Table.from_pylist([dict(row) for _, row in listed], plan.arrow_schema)
        made = writer.write(object_id, np.array([address for address, _ in listed], np.uint64), told)
        assert made is not None
        done.append(pickle.loads(pickle.dumps(made)))
    return done
