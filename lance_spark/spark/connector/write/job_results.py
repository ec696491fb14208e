"""Jobs, blobs, results and metrics of a write, DELETE, UPDATE or MERGE on the driver."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lance_spark.spark.blobs.references import BlobInputs, decoded_secret
from lance_spark.spark.connector.channel.handles import TableHandle
from lance_spark.spark.connector.channel.registry import Session
from lance_spark.spark.jobs.task_result import TaskResult
from lance_spark.spark.jobs.write_job import WriteJob
from lance_spark.storage import open_store
from lance_spark.storage.paths import absolute_uri
from lance_spark.table.base_places import options_of


def pickle_job(job: WriteJob, handle: TableHandle) -> bytes:
    """A job for its commit, with the table that it writes to, by whose name errors then call it."""
    return pickle.dumps((handle, job))


def unpickle_job(attachment: bytes) -> WriteJob:
    """The job of `pickle_job`, from this very statement."""
    pickled: tuple[TableHandle, WriteJob] = pickle.loads(attachment)
    return pickled[1]


def unpickle_results(attachments: Iterable[bytes]) -> list[TaskResult]:
    """Task results of this very statement; tasks without rows may have returned none."""
    return [pickle.loads(attachment) for attachment in attachments if attachment]


@dataclass(frozen=True, slots=True)
class Written:
    """The numbers for Spark's UI, by the names of its metrics."""

    metrics: Mapping[str, int]


def counts_of(results: Sequence[TaskResult]) -> dict[str, int]:
    """The numbers of what the tasks wrote."""
    files = [file for result in results for file in result.files]
    return {
        "rows_written": sum(result.num_rows for result in results),
        "files_written": len(files),
        "bytes_written": sum(file.size_bytes or 0 for file in files),
    }


def blob_inputs(session: Session, sources: Sequence[TableHandle]) -> BlobInputs:
    """The secrets of the session, and the storage options of the tables `sources` that have some."""
    options = {
        absolute_uri(open_store(handle.uri, options_of(handle.storage_options)).uri): dict(handle.storage_options)
        for handle in sources
        if handle.storage_options
    }
    return BlobInputs(decoded_secret(session.blob_mark), decoded_secret(session.blob_key), options)
