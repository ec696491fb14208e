"""The jobs of CREATE, OPTIMIZE and REFRESH INDEX beside other writers: plan, tasks and commit are called one by one."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import NotFoundError, RetryableConflictError
from lance_spark.partitioned.dataset import PartitionedDataset
from lance_spark.partitioned.save import PartitionBy, create_partitioned
from lance_spark.partitioned.transforms.identity import Identity
from lance_spark.spark.connector.channel.handles import CatalogSettings
from lance_spark.spark.connector.channel.tasks import TaskFunction
from lance_spark.spark.connector.procedures import index_procedures
from lance_spark.spark.connector.procedures.index_optimization import PROCEDURES
from lance_spark.spark.connector.procedures.procedure_types import Arguments, Invocation, Tasks
from lance_spark.table.dataset import Dataset
from tests.partitioned.verbs import save_rows

SCHEMA = pa.schema([("x", pa.int64()), ("p", pa.int32())])
KINDS = ("plain", "partitioned")


def rows(start: int, stop: int, num_partitions: int = 2) -> pa.Table:
    numbers = range(start, stop)
    return pa.table(
        {"x": [None if n % 9 == 0 else n % 50 for n in numbers], "p": [n % num_partitions for n in numbers]}
    )


def append(uri: str, new: pa.Table) -> None:
    table = lance_spark.open(uri)
    if isinstance(table, PartitionedDataset):
        save_rows(table, new.cast(SCHEMA))
    else:
        lance_spark.write(new.cast(SCHEMA), uri, mode="append")


@pytest.fixture(params=KINDS)
def uri(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """A table with an index `by_x` over 200 rows, and 100 rows that it does not cover."""
    made = str(tmp_path / "t")
    if request.param == "partitioned":
        create_partitioned(made, SCHEMA, [PartitionBy("p", ("p",), Identity())])
        append(made, rows(0, 200))
    else:
        lance_spark.write(rows(0, 200).cast(SCHEMA), made, mode="create")
    lance_spark.open(made).create_scalar_index("x", "BTREE", name="by_x")
    append(made, rows(200, 300))
    return made


def planned(uri: str, procedure: str, **options: str) -> Tasks:
    found = _procedure(procedure).call(_call(uri, **options))
    assert isinstance(found, Tasks)
    return found


def run(tasks: Tasks) -> list[bytes]:
    """The results of the tasks, each given one item of the work."""
    return [result for item in tasks.work for result in _results(tasks.function, item)]


def finish(procedure: str, tasks: Tasks, results: Sequence[bytes]) -> dict[str, Any]:
    finished = _procedure(procedure).finish
    assert finished is not None
    shown = finished(tasks.state, results)
    return dict(zip(shown.schema.names, shown.rows[0], strict=True))


def check(uri: str) -> None:
    """Each filter gives the rows of a scan."""
    table = lance_spark.open(uri)
    for condition in ("x = 7", "x IS NULL", "x > 40", "x IN (1, 2, 49)"):
        found = table.to_table(["x", "p"], condition).to_pylist()
        scanned = table.to_table(["x", "p"], condition, use_scalar_index=False).to_pylist()
        assert sorted(map(str, found)) == sorted(map(str, scanned)), condition
        assert found


def statistics(uri: str) -> dict[str, Any]:
    return lance_spark.open(uri).index_statistics("by_x")


@pytest.mark.parametrize("procedure", ["optimize_index", "refresh_index"])
def test_tasks_write_the_segments(uri: str, procedure: str) -> None:
    tasks = planned(uri, procedure)
    results = run(tasks)
    assert len(results) == len(tasks.work) == (2 if _partitioned(uri) else 1)
    assert statistics(uri)["num_unindexed_rows"] == 100  # Nothing is visible before the commit.
    versions = _version(uri)
    row = finish(procedure, tasks, results)
    assert _version(uri) == versions + 1
    assert row["fragments_indexed"] == str(len(results))
    assert statistics(uri)["num_unindexed_rows"] == 0
    segments = 1 if procedure == "optimize_index" else 2
    assert statistics(uri)["num_segments"] == segments * len(results)
    check(uri)


def test_nothing_to_do_is_no_job(uri: str) -> None:
    tasks = planned(uri, "optimize_index")
    finish("optimize_index", tasks, run(tasks))
    version = _version(uri)
    assert not isinstance(_procedure("optimize_index").call(_call(uri)), Tasks)
    assert not isinstance(_procedure("refresh_index").call(_call(uri)), Tasks)
    assert _version(uri) == version


def test_retrain_builds_every_row_again(uri: str) -> None:
    tasks = planned(uri, "optimize_index", retrain="true")
    row = finish("optimize_index", tasks, run(tasks))
    assert row["segments_after"] == str(len(tasks.work))
    assert statistics(uri)["num_unindexed_rows"] == 0
    check(uri)


OTHER_WRITERS: dict[str, Callable[[str], object]] = {
    "append": lambda uri: append(uri, rows(300, 340)),
    "delete": lambda uri: lance_spark.open(uri).delete("x = 8 OR x BETWEEN 42 AND 45"),
    "update": lambda uri: lance_spark.open(uri).update({"x": "x + 1"}, "x > 3"),
    "compaction": lambda uri: lance_spark.open(uri).compact(),
    "refresh": lambda uri: lance_spark.open(uri).optimize_indices("by_x", num_indices_to_merge=0),
    "optimize": lambda uri: lance_spark.open(uri).optimize_indices("by_x"),
    "other index": lambda uri: lance_spark.open(uri).create_scalar_index("p", "BITMAP", name="by_p"),
    "rebuilt": lambda uri: lance_spark.open(uri).create_scalar_index("x", "BITMAP", name="by_x", replace=True),
}


@pytest.mark.parametrize("writer", OTHER_WRITERS)
@pytest.mark.parametrize("procedure", ["optimize_index", "refresh_index"])
def test_another_writer_before_the_commit(uri: str, procedure: str, writer: str) -> None:
    tasks = planned(uri, procedure)
    results = run(tasks)
    OTHER_WRITERS[writer](uri)
    expected = sorted(map(str, lance_spark.open(uri).to_table(["x", "p"], use_scalar_index=False).to_pylist()))
    finish(procedure, tasks, results)
    assert sorted(map(str, lance_spark.open(uri).to_table(["x", "p"]).to_pylist())) == expected
    check(uri)


@pytest.mark.parametrize("writer", OTHER_WRITERS)
@pytest.mark.parametrize("kind", ["btree", "zonemap"])
def test_an_index_is_built_beside_another_writer(uri: str, kind: str, writer: str) -> None:
    if writer == "compaction":
        lance_spark.open(uri).drop_index("by_x")  # It keeps the fragments apart that it covers.
    job = _procedure("create_index").call(_creation(uri, kind))
    made = _procedure("create_index").finish
    results = run(job)
    OTHER_WRITERS[writer](uri)
    expected = sorted(map(str, lance_spark.open(uri).to_table(["x", "p"], use_scalar_index=False).to_pylist()))
    found = made(job.state, results)
    assert isinstance(found, Tasks) or writer not in ("compaction", "rebuilt")
    if isinstance(found, Tasks):
        found = made(found.state, run(found))
    assert not isinstance(found, Tasks)
    assert statistics(uri)["num_indexed_rows"] > 0
    assert sorted(map(str, lance_spark.open(uri).to_table(["x", "p"]).to_pylist())) == expected
    check(uri)


@pytest.mark.slow
def test_an_index_is_not_built_without_end(uri: str) -> None:
    procedure = _procedure("create_index")
    job = procedure.call(_creation(uri, "btree"))
    for _ in range(4):
        results = _outrun(uri, job)
        job = procedure.finish(job.state, results)
    results = _outrun(uri, job)
    with pytest.raises(RetryableConflictError):
        procedure.finish(job.state, results)
    check(uri)


def _outrun(uri: str, job: Tasks) -> list[bytes]:
    """The results of a job, during which another writer has built the index."""
    results = run(job)
    lance_spark.open(uri).create_scalar_index("x", "BITMAP", name="by_x", replace=True)
    return results


def test_an_index_that_was_dropped_before_the_commit_is_not_brought_back(uri: str) -> None:
    tasks = planned(uri, "optimize_index")
    results = run(tasks)
    lance_spark.open(uri).drop_index("by_x")
    with pytest.raises(NotFoundError, match="by_x"):
        finish("optimize_index", tasks, results)
    assert lance_spark.open(uri).list_indices() == []
    check(uri)


@pytest.mark.slow
def test_a_partition_without_the_index_gets_it(tmp_path: Path) -> None:
    made = str(tmp_path / "t")
    create_partitioned(made, SCHEMA, [PartitionBy("p", ("p",), Identity())])
    append(made, rows(0, 100))
    lance_spark.open(made).create_scalar_index("x", "BTREE", name="by_x")
    append(made, rows(100, 220, num_partitions=4))
    tasks = planned(made, "refresh_index")
    assert len(tasks.work) == 4
    finish("refresh_index", tasks, run(tasks))
    assert statistics(made)["num_unindexed_rows"] == 0
    check(made)


def _procedure(name: str) -> Any:
    (found,) = [procedure for procedure in (*PROCEDURES, *index_procedures.PROCEDURES) if procedure.name == name]
    return found


def _call(uri: str, **options: str) -> Invocation:
    arguments = Arguments({"table": (uri,), "name": ("by_x",), **{name: (text,) for name, text in options.items()}})
    return Invocation(CatalogSettings("lance", {"root": str(Path(uri).parent)}), arguments)


def _creation(uri: str, kind: str) -> Invocation:
    call = _call(uri, kind=kind, columns="x")
    return replace(call, arguments=Arguments({**call.arguments.values, "options": ("num_segments=2",)}))


def _results(function: Callable[..., object], item: bytes) -> list[bytes]:
    task: TaskFunction = pickle.loads(pickle.dumps(function))
    batches = task([pa.RecordBatch.from_pydict({"work": pa.array([item], pa.binary())})])
    return [result.as_py() for batch in batches for result in batch.column(0)]


def _partitioned(uri: str) -> bool:
    return isinstance(lance_spark.open(uri), PartitionedDataset)


def _version(uri: str) -> int:
    table: Dataset | PartitionedDataset = lance_spark.open(uri)
    return table.version
