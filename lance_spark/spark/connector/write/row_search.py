"""Searches the rows that a write replaces, in tasks if that is too much for one process to read.

The job starts when the new rows are written and before the commit, which gets its results. It
looks at the version that the write builds on, so it conflicts with exactly the commits that a search on the
driver would conflict with. If other writers have changed the rows, the driver searches the changed fragments again.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lance_spark.expr.nodes import Expr
from lance_spark.spark.connector.channel.tasks import MESSAGE_TYPE, ReadWork, SplitWork, bound_parts, command, messages
from lance_spark.spark.connector.write.search_cost import CHEAP_SPLITS, is_cheap_to_search, sizes_to_match
from lance_spark.spark.jobs.task_result import TaskResult, addresses_of
from lance_spark.spark.jobs.write_job import WriteJob
from lance_spark.spark.options.options import DEFAULT_PARTITION_BYTES
from lance_spark.spark.partitions import (
    SizedFragment,
    estimated_bytes,
    packed_neighbours,
    plan_partitions,
    sized,
    task_bytes,
)
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
        found = (
            TaskResult(deleted={part.key: addresses_of(part.read(scan))})
            for part, scan in bound_parts(self.scan, batches)
        )
        yield messages(map(pickle.dumps, found))


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
    found = [_sized(split, replaced) for split in splits]
    total = sum(estimated_bytes(fragment) for fragments in found for fragment in fragments)
    target = task_bytes(DEFAULT_PARTITION_BYTES, total, parallelism)
    work, sizes = [], []
    for split, fragments in zip(splits, found, strict=True):
        parts = plan_partitions(fragments, target)
        for part in parts:
            work.append(SplitWork.of(split, part.slices))
            # To open a partition takes time, however few its rows are.
            sizes.append(max(sum(map(estimated_bytes, fragments)) / len(parts), target / CHEAP_SPLITS))
    return [[work[number] for number in pack] for pack in packed_neighbours(sizes, target)]


def _sized(split: Split, replaced: Expr) -> list[SizedFragment]:
    bases, sizes, fragments = split.bases, sizes_to_match(split.manifest, replaced), split.manifest.fragments
    return [sized(fragments, fragment, bases, sizes) for fragment in fragments]
