"""Extends indexes to rows that they do not cover yet, and merges their segments."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from lance_spark.errors import InvalidInputError, LanceError, NotFoundError, StorageError, UnsupportedFeatureError
from lance_spark.index.builders.base import IndexBuilder, OldSegment
from lance_spark.index.builders.kinds import builder_of
from lance_spark.index.builders.output import SegmentOutput
from lance_spark.index.files import IndexFiles
from lance_spark.index.members import is_member, member_type
from lance_spark.schema.field import Field, LanceSchema
from lance_spark.table.bases import Bases
from lance_spark.table.commits.retry import retry_on_conflict
from lance_spark.table.indexes.build import build_segment, chosen_fragments, write_segment
from lance_spark.table.indexes.commit import replace_segments
from lance_spark.table.indexes.coverage import Coverage
from lance_spark.table.indexes.create import again_if_removed, removing_on_failure, trained
from lance_spark.table.indexes.deferred_remap import trimmed_reuse
from lance_spark.table.indexes.definition import IndexDefinition, field_path, made_over
from lance_spark.table.indexes.rows import holds_row_ids, kept_addresses, kept_row_ids, row_batches, values_of_rows
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.index_metadata import IndexMetadata
from lance_spark.table.manifests.index_section import parse_indices
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.reading.fragment_reader import FragmentReader
from lance_spark.table.rows.fragment import BaseId
from lance_spark.table.writing.save import CommitOptions

_LOGGER = logging.getLogger(__name__)
_MAX_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class OptimizeOptions:
    """Options of an optimization of indexes.

    Attributes:
        names: of the indexes; None for all that this release builds. Of these, one whose column has come to hold values
            that it cannot have stays as it is, with a warning.
        num_indices_to_merge: how many of the newest segments of an index are merged with the rows that it does not
            cover; 0 gives these rows a segment of their own. 1 does so too for text indexes, whose segments are
            merged by indexing their rows again.
        retrain: builds the indexes from the data again.
    """

    names: tuple[str, ...] | None = None
    num_indices_to_merge: int = 1
    retrain: bool = False

    def __post_init__(self) -> None:
        if self.num_indices_to_merge < 0:
            raise InvalidInputError(f"{self.num_indices_to_merge} segments cannot be merged")

    @contextmanager
    def passing_unfit(self, name: str) -> Iterator[None]:
        """Logs, for an index that was not named, that it cannot be built over the values that its column has now."""
        try:
            yield
        except InvalidInputError as error:
            if self.names is not None:
                raise
            _LOGGER.warning("index %s is not optimized, rows that it lacks are scanned: %s", name, error)


@dataclass(frozen=True, slots=True)
class SegmentPlan:
    """A segment that an optimization is to write; any process can (`write_planned`).

    Attributes:
        name: of the index.
        replaced: ids of the segments whose rows it takes over.
        fragment_ids: further fragments to cover.
        retrain: builds the index from the data again.
    """

    name: str
    replaced: tuple[str, ...]
    fragment_ids: tuple[int, ...]
    retrain: bool = False


def optimize_indices(
    table: TableLocation, optimize: OptimizeOptions | None = None, options: CommitOptions | None = None
) -> Manifest:
    """The newest version of `table` with optimized indexes; the very version that is there if there is nothing to do.

    Raises:
        NotFoundError: there is no index of a name.
        InvalidInputError: this release cannot build the kind of an index that is named.
        CommitConflictError: other writers were always first. Nothing was changed.
        CommitStateUnknownError: the store never said whether the version was committed.
        StorageError: the store failed. Nothing was changed.
        UnsupportedFeatureError: the table needs something that this release does not write.
    """
    optimize = optimize or OptimizeOptions()
    table.history.check_commits()

    def attempt(base: Manifest) -> Manifest:
        built: list[IndexMetadata] = []
        replaced: set[str] = set()
        with again_if_removed(table, base), removing_on_failure(table, built):
            for definition, segments in _chosen(table, base, optimize.names):
                plan = _planned(table, base, definition, segments, optimize)
                if plan is not None:
                    with optimize.passing_unfit(definition.name):
                        built.append(_written(table, base, definition, segments, plan))
                        replaced.update(plan.replaced)
            return commit_optimized(table, base, built, replaced, options)

    policy = options.policy if options else None
    return retry_on_conflict(attempt, table.newest(), table.newest, policy, max_attempts=_MAX_ATTEMPTS)


def plan_optimization(table: TableLocation, base: Manifest, optimize: OptimizeOptions) -> list[SegmentPlan]:
    """The segments that an optimization of the version `base` is to write: at most one for each index.

    Raises: as `optimize_indices`.
    """
    plans = [
        _planned(table, base, definition, segments, optimize)
        for definition, segments in _chosen(table, base, optimize.names)
    ]
    return [plan for plan in plans if plan is not None]


def write_planned(table: TableLocation, base: Manifest, plan: SegmentPlan) -> IndexMetadata:
    """The segment of a plan for the version `base`, for `commit_optimized`.

    Raises: as `build_segment`.
    """
    ((definition, segments),) = _chosen(table, base, (plan.name,))
    return _written(table, base, definition, segments, plan)


def commit_optimized(
    table: TableLocation,
    base: Manifest,
    made: Sequence[IndexMetadata],
    replaced: Collection[str],
    options: CommitOptions | None = None,
) -> Manifest:
    """The version in which new segments stand for those whose ids are `replaced`; `base` if nothing changes.

    Args:
        base: the version that the segments were written from.

    Raises: as `commit_indices`.
    """
    indexes = parse_indices(base.index_section)
    removed = [index for index in indexes if index.uuid in replaced]
    remaining = [index for index in indexes if index.uuid not in replaced]
    reuse, trimmed = trimmed_reuse(table, base, [*remaining, *made])
    if not made and not trimmed:
        return base
    return replace_segments(table, base, [*made, *reuse], [*removed, *trimmed], options)


def definition_of(schema: LanceSchema, segments: Sequence[IndexMetadata], bases: Bases) -> IndexDefinition | None:
    """Definition of an existing index; None if this release cannot build it.

    Args:
        segments: all segments of the index; the last readable one has its parameters.
    """
    message = segments[-1].message
    builder_type = builder_of(message.index_details.type_url)
    path = field_path(schema, message.fields[0]) if len(message.fields) == 1 else ()
    if builder_type is None or not path or not is_member(path, in_lists=builder_type.reaches_into_lists):
        return None
    parameters: dict[str, object] = {}
    for segment in reversed(segments):
        try:
            details, files = segment.message.index_details.value, index_files(segment, bases)
            builder_type = builder_type.of_segment(details, files)
            parameters = builder_type.parameters_of(details, files)
            break
        except UnsupportedFeatureError:
            return None
        except StorageError:
            raise
        except LanceError as error:
            _warn_unreadable(segment, error)
            parameters = builder_type.described_parameters(segment.message.index_details.value)
    return definition_over(segments[-1].name, path, builder_type, parameters)


def definition_over(
    name: str, path: tuple[Field, ...], builder_type: type[IndexBuilder], parameters: Mapping[str, object]
) -> IndexDefinition | None:
    """The index of the column at the end of `path`; None if the column cannot have it."""
    if not builder_type.supports(member_type(path)):
        return None
    try:
        builder = made_over(path, builder_type, parameters)
    except InvalidInputError:
        # Parameters that do not fit the column: its rows are scanned.
        return None
    return IndexDefinition(name, tuple(field.name for field in path), path[-1], builder)


def index_files(segment: IndexMetadata, bases: Bases) -> IndexFiles:
    """The files of a segment.

    Raises:
        CorruptFileError: they lie under a base that the version does not have.
    """
    store, folder = bases.index_folder(segment.uuid, None if segment.base_id is None else BaseId(segment.base_id))
    sizes = {file.path: file.size_bytes for file in segment.message.files if file.size_bytes}
    return IndexFiles(store, folder, sizes)


def _chosen(
    table: TableLocation, base: Manifest, names: Collection[str] | None
) -> list[tuple[IndexDefinition, list[IndexMetadata]]]:
    """The indexes to optimize with their segments in the order of the table's metadata."""
    by_name: dict[str, list[IndexMetadata]] = {}
    for index in parse_indices(base.index_section):
        if not index.is_system:
            by_name.setdefault(index.name, []).append(index)
    missing = sorted(set(names or ()) - by_name.keys())
    if missing:
        raise NotFoundError(f"{table.uri} has no index {missing[0]!r}; it has: {', '.join(sorted(by_name)) or 'none'}")
    bases = table.bases(base)
    chosen = []
    for name, segments in by_name.items():
        if names is not None and name not in names:
            continue
        definition = definition_of(base.schema, segments, bases)
        if definition is not None:
            chosen.append((definition, segments))
        elif names is not None:
            url = segments[-1].message.index_details.type_url
            raise InvalidInputError(f"this release cannot build index {name!r}, which is of the kind {url!r}")
    return chosen


def _planned(
    table: TableLocation,
    base: Manifest,
    definition: IndexDefinition,
    segments: Sequence[IndexMetadata],
    optimize: OptimizeOptions,
) -> SegmentPlan | None:
    """The new segment of an index; None if there is nothing to do."""
    if optimize.retrain:
        return SegmentPlan(definition.name, tuple(segment.uuid for segment in segments), (), retrain=True)
    coverage = Coverage(base, table.bases(base))
    live = _live(base)
    covered = {segment.uuid: live & set(coverage.fragment_ids(segment)) for segment in segments}
    uncovered = live.difference(*covered.values())
    count = optimize.num_indices_to_merge
    if count == 1 and not definition.builder.can_merge:
        count = 0  # It would index the rows of the last segment again.
    replaced = [*segments[len(segments) - min(count, len(segments)) :]]
    bases = table.bases(base)
    outdated = [item for item in segments if coverage.is_moved(item) or not index_files(item, bases).are_complete]
    # Empty segments only record what is to be indexed.
    replaced += [item for item in segments if item not in replaced and (item in outdated or not covered[item.uuid])]
    if not uncovered and not outdated and len([segment for segment in replaced if covered[segment.uuid]]) < 2:
        return None
    return SegmentPlan(definition.name, tuple(segment.uuid for segment in replaced), tuple(sorted(uncovered)))


def _written(
    table: TableLocation,
    base: Manifest,
    definition: IndexDefinition,
    segments: Sequence[IndexMetadata],
    plan: SegmentPlan,
) -> IndexMetadata:
    if plan.retrain:
        return build_segment(table, base, _trained_again(table, base, definition))
    by_uuid = {segment.uuid: segment for segment in segments}
    replaced = [by_uuid[uuid] for uuid in plan.replaced]
    # Another model than that of the segments which stay would make their next merge a build from the vectors.
    rebalanced = bool(replaced) and len(replaced) == len(segments)
    return merged_segment(table, base, definition, replaced, plan.fragment_ids, rebalanced=rebalanced)


def merged_segment(
    table: TableLocation,
    base: Manifest,
    definition: IndexDefinition,
    segments: Sequence[IndexMetadata],
    uncovered: Collection[int],
    *,
    rebalanced: bool = False,
) -> IndexMetadata:
    """A segment over the rows of old segments and of fragments that none covers.

    Segments that cannot be read are replaced by what the data says.

    Args:
        rebalanced: lets the builder split and dissolve partitions.
    """
    bases = table.bases(base)
    coverage = Coverage(base, bases)
    old: list[OldSegment] = []
    sources: list[IndexMetadata] = []
    covered_ids = set(uncovered)
    fresh = set(uncovered)
    for segment in segments:
        covered = chosen_fragments(base, _live(base).intersection(coverage.fragment_ids(segment)) - covered_ids)
        covered_ids |= {fragment.id for fragment in covered}
        can_merge = definition.builder.can_merge and is_usable(base, definition, segment)
        if can_merge and coverage.can_follow(definition, segment):
            rows = {int(fragment.id): FragmentReader(fragment, bases).num_rows for fragment in covered}
            select = kept_row_ids if holds_row_ids(definition, base) else kept_addresses
            with bases.reading():
                rows_kept = select(covered, bases)
            old.append(coverage.old_segment(segment, index_files(segment, bases), rows_kept, rows))
            sources.append(segment)
        else:
            fresh |= {fragment.id for fragment in covered}
    # Through a fragment reuse index all addresses become those of this version.
    versions = [] if coverage.has_moves else [segment.message.dataset_version for segment in sources]
    version = min([base.version, *versions])

    builder = definition.builder
    if rebalanced:
        builder = builder.rebalancing(values_of_rows(base, bases, definition, chosen_fragments(base, covered_ids)))

    def write(output: SegmentOutput) -> None:
        batches = row_batches(base, bases, definition, chosen_fragments(base, fresh))
        if builder.can_merge:
            builder.merge_batches(old, batches, output)
        else:
            builder.train_batches(batches, output)

    try:
        return write_segment(table, base, definition, covered_ids, write, dataset_version=version)
    except StorageError:
        raise
    except LanceError as error:
        if not sources:
            raise
        _warn_unreadable(sources[-1], error)
        return build_segment(table, base, _trained_again(table, base, definition), covered_ids)


def _trained_again(table: TableLocation, base: Manifest, definition: IndexDefinition) -> IndexDefinition:
    return trained(base, table.bases(base), replace(definition, builder=definition.builder.untrained()))


def _live(base: Manifest) -> set[int]:
    return {message.id for message in base.fragments.messages}


def is_usable(base: Manifest, definition: IndexDefinition, segment: IndexMetadata) -> bool:
    """Whether row ids in a segment's files are of the same kind as in new segments: addresses, or stable row ids."""
    index_type = definition.builder.index_type
    version = segment.message.index_version
    if version > index_type.max_version or not segment.tells_coverage:
        return False
    old_row_ids = base.has_stable_row_ids and index_type.holds_row_ids(version)
    return old_row_ids == holds_row_ids(definition, base)


def _warn_unreadable(segment: IndexMetadata, error: LanceError) -> None:
    _LOGGER.warning("segment %s of index %s cannot be read, it is built again: %s", segment.uuid, segment.name, error)


def trim_fragment_reuse(table: TableLocation, options: CommitOptions | None = None) -> Manifest:
    """The newest version of `table` without records of deferred compactions that no index needs.

    Raises: as `optimize_indices`.
    """

    def attempt(base: Manifest) -> Manifest:
        reuse, replaced = trimmed_reuse(table, base, parse_indices(base.index_section))
        return replace_segments(table, base, reuse, replaced, options) if replaced else base

    policy = options.policy if options else None
    return retry_on_conflict(attempt, table.newest(), table.newest, policy, max_attempts=_MAX_ATTEMPTS)
