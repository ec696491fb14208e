"""Plan of a clustering: fragments that are sorted together, which no earlier one over the same columns has written.

Small fragments of earlier runs are taken along once there are `_SMALL` of them, so that many small runs do not leave
many small fragments. A task has at most `MAX_TASK_ROWS` rows: it sorts them on one machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lance_spark.errors import UnsupportedFeatureError
from lance_spark.expr.nodes import Expr
from lance_spark.index.builders.zone_map import ZoneMapBuilder
from lance_spark.table.location import TableLocation
from lance_spark.table.maintenance.clustering.layout import Layout
from lance_spark.table.maintenance.clustering.mark import clustered_fragments
from lance_spark.table.maintenance.compaction_options import CompactionOptions
from lance_spark.table.maintenance.compaction_plan import (
    CompactionPlan,
    CompactionTask,
    Size,
    check_can_compact,
    fragment_coverage,
    fragment_sizes,
    is_full,
    sheds_rows,
    unknown_indexes,
)
from lance_spark.table.manifests.index_metadata import IndexMetadata
from lance_spark.table.manifests.index_section import parse_indices
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.reading.scan import Scan
from lance_spark.table.rows.fragment import FragmentId

MAX_TASK_ROWS = 1 << 23
MAX_TASK_BYTES = 4 << 30
_SMALL = 8


def plan_clustering(
    table: TableLocation, base: Manifest, options: CompactionOptions, layout: Layout, where: Expr | None = None
) -> CompactionPlan:
    """The tasks that cluster the version `base`; none if all of it is.

    Args:
        where: only fragments that hold a row for which it is true.

    Raises:
        UnsupportedFeatureError: as `plan_compaction`; also for a table whose compactions are deferred, for the record
            of these has no place for another order.
        InvalidInputError: the version is a detached one, or the filter is invalid.
        CorruptFileError: a file contradicts the format.
        StorageError: the store failed.
    """
    check_can_compact(table, base, options)
    if any(index.is_fragment_reuse for index in parse_indices(base.index_section)):
        raise UnsupportedFeatureError(
            f"{table.uri} has indexes that still have to follow a deferred compaction; run optimize_indices, or "
            "OPTIMIZE INDEX, then cluster it",
            feature="fragment reuse index",
        )
    sizes = fragment_sizes(table, base)
    places = _chosen(base, sizes, options, layout)
    if where is not None and places:
        scan = Scan.of(base.schema, table.bases(base), columns=[], filter=where)
        places = [place for place in places if scan.count(base.fragments[place])]
    ids = [FragmentId(message.id) for message in base.fragments.messages]
    unknown = unknown_indexes(table, base, options) if places else None
    kept = [place for place in places if unknown is not None and ids[place] in unknown.covered]
    rest = [place for place in places if place not in set(kept)]
    tasks = [
        CompactionTask(base.version, tuple(ids[place] for place in group), options, layout)
        for covered in _by_coverage(table, base, layout, rest)
        for group in _bounded(covered, sizes)
    ]
    reason = unknown.reason(can_defer=not base.has_stable_row_ids) if kept and unknown is not None else ""
    return CompactionPlan(base.version, tuple(tasks), tuple(ids[place] for place in kept), reason)


def _chosen(base: Manifest, sizes: Sequence[Size], options: CompactionOptions, layout: Layout) -> list[int]:
    done = clustered_fragments(base, layout)
    is_done = [message.id in done for message in base.fragments.messages]
    small = [place for place, size in enumerate(sizes) if is_done[place] and not is_full(size, options)]
    joined = set(small if len(small) >= _SMALL and _joins(small, sizes, options) else ())
    return [
        place for place, size in enumerate(sizes) if not is_done[place] or place in joined or sheds_rows(size, options)
    ]


def _joins(small: Sequence[int], sizes: Sequence[Size], options: CompactionOptions) -> bool:
    """Whether fewer fragments come out."""
    rows = sum(sizes[place].live_rows for place in small)
    return len(options.file_limits(rows)) < len(small) and options.max_bytes_per_file is None


def _by_coverage(table: TableLocation, base: Manifest, layout: Layout, places: Sequence[int]) -> list[list[int]]:
    """The places by the index segments that cover them: no segment can cover a mixture of covered and other rows.

    Zone maps over the columns of the layout do not count, for they are built again.
    """
    ids = {key.field_id for key in layout.keys}
    url = ZoneMapBuilder.index_type.type_url.lower()

    def counts(index: IndexMetadata) -> bool:
        is_zone_map = index.message.index_details.type_url.lower() == url
        return not (is_zone_map and ids.issuperset(index.message.fields))

    coverage = fragment_coverage(table, base, counts)
    groups: dict[frozenset[str], list[int]] = {}
    for place in places:
        groups.setdefault(coverage[place], []).append(place)
    return list(groups.values())


def _bounded(places: Sequence[int], sizes: Sequence[Size]) -> Iterator[list[int]]:
    group: list[int] = []
    rows = num_bytes = 0
    for place in places:
        size = sizes[place]
        if group and (rows + size.live_rows > MAX_TASK_ROWS or num_bytes + size.num_bytes > MAX_TASK_BYTES):
            yield group
            group, rows, num_bytes = [], 0, 0
        group.append(place)
        rows, num_bytes = rows + size.live_rows, num_bytes + size.num_bytes
    if group:
        yield group
