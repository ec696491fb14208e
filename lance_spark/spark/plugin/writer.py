"""Writing by Spark's Python data source interface; what is written, and how it is committed, is in `spark/jobs`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from secrets import token_bytes

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from lance_spark.errors import InvalidInputError, UnsupportedFeatureError
from lance_spark.partitioned.table import is_partitioned_table
from lance_spark.schema.field import Field
from lance_spark.spark.blobs.references import BlobInputs
from lance_spark.spark.column_names import check_distinct
from lance_spark.spark.connector.channel.warm_worker import errors_without_traceback, keep_imports
from lance_spark.spark.jobs.task_result import TaskResult
from lance_spark.spark.jobs.write_job import WriteJob
from lance_spark.spark.jobs.write_plans import plan_write as plan_write_to
from lance_spark.spark.options.options import WriteOptions
from lance_spark.table.location import TableLocation
from lance_spark.table.maintenance.after_commit import maintain_after
from lance_spark.table.row_level.plain_target import PlainTarget
from lance_spark.table.row_level.write_target import WriteMode


class LanceWriter(DataSourceArrowWriter):
    """One write job.

    An append to a path without a table creates it, because Spark offers no other mode for it to Python data sources.

    Raises:
        InvalidInputError: `schema` does not fit the table.
        UnsupportedFeatureError: the table is partitioned.
    """

    def __init__(self, options: WriteOptions, schema: StructType, overwrite: bool) -> None:
        self._job = plan_write(options, schema, overwrite)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        with errors_without_traceback():
            result = self._job.write(iterator)
        keep_imports()
        return result

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        self._job.commit(_results(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        all_tasks_finished = not any(message is None for message in messages)
        self._job.abort(_results(messages), all_tasks_finished=all_tasks_finished)


def _results(messages: Sequence[WriterCommitMessage | None]) -> list[TaskResult]:
    return [message for message in messages if isinstance(message, TaskResult)]


def _check_cases(siblings: Sequence[Field]) -> None:
    """Refuses new columns beside others that Spark, which does not tell us how it compares names, may take for them."""
    known: dict[str, str] = {}
    for field in siblings:
        other = known.setdefault(field.name.lower(), field.name)
        if other != field.name:
            raise InvalidInputError(
                f"column {field.name!r} would come beside {other!r}, from which it differs in case only; rename it"
            )
        _check_cases(field.children)


def write_options(options: Mapping[str, str]) -> WriteOptions:
    """The options of a write by the plug-in.

    Raises:
        InvalidInputError: one is wrong, or has no meaning here.
    """
    parsed = WriteOptions.parse(options)
    parsed.check_without_partitions()
    parsed.log_without_effect()
    return parsed


def plan_write(options: WriteOptions, schema: StructType, overwrite: bool) -> WriteJob:
    """The job that writes rows of `schema`. Raises as `LanceWriter`."""
    location = TableLocation(options.path, options.storage_options, branch=options.branch, after_commit=maintain_after)
    mode = WriteMode.OVERWRITE if overwrite else WriteMode.APPEND
    base = location.latest()
    # Spark does not tell us how it compares names; names that the table has are taken as they are.
    known = set() if base is None else set(base.schema.names())
    check_distinct(schema, case_sensitive=known.issuperset(schema.fieldNames()))
    if base is None and is_partitioned_table(options.path, options.storage_options):
        raise UnsupportedFeatureError(
            f"{options.path} is a partitioned table, which the plug-in does not write; use the connector",
            feature="partitioned tables in the plug-in",
        )
    job = plan_write_to(PlainTarget.of(location, base), schema, mode, options, from_query=True)
    target = job.target
    if target.identity:
        raise UnsupportedFeatureError(
            f"{options.path} has an identity column, whose values the plug-in cannot choose; use the connector",
            feature="identity columns in the plug-in",
        )
    if isinstance(target, PlainTarget) and target.evolved is not None:
        _check_cases(target.evolved.fields)
    # Nobody signs with this key: without a planner tasks cannot tell a description from data that looks like one.
    return replace(job, blobs=BlobInputs(key=token_bytes()))
