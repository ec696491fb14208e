"""Which fragments a compaction rewrites together (Lance table format specification, "Compaction").

Fragments with less than the target number of rows are joined with their neighbours; fragments with many deleted rows
are rewritten without these. A second compaction of a table that nobody has changed finds nothing to do.

Here fragments of 3 and 4 rows become one of 7, and the last one loses its 5 deleted rows:

>>> sizes = [Size(10, 10), Size(3, 3), Size(4, 4), Size(10, 10), Size(10, 5)]
>>> bins(sizes, CompactionOptions(target_rows_per_fragment=10))
[[1, 2], [4]]
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import accumulate
from typing import Any

from lance_spark.errors import CorruptFileError, InvalidInputError, UnsupportedFeatureError
from lance_spark.file.writable import require_writable
from lance_spark.file_version import FileVersion
from lance_spark.schema.field import LanceSchema
from lance_spark.table.indexes.remap import is_deferred
from lance_spark.table.indexes.unknown import UnknownIndexes
from lance_spark.table.location import TableLocation
from lance_spark.table.maintenance.clustering.layout import Layout
from lance_spark.table.maintenance.compaction_options import CompactionOptions
from lance_spark.table.manifests.features import check_writable
from lance_spark.table.manifests.fragment_reuse import covered_fragments, fragment_reuse
from lance_spark.table.manifests.index_metadata import IndexMetadata
from lance_spark.table.manifests.index_section import parse_indices
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.operations.manifest_builder import data_format
from lance_spark.table.paths import is_detached
from lance_spark.table.reading.fragment_reader import FragmentReader
from lance_spark.table.rows.fragment import FragmentId

_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CompactionTask:
    """Adjacent fragments of a version, to be rewritten as one piece of work on any machine.

    Attributes:
        read_version: the version that has them.
        fragment_ids: in the order of the table.
        layout: the order that the rows get; None keeps theirs.
    """

    read_version: int
    fragment_ids: tuple[FragmentId, ...]
    options: CompactionOptions
    layout: Layout | None = None

    def to_json(self) -> str:
        """The task as text."""
        layout = None if self.layout is None else self.layout.to_dict()
        return json.dumps({**asdict(replace(self, layout=None)), "layout": layout})

    @classmethod
    def from_json(cls, text: str) -> CompactionTask:
        """The task that `to_json` gave.

        Raises:
            InvalidInputError: another text.
        """
        try:
            content: dict[str, Any] = json.loads(text)
            ids = tuple(FragmentId(int(number)) for number in content["fragment_ids"])
            layout = Layout.from_dict(content["layout"]) if content.get("layout") else None
            return cls(int(content["read_version"]), ids, CompactionOptions(**content["options"]), layout)
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidInputError(f"not a compaction task: {error}") from error


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """The tasks of a compaction of one version; none of two touches the same fragment.

    Attributes:
        read_version: that version.
        kept_fragments: fragments that stay although a rewrite would gain something: an index of a kind that this
            release does not know covers them, and would lose their rows.
        kept_for: those indexes, and what to do; empty if there are none.
    """

    read_version: int
    tasks: tuple[CompactionTask, ...]
    kept_fragments: tuple[FragmentId, ...] = ()
    kept_for: str = ""

    def log_kept(self, uri: str) -> None:
        """Logs a warning if fragments of the table stay."""
        if self.kept_fragments:
            _LOGGER.warning("%d fragments of %s are not compacted: %s", len(self.kept_fragments), uri, self.kept_for)


@dataclass(frozen=True, slots=True)
class Size:
    """Size of a fragment; `physical_rows` counts the deleted ones, `num_bytes` is 0 if it is not known."""

    physical_rows: int
    live_rows: int
    num_bytes: int = 0


def plan_compaction(table: TableLocation, base: Manifest, options: CompactionOptions | None = None) -> CompactionPlan:
    """The tasks that compact the version `base`; none if there is nothing to gain.

    Raises:
        InvalidInputError: the version is a detached one.
        UnsupportedFeatureError: this release cannot rewrite the rows of the table.
        CorruptFileError: a file contradicts the format.
        StorageError: the store failed.
    """
    options = options or CompactionOptions()
    check_can_compact(table, base, options)
    ids = [FragmentId(message.id) for message in base.fragments.messages]
    sizes, coverage = fragment_sizes(table, base), fragment_coverage(table, base)
    places = bins(sizes, options, coverage)
    unknown = unknown_indexes(table, base, options) if places else UnknownIndexes.none()
    excluded = frozenset(place for group in places for place in group if ids[place] in unknown.covered)
    if excluded:
        places = bins(sizes, options, coverage, excluded)
    tasks = [CompactionTask(base.version, tuple(ids[place] for place in group), options) for group in places]
    reason = unknown.reason(can_defer=not base.has_stable_row_ids) if excluded else ""
    return CompactionPlan(base.version, tuple(tasks), tuple(ids[place] for place in sorted(excluded)), reason)


def unknown_indexes(table: TableLocation, base: Manifest, options: CompactionOptions) -> UnknownIndexes:
    """The indexes that a compaction with these options would take rows from."""
    if is_deferred(base, requested=options.defer_index_remap):
        return UnknownIndexes.none()
    return UnknownIndexes.of(base, table.bases(base))


def new_file_version(base: Manifest, options: CompactionOptions) -> FileVersion:
    """The version of the files that a compaction of `base` writes."""
    requested = options.file_format_version
    return FileVersion.parse(requested) if requested is not None else data_format(base) or FileVersion.V2_2


def bins(
    sizes: Sequence[Size],
    options: CompactionOptions,
    coverage: Sequence[frozenset[str]] | None = None,
    kept: Collection[int] = (),
) -> list[list[int]]:
    """The places of the fragments that belong together, as the reference library groups them.

    Args:
        coverage: the segments of indexes that cover each fragment. Fragments of different coverage stay apart, because
            no index could cover a mixture of them.
        kept: the places of fragments that stay.
    """
    return [
        places
        for run in _runs(sizes, options, coverage or [frozenset()] * len(sizes), kept)
        for places in _split(run, sizes, options.target_rows_per_fragment)
        if len(places) > 1 or sheds_rows(sizes[places[0]], options)
    ]


def _runs(
    sizes: Sequence[Size], options: CompactionOptions, coverage: Sequence[frozenset[str]], kept: Collection[int]
) -> Iterator[list[int]]:
    """Stretches of neighbours that are worth a rewrite, each alone or with others."""
    run: list[int] = []
    for place, size in enumerate(sizes):
        if run and coverage[run[-1]] != coverage[place]:
            yield run
            run = []
        if place not in kept and (sheds_rows(size, options) or not is_full(size, options)):
            run.append(place)
        elif run:
            yield run
            run = []
    if run:
        yield run


def _split(run: list[int], sizes: Sequence[Size], target_rows: int) -> Iterator[list[int]]:
    """Parts of a stretch that have the target number of rows, the last one with what would be too little alone."""
    ends = list(accumulate(sizes[place].live_rows for place in run))
    first, before = 0, 0
    for number in range(len(run)):
        if ends[number] - before >= target_rows and ends[-1] - ends[number] >= target_rows:
            yield run[first : number + 1]
            first, before = number + 1, ends[number]
    yield run[first:]


def is_full(size: Size, options: CompactionOptions) -> bool:
    """Whether a fragment is so large that a compaction leaves it alone, unless many of its rows are deleted."""
    # A file that the limit of bytes has ended never gets to the target of rows; rewriting it again would not help.
    limit = options.max_bytes_per_file
    return size.physical_rows >= options.target_rows_per_fragment or (limit is not None and size.num_bytes >= limit)


def sheds_rows(size: Size, options: CompactionOptions) -> bool:
    """Whether enough rows of a fragment are deleted to rewrite it for that alone."""
    deleted = size.physical_rows - size.live_rows
    return options.materialize_deletions and deleted > options.materialize_deletions_threshold * size.physical_rows


def fragment_coverage(
    table: TableLocation, base: Manifest, counts: Callable[[IndexMetadata], bool] = lambda index: True
) -> list[frozenset[str]]:
    """The UUIDs of the index segments that cover each fragment, of those that count.

    Raises:
        CorruptFileError: the record of a deferred compaction is broken.
        StorageError: the store failed.
    """
    coverage: dict[int, set[str]] = {}
    indexes = parse_indices(base.index_section)
    covered = covered_fragments(indexes, table.bases(base))
    for index in indexes:
        for fragment_id in covered(index) if not index.is_system and counts(index) else ():
            coverage.setdefault(fragment_id, set()).add(index.uuid)
    return [frozenset(coverage.get(message.id, ())) for message in base.fragments.messages]


def fragment_sizes(table: TableLocation, base: Manifest) -> list[Size]:
    """The sizes of the fragments of a version, in its order.

    Raises:
        CorruptFileError: a file contradicts the format.
        StorageError: the store failed.
    """
    bases = table.bases(base)
    sizes = []
    for place, live_rows in enumerate(base.fragments.row_counts()):
        message = base.fragments.messages[place]
        physical_rows = message.physical_rows
        if live_rows is None:
            reader = FragmentReader(base.fragments[place], bases)
            physical_rows, live_rows = reader.num_rows, reader.num_live_rows()
        file_sizes = [file.file_size_bytes for file in message.files]
        sizes.append(Size(physical_rows, live_rows, sum(file_sizes) if all(file_sizes) else 0))
    return sizes


def check_can_compact(table: TableLocation, base: Manifest, options: CompactionOptions) -> None:
    """Checks that a version can be compacted with these options. Raises as `plan_compaction`."""
    version = data_format(base)
    if version is FileVersion.V0_1:
        raise UnsupportedFeatureError(
            f"{table.uri} is of the legacy file version 0.1; convert it with upgrade_files, then compact",
            feature="file version",
            version=version.value,
        )
    if options.defer_index_remap and base.has_stable_row_ids:
        raise UnsupportedFeatureError(
            f"{table.uri} has stable row ids, so its compactions cannot defer the remapping of indexes; leave "
            "defer_index_remap out",
            feature="defer_index_remap",
        )
    check_can_rewrite(table, base, new_file_version(base, options))


def check_can_rewrite(
    table: TableLocation, base: Manifest, version: FileVersion, schema: LanceSchema | None = None
) -> None:
    """Checks that the rows of `base` can be moved to new files of a file version, with the columns of `schema`.

    Raises:
        InvalidInputError: the version is a detached one.
        UnsupportedFeatureError: this release cannot rewrite the rows, or files of that version cannot hold them.
    """
    if is_detached(base.version):
        raise InvalidInputError(
            "a detached version is not part of the table's history, so no version can be committed after it"
        )
    check_writable(base.writer_flags, table.uri)
    _check_fragment_reuse(table, base)
    require_writable(schema or base.schema, version)


def _check_fragment_reuse(table: TableLocation, base: Manifest) -> None:
    """Checks that the record of earlier deferred compactions, if there is one, can be extended."""
    reuse = next((index for index in parse_indices(base.index_section) if index.is_fragment_reuse), None)
    if reuse is None:
        return
    reason = ""
    if reuse.message.index_version > 0 or base.has_stable_row_ids:
        reason = "is of a newer version"
    else:
        try:
            fragment_reuse(reuse, table.bases(base))
        except CorruptFileError as error:
            reason = f"is broken ({error})"
    if reason:
        raise UnsupportedFeatureError(
            f"the fragment reuse index of {table.uri} {reason}, so this release cannot add a compaction to it; drop "
            "the indexes, or compact with the library that has written it",
            feature="fragment reuse index",
        )
