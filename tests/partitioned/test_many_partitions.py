"""What a commit costs in a table of many partitions: it is looked at as a whole, and not partition by partition."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from lance_spark.errors import CorruptFileError
from lance_spark.namespace.directory.catalog_rows import LOCATION, OBJECT_ID
from lance_spark.partitioned import manifest_index as partition_index
from lance_spark.partitioned import writer as partition_writer
from lance_spark.partitioned.commit import commit_rows
from lance_spark.partitioned.manifest_index import Partition, PartitionIndex, rows_of
from lance_spark.partitioned.save import PartitionBy, create_partitioned
from lance_spark.partitioned.table import PartitionedTable, open_partitioned
from lance_spark.partitioned.transforms.identity import Identity
from lance_spark.storage import open_store
from lance_spark.table import location
from tests.partitioned.verbs import save_rows
from tests.support.counting_store import CountingStore, Counts

SCHEMA = pa.schema([pa.field("k", pa.int64()), pa.field("v", pa.int64())])


def with_partitions(count: int) -> PartitionedTable:
    """A table of so many partitions that only `__manifest` knows of."""
    table = create_partitioned(f"memory://{uuid.uuid4().hex}", SCHEMA, [PartitionBy("k", ("k",), Identity())])
    spec = table.specs.current
    values = pa.RecordBatch.from_arrays(
        [pa.array(range(count), pa.int64())], schema=pa.schema([spec.fields[0].arrow_field])
    )
    known: dict[str, object] = {}
    rows: list[dict[str, object]] = []
    for at in range(count):
        made = replace(table.index.new_partition(spec, values.slice(at, 1), "secret"), version=1)
        rows += rows_of(made, known, table.rows.schema)
        known.update({str(row[OBJECT_ID]): None for row in rows[-3:]})
    return commit_rows(table, pa.Table.from_pylist(rows, table.rows.schema), table.specs)


class Requests:
    """All stores that are opened, counted together."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._stores: list[CountingStore] = []
        for module in (location, partition_writer):
            patch.setattr(module, "open_store", self.open_store)

    def open_store(self, uri: str, storage_options: Mapping[str, str] | None = None) -> CountingStore:
        self._stores.append(CountingStore(open_store(uri, storage_options)))
        return self._stores[-1]

    def counts(self) -> Counts:
        total = Counts()
        for store in self._stores:
            counts = store.reset()
            total.requests.update(counts.requests)
            total.num_bytes.update(counts.num_bytes)
        return total


def cost(root: str, new: int, monkeypatch: pytest.MonkeyPatch) -> tuple[Counts, int]:
    """Of an append to `new` new partitions: requests, and how many partitions were looked at one by one."""
    made = 0

    class Counted(Partition):
        __slots__ = ()

        def __init__(self, *arguments: Any, **named: Any) -> None:
            nonlocal made
            made += 1
            super().__init__(*arguments, **named)

    with monkeypatch.context() as patch:
        requests = Requests(patch)
        patch.setattr(partition_index, "Partition", Counted)
        keys = [10_000_000 + at for at in range(new)]
        save_rows(open_partitioned(root), pa.table({"k": keys, "v": keys}, SCHEMA))
        return requests.counts(), made


@pytest.mark.parametrize("new", [1, 20])
def test_an_append_costs_what_it_changes(new: int, monkeypatch: pytest.MonkeyPatch) -> None:
    (few, _), (many, made) = (cost(with_partitions(count).root, new, monkeypatch) for count in (10, 3000))
    assert many.total_requests <= few.total_requests + 8, "a few pages more of __manifest"
    assert made <= 3 * new
    assert many.bytes_read + many.bytes_written < 3000 * 400 + new * 20_000


def test_what_is_wrong_anywhere_is_found() -> None:
    table = with_partitions(50)
    rows = table.rows
    PartitionIndex(rows, table.specs)

    def broken(name: str, at: int, value: object) -> pa.Table:
        listed = rows.to_pylist()
        tables = [row for row in listed if row[LOCATION] is not None]
        tables[at][name] = value
        return pa.Table.from_pylist(listed, rows.schema)

    for name, value, message in [
        (LOCATION, "../elsewhere", "location '../elsewhere'"),
        (LOCATION, "__manifest", "lies in the catalog"),
        (LOCATION, "a//b", "location 'a//b'"),
        (LOCATION, "", "no location"),
        (OBJECT_ID, "v1$a$b$dataset", "not a partition of spec 1"),
        (OBJECT_ID, "v1$a$other", "not a partition of spec 1"),
        (OBJECT_ID, "v2$a$dataset", "a partition spec that is not there"),
        ("partition_field_k", 0, "partitions of the same values"),
    ]:
        with pytest.raises(CorruptFileError, match=message.replace("'", ".")):
            PartitionIndex(broken(name, 37, value), table.specs)
    for other in ("else$where", "version$1", "v1x$dataset"):
        assert len(PartitionIndex(broken(OBJECT_ID, 37, other), table.specs)) == 49
    for plain in ("a/b", "$", "ä b", "file:///tmp/t", "...", "a\nb"):
        assert PartitionIndex(broken(LOCATION, 37, plain), table.specs).partitions[37].location == plain


def test_partitions_by_place_and_by_id() -> None:
    table = with_partitions(7)
    index = table.index
    assert len(index) == len(index.by_id) == len(index.partitions) == 7
    for partition in index.partitions:
        assert index.find(partition.key) == partition == index.by_id[partition.object_id]
        assert (
            index.below_known_levels(replace(partition, object_id="v1$other$dataset")).object_id == partition.object_id
        )
    assert index.find((1, (99,))) is None
    assert index.by_id.get("v1$none$dataset") is None


def test_how_many_partitions_there_are() -> None:
    table = with_partitions(5)
    assert len(table.partitions()) == table.num_partitions == 5
    fresh = open_partitioned(table.root)
    assert fresh.num_partitions == 5
    assert "rows" not in vars(fresh), "counted by two columns"
