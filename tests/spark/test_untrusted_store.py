"""A store that overwrites what is to be created only if absent is refused before a task writes anything."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import fsspec
import pyarrow as pa
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from pyspark.sql.types import StructType

import lance_spark
from lance_spark.errors import StorageError
from lance_spark.partitioned.dataset import PartitionedDataset
from lance_spark.partitioned.partitioned_target import PartitionedTarget
from lance_spark.partitioned.save import create_partitioned
from lance_spark.partitioned.table import PartitionedTable, open_partitioned
from lance_spark.spark.connector.channel.handles import CatalogSettings
from lance_spark.spark.connector.procedures.procedure_types import Arguments, Invocation
from lance_spark.spark.connector.procedures.procedures import _PROCEDURES
from lance_spark.spark.jobs.backfill_job import plan_columns, plan_values
from lance_spark.spark.jobs.job import Job
from lance_spark.spark.jobs.write_plans import plan_changes, plan_write
from lance_spark.spark.options.options import WriteOptions
from lance_spark.spark.types.schemas import to_spark_schema
from lance_spark.storage import conditional_put
from lance_spark.storage.paths import STAGING_PREFIX
from lance_spark.table.dataset import Dataset
from lance_spark.table.location import TableLocation
from lance_spark.table.row_level.plain_target import PlainTarget
from lance_spark.table.row_level.write_target import WriteMode
from tests.partitioned.fixtures import BY_COUNTRY, SCHEMA, rows
from tests.partitioned.verbs import save_rows, update_rows


class ChangingFileSystem(MemoryFileSystem):  # type: ignore[misc]
    """Honours mode "create" until it is told to ignore it; remembers what was written."""

    protocol = "changing"
    store: dict[str, Any] = {}  # noqa: RUF012
    pseudo_dirs = [""]  # noqa: RUF012
    honest = True
    written: list[str] = []  # noqa: RUF012

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:
        if self.honest and mode == "create" and self.exists(path):
            raise FileExistsError(path)
        self.written.append(path)
        super().pipe_file(path, value)


@pytest.fixture
def uri(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    fsspec.register_implementation("changing", ChangingFileSystem, clobber=True)
    monkeypatch.setattr(conditional_put, "_trusted", set())
    monkeypatch.setattr(ChangingFileSystem, "honest", True)
    ChangingFileSystem.written.clear()
    yield f"changing://{uuid.uuid4().hex}"
    ChangingFileSystem.store.clear()


@pytest.fixture
def spoiled(uri: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A folder with the tables `plain` and `parts`, whose store ignores the condition from now on."""
    lance_spark.write(rows(1, 2), f"{uri}/plain")
    save_rows(create_partitioned(f"{uri}/parts", SCHEMA, BY_COUNTRY), rows(1, 2))
    monkeypatch.setattr(ChangingFileSystem, "honest", False)
    conditional_put._trusted.clear()
    ChangingFileSystem.written.clear()
    return uri


def options(uri: str) -> WriteOptions:
    return WriteOptions.parse({"path": uri})


def columns(table: PartitionedTable) -> StructType:
    return to_spark_schema(table.schema)


def plain_job(uri: str, mode: WriteMode) -> Job:
    location = TableLocation(f"{uri}/{'new' if mode is WriteMode.CREATE else 'plain'}")
    target = PlainTarget.of(location, location.latest())
    return plan_write(target, to_spark_schema(rows(1).schema), mode, options(location.uri))


def row_changes(uri: str) -> Job:
    location = TableLocation(f"{uri}/plain")
    target = PlainTarget.of(location, location.at(1).manifest)
    return plan_changes(target, to_spark_schema(rows(1).schema), options(location.uri))


def partitioned_job(uri: str) -> Job:
    table = open_partitioned(f"{uri}/parts")
    return plan_write(PartitionedTarget.of(table), columns(table), WriteMode.APPEND, options(table.root))


def partitioned_row_changes(uri: str) -> Job:
    table = open_partitioned(f"{uri}/parts")
    return plan_changes(PartitionedTarget.of(table), StructType(), options(table.root))


def optimize(uri: str, name: str) -> object:
    arguments = Arguments({"table": (f"{uri}/{name}",)})
    return _PROCEDURES["optimize"].call(Invocation(CatalogSettings("lance", {"root": uri}), arguments))


def plain(uri: str) -> Dataset:
    table = lance_spark.open(f"{uri}/plain")
    assert isinstance(table, Dataset)
    return table


def parts(uri: str) -> PartitionedDataset:
    table = lance_spark.open(f"{uri}/parts")
    assert isinstance(table, PartitionedDataset)
    return table


PLANS: dict[str, Callable[[str], object]] = {
    "append": lambda uri: plain_job(uri, WriteMode.APPEND),
    "create": lambda uri: plain_job(uri, WriteMode.CREATE),
    "update": row_changes,
    "partitioned append": partitioned_job,
    "partitioned delete": partitioned_row_changes,
    "optimize": lambda uri: optimize(uri, "plain"),
    "partitioned optimize": lambda uri: optimize(uri, "parts"),
    "python write": lambda uri: lance_spark.write(rows(3), f"{uri}/plain", mode="append"),
    "python partitioned write": lambda uri: save_rows(open_partitioned(f"{uri}/parts"), rows(3)),
    "python partitioned update": lambda uri: update_rows(open_partitioned(f"{uri}/parts"), {"x": 1.0}, "id = 1"),
    "plan columns": lambda uri: plan_columns(plain(uri), pa.schema([("new", pa.int64())])),
    "plan values": lambda uri: plan_values(plain(uri), ["x"]),
    "partitioned plan columns": lambda uri: plan_columns(parts(uri), pa.schema([("new", pa.int64())])),
    "partitioned plan values": lambda uri: plan_values(parts(uri), ["x"]),
    "python add columns": lambda uri: plain(uri).add_columns({"new": "id + 1"}),
}

VERBS: dict[str, Callable[[Any], object]] = {
    "update": lambda table: table.update({"x": 1.0}, "id = 1"),
    "merge": lambda table: table.merge(rows(1), "id"),
    "delete": lambda table: table.delete("id = 1"),
    "compact": lambda table: table.compact(),
    "upgrade": lambda table: table.upgrade_files("2.2"),
    "create index": lambda table: table.create_index("id", "BTREE"),
    "change type": lambda table: table.alter_column("n", data_type=pa.int64()),
    "optimize indices": lambda table: table.optimize_indices(),
}
PLANS |= {f"python {name}": lambda uri, verb=verb: verb(plain(uri)) for name, verb in VERBS.items()}  # type: ignore[misc]
PLANS |= {f"python partitioned {name}": lambda uri, verb=verb: verb(parts(uri)) for name, verb in VERBS.items()}  # type: ignore[misc]


@pytest.mark.parametrize("name", PLANS)
def test_write_is_refused_when_it_is_planned(spoiled: str, name: str) -> None:
    with pytest.raises(StorageError, match=r"overwrites an object .* \(If-None-Match\)"):
        PLANS[name](spoiled)
    assert ChangingFileSystem.written, "there was a trial"
    others = [path for path in ChangingFileSystem.written if STAGING_PREFIX not in path]
    assert others == [], "and nothing else was written"


def test_trial_is_made_once_for_a_service(uri: str) -> None:
    lance_spark.write(rows(1), f"{uri}/plain")
    for _ in range(3):
        plain_job(uri, WriteMode.APPEND)
        lance_spark.write(rows(2), f"{uri}/plain", mode="append")
    trials = [path for path in ChangingFileSystem.written if STAGING_PREFIX in path]
    assert len(set(trials)) == 1


def test_local_and_memory_stores_need_no_trial(tmp_path: Any) -> None:
    for uri in (str(tmp_path / "t"), f"memory://{uuid.uuid4().hex}"):
        TableLocation(uri).history.check_commits()
        assert list(TableLocation(uri).store.list("", recursive=True)) == []
