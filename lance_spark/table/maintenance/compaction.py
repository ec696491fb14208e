"""Fewer and larger fragments, without deleted rows.

The rows of a task keep their order. Fragments lie in the order of their ids and a new fragment gets the next one, so
what was rewritten comes after what was not.

Three steps that can run in three places: `plan_compaction` looks at a version, `run_task` writes new fragments for some
adjacent old ones, `commit_compaction` puts all of them into one new version. Tasks whose fragments another writer has
changed meanwhile are left out of it; the next compaction takes them.
"""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import pyarrow as pa
import pyroaring

from lance_spark.errors import (
    CorruptFileError,
    InvalidInputError,
    LanceError,
    RetryableConflictError,
    UnsupportedFeatureError,
)
from lance_spark.progress import progress
from lance_spark.schema.blob import in_file_version
from lance_spark.schema.projection import FieldFinder, quoted
from lance_spark.table.bases import Bases
from lance_spark.table.commits.commit import Commit, NewTable
from lance_spark.table.commits.conflict_rules import columns_stay
from lance_spark.table.commits.retry import cleanup_on_failure, retry_on_conflict
from lance_spark.table.indexes.auto_zonemap import extend_zone_maps, zone_columns
from lance_spark.table.indexes.create import removing_on_failure
from lance_spark.table.indexes.remap import has_following_index, is_deferred, remap_indices
from lance_spark.table.indexes.unknown import UnknownIndexes
from lance_spark.table.location import TableLocation
from lance_spark.table.maintenance.clustering.layout import Layout
from lance_spark.table.maintenance.clustering.mark import ClusteringMark
from lance_spark.table.maintenance.clustering.sorted_rows import SortedRows, inverse
from lance_spark.table.maintenance.compaction_options import CompactionOptions
from lance_spark.table.maintenance.compaction_plan import (
    CompactionPlan,
    CompactionTask,
    new_file_version,
    plan_compaction,
)
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.manifests.transaction import Transaction
from lance_spark.table.operations.base import OperationKind
from lance_spark.table.operations.manifest_builder import data_format
from lance_spark.table.operations.rewrite import Rewrite, RewriteGroup
from lance_spark.table.reading.blobs.blob_columns import sources_in, with_blob_descriptors
from lance_spark.table.reading.fragment_reader import FragmentReader
from lance_spark.table.reading.scan import Scan
from lance_spark.table.row_level.row_lineage import KeptLineage, with_lineage
from lance_spark.table.rows.fragment import DataFragment, FragmentId
from lance_spark.table.writing.save import DEFAULT_FILE_VERSION, CommitOptions
from lance_spark.table.writing.write import FragmentWriter, num_rows_of, remove_fragments

_LOGGER = logging.getLogger(__name__)

_MAX_ATTEMPTS = 5
"""Fewer than of other operations, because each attempt writes all rows again."""


_Rewrite = tuple[Manifest, list[RewriteGroup]]
"""A version, and what is to be rewritten in it; nothing if an earlier call has committed all groups."""


@dataclass(frozen=True, slots=True)
class RewriteResult:
    """Result of a compaction task: new fragments that no version has yet.

    Attributes:
        read_version: the version that was read.
        fragment_ids: the fragments that were read, in the order of the table.
        new_fragments: all their live rows.
        defer_index_remap: whether indexes are remapped later, by `optimize_indices`.
        layout: the order of the rows; None if they have kept theirs.
        new_places: uint32[n] as bytes, little endian: of rows in another order, which index files refer to, the places
            of the old ones among the new ones.
    """

    read_version: int
    fragment_ids: tuple[FragmentId, ...]
    new_fragments: tuple[DataFragment, ...]
    defer_index_remap: bool = False
    layout: Layout | None = None
    new_places: bytes | None = None

    def to_json(self) -> str:
        """The result as text."""
        new = [base64.b64encode(fragment.to_bytes()).decode() for fragment in self.new_fragments]
        return json.dumps(
            {
                "read_version": self.read_version,
                "fragment_ids": self.fragment_ids,
                "new_fragments": new,
                "defer_index_remap": self.defer_index_remap,
                "layout": None if self.layout is None else self.layout.to_dict(),
                "new_places": None if self.new_places is None else base64.b64encode(self.new_places).decode(),
            }
        )

    @classmethod
    def from_json(cls, text: str) -> RewriteResult:
        """The result that `to_json` gave.

        Raises:
            InvalidInputError: another text.
        """
        try:
            content = json.loads(text)
            return cls(
                int(content["read_version"]),
                tuple(FragmentId(int(number)) for number in content["fragment_ids"]),
                tuple(DataFragment.from_bytes(base64.b64decode(data)) for data in content["new_fragments"]),
                bool(content.get("defer_index_remap", False)),
                Layout.from_dict(content["layout"]) if content.get("layout") else None,
                base64.b64decode(content["new_places"]) if content.get("new_places") is not None else None,
            )
        except (ValueError, KeyError, TypeError, CorruptFileError) as error:
            raise InvalidInputError(f"not the result of a compaction task: {error}") from error


Planner = Callable[[TableLocation, Manifest, CompactionOptions], CompactionPlan]
"""Plans what is rewritten of a version."""


def compact(
    table: TableLocation,
    options: CompactionOptions | None = None,
    commit_options: CommitOptions | None = None,
    planner: Planner = plan_compaction,
) -> Manifest:
    """The newest version of `table`, compacted; the very version that is there if there is nothing to gain.

    Args:
        planner: chooses the fragments, and the order of their rows.

    Raises:
        CommitConflictError: other writers were always first. Nothing was changed.
        CommitStateUnknownError: the store never said whether the version was committed.
        NotFoundError: the table no longer exists.
        UnsupportedFeatureError: this release cannot rewrite the rows of the table.
        StorageError: the store failed. Nothing was changed.
    """
    options = options or CompactionOptions()
    commit_options = commit_options or CommitOptions()
    table.history.check_commits()

    def attempt(base: Manifest) -> Manifest:
        plan = planner(table, base, options)
        plan.log_kept(table.uri)
        if not plan.tasks:
            return base
        return commit_compaction(table, base, _run_all(table, base, plan), commit_options)

    return retry_on_conflict(attempt, table.newest(), table.newest, commit_options.policy, max_attempts=_MAX_ATTEMPTS)


def run_task(table: TableLocation, base: Manifest, task: CompactionTask) -> RewriteResult:
    """The live rows of the task's fragments of `base` in new fragments. On an error nothing is left behind.

    Raises:
        InvalidInputError: the task is for another version.
        CorruptFileError: a file contradicts the format.
        UnsupportedFeatureError: this release cannot rewrite the rows.
        StorageError: the store failed.
    """
    return _rewritten(table, base, task, {message.id: place for place, message in enumerate(base.fragments.messages)})


def commit_compaction(
    table: TableLocation,
    base: Manifest,
    results: Sequence[RewriteResult],
    options: CommitOptions | None = None,
    *,
    keeps_files: bool = False,
) -> Manifest:
    """The version that has what tasks wrote from the version `base`; `base` itself if they wrote nothing.

    Results whose fragments other writers have changed since are left out, and their files removed. To call it again
    with the same results, after a store that did not answer, is safe.

    Args:
        keeps_files: leaves the files of results that are left out, and all of them after an error, to the caller.

    Raises:
        InvalidInputError: the results are for another version, or two of them for one fragment.
        UnsupportedFeatureError: an index of an unknown kind covers all fragments.
        CommitConflictError: nothing can be committed any more.
        CommitStateUnknownError: the store never said whether the version was committed.
        StorageError: the store failed.
    """
    options = _with_mark(options or CommitOptions(), results)
    groups = _groups(base, results)
    if not groups:
        return base
    deferred = any(result.defer_index_remap for result in results)
    if not _movable(table, base, groups, deferred=deferred):
        reason = UnknownIndexes.of(base, table.bases(base)).reason(can_defer=not base.has_stable_row_ids)
        raise UnsupportedFeatureError(f"{table.uri} is not compacted: {reason}", feature="index")

    def attempt(rewrite: _Rewrite) -> _Rewrite:
        newest, fitting = rewrite
        return (_commit(table, newest, fitting, options, deferred=deferred), fitting) if fitting else rewrite

    def newest_fitting() -> _Rewrite:
        newest = table.newest()
        fitting = _movable(table, newest, _fitting(base, newest, groups), deferred=deferred)
        if not fitting and not _has_all(newest, groups):
            raise RetryableConflictError(
                f"other writers have changed all fragments of {table.uri} that were compacted; compact again",
                own=OperationKind.REWRITE.value,
                table_version=newest.version,
            )
        return newest, fitting

    with nullcontext() if keeps_files else cleanup_on_failure(lambda: remove_unused_files(table, results)):
        committed, fitting = retry_on_conflict(
            attempt,
            (base, _movable(table, base, groups, deferred=deferred)),
            newest_fitting,
            options.policy,
            max_attempts=_MAX_ATTEMPTS,
        )
    if fitting and len(fitting) < len(groups) and not keeps_files:
        remove_unused_files(table, results)
    return _with_zone_maps(table, committed, results) if fitting else committed


def _with_mark(options: CommitOptions, results: Sequence[RewriteResult]) -> CommitOptions:
    """The options, by which the version records the fragments that were sorted."""
    layouts = [result.layout for result in results if result.layout is not None]
    if not layouts:
        return options
    new = (fragment for result in results if result.layout == layouts[0] for fragment in result.new_fragments)
    mark = ClusteringMark(layouts[0], frozenset(_paths(new)))
    return replace(options, other_marks=(*options.other_marks, mark))


def _with_zone_maps(table: TableLocation, made: Manifest, results: Sequence[RewriteResult]) -> Manifest:
    """The version with zone maps of the columns that rows were sorted by. A failure is logged: rows are scanned."""
    layout = next((result.layout for result in results if result.layout is not None), None)
    if layout is None:
        return made
    names = [quoted(key.path) for key in layout.keys if columns_stay(made.schema, made.schema, [key.field_id])]
    try:
        columns = zone_columns(made.schema, ", ".join(names))
        return extend_zone_maps(table, made, ", ".join(columns)) if columns else made
    except LanceError as error:
        _LOGGER.warning("version %d of %s is committed; zone maps are not built: %s", made.version, table.uri, error)
        return made


def _run_all(table: TableLocation, base: Manifest, plan: CompactionPlan) -> list[RewriteResult]:
    """The results of all tasks; after an error none, and no file of theirs."""
    places = {message.id: place for place, message in enumerate(base.fragments.messages)}
    with remove_results_on_failure(table) as results:
        results.extend(_rewritten(table, base, task, places) for task in plan.tasks)
    return results


@contextmanager
def remove_results_on_failure(table: TableLocation) -> Iterator[list[RewriteResult]]:
    """A list for the results of tasks. If the block raises, the files of the results in it are removed."""
    results: list[RewriteResult] = []
    with ExitStack() as on_error:
        on_error.callback(remove_unused_files, table, results)
        yield results
        on_error.pop_all()


def _rewritten(table: TableLocation, base: Manifest, task: CompactionTask, places: Mapping[int, int]) -> RewriteResult:
    if task.read_version != base.version or any(number not in places for number in task.fragment_ids):
        raise InvalidInputError(f"the task is for version {task.read_version} of a table, this is {base.version}")
    old = [base.fragments[places[number]] for number in task.fragment_ids]
    bases = table.bases(base)
    schema = with_blob_descriptors(base.schema, data_format(base), with_source=True)
    scan = Scan.of(schema, bases, batch_rows=task.options.batch_size)
    num_rows = sum(scan.count(fragment) for fragment in old)
    file_version = new_file_version(base, task.options)
    sorter = None if task.layout is None else _sorter(base, bases, old, scan, task.layout, num_rows)
    with ExitStack() as writers:
        bar = writers.enter_context(progress("Compacting" if sorter is None else "Clustering", num_rows))
        rows = scan.read(old) if sorter is None else (batch for batch, _ in sorter.batches())
        batches = bar.track(rows, size=num_rows_of)
        new: list[DataFragment] = []
        for limits in task.options.file_limits(num_rows):
            writer = FragmentWriter(
                table.store,
                in_file_version(base.schema, file_version),
                file_version=file_version,
                limits=limits,
                blob_source=sources_in(bases, bases.root.uri),
            )
            writers.enter_context(writer)
            batches = _write(batches, writer, limits.max_rows)
            new.extend(writer.close())
        if sum(fragment.physical_rows or 0 for fragment in new) != num_rows or next(batches, None) is not None:
            raise CorruptFileError(f"fragments {list(task.fragment_ids)} have other rows than they say")
        if base.has_stable_row_ids:
            lineage = (_lineage(fragment, bases) for fragment in old)
            new = with_lineage(new, lineage if sorter is None else [KeptLineage.joined(lineage).taken(sorter.order)])
        new_places = None
        if sorter is not None and has_following_index(bases, base, old):
            new_places = inverse(sorter.order).astype("<u4").tobytes()
    deferred = task.options.defer_index_remap
    return RewriteResult(base.version, task.fragment_ids, tuple(new), deferred, task.layout, new_places)


def _sorter(
    base: Manifest, bases: Bases, old: Sequence[DataFragment], scan: Scan, layout: Layout, num_rows: int
) -> SortedRows:
    for key in layout.keys:
        if [field.id for field in FieldFinder(base.schema).find(key.path)][-1] != key.field_id:
            raise InvalidInputError(f"the task sorts by column {key.name}, which is another one in this version")
    tops = list(dict.fromkeys(key.path[0] for key in layout.keys))
    keys = Scan.of(base.schema, bases, columns=[quoted((name,)) for name in tops])
    return SortedRows(layout, num_rows, lambda: keys.read(old), lambda: scan.read(old), scan.batch_rows)


def _write(batches: Iterator[pa.RecordBatch], writer: FragmentWriter, num_rows: int) -> Iterator[pa.RecordBatch]:
    """Writes this many rows, if there are; the rows after them."""
    for batch in batches:
        writer.write(batch.slice(0, num_rows))
        if batch.num_rows > num_rows:
            return chain([batch.slice(num_rows)], batches)
        num_rows -= batch.num_rows
        if num_rows == 0:
            break
    return batches


def _lineage(fragment: DataFragment, bases: Bases) -> KeptLineage:
    reader = FragmentReader(fragment, bases)
    live = reader.deletions.live_rows(0, reader.num_rows).indices()
    return KeptLineage.of(fragment, reader, live)


def _groups(base: Manifest, results: Sequence[RewriteResult]) -> list[RewriteGroup]:
    places = {message.id: place for place, message in enumerate(base.fragments.messages)}
    groups: list[RewriteGroup] = []
    seen: set[FragmentId] = set()
    for result in results:
        ids = result.fragment_ids
        if result.read_version != base.version or any(number not in places for number in ids):
            raise InvalidInputError(f"a result is for version {result.read_version}, not for {base.version}")
        if not seen.isdisjoint(ids) or len(set(ids)) < len(ids):
            raise InvalidInputError(f"two results are for the same of the fragments {sorted(ids)}")
        seen.update(ids)
        old = tuple(base.fragments[places[number]] for number in ids)
        data = result.new_places
        new_places = None if data is None else np.frombuffer(data, "<u4").astype(np.int64)
        groups.append(RewriteGroup(old, result.new_fragments, result.layout is not None, new_places))
    return groups


def _commit(
    table: TableLocation,
    newest: Manifest,
    groups: Sequence[RewriteGroup],
    options: CommitOptions,
    *,
    deferred: bool,
) -> Manifest:
    remapped = remap_indices(table, newest, groups, options, deferred=deferred)
    with removing_on_failure(table, remapped.segments):
        transaction = Transaction.new(newest.version, remapped.operation, options.all_properties())
        new_table = NewTable(data_format(newest) or DEFAULT_FILE_VERSION)
        return Commit(table.history, newest, transaction, new_table, options.policy, marks=options.marks()).run()


def _fitting(base: Manifest, newest: Manifest, groups: Sequence[RewriteGroup]) -> list[RewriteGroup]:
    """The groups whose old fragments are in `newest` just as they are in `base`."""
    if (
        newest.has_stable_row_ids != base.has_stable_row_ids
        or newest.base_paths[: len(base.base_paths)] != base.base_paths
    ):
        return []
    if not columns_stay(base.schema, newest.schema, Rewrite(tuple(groups)).written_fields):
        return []
    before = {message.id: message for message in base.fragments.messages}
    after = {message.id: message for message in newest.fragments.messages}
    return [group for group in groups if all(before[number] == after.get(number) for number in group.old_ids)]


def _movable(
    table: TableLocation, manifest: Manifest, groups: list[RewriteGroup], *, deferred: bool
) -> list[RewriteGroup]:
    """The groups whose rows no index of an unknown kind would lose."""
    if is_deferred(manifest, requested=deferred):
        return groups
    covered = UnknownIndexes.of(manifest, table.bases(manifest)).covered
    return [group for group in groups if covered.isdisjoint(pyroaring.BitMap(group.old_ids))]


def _has_all(manifest: Manifest, groups: Sequence[RewriteGroup]) -> bool:
    """True if the version has the groups already: an earlier call has committed them."""
    present = {file.path for message in manifest.fragments.messages for file in message.files}
    return all(path in present for path in _paths(fragment for group in groups for fragment in group.new_fragments))


def _paths(fragments: Iterator[DataFragment]) -> Iterator[str]:
    return (file.path for fragment in fragments for file in fragment.files)


def remove_unused_files(table: TableLocation, results: Sequence[RewriteResult]) -> None:
    """Removes the new fragments that no version has; if that is not known, a clean-up does it later."""
    try:
        unused = _unused(table, results)
    except LanceError:
        return
    remove_fragments(table.store, unused)


def _unused(table: TableLocation, results: Sequence[RewriteResult]) -> list[DataFragment]:
    new = [fragment for result in results for fragment in result.new_fragments]
    newest = table.history.latest_location()
    if not new or newest is None:
        return []
    needed = set(_paths(iter(new)))
    used: set[str] = set()
    for version in range(min(result.read_version for result in results) + 1, newest.version + 1):
        messages = table.history.load(version).manifest.fragments.messages
        used.update(file.path for message in messages for file in message.files if file.path in needed)
    return [fragment for fragment in new if used.isdisjoint(file.path for file in fragment.files)]
