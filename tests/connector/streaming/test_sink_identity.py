"""A streaming sink notices that its table was dropped and created again."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StructField, StructType

import lance_spark
from lance_spark.errors import NotFoundError
from lance_spark.partitioned.dataset import PartitionedDataset, create_partitioned_dataset
from lance_spark.partitioned.save import PartitionBy
from lance_spark.partitioned.transforms.identity import Identity
from lance_spark.spark.connector.channel.handles import TableHandle
from lance_spark.spark.connector.channel.registry import Call
from lance_spark.spark.connector.streaming.sink import SinkRequest, open_sink
from lance_spark.table.manifests.epoch_mark import EpochMark
from lance_spark.table.row_level.merge import MergeActions, merge_once
from lance_spark.table.writing.save import CommitOptions

ROWS = pa.table({"id": pa.array([1], pa.int64())})
COLUMNS = StructType([StructField("id", LongType())])


@pytest.fixture(params=[False, True], ids=["plain", "partitioned"])
def partitioned(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def create(uri: Path, versions: int, *, partitioned: bool) -> Any:
    """A table with so many versions, instead of one that is there."""
    shutil.rmtree(uri, ignore_errors=True)
    if partitioned:
        by = [PartitionBy("p", ("id",), Identity())]
        table: Any = create_partitioned_dataset(str(uri), ROWS.schema, by)
    else:
        table = lance_spark.write(ROWS, str(uri))
    while table.version < versions:
        table = table.append(ROWS)
    assert table.version == versions
    return table


def handle_of(table: Any) -> TableHandle:
    is_partitioned = isinstance(table, PartitionedDataset)
    nanos = table.versions_manifest.timestamp_nanos
    return TableHandle(table.uri, version=table.version, timestamp_nanos=nanos, partitioned=is_partitioned)


def seen(handle: TableHandle) -> int | None:
    """The version that the next epoch of a query finds, which has seen `handle`."""
    reply = open_sink(SinkRequest(handle, COLUMNS, "append", "query", 4), Call())
    return reply.handle.version


def marked(table: Any) -> Any:
    """`table` with epoch 3 of the query."""
    options = CommitOptions(mark=EpochMark("query", 3))
    actions = MergeActions.of("update", "insert", None)
    return table._of_version(merge_once(table.write_target(), ROWS.slice(0, 1), "id", actions, options))


@pytest.mark.parametrize("versions", [2, 3, 5])
def test_sink_stops_at_a_recreated_table(tmp_path: Path, partitioned: bool, versions: int) -> None:
    handle = handle_of(create(tmp_path / "t", 3, partitioned=partitioned))
    assert seen(handle) == 3
    create(tmp_path / "t", versions, partitioned=partitioned)
    with pytest.raises(NotFoundError, match="was dropped and created again while the query ran; start the query again"):
        seen(handle)


def test_sink_goes_on_with_newer_versions_of_its_table(tmp_path: Path, partitioned: bool) -> None:
    table = create(tmp_path / "t", 3, partitioned=partitioned)
    handle = handle_of(table)
    newer = table.append(pa.table({"id": pa.array([2], pa.int64())}))
    assert seen(handle) == 4
    # The version that the query has seen is gone; nothing tells the table from a new one, so the query goes on.
    assert newer.cleanup(keep_versions=1).versions == (1, 2, 3)
    assert seen(handle) == 4


def test_sink_does_not_read_older_versions_of_a_table_that_has_its_epochs(tmp_path: Path, partitioned: bool) -> None:
    table = create(tmp_path / "t", 2, partitioned=partitioned)
    handle = handle_of(table)
    assert seen(handle) == 2
    newest = marked(table)
    name = "__manifest/_versions" if partitioned else "_versions"
    before = sorted((tmp_path / "t" / name).glob("*.manifest"))
    assert len(before) == newest.version
    for file in before:
        if file.name not in (f"{newest.version}.manifest", f"{2**64 - 1 - newest.version}.manifest"):
            file.write_bytes(b"damaged")
    assert seen(handle) == newest.version
