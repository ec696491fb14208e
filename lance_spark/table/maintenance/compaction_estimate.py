"""Estimated work and gain of a compaction, from manifests alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass

from lance_spark.table.location import TableLocation
from lance_spark.table.maintenance.compaction_options import CompactionOptions
from lance_spark.table.maintenance.compaction_plan import (
    CompactionPlan,
    CompactionTask,
    Size,
    fragment_sizes,
    is_full,
    plan_compaction,
)
from lance_spark.table.manifests.manifest import Manifest


@dataclass(frozen=True, slots=True)
class CompactionEstimate:
    """Fragments, files and rows that a compaction replaces, and their replacements.

    Attributes:
        small_fragments: the fragments of the version with fewer rows than a compaction aims at; alone between large
            ones, a small fragment is not rewritten.
        fragments_removed, fragments_added: fragments before and after, of those that are rewritten.
        files_removed, files_added: their data files.
        rows_rewritten: the live rows in them.
        bytes_rewritten: the bytes of the data files that are replaced; files of unknown size count as 0.
        deleted_rows_removed: the deleted rows in them.
        kept_fragments: fragments that stay for an index of a kind that is not known (`CompactionPlan.kept_fragments`).
    """

    small_fragments: int = 0
    fragments_removed: int = 0
    fragments_added: int = 0
    files_removed: int = 0
    files_added: int = 0
    rows_rewritten: int = 0
    bytes_rewritten: int = 0
    deleted_rows_removed: int = 0
    kept_fragments: int = 0

    @classmethod
    def total(cls, parts: Iterable[CompactionEstimate]) -> CompactionEstimate:
        """The sum of estimates.

        >>> CompactionEstimate.total([CompactionEstimate(2), CompactionEstimate(3)]).small_fragments
        5
        """
        return cls(*map(sum, zip(*map(astuple, [cls(), *parts]), strict=True)))


def estimate_compaction(
    table: TableLocation, base: Manifest, options: CompactionOptions | None = None
) -> CompactionEstimate:
    """Estimates a compaction of `base`. Raises as `plan_compaction`."""
    options = options or CompactionOptions()
    return estimate_plan(table, base, options, plan_compaction(table, base, options))


def estimate_plan(
    table: TableLocation, base: Manifest, options: CompactionOptions, plan: CompactionPlan
) -> CompactionEstimate:
    """Estimates the effect of a plan for `base`. Raises as `fragment_sizes`."""
    sizes = sizes_by_id(table, base)
    num_files = {message.id: len(message.files) for message in base.fragments.messages}
    whole = CompactionEstimate(
        small_fragments=count_small(sizes.values(), options), kept_fragments=len(plan.kept_fragments)
    )
    return CompactionEstimate.total([whole, *(_of_task(task, sizes, num_files) for task in plan.tasks)])


def sizes_by_id(table: TableLocation, base: Manifest) -> dict[int, Size]:
    """The sizes of the fragments by their ids. Raises as `fragment_sizes`."""
    ids = (message.id for message in base.fragments.messages)
    return dict(zip(ids, fragment_sizes(table, base), strict=True))


def count_small(sizes: Iterable[Size], options: CompactionOptions) -> int:
    """Number of fragments that are smaller than a compaction would make them."""
    return sum(not is_full(size, options) for size in sizes)


def _of_task(task: CompactionTask, sizes: Mapping[int, Size], num_files: Mapping[int, int]) -> CompactionEstimate:
    read = [sizes[number] for number in task.fragment_ids]
    rows, num_bytes = sum(size.live_rows for size in read), sum(size.num_bytes for size in read)
    limits = task.options.file_limits(rows)
    new = max(len(limits), -(-num_bytes // limits[0].max_bytes)) if limits else 0
    return CompactionEstimate(
        fragments_removed=len(read),
        fragments_added=new,
        files_removed=sum(num_files[number] for number in task.fragment_ids),
        files_added=new,
        rows_rewritten=rows,
        bytes_rewritten=num_bytes,
        deleted_rows_removed=sum(size.physical_rows for size in read) - rows,
    )
