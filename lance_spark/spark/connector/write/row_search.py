"""The rows that a write replaces, looked for in tasks if that is more than one process should read.

The job that does it starts when the rows that come are written and before the commit, which gets what was found. It
looks at the version that the write builds on, so that the same commits of others are in its way as if the driver had
looked. If they have changed the rows, the driver looks again, at those fragments only that are not as they were.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from lance_spark.expr.nodes import Expr
from lance_spark.partitioned.save import partitions_to_search
from lance_spark.partitioned.table import PartitionVersion
from lance_spark.spark.connector.channel.tasks import (
    MESSAGE_TYPE,
    ReadWork,
    SplitWork,
    bound_parts,
    command,
    messages,
)
from lance_spark.spark.connector.write.found_rows import FoundRows, joined
from lance_spark.spark.connector.write.partitioned_changes import CHEAP_PARTITIONS
from lance_spark.spark.jobs.partitioned_write_job import PartitionedWriteJob
from lance_spark.spark.jobs.table_row_changes import CHEAP_BYTES, bytes_to_match, sizes_to_match
from lance_spark.spark.jobs.write_job import WriteJob
from lance_spark.spark.options import DEFAULT_PARTITION_BYTES
from lance_spark.spark.partitions import (
    SizedFragment,
    estimated_bytes,
    packed_neighbours,
    plan_partitions,
    sized,
    task_bytes,
)
from lance_spark.storage import open_store
from lance_spark.table.bases import Bases
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.reading.scan import Scan
from lance_spark.table.reading.system_columns import ROW_ADDRESS
from lance_spark.table.row_level.delete import address_scan
from lance_spark.table.row_level.row_changes import GoneRows, rows_by_fragment
from lance_spark.table.rows.row_address import UInt64Array
from lance_spark.table.source import Split


@dataclass(frozen=True)
class SearchTask:
    """Finds the rows that the filter of `scan` keeps: one pickled `FoundRows` for each split in the work.

    Attributes:
        scan: for the address of each row; it is bound to no split.
    """

    scan: Scan

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = (FoundRows.of(part.key, part.read(scan)) for part, scan in bound_parts(self.scan, batches))
        yield messages(map(pickle.dumps, found))


def search_job(job: WriteJob | PartitionedWriteJob, parallelism: int) -> tuple[bytes, ...]:
    """The function of the tasks that look for the rows which `job` replaces, then the work of each.

    Nothing if there are none to look for, or if the driver finds them sooner than a job would have started.
    """
    if job.replaced is None:
        return ()
    if isinstance(job, PartitionedWriteJob):
        return _partitioned_search(job, job.replaced, parallelism)
    base = job.read_version()
    assert base is not None, "there are rows to replace"
    if bytes_to_match(base, job.replaced) <= CHEAP_BYTES:
        return ()
    scan = address_scan(job.location, base, job.replaced)
    fragments = _sized(base, scan.bases, job.replaced)
    parts = plan_partitions(fragments, _task_bytes(fragments, parallelism))
    split = Split(job.location, base)
    work = [ReadWork((SplitWork.of(split, part.slices),)).to_bytes() for part in parts]
    return (command(SearchTask(scan), MESSAGE_TYPE), *work)


def _partitioned_search(job: PartitionedWriteJob, replaced: Expr, parallelism: int) -> tuple[bytes, ...]:
    whole = job.plan.table()
    partitions = partitions_to_search(whole, replaced)
    is_cheap = sum(bytes_to_match(opened.manifest, replaced) for opened in partitions) <= CHEAP_BYTES
    if not partitions or (is_cheap and len(partitions) <= CHEAP_PARTITIONS):
        return ()
    nowhere = Bases(open_store(whole.root, whole.storage_options), (), whole.storage_options)
    scan = replace(whole.plan(partitions[0], [ROW_ADDRESS], replaced), bases=nowhere)
    work = _partitioned_work(partitions, replaced, parallelism)
    return (command(SearchTask(scan), MESSAGE_TYPE), *(ReadWork(parts).to_bytes() for parts in work))


def _partitioned_work(
    partitions: Sequence[PartitionVersion], replaced: Expr, parallelism: int
) -> list[tuple[SplitWork, ...]]:
    found = [_sized(opened.manifest, opened.table.bases(opened.manifest), replaced) for opened in partitions]
    target = _task_bytes([fragment for fragments in found for fragment in fragments], parallelism)
    work, sizes = [], []
    for opened, fragments in zip(partitions, found, strict=True):
        parts = plan_partitions(fragments, target)
        for part in parts:
            work.append(SplitWork.of(opened, part.slices))
            # To open a partition takes time, however few its rows are.
            sizes.append(max(sum(map(estimated_bytes, fragments)) / len(parts), target / CHEAP_PARTITIONS))
    return [tuple(work[number] for number in pack) for pack in packed_neighbours(sizes, target)]


def _sized(base: Manifest, bases: Bases, replaced: Expr) -> list[SizedFragment]:
    sizes = sizes_to_match(base.schema, replaced)
    return [sized(fragment, bases, sizes) for fragment in base.fragments]


def _task_bytes(fragments: Sequence[SizedFragment], parallelism: int) -> int:
    return task_bytes(DEFAULT_PARTITION_BYTES, sum(map(estimated_bytes, fragments)), parallelism)


def gone_rows(found: Sequence[bytes]) -> GoneRows:
    """What the tasks have found in a table without partitions."""
    return rows_by_fragment(joined(item.addresses.unpack() for item in _told(found)))


def gone_from_partitions(found: Sequence[bytes]) -> dict[str, UInt64Array]:
    """What the tasks have found in partitions, by their object ids."""
    parts: dict[str, list[UInt64Array]] = {}
    for item in _told(found):
        assert item.object_id is not None, "the task looked into a partition"
        parts.setdefault(item.object_id, []).append(item.addresses.unpack())
    return {object_id: joined(addresses) for object_id, addresses in parts.items()}


def _told(found: Sequence[bytes]) -> list[FoundRows]:
    # Pickled by the tasks of this very statement.
    return [pickle.loads(message) for message in found]
