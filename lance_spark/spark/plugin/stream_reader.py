"""`spark.readStream.format("lance")` by Spark's Python data source interface: the connector's source in another shape.

Offsets, limits and the work of tasks are those of `spark/connector/streaming/source.py`, so checkpoints are too. Before
Spark 4.2 a Python source does not know where the next batch begins, so that each batch has all new rows.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from lance_spark.errors import UnsupportedFeatureError
from lance_spark.spark.compat import SPARK, SPARK_NAME
from lance_spark.spark.compat.sources import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from lance_spark.spark.connector.channel.handles import TableHandle
from lance_spark.spark.connector.channel.registry import Call, Session
from lance_spark.spark.connector.channel.tasks import messages
from lance_spark.spark.connector.channel.warm_worker import errors_without_traceback, keep_imports
from lance_spark.spark.connector.streaming import source
from lance_spark.spark.connector.streaming.parsed_stream import ParsedStream, StreamRequest, StreamState
from lance_spark.spark.plugin.reader import Snapshot
from lance_spark.spark.streaming.options import SourceOptions
from lance_spark.spark.types.schemas import exchanged_schema

_MAX_ROWS = (1 << 63) - 1
_LIMITS = {
    "max_versions": "maxVersionsPerTrigger",
    "max_files": "maxFilesPerTrigger",
    "max_bytes": "maxBytesPerTrigger",
    "max_rows": "maxRowsPerTrigger",
    "min_rows": "minRowsPerTrigger",
    "max_trigger_delay": "maxTriggerDelay",
}
"""Options that limit batches, by their attributes."""


@dataclass
class StreamPartition(InputPartition):
    """The serialized work of one task."""

    work: bytes


class LanceStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the rows, or the changes, that come to a plain table or a branch.

    Args:
        snapshot: the version that the DataFrame was made of.
        options: the query's options.
        schema: the columns that the stream returns.

    Raises:
        InvalidInputError: an option is wrong.
        UnsupportedFeatureError: an option needs the connector, or a later Spark.
    """

    def __init__(self, snapshot: Snapshot, options: Mapping[str, str], schema: StructType) -> None:
        location = snapshot.location
        handle = TableHandle(
            snapshot.options.path,
            location.branch,
            snapshot.version,
            snapshot.manifest.timestamp_nanos,
            snapshot.options.storage_options,
        )
        self._call = Call(Session(parallelism=os.cpu_count() or 1))
        stream = ParsedStream.begin(StreamRequest(handle, schema, dict(options)))
        self._state: StreamState | None = stream.state
        self._task = stream.task(self._call, exchanged_schema(schema))
        if stream.options.hold_versions:
            raise UnsupportedFeatureError(
                "option holdVersions needs the connector: Spark does not tell Python sources the query's id; tag the "
                "version that the query needs",
                feature="holdVersions",
            )
        if SPARK < (4, 2):
            _refuse_limits(stream.options)
        self._poll_interval = stream.options.poll_interval
        self._ending: str | None = None
        self._latest: str | None = None
        self._idle_at: str | None = None
        self._idle_since = self._last_batch = monotonic()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_state": None}

    @property
    def _stream(self) -> StreamState:
        assert self._state is not None, "planned on the driver only"
        return self._state

    def initialOffset(self) -> dict[str, Any]:
        return _entries(source.initial(source.StateRequest(self._stream), self._call).offset)

    def prepareForTriggerAvailableNow(self) -> None:
        self._ending = source.newest(source.StateRequest(self._stream), self._call).offset

    def getDefaultReadLimit(self) -> ReadLimit:
        """A limit that says that those of the options apply; `ReadAllAvailable` says that none does."""
        return ReadMaxRows(_MAX_ROWS)

    def latestOffset(self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None) -> dict[str, Any]:
        """The end of the next batch. Before Spark 4.2 there are no arguments, and it is the newest version."""
        return self._newest() if start is None else self._end_of_batch(start, limit)

    def _newest(self) -> dict[str, Any]:
        newest = self._idle_at
        if newest is None or monotonic() - self._idle_since >= self._poll_interval:
            newest = source.newest(source.StateRequest(self._stream), self._call).offset
            self._idle_at = newest if newest == self._latest else None
            self._latest, self._idle_since = newest, monotonic()
        return _entries(newest)

    def _end_of_batch(self, start: dict[str, Any], limit: ReadLimit | None) -> dict[str, Any]:
        begin = _text(start)
        if begin == self._idle_at and monotonic() - self._idle_since < self._poll_interval:
            return start
        is_limited = not isinstance(limit, ReadAllAvailable)
        waited = int((monotonic() - self._last_batch) * 1000)
        found = source.latest(
            source.LatestRequest(self._stream, begin, self._ending, is_limited, waited_millis=waited), self._call
        )
        self._latest = found.latest
        if found.end == begin:
            self._idle_at, self._idle_since = begin, monotonic()
        else:
            self._last_batch = monotonic()
        return _entries(found.end)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return None if self._latest is None else _entries(self._latest)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        if SPARK < (4, 2):
            self._check_versions(_text(start), _text(end))
        work = source.plan(source.BatchRequest(self._stream, _text(start), _text(end)), self._call).attachments
        return [StreamPartition(item) for item in work]

    def _check_versions(self, start: str, end: str) -> None:
        """Passes if the stream can follow the table from `start` to `end`, which `latestOffset` has not checked.

        Raises:
            IncompatibleConflictError: a version changes what the stream cannot follow.
            NotFoundError: a version that the stream needs was cleaned up.
        """
        reached, last = start, ""
        while reached not in (last, end):
            # A batch ends before a version that cannot be read; the error is that of the batch that begins there.
            last = reached
            reached = source.latest(source.LatestRequest(self._stream, last, end, is_limited=False), self._call).end

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, StreamPartition):
            return  # What Spark makes up for a batch without work.
        with errors_without_traceback():
            yield from self._task(iter([messages([partition.work])]))
        keep_imports()


def _refuse_limits(options: SourceOptions) -> None:
    given = [name for attribute, name in _LIMITS.items() if getattr(options, attribute) is not None]
    if given:
        raise UnsupportedFeatureError(
            f"option {given[0]}: {SPARK_NAME} does not tell Python sources where a batch begins; use the connector, or "
            "Spark 4.2",
            feature=given[0],
        )


def _entries(offset: str) -> dict[str, Any]:
    entries: dict[str, Any] = json.loads(offset)
    return entries


def _text(entries: dict[str, Any]) -> str:
    return json.dumps(entries, sort_keys=True, separators=(",", ":"))
