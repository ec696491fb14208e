"""Searches the rows that a write replaces: on the driver, or in tasks if that is too much for one process to read.

The job starts when the new rows are written and before the commit, which gets its results. It
looks at the version that the write builds on, so it conflicts with exactly the commits that a search on the
driver would conflict with. If other writers have changed the rows, the driver searches the changed fragments again.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_spark.expr.literals import Literal
from lance_spark.expr.nodes import Expr, quote_name, referenced_columns
from lance_spark.schema.projection import project
from lance_spark.spark.connector.channel.tasks import MESSAGE_TYPE, ReadWork, SplitWork, bound_parts, command, messages
from lance_spark.spark.jobs.task_result import TaskResult, addresses_of
from lance_spark.spark.jobs.write_job import WriteJob
from lance_spark.spark.options.options import DEFAULT_PARTITION_BYTES
from lance_spark.spark.partitions import SizedRows, SizedSplit, packed_neighbours, plan_partitions, task_bytes
from lance_spark.spark.projected_sizes import ProjectedSizes
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.operations.manifest_builder import data_format
from lance_spark.table.reading.blobs.blob_columns import with_blob_descriptors
from lance_spark.table.reading.scan import Scan
from lance_spark.table.source import Split


@dataclass(frozen=True)
class SearchTask:
    """Finds the rows that the filter of `scan` keeps: one pickled `TaskResult` for each split in the work.

    Attributes:
        scan: for the address of each row; it is bound to no split.
    """

    scan: Scan

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        results = (
            TaskResult(deleted={part.key: addresses_of(part.read(scan))})
            for part, scan in bound_parts(self.scan, batches)
        )
        yield messages(map(pickle.dumps, results))


def search_job(job: WriteJob, parallelism: int) -> tuple[bytes, ...]:
    """The function of the tasks that search for the rows which `job` replaces, then the work of each.

    Nothing if there are none to search for, or if the driver finds them sooner than a job would have started.
    """
    if job.replaced is None:
        return ()
    search = job.target.search(job.replaced)
    if search.scan is None or is_cheap_to_search(search.splits, job.replaced):
        return ()
    work = _work(search.splits, job.replaced, parallelism)
    return (command(SearchTask(search.scan), MESSAGE_TYPE), *(ReadWork(tuple(parts)).to_bytes() for parts in work))


def _work(splits: Sequence[Split], replaced: Expr, parallelism: int) -> list[list[SplitWork]]:
    """The work of each task."""
    sized = [_sized(split, replaced) for split in splits]
    target = task_bytes(DEFAULT_PARTITION_BYTES, sum(rows.total_bytes for rows in sized), parallelism)
    work, sizes = [], []
    for split, rows in zip(splits, sized, strict=True):
        parts = plan_partitions(rows, target)
        for part in parts:
            work.append(SplitWork.of(split, part.slices()))
            # To open a partition takes time, however few its rows are.
            sizes.append(max(rows.total_bytes / len(parts), target / CHEAP_SPLITS))
    return [[work[number] for number in pack] for pack in packed_neighbours(sizes, target)]


def _sized(split: Split, replaced: Expr) -> SizedRows:
    fragments = split.manifest.fragments
    sized = SizedSplit(fragments, split.bases, sizes_to_match(split.manifest, replaced))
    return sized.rows(0, len(fragments))


CHEAP_BYTES = 256 << 20
"""So much is read by one process."""

CHEAP_SPLITS = 64
"""The most partitions that one process opens and searches."""

_UNKNOWN_BYTES = 16 << 20
"""Assumed of a file whose size the manifest does not have."""


def is_cheap_to_search(splits: Sequence[Split], filter: Expr) -> bool:
    """Whether one process searches `splits` for the rows of `filter`."""
    if len(splits) > CHEAP_SPLITS:
        return False
    return sum(bytes_to_match(split.manifest, filter) for split in splits) <= CHEAP_BYTES


def bytes_to_match(base: Manifest, filter: Expr) -> int:
    """About how many bytes have to be read to find the rows of `filter`."""
    if isinstance(filter, Literal):
        return 0
    sizes = sizes_to_match(base, filter).of(base.fragments.sizes)
    return int(np.where(np.isnan(sizes), _UNKNOWN_BYTES, sizes).sum())


def sizes_to_match(base: Manifest, filter: Expr) -> ProjectedSizes:
    """Estimator of the bytes that `filter` reads of each fragment."""
    schema = with_blob_descriptors(base.schema, data_format(base))
    names = schema.names()
    paths = [".".join(map(quote_name, path)) for path in referenced_columns(filter) if path[0] in names]
    return ProjectedSizes(schema, project(schema, paths))
