"""The writer without a Spark: what tasks leave, and what becomes of it."""

from __future__ import annotations

import pickle
import threading
from dataclasses import replace
from pathlib import Path
from threading import Event
from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StructField, StructType

import lance_spark
from lance_spark.errors import CommitStateUnknownError, IncompatibleConflictError, InvalidInputError, LanceError
from lance_spark.spark.jobs.task_result import TaskResult
from lance_spark.spark.options.options import WriteOptions
from lance_spark.spark.plugin.writer import LanceWriter
from lance_spark.table.row_level import plain_target, write_target

SCHEMA = StructType([StructField("id", LongType())])
ROWS = pa.RecordBatch.from_pydict({"id": pa.array(range(10), pa.int64())})


@pytest.fixture
def uri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(write_target, "_LATE_WAIT", 0.0)
    uri = str(tmp_path / "t")
    lance_spark.write(pa.table([ROWS["id"]], names=["id"]), uri)
    return uri


def job(uri: str) -> LanceWriter:
    return LanceWriter(WriteOptions.parse({"path": uri}), SCHEMA, overwrite=False)


def data_files(uri: str) -> set[str]:
    return {path.name for path in (Path(uri) / "data").iterdir()}


def travelled(writer: LanceWriter) -> LanceWriter:
    """Tasks and the commit get copies of the writer."""
    return pickle.loads(pickle.dumps(writer))


def test_a_commit_of_all_messages(uri: str) -> None:
    writer = job(uri)
    messages = [travelled(writer).write(iter([ROWS])) for _ in range(3)]
    travelled(writer).commit(messages)
    assert lance_spark.open(uri).count_rows() == 40
    assert lance_spark.open(uri).version == 2


def test_an_abort_removes_what_all_tasks_left(uri: str) -> None:
    before = data_files(uri)
    writer = job(uri)
    other_job = job(uri)
    others = travelled(other_job).write(iter([ROWS]))
    message = travelled(writer).write(iter([ROWS]))
    travelled(writer).write(iter([ROWS]))  # A task that was killed before it could tell.
    travelled(writer).abort([message, None])
    assert len(data_files(uri) - before) == 1, "the file of the other job stays"
    travelled(other_job).commit([others])
    assert lance_spark.open(uri).count_rows() == 20


def test_abort_returns_at_once_and_removes_late_files(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = data_files(uri)
    may_look = Event()
    monkeypatch.setattr(write_target, "time", SimpleNamespace(sleep=lambda _seconds: may_look.wait(60)))
    writer = job(uri)
    message = travelled(writer).write(iter([ROWS]))
    travelled(writer).abort([message, None])
    assert data_files(uri) == before
    travelled(writer).write(iter([ROWS]))  # Spark has not killed this task yet.
    assert len(data_files(uri) - before) == 1
    may_look.set()
    for thread in threading.enumerate():
        if thread.name.startswith("lance clean-up"):
            thread.join()
    assert data_files(uri) == before


def test_an_abort_after_a_commit_keeps_its_files(uri: str) -> None:
    writer = job(uri)
    messages = [travelled(writer).write(iter([ROWS]))]
    travelled(writer).commit(messages)
    travelled(writer).abort(messages)
    assert lance_spark.open(uri).to_table().num_rows == 20


def test_a_refused_commit_removes_its_files(uri: str) -> None:
    writer = job(uri)
    messages = [travelled(writer).write(iter([ROWS]))]
    lance_spark.write(pa.table({"other": ["x"]}), uri, mode="overwrite")
    before = data_files(uri)
    with pytest.raises(IncompatibleConflictError):
        travelled(writer).commit(messages)
    assert len(before - data_files(uri)) == 1
    assert lance_spark.open(uri).version == 2


def test_files_of_a_commit_that_may_be_there_are_kept(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def never_answers(*_arguments: object) -> None:
        raise CommitStateUnknownError("no answer", table_version=2, transaction="t")

    writer = job(uri)
    messages = [travelled(writer).write(iter([ROWS]))]
    before = data_files(uri)
    monkeypatch.setattr(plain_target, "commit_planned", never_answers)
    with pytest.raises(LanceError):
        travelled(writer).commit(messages)
    travelled(writer).abort(messages)
    assert data_files(uri) == before


def test_a_second_attempt_sweeps_after_the_first(uri: str) -> None:
    writer = job(uri)
    travelled(writer).write(iter([ROWS]))  # Killed after it had written.
    message = travelled(writer).write(iter([ROWS]))
    assert isinstance(message, TaskResult)
    second_attempt = replace(message, attempt=1)
    travelled(writer).commit([second_attempt])
    assert lance_spark.open(uri).count_rows() == 20
    assert len(data_files(uri)) == 2


def test_new_columns_that_differ_in_case_only(uri: str) -> None:
    options = WriteOptions.parse({"path": uri, "mergeSchema": "true"})
    columns = StructType([StructField("id", LongType()), StructField("ID", LongType())])
    with pytest.raises(InvalidInputError, match="columns 'id' and 'ID', which differ in case only"):
        LanceWriter(options, columns, overwrite=False)
    with pytest.raises(InvalidInputError, match="column 'ID' would come beside 'id'"):
        LanceWriter(options, StructType([StructField("ID", LongType())]), overwrite=False)
    with pytest.raises(InvalidInputError, match="several columns 'id'"):
        LanceWriter(options, StructType([StructField("id", LongType())] * 2), overwrite=False)
    LanceWriter(options, StructType([*SCHEMA.fields, StructField("other", LongType())]), overwrite=False)
