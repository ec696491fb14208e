"""Rows that replace those with the same key: tasks write the new rows and report all keys, the driver commits once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.errors import InvalidInputError
from lance_spark.expr.evaluate import evaluate
from lance_spark.expr.nodes import Expr
from lance_spark.spark.jobs.job import Job, Version
from lance_spark.spark.jobs.task_result import TaskResult
from lance_spark.spark.jobs.write_job import WriteJob
from lance_spark.spark.types.values import from_spark_batch
from lance_spark.table.row_level.key_index import KeyIndex
from lance_spark.table.row_level.row_writer import WrittenSplit
from lance_spark.table.row_level.upsert import replace_keys


@dataclass(frozen=True, slots=True)
class UpsertResult(TaskResult):
    """Result of one task of an upsert.

    Attributes:
        written_keys, deleted_keys: the key columns of its new rows, and of those that only delete, as Arrow streams.
    """

    written_keys: bytes = b""
    deleted_keys: bytes = b""


@dataclass(frozen=True)
class UpsertJob(Job):
    """An upsert. All rows of a key must come to one task.

    Attributes:
        append: writes the new rows; commits them if there is no table yet.
        keys: the key columns, as the table has them.
        delete_when: rows for which it is true delete the row of their key.
        sequence_by: of several rows with one key the one with the greatest value counts; None refuses such rows.
    """

    append: WriteJob
    keys: pa.Schema
    delete_when: Expr | None = None
    sequence_by: str | None = None

    def write(self, batches: Iterable[pa.RecordBatch]) -> TaskResult:
        read = [batch for batch in batches if batch.num_rows]
        if not read:
            return self.append.write([])
        (rows,) = pa.Table.from_batches(read).combine_chunks().to_batches()
        rows = self._latest(rows)
        is_deleted = self._is_deleted(rows)
        new = rows.filter(pc.invert(is_deleted))
        result = self.append.write([new] if new.num_rows else [])
        return UpsertResult(
            result.written,
            result.deleted,
            result.attempt,
            written_keys=_stream(self._keys_of(new)),
            deleted_keys=_stream(self._keys_of(rows.filter(is_deleted))),
        )

    def _latest(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """One row for each key."""
        keys = self._keys_of(rows)
        for name, column in zip(keys.column_names, keys.columns, strict=True):
            if column.null_count:
                raise InvalidInputError(f"a row has NULL in the key column {name!r}; leave such rows out of the stream")
        index = KeyIndex([column.combine_chunks() for column in keys.columns], keys.column_names)
        if index.num_keys == rows.num_rows:
            return rows
        if self.sequence_by is None:
            raise _ambiguous(keys, index, "set the option sequence_by to a column that orders them")
        column = rows.column(self.sequence_by)
        if column.null_count:
            raise InvalidInputError(f"a row has NULL in {self.sequence_by!r}, the column that orders rows of one key")
        places = pc.rank(column, sort_keys="ascending", tiebreaker="min").to_numpy()
        order = np.lexsort((places, index.keys))
        is_last = np.append(index.keys[order[1:]] != index.keys[order[:-1]], True)
        is_tie = ~is_last[:-1] & is_last[1:] & (places[order[1:]] == places[order[:-1]])
        if is_tie.any():
            raise _ambiguous(keys, index, f"their values of {self.sequence_by} are equal")
        return rows.take(pa.array(np.sort(order[is_last])))

    def _is_deleted(self, rows: pa.RecordBatch) -> pa.Array:
        if self.delete_when is None:
            return pa.array(np.zeros(rows.num_rows, np.bool_))
        return pc.fill_null(evaluate(self.delete_when, rows), False)

    def _keys_of(self, rows: pa.RecordBatch) -> pa.Table:
        return pa.Table.from_batches([from_spark_batch(rows, self.keys)])

    def commit(self, results: Sequence[TaskResult]) -> Version | None:
        """The version with the changes; None if there are none. Raises as `replace_keys`."""
        written = self._collected(item.written_keys for item in results if isinstance(item, UpsertResult))
        deleted = self._collected(item.deleted_keys for item in results if isinstance(item, UpsertResult))
        keys = pa.concat_tables([written, deleted])
        if not keys.num_rows:
            return None
        index = KeyIndex([column.combine_chunks() for column in keys.columns], keys.column_names)
        if index.num_keys != keys.num_rows:
            self.abort(results, all_tasks_finished=False)
            raise _ambiguous(keys, index, "they came to several tasks")
        if self.target.base_version is None:
            return self.append.commit(results)

        def commit(files: Sequence[WrittenSplit]) -> Version:
            version: Version = replace_keys(self.target, keys, files, written, self.commit_options)
            return version

        return self._run_commit(results, commit)

    def _collected(self, streams: Iterable[bytes]) -> pa.Table:
        tables = [pa.ipc.open_stream(stream).read_all() for stream in streams]
        return pa.concat_tables([self.keys.empty_table(), *tables])


def _stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _ambiguous(keys: pa.Table, index: KeyIndex, remedy: str) -> InvalidInputError:
    row = index.first_rows()[np.flatnonzero(index.counts() > 1)[0]]
    key = ", ".join(f"{name} = {keys.column(name)[int(row)].as_py()!r}" for name in keys.column_names)
    return InvalidInputError(f"several rows of one batch of the stream have the key {key}: {remedy}")
