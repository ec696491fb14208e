"""Write and row-change jobs without a Spark, over plain and partitioned tables: plan, tasks, commit, abort."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

import lance_spark
from lance_spark.errors import (
    CommitStateUnknownError,
    IncompatibleConflictError,
    InvalidInputError,
    LanceError,
    RetryableConflictError,
)
from lance_spark.expr.sql.parse import parse
from lance_spark.partitioned import partitioned_target
from lance_spark.partitioned.save import create_partitioned
from lance_spark.partitioned.table import open_partitioned
from lance_spark.spark.connector.channel.handles import TableHandle
from lance_spark.spark.connector.write.tables import WritableTable, table_of
from lance_spark.spark.jobs.job import Job
from lance_spark.spark.jobs.row_change_job import ChangeKind, RowChangeJob
from lance_spark.spark.jobs.task_result import TaskResult, addresses_of, deleted_rows
from lance_spark.spark.jobs.upsert_job import UpsertJob
from lance_spark.spark.jobs.write_job import WriteJob
from lance_spark.spark.options.options import WriteOptions
from lance_spark.spark.types.schemas import to_spark_schema
from lance_spark.table.reading.scan import Scan
from lance_spark.table.reading.system_columns import ROW_ADDRESS
from lance_spark.table.row_level import plain_target, write_target
from lance_spark.table.row_level.delete import address_scan
from lance_spark.table.row_level.read_conflicts import ReadRows
from lance_spark.table.row_level.write_target import WriteMode
from lance_spark.table.source import Split
from tests.partitioned.fixtures import BY_COUNTRY, SCHEMA, rows
from tests.partitioned.verbs import save_rows

AT = [1, 2, 3]
DE = [4, 5]
MODES_OF_ALL = [WriteMode.TRUNCATE, WriteMode.OVERWRITE]


@dataclass(frozen=True)
class Fixture:
    """A table with the rows 1 to 3 in the partition "at", and 4 and 5 in "de"."""

    uri: str
    partitioned: bool

    def handle(self) -> TableHandle:
        return TableHandle(self.uri, version=self.version(), partitioned=self.partitioned)

    def table(self) -> WritableTable:
        return table_of(self.handle())

    def version(self) -> int:
        return (open_partitioned if self.partitioned else lance_spark.open)(self.uri).version

    def ids(self) -> list[int]:
        found = (open_partitioned if self.partitioned else lance_spark.open)(self.uri)
        return sorted(found.to_table(["id"])["id"].to_pylist())

    def data_files(self) -> set[str]:
        return {str(path) for path in Path(self.uri).rglob("*.lance") if "__manifest" not in path.parts}

    def append(self, table: pa.Table) -> None:
        if self.partitioned:
            save_rows(open_partitioned(self.uri), table)
        else:
            lance_spark.write(table, self.uri, mode="append")

    def write_job(self, mode: WriteMode = WriteMode.APPEND, where: str | None = None) -> WriteJob:
        columns = to_spark_schema(SCHEMA)
        return self.table().plan_write(columns, mode, options(self.uri), None if where is None else parse(where))

    def change_job(self, *, writes: bool = True) -> RowChangeJob:
        return self.table().plan_changes(to_spark_schema(SCHEMA) if writes else StructType(), options(self.uri))

    def find(self, where: str) -> list[tuple[tuple[object, ...], dict[str, object]]]:
        """For each row its identity and its values."""
        found = []
        for split in self.handle().source().splits():
            scan = address_scan(split.table, split.manifest, where, SCHEMA.names)
            for batch in _scanned(scan, split):
                for row in batch.to_pylist():
                    address = row.pop(ROW_ADDRESS)
                    found.append(((address,) if split.key is None else (split.key, address), row))
        return found


@pytest.fixture(params=["plain", "partitioned"])
def fixture(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fixture:
    monkeypatch.setattr(write_target, "_LATE_WAIT", 0.0)
    uri, first = str(tmp_path / "t"), pa.concat_tables([rows(*AT), rows(*DE, country="de")])
    if request.param == "plain":
        lance_spark.write(first, uri)
    else:
        save_rows(create_partitioned(uri, SCHEMA, BY_COUNTRY), first)
    return Fixture(uri, request.param == "partitioned")


@pytest.fixture
def partitioned(tmp_path: Path) -> Fixture:
    uri = str(tmp_path / "p")
    save_rows(create_partitioned(uri, SCHEMA, BY_COUNTRY), pa.concat_tables([rows(*AT), rows(*DE, country="de")]))
    return Fixture(uri, True)


def options(uri: str) -> WriteOptions:
    return WriteOptions.parse({"path": uri})


def run(job: Job, *tables: pa.Table | pa.RecordBatch) -> list[TaskResult]:
    """One task for each table; job and results travel."""
    return [pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(job)).write(_batches(item)))) for item in tables]


def _batches(table: pa.Table | pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    return iter(table.to_batches() if isinstance(table, pa.Table) else [table])


def _scanned(scan: Scan, split: Split) -> list[pa.RecordBatch]:
    own = scan.of_version(split.bases, stable_row_ids=split.manifest.has_stable_row_ids)
    return [batch for fragment in split.manifest.fragments for batch in own.read([fragment])]


def join_clean_up() -> None:
    for thread in threading.enumerate():
        if thread.name.startswith("lance clean-up"):
            thread.join()


def changes(
    ids: Sequence[tuple[object, ...]], kinds: Sequence[ChangeKind], new: Sequence[dict[str, object]] | None
) -> pa.RecordBatch:
    """Changes as the connector hands them to tasks; `new` has a row for each change."""
    names = [ROW_ADDRESS] if len(ids[0]) == 1 else ["_partition", ROW_ADDRESS]
    id_type = pa.struct([(name, pa.int64() if name == ROW_ADDRESS else pa.string()) for name in names])
    id_column = pa.array([dict(zip(names, item, strict=True)) for item in ids], id_type)
    row_column = pa.array([{}] * len(ids), pa.struct([])) if new is None else pa.array(new, pa.struct(list(SCHEMA)))
    return pa.RecordBatch.from_arrays(
        [pa.array(np.array(kinds, np.int8)), id_column, row_column], names=["kind", "id", "row"]
    )


def test_append_adds_the_rows_of_all_tasks(fixture: Fixture) -> None:
    job, before = fixture.write_job(), fixture.version()
    made = job.commit(run(job, rows(6), rows(7, country="fr")))
    assert made is not None
    assert made.version == before + 1
    assert fixture.ids() == [*AT, *DE, 6, 7]


def test_append_without_rows_makes_no_version(fixture: Fixture) -> None:
    job, before = fixture.write_job(), fixture.version()
    assert job.commit(run(job, SCHEMA.empty_table())) is None
    assert job.commit([]) is None
    assert fixture.version() == before


@pytest.mark.parametrize("mode", MODES_OF_ALL)
def test_overwrite_replaces_all_rows(fixture: Fixture, mode: WriteMode) -> None:
    job = fixture.write_job(mode)
    job.commit(run(job, rows(6)))
    assert fixture.ids() == [6]


def test_truncate_of_an_empty_table_makes_no_version(fixture: Fixture) -> None:
    assert fixture.table().truncate()
    before = fixture.version()
    assert not fixture.table().truncate()
    assert (fixture.version(), fixture.ids()) == (before, [])


def test_dynamic_overwrite_replaces_partitions_that_get_rows(partitioned: Fixture) -> None:
    job = partitioned.write_job(WriteMode.OVERWRITE_PARTITIONS)
    job.commit(run(job, rows(6)))
    assert partitioned.ids() == [*DE, 6]


@pytest.mark.parametrize("where", ["id >= 3", "country = 'de'", "true", "id > 9"])
@pytest.mark.parametrize("searched", [False, True])
def test_replace_where_with_rows_found_by_commit_or_tasks(fixture: Fixture, where: str, searched: bool) -> None:
    kept = [row["id"] for _, row in fixture.find(f"NOT ({where})")]
    job = fixture.write_job(WriteMode.REPLACE_WHERE, where)
    results, found = run(job, rows(6), rows(7, country="de")), None
    if searched:
        search = job.target.search(parse(where))
        assert search.scan is not None or not search.splits
        found = deleted_rows(
            TaskResult(deleted={split.key: addresses_of(_scanned(search.scan, split))})
            for split in search.splits
            if search.scan is not None
        )
    job.commit(results, matching=found)
    assert fixture.ids() == sorted([*kept, 6, 7])


def test_replace_where_after_a_conflict_doubles_no_row(fixture: Fixture) -> None:
    job = fixture.write_job(WriteMode.REPLACE_WHERE, "id >= 3")
    results = run(job, rows(9))
    other = fixture.change_job(writes=False)
    [(key, _)] = fixture.find("id = 4")
    other.commit(run(other, changes([key], [ChangeKind.DELETE], None)), {})
    job.commit(results)
    assert fixture.ids() == [1, 2, 9]


def upsert(fixture: Fixture, **given: object) -> UpsertJob:
    append = fixture.write_job()
    keys = pa.schema([SCHEMA.field("id")])
    return UpsertJob(append.target, append.table_types, append.commit_options, append, keys, **given)  # type: ignore[arg-type]


def test_upsert_replaces_rows_in_any_partition(fixture: Fixture) -> None:
    job = upsert(fixture, delete_when=parse("x > 5"))
    results = run(job, pa.concat_tables([rows(1, country="de"), rows(8), rows(4, x=9.0)]), rows(9), rows())
    version = fixture.version()
    job.commit(results)
    assert fixture.ids() == [1, 2, 3, 5, 8, 9]
    assert fixture.version() == version + 1
    assert {row["id"]: row["country"] for _, row in fixture.find("id IN (1, 8)")} == {1: "de", 8: "at"}


@pytest.mark.parametrize("change", ["adds a key", "changes a row", "deletes a row"])
def test_upsert_after_other_writers_doubles_no_key(fixture: Fixture, change: str) -> None:
    job = upsert(fixture)
    results = run(job, pa.concat_tables([rows(1, x=7.0), rows(8, x=7.0)]))
    table = lance_spark.open(fixture.uri)
    if change == "adds a key":
        table.append(rows(8))
    elif change == "changes a row":
        table.update({"x": "1"}, "id = 1")
    else:
        table.delete("id = 1")
    job.commit(results)
    assert fixture.ids() == [1, 2, 3, 4, 5, 8]
    assert [row["x"] for _, row in fixture.find("id IN (1, 8)")] == [7.0, 7.0]


def test_upsert_after_other_columns_removes_its_files(fixture: Fixture) -> None:
    job, before = upsert(fixture), fixture.data_files()
    results = run(job, rows(1))
    lance_spark.open(fixture.uri).add_columns(pa.field("more", pa.int8()))
    with pytest.raises(IncompatibleConflictError, match="columns"):
        job.commit(results)
    assert fixture.data_files() == before


def test_upsert_of_one_key_by_two_tasks_is_refused(fixture: Fixture) -> None:
    job, before = upsert(fixture), fixture.data_files()
    results = run(job, rows(6), rows(6))
    with pytest.raises(InvalidInputError, match="id = 6"):
        job.commit(results)
    join_clean_up()
    assert fixture.data_files() == before


def test_append_that_read_rows_conflicts_with_their_change(fixture: Fixture) -> None:
    job, version, before = fixture.write_job(), fixture.version(), fixture.data_files()
    results = run(job, rows(6))
    ours = fixture.data_files() - before
    fixture.append(rows(7))
    with pytest.raises(RetryableConflictError):
        job.commit(results, reads=[ReadRows(version, parse("id = 7"))])
    assert fixture.ids() == [*AT, *DE, 7]
    assert len(ours) == 1
    assert not ours & fixture.data_files(), "the files of the refused append are removed"


def test_statement_that_read_two_versions_conflicts_although_it_changes_nothing(fixture: Fixture) -> None:
    job, first = fixture.change_job(writes=False), fixture.version()
    fixture.append(rows(7))
    second = fixture.version()
    with pytest.raises(RetryableConflictError, match="statement has read"):
        job.commit([], {}, reads=[ReadRows(first, None), ReadRows(second, None)])
    with pytest.raises(RetryableConflictError, match="statement has read"):
        # Another scan is older than the version that the statement changes.
        fixture.change_job(writes=False).commit([], {}, reads=[ReadRows(first, parse("id > 6"))])
    unchanged = [ReadRows(first, parse("id < 6")), ReadRows(second, None)]
    assert job.commit([], {}, reads=unchanged) is None
    assert fixture.version() == second


def test_failed_task_leaves_no_file(fixture: Fixture) -> None:
    job, before = fixture.write_job(), fixture.data_files()

    def batches() -> Iterator[pa.RecordBatch]:
        yield from rows(6).to_batches()
        raise InvalidInputError("a row that cannot be computed")

    with pytest.raises(InvalidInputError):
        job.write(batches())
    assert fixture.data_files() == before


def test_abort_after_failed_task_removes_files_of_the_others(fixture: Fixture) -> None:
    job, other, before = fixture.write_job(), fixture.write_job(), fixture.data_files()
    results = run(job, rows(6))
    run(job, rows(7))  # Killed before it could return its result.
    [kept] = run(other, rows(8))
    job.abort(results, all_tasks_finished=False)
    join_clean_up()
    assert len(fixture.data_files() - before) == 1
    other.commit([kept])
    assert fixture.ids() == [*AT, *DE, 8]


def test_late_file_of_a_killed_task_is_removed_too(fixture: Fixture, monkeypatch: pytest.MonkeyPatch) -> None:
    may_look = threading.Event()
    monkeypatch.setattr(write_target, "time", SimpleNamespace(sleep=lambda _seconds: may_look.wait(60)))
    job, before = fixture.write_job(), fixture.data_files()
    job.abort(run(job, rows(6)), all_tasks_finished=False)
    run(job, rows(7))  # Spark has not killed this task yet.
    may_look.set()
    join_clean_up()
    assert fixture.data_files() == before


def test_abort_after_all_tasks_leaves_the_decision_to_the_commit(fixture: Fixture) -> None:
    job = fixture.write_job()
    results = run(job, rows(6))
    job.commit(results)
    job.abort(results, all_tasks_finished=True)
    assert fixture.ids() == [*AT, *DE, 6]


@pytest.mark.parametrize("verb", ["append", "replace", "change"])
def test_unknown_commit_keeps_its_files(fixture: Fixture, monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    def never_answers(*_arguments: object, **_named: object) -> None:
        raise CommitStateUnknownError("no answer", table_version=2, transaction="t")

    for module, names in (
        (plain_target, ("commit_planned", "commit_row_changes")),
        (partitioned_target, ("commit_delta",)),
    ):
        for name in names:
            monkeypatch.setattr(module, name, never_answers)
    job: Job
    if verb == "change":
        job = fixture.change_job()
        [(key, row)] = fixture.find("id = 1")
        results = run(job, changes([key], [ChangeKind.UPDATE], [{**row, "x": 2.0}]))
    else:
        job = fixture.write_job(*((WriteMode.REPLACE_WHERE, "id = 1") if verb == "replace" else ()))
        results = run(job, rows(6))
    results = [replace(result, attempt=1) for result in results]
    before = fixture.data_files()
    with pytest.raises(CommitStateUnknownError):
        job.commit(results, {}) if isinstance(job, RowChangeJob) else job.commit(results)
    job.abort(results, all_tasks_finished=True)
    join_clean_up()
    assert fixture.data_files() == before


def test_failed_commit_removes_its_files(fixture: Fixture, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_arguments: object, **_named: object) -> None:
        raise LanceError("no")

    monkeypatch.setattr(plain_target, "commit_planned", fails)
    monkeypatch.setattr(partitioned_target, "commit_delta", fails)
    job, before = fixture.write_job(), fixture.data_files()
    with pytest.raises(LanceError, match="no"):
        job.commit(run(job, rows(6)))
    assert fixture.data_files() == before
    assert fixture.ids() == [*AT, *DE]


def test_rows_of_a_task_that_ran_twice_come_once(fixture: Fixture) -> None:
    job, before = fixture.write_job(), fixture.data_files()
    run(job, rows(6))  # The first attempt was killed after it had written.
    [result] = run(job, rows(6))
    job.commit([replace(result, attempt=1)])
    assert fixture.ids() == [*AT, *DE, 6]
    assert len(fixture.data_files() - before) == 1


def test_row_changes_are_one_version(fixture: Fixture) -> None:
    job, before = fixture.change_job(), fixture.version()
    found = {row["id"]: (key, row) for key, row in fixture.find("id IN (1, 2, 4)")}
    moved = {**found[4][1], "country": "at", "x": 4.0}
    kinds = [ChangeKind.DELETE, ChangeKind.UPDATE, ChangeKind.UPDATE, ChangeKind.INSERT]
    new = [found[1][1], {**found[2][1], "x": 2.0}, moved, rows(6).to_pylist()[0]]
    results = run(job, changes([found[1][0], found[2][0], found[4][0], found[1][0]], kinds, new))
    made = job.commit(results, {})
    assert made is not None
    assert (made.version, job.others_commits(made)) == (before + 1, 0)
    assert fixture.ids() == [2, 3, 4, 5, 6]
    assert [row["x"] for _, row in fixture.find("id IN (2, 4)")] == [2.0, 4.0]


def test_deletes_without_new_rows(fixture: Fixture) -> None:
    job = fixture.change_job(writes=False)
    keys = [key for key, _ in fixture.find("id IN (1, 5)")]
    # MERGE deletes a row twice that matches twice.
    results = run(
        job, changes([*keys, keys[0]], [ChangeKind.DELETE] * 3, None), changes(keys, [ChangeKind.DELETE] * 2, None)
    )
    assert job.commit(results, {}) is not None
    assert fixture.ids() == [2, 3, 4]


def test_no_changes_make_no_version(fixture: Fixture) -> None:
    job, before = fixture.change_job(), fixture.version()
    assert job.commit([], {}) is None
    assert fixture.version() == before


def test_commits_of_others_are_counted(fixture: Fixture) -> None:
    job, changed = fixture.write_job(), fixture.change_job()
    [(key, row)] = fixture.find("id = 4")
    results = run(job, rows(6))
    updated = run(changed, changes([key], [ChangeKind.UPDATE], [{**row, "x": 2.0}]))
    fixture.append(rows(7, country="fr"))
    assert job.others_commits(job.commit(results)) == 1
    assert changed.others_commits(changed.commit(updated, {})) == 2
    assert fixture.ids() == [*AT, *DE, 6, 7]


def test_changes_of_rows_that_another_writer_changed_conflict(fixture: Fixture) -> None:
    first, second, before = fixture.change_job(), fixture.change_job(), fixture.ids()
    [(key, row)] = fixture.find("id = 4")
    batch = changes([key], [ChangeKind.UPDATE], [{**row, "x": 2.0}])
    one, two = run(first, batch), run(second, batch)
    first.commit(one, {})
    files = fixture.data_files()
    with pytest.raises(RetryableConflictError):
        second.commit(two, {})
    assert len(files - fixture.data_files()) == 1, "its file is removed"
    assert fixture.ids() == before


def test_newest_version_of_the_handle(fixture: Fixture) -> None:
    table = fixture.table()
    fixture.append(rows(6))
    assert table.newest().version == fixture.version()
