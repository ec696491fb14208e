"""Partitioned tables whose partitions have scalar indexes of the reference library."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import lance
import pyarrow as pa

from lance_spark.partitioned.dataset import PartitionedDataset, create_partitioned_dataset, open_partitioned_dataset
from lance_spark.partitioned.save import PartitionBy
from lance_spark.partitioned.transforms.identity import Identity


def indexed_partitions(root: Path, rows: pa.Table, key: str, indexes: Mapping[str, str]) -> PartitionedDataset:
    """`rows` in partitions of equal `key`. The last tenth was appended after the indexes were built.

    Args:
        indexes: kinds of index by column.
    """
    split = rows.num_rows - rows.num_rows // 10
    dataset = create_partitioned_dataset(str(root), rows.schema, [PartitionBy(key, (key,), Identity())])
    dataset.append(rows.slice(0, split))
    for path in root.iterdir():
        if path.name.endswith("$dataset"):
            for column, kind in indexes.items():
                lance.dataset(str(path)).create_scalar_index(column, kind)
            table, version = path.name, lance.dataset(str(path)).version
            lance.dataset(str(root / "__manifest")).update(
                {"read_version": str(version)}, where=f"location = '{table}'"
            )
    return open_partitioned_dataset(str(root)).append(rows.slice(split))
