"""Tables with a write-ahead log of the reference library: its state is shown and stays, whatever this library does."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark._proto import table_pb2
from lance_spark.errors import InvalidInputError, UnsupportedFeatureError
from lance_spark.table.dataset import Dataset
from lance_spark.table.manifests.index_metadata import IndexMetadata
from lance_spark.table.manifests.mem_wal import MEM_WAL, mem_wal_state

KEY = {b"lance-schema:unenforced-primary-key": b"true"}
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False, metadata=KEY), pa.field("v", pa.int64())])


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": ids, "v": [number * 10 for number in ids]}, schema=SCHEMA)


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """Version 3 of a table of 60 rows; a shard has flushed two more that are not merged."""
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(*range(60)), uri, max_rows_per_file=20).create_scalar_index("id", "BTREE")
    lance.dataset(uri).initialize_mem_wal(maintained_indexes=["id_idx"], unsharded=True)
    writer = lance.dataset(uri).mem_wal_writer(str(uuid.uuid4()))
    writer.put(rows(5, 1000))
    writer.close()
    return uri


def state(uri: str) -> bytes:
    (index,) = [index for index in lance_spark.open(uri).indices() if index.name == MEM_WAL]
    return index.to_bytes()


OPERATIONS: dict[str, Callable[[Dataset], object]] = {
    "delete": lambda dataset: dataset.delete("id = 3"),
    "update": lambda dataset: dataset.update({"v": 1}, "id = 4"),
    "merge": lambda dataset: dataset.merge(rows(4, 200), "id"),
    "compact": lambda dataset: dataset.compact(),
    "build": lambda dataset: dataset.create_scalar_index("v"),
    "build again": lambda dataset: dataset.create_scalar_index("id"),
    "optimize": lambda dataset: dataset.optimize_indices(retrain=True),
    "drop another": lambda dataset: dataset.create_scalar_index("v").drop_index("v_idx"),
    "config": lambda dataset: dataset.update_config({"a": "b"}),
    "add": lambda dataset: dataset.add_columns({"w": "v + 1"}),
    "drop": lambda dataset: dataset.drop_columns(["v"]),
    "restore": lambda dataset: lance_spark.open(dataset.location.uri, version=3).restore(),
    "append": lambda dataset: lance_spark.write(rows(300), dataset.location.uri, mode="append"),
    "cleanup": lambda dataset: dataset.cleanup(timedelta(0), delete_unverified=True),
}


def test_state_stays_through_every_operation(uri: str) -> None:
    before = state(uri)
    files = sorted(Path(uri, "_mem_wal").rglob("*"))
    for name, operation in OPERATIONS.items():
        operation(lance_spark.open(uri))
        assert state(uri) == before, name
    assert sorted(Path(uri, "_mem_wal").rglob("*")) == files
    assert lance.dataset(uri).mem_wal_index_details()["maintained_indexes"] == ["id_idx"]


@pytest.mark.parametrize(
    ("operation", "reason"),
    [
        (lambda uri: lance_spark.write(rows(1), uri, mode="overwrite"), "replace the state"),
        (lambda uri: lance_spark.open(uri, version=2).restore(), "replace the state"),
        (lambda uri: lance_spark.open(uri).drop_columns(["id"]), "column 'id'"),
        (lambda uri: lance_spark.open(uri).alter_column("id", name="key"), "column 'id'"),
        (lambda uri: lance_spark.open(uri).drop_index("id_idx"), "index 'id_idx'"),
        (lambda uri: lance_spark.open(uri).create_scalar_index("id", "BITMAP", "id_idx"), "index 'id_idx'"),
    ],
    ids=["overwrite", "restore", "drop column", "rename", "drop index", "other type of index"],
)
def test_operations_that_would_lose_rows_are_refused(uri: str, operation: Callable[[str], object], reason: str) -> None:
    before = lance_spark.open(uri)
    with pytest.raises(UnsupportedFeatureError, match=reason):
        operation(uri)
    assert lance_spark.open(uri).version == before.version
    with pytest.raises(InvalidInputError, match="state of the reference library"):
        before.drop_index(MEM_WAL)


def test_state_is_listed_and_described(uri: str) -> None:
    dataset = lance_spark.open(uri)
    listed = {item["name"]: item["type"] for item in dataset.list_indices()}
    assert listed == {item.name: item.index_type for item in lance.dataset(uri).describe_indices()}
    assert dataset.count_rows() == 60, "rows of shards are no rows of the table"
    (found,) = dataset.index_statistics(MEM_WAL)["segments"]
    for key, value in lance.dataset(uri).mem_wal_index_details().items():
        if key != "writer_config_defaults":
            assert found[key] == value, key


def test_merged_generations_are_understood() -> None:
    shard = uuid.uuid4()
    generation = table_pb2.MergedGeneration(region_id=table_pb2.UUID(uuid=shard.bytes), generation=7)
    details = table_pb2.MemWalIndexDetails(merged_generations=[generation])
    details.index_catchup.add(index_name="id_idx", caught_up_generations=[generation])
    message = table_pb2.IndexMetadata(name=MEM_WAL, uuid=table_pb2.UUID(uuid=bytes(16)))
    message.index_details.value = details.SerializeToString()
    found = mem_wal_state(IndexMetadata.from_proto(message))
    assert found["merged_generations"] == [(str(shard), 7)]
    assert found["index_catchup"] == {"id_idx": [(str(shard), 7)]}
