"""Writing from Spark tasks: each task writes data files under names of its own, the driver commits them all at once.

A file that no commit names is invisible. A task removes its files when it fails; what tasks left that were killed, or
whose second attempt succeeded, carries the job's name and is removed when the job ends.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.pandas.types import to_arrow_schema as spark_to_arrow_schema
from pyspark.sql.types import StructType

from lance_spark.errors import CommitStateUnknownError, LanceError
from lance_spark.schema.arrow import to_arrow_schema
from lance_spark.spark.messages import LanceCommitMessage
from lance_spark.spark.options import WriteOptions
from lance_spark.spark.types import from_spark_batch, table_types
from lance_spark.table.fragment import DataFragment
from lance_spark.table.location import TableLocation
from lance_spark.table.manifest import Manifest
from lance_spark.table.paths import new_job
from lance_spark.table.row_source import RowSource
from lance_spark.table.save import APPEND, OVERWRITE, CommitOptions, commit_planned, plan_write
from lance_spark.table.write import FileLimits, remove_job_files, write_fragments

_ABORT_LOOKS = 6
_ABORT_WAIT = 0.5


class LanceWriter(DataSourceArrowWriter):
    """One write job.

    An append to a path without a table creates it, because Spark offers no other mode for it to Python data sources.

    Raises:
        InvalidInputError: `schema` does not fit the table.
    """

    def __init__(self, options: WriteOptions, schema: StructType, overwrite: bool) -> None:
        self._job = new_job()
        self._mode = OVERWRITE if overwrite else APPEND
        self._location = TableLocation(options.path, options.storage_options, branch=options.branch)
        self._limits = FileLimits(options.max_rows_per_file, options.max_bytes_per_file)
        self._commit_options = CommitOptions(
            message=options.commit_message, stable_row_ids=options.enable_stable_row_ids
        )
        base = self._location.latest()
        self._table_types = table_types(
            spark_to_arrow_schema(schema, timezone="UTC"),
            None if base is None else to_arrow_schema(base.schema),
            options.column_properties,
        )
        source = RowSource(self._table_types, iter(()))
        plan = plan_write(base, source, mode=self._mode, file_format_version=options.file_format_version)
        self._base_version = None if base is None else base.version
        # Tasks get this object too; a manifest would be a burden to them.
        self._plan = replace(plan, base=None)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        fragments = write_fragments(
            (from_spark_batch(batch, self._table_types) for batch in iterator),
            self._location.store,
            self._plan.schema,
            file_version=self._plan.file_version,
            limits=self._limits,
            convert=self._plan.conform,
            job=self._job,
        )
        task = TaskContext.get()
        return LanceCommitMessage(
            tuple(fragment.to_bytes() for fragment in fragments), 0 if task is None else task.attemptNumber()
        )

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        told = [message for message in messages if isinstance(message, LanceCommitMessage)]
        fragments = [DataFragment.from_bytes(fragment) for message in told for fragment in message.fragments]
        base = None if self._base_version is None else self._location.at(self._base_version).manifest
        if fragments or base is None or self._mode == OVERWRITE:
            self._commit(base, fragments)
        if any(message.attempt for message in told):
            remove_job_files(self._location.store, self._job, keep=fragments)

    def _commit(self, base: Manifest | None, fragments: list[DataFragment]) -> None:
        plan = replace(self._plan, base=base)
        try:
            commit_planned(self._location, plan, fragments, self._mode, self._commit_options)
        except CommitStateUnknownError:
            raise  # The version may be there, and then it needs the files.
        except LanceError:
            remove_job_files(self._location.store, self._job)
            raise

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        # Spark also aborts after a commit that failed, and then every task has a message. Whether the files may go was
        # decided by that commit, which alone knows if its version could be there.
        if not any(message is None for message in messages):
            return
        for _ in range(_ABORT_LOOKS):
            # Tasks that Spark is still killing can finish a file after the first look.
            remove_job_files(self._location.store, self._job)
            time.sleep(_ABORT_WAIT)
