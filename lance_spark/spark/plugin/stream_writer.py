"""`df.writeStream.format("lance")` by Spark's Python data source interface (docs/design/036-streaming.md).

Spark makes a new writer for the tasks and for the commit of each epoch, and says neither of them which query they are
of. So the results of the tasks carry the job and the query's id, which tasks know.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from lance_spark.errors import EpochCommittedError, UnsupportedFeatureError
from lance_spark.spark.compat.sources import StreamArrowWriter
from lance_spark.spark.connector.channel.warm_worker import errors_without_traceback, keep_imports
from lance_spark.spark.jobs.task_result import TaskResult
from lance_spark.spark.jobs.write_job import WriteJob
from lance_spark.spark.options.options import WriteOptions
from lance_spark.spark.plugin.writer import plan_write, write_options
from lance_spark.spark.streaming.auto_compaction import compact_after_epoch
from lance_spark.spark.streaming.options import SinkOptions
from lance_spark.table.dataset import Dataset
from lance_spark.table.location import TableLocation
from lance_spark.table.maintenance.after_commit import maintain_after
from lance_spark.table.manifests.epoch_mark import EpochMark

_log = logging.getLogger(__name__)

_QUERY_ID = "sql.streaming.queryId"


@dataclass
class EpochResult(WriterCommitMessage):
    """Result of one task of an epoch.

    Attributes:
        job: the job of all tasks of the epoch.
        query_id: Spark's id of the query, which stays over restarts.
    """

    result: TaskResult
    job: WriteJob
    query_id: str


class LanceStreamWriter(StreamArrowWriter):
    """One epoch of a streaming query: each is one commit, whose manifest has the epoch's mark.

    An epoch that the table has already is not committed again, and the files that its tasks have written are removed.

    Args:
        options: the query's options.
        overwrite: whether the rows replace all others (output mode complete).

    Raises:
        InvalidInputError: an option is wrong, or the columns do not fit the table.
        UnsupportedFeatureError: the table is partitioned.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        self._options = SinkOptions.parse(options, options.get("path", ""))
        if self._options.key is not None:
            raise UnsupportedFeatureError(
                "option key: Spark's Python interface does not bring rows of one key to one task; use the connector, "
                "or a merge in foreachBatch",
                feature="update by key without the connector",
            )
        self._write: WriteOptions = write_options(self._options.write)
        self._job = plan_write(self._write, schema, overwrite)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        with errors_without_traceback():
            result = self._job.write(iterator)
        keep_imports()
        context = TaskContext.get()
        query_id = None if context is None else context.getLocalProperty(_QUERY_ID)
        assert query_id is not None, "Spark names the query in each task of an epoch"
        return EpochResult(result, self._job, query_id)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        results = _results(messages)
        if not results:
            return  # An epoch without tasks has no rows, and nobody knows of which query it is.
        first = results[0]
        mark = EpochMark(self._options.app or first.query_id, batchId)
        job = replace(first.job, commit_options=replace(first.job.commit_options, mark=mark))
        try:
            made = job.commit([item.result for item in results])
        except EpochCommittedError:
            _log.info("epoch %d was committed by another run of the query; its files are removed", batchId)
            return
        if made is not None and self._options.auto_compact:
            self._compact()

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Removes the files of an epoch of which a task failed. If none did, the commit was asked for, and may have
        succeeded without a reply: its files stay.
        """
        results = _results(messages)
        if results and None in messages:
            results[0].job.abort([item.result for item in results], all_tasks_finished=False)

    def _compact(self) -> None:
        location = TableLocation(
            self._write.path, self._write.storage_options, branch=self._write.branch, after_commit=maintain_after
        )
        found = location.latest()
        if found is not None:
            compact_after_epoch(Dataset(location, found), self._options.auto_compact_min_files, location.uri)


def _results(messages: Sequence[WriterCommitMessage | None]) -> list[EpochResult]:
    return [message for message in messages if isinstance(message, EpochResult)]
