"""The two kinds of table behind one interface, so that one scenario runs on both."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

import lance_spark
from lance_spark.partitioned.dataset import create_partitioned_dataset, open_partitioned_dataset
from lance_spark.partitioned.save import PartitionBy
from lance_spark.partitioned.table import FILE_VERSION, STABLE_ROW_IDS
from lance_spark.partitioned.transforms.identity import Identity

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string()), ("v", pa.int32())])

Row = tuple[Any, ...]

ROWS: list[Row] = [(1, "a", 10), (2, "a", None), (3, "b", 30), (4, "b", 40), (5, None, 50)]
"""Three partitions, one of them of the null key; a null in `v`."""


def table_of(*rows: Row) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else [[]] * len(SCHEMA)
    arrays = [pa.array(list(column), field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def content(dataset: Any) -> list[Row]:
    """All rows in the order of `id`, checked against the number of rows."""
    found = dataset.to_table().to_pylist()
    assert dataset.count_rows() == len(found)
    return sorted((tuple(row.values()) for row in found), key=str)


@dataclass(frozen=True)
class Kind(ABC):
    """How a kind of table is made and written; all else goes through the dataset's own verbs."""

    stable_row_ids: bool
    file_version: str = "2.2"

    @abstractmethod
    def create(self, *rows: Row) -> Any: ...

    @abstractmethod
    def open(self, dataset: Any, version: int | None = None) -> Any: ...

    def append(self, dataset: Any, *rows: Row) -> Any:
        return dataset.newest().append(table_of(*rows))

    def overwrite(self, dataset: Any, *rows: Row) -> Any:
        return dataset.newest().overwrite(table_of(*rows))

    def check(self, dataset: Any, expected: list[Row]) -> None:
        """Passes if this version has exactly these rows, and is what a new reader sees."""
        assert content(dataset) == sorted(expected, key=str)
        newest = self.open(dataset)
        assert (newest.version, content(newest)) == (dataset.version, content(dataset))


class Plain(Kind):
    def create(self, *rows: Row) -> Any:
        uri = f"memory://table-verbs-{uuid.uuid4().hex}"
        empty = lance_spark.write(
            SCHEMA.empty_table(), uri, enable_stable_row_ids=self.stable_row_ids, file_format_version=self.file_version
        )
        return self.append(empty, *rows) if rows else empty

    def open(self, dataset: Any, version: int | None = None) -> Any:
        return lance_spark.open(dataset.uri, version=version)


class Partitioned(Kind):
    def create(self, *rows: Row) -> Any:
        root = f"memory://table-verbs-{uuid.uuid4().hex}"
        properties = {FILE_VERSION: self.file_version}
        if self.stable_row_ids:
            properties[STABLE_ROW_IDS] = "true"
        by = [PartitionBy("p", ("p",), Identity())]
        empty = create_partitioned_dataset(root, SCHEMA, by, properties=properties)
        return empty.append(table_of(*rows)) if rows else empty

    def open(self, dataset: Any, version: int | None = None) -> Any:
        return open_partitioned_dataset(dataset.uri, version=version)
