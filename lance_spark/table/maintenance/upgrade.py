"""Rewrites the data files of a table in a newer file version, as one version of the table.

Each fragment is rewritten on its own, so the tasks can run on different machines. An upgrade is a Rewrite with the
conflict rules of a compaction, but never leaves a fragment out: fragments that other writers change or append meanwhile
are rewritten by the commit itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyroaring

from lance_spark._proto import table_pb2
from lance_spark.errors import InvalidInputError, UnsupportedFeatureError
from lance_spark.file.writable import WRITABLE_VERSIONS
from lance_spark.file_version import FileVersion
from lance_spark.progress import progress
from lance_spark.schema.blob import in_file_version
from lance_spark.table.commits.commit import Commit, NewTable
from lance_spark.table.commits.retry import cleanup_on_failure, retry_on_conflict
from lance_spark.table.indexes.unknown import UnknownIndexes
from lance_spark.table.location import TableLocation
from lance_spark.table.maintenance.compaction import RewriteResult, remove_unused_files, run_task
from lance_spark.table.maintenance.compaction_options import CompactionOptions
from lance_spark.table.maintenance.compaction_plan import CompactionPlan, CompactionTask, check_can_rewrite
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.manifests.transaction import Transaction
from lance_spark.table.operations.manifest_builder import data_format
from lance_spark.table.operations.rewrite import Rewrite, RewriteGroup
from lance_spark.table.rows.fragment import FragmentId
from lance_spark.table.rows.row_address import MAX_ROWS_PER_FRAGMENT
from lance_spark.table.writing.save import CommitOptions

Progress = Callable[[int, int], None]
"""Called with the number of fragments that are done and of all that are to be rewritten."""

_MAX_ATTEMPTS = 5


def upgrade_version(name: str) -> FileVersion:
    """The file version that a table can be upgraded to.

    Raises:
        InvalidInputError: the name is unknown, or files of that version are not written.
    """
    version = FileVersion.parse(name)
    if version not in WRITABLE_VERSIONS:
        written = ", ".join(supported.value for supported in WRITABLE_VERSIONS)
        raise InvalidInputError(f"tables cannot be upgraded to file version {version.value}; choose one of {written}")
    return version


def plan_upgrade(table: TableLocation, base: Manifest, version: FileVersion) -> CompactionPlan:
    """The tasks that rewrite all older files of `base` in `version`, one for each fragment.

    Raises:
        InvalidInputError: the table is of a newer file version, or `base` is detached.
        UnsupportedFeatureError: `version` cannot hold a column, this release cannot rewrite the rows, or an index of an
            unknown kind would lose them.
    """
    current = data_format(base)
    if current is not None and current > version:
        raise InvalidInputError(f"{table.uri} is of file version {current.value}, which is newer than {version.value}")
    check_can_rewrite(table, base, version, in_file_version(base.schema, version))
    options = _options(version)
    ids = [FragmentId(message.id) for message in base.fragments.messages if _is_older(message, version)]
    unknown = UnknownIndexes.of(base, table.bases(base)) if ids else UnknownIndexes.none()
    if not unknown.covered.isdisjoint(pyroaring.BitMap(ids)):
        reason = unknown.reason(can_defer=False)
        raise UnsupportedFeatureError(f"the files of {table.uri} are not upgraded: {reason}", feature="index")
    return CompactionPlan(base.version, tuple(CompactionTask(base.version, (number,), options) for number in ids))


def commit_upgrade(
    table: TableLocation,
    base: Manifest,
    version: FileVersion,
    results: Sequence[RewriteResult] = (),
    options: CommitOptions | None = None,
    progress: Progress | None = None,
    *,
    newest: Manifest | None = None,
) -> Manifest:
    """The version whose files are all of `version` or newer; `base` itself if that is so already.

    Fragments of the newest version for which there is no result are rewritten here. Files that are not used are
    removed, after an error too.

    Args:
        results: what tasks of `plan_upgrade` have written from `base`.
        newest: the version to begin with, if a newer one than `base` is known.

    Raises:
        CommitConflictError: other writers were always first. Nothing was changed.
        CommitStateUnknownError: it is unknown whether the version was committed.
        StorageError: the store failed. Nothing was changed.
        InvalidInputError, UnsupportedFeatureError: as `plan_upgrade`.
    """
    options = options or CommitOptions()
    upgrade = _Upgrade(table, version, options, progress)
    upgrade.add(base, results)
    with cleanup_on_failure(upgrade.remove_unused):
        upgraded = retry_on_conflict(
            upgrade.attempt, newest or base, table.newest, options.policy, max_attempts=_MAX_ATTEMPTS
        )
    upgrade.remove_unused()
    return upgraded


class _Upgrade:
    """The fragments that were rewritten so far, kept over conflicts."""

    def __init__(
        self, table: TableLocation, version: FileVersion, options: CommitOptions, progress: Progress | None
    ) -> None:
        self._table = table
        self._version = version
        self._options = options
        self._progress = progress
        self._results: dict[bytes, RewriteResult] = {}

    def add(self, base: Manifest, results: Sequence[RewriteResult]) -> None:
        """Keeps results of tasks by the fragments that they were made from."""
        messages = {message.id: message for message in base.fragments.messages}
        for result in results:
            [number] = result.fragment_ids
            if result.read_version != base.version or number not in messages:
                raise InvalidInputError(f"a result is for version {result.read_version}, not for {base.version}")
            self._results[_key(messages[number])] = result

    def attempt(self, base: Manifest) -> Manifest:
        """Rewrites what is missing, and commits."""
        plan = plan_upgrade(self._table, base, self._version)
        if not plan.tasks and data_format(base) == self._version:
            return base
        places = {message.id: place for place, message in enumerate(base.fragments.messages)}
        groups = []
        with progress("Upgrading", len(plan.tasks), "fragments", quiet=self._progress is not None) as bar:
            for number, task in enumerate(bar.track(plan.tasks)):
                place = places[task.fragment_ids[0]]
                result = self._result(base, task, base.fragments.messages[place])
                groups.append(RewriteGroup((base.fragments[place],), result.new_fragments))
                if self._progress is not None:
                    self._progress(number + 1, len(plan.tasks))
        operation = Rewrite(tuple(groups), file_version=self._version)
        transaction = Transaction.new(base.version, operation, self._options.all_properties())
        new_table = NewTable(self._version)
        return Commit(self._table.history, base, transaction, new_table, self._options.policy).run()

    def _result(self, base: Manifest, task: CompactionTask, message: table_pb2.DataFragment) -> RewriteResult:
        key = _key(message)
        if key not in self._results:
            self._results[key] = run_task(self._table, base, task)
        return self._results[key]

    def remove_unused(self) -> None:
        """Removes the files of results that no version has."""
        if self._results:
            remove_unused_files(self._table, list(self._results.values()))


def _options(version: FileVersion) -> CompactionOptions:
    return CompactionOptions(MAX_ROWS_PER_FRAGMENT // 2 - 1, file_format_version=version.value)


def _is_older(message: table_pb2.DataFragment, version: FileVersion) -> bool:
    numbers = {(file.file_major_version, file.file_minor_version) for file in message.files}
    return any(FileVersion.from_numbers(*pair) < version for pair in numbers)


def _key(message: table_pb2.DataFragment) -> bytes:
    return message.SerializeToString(deterministic=True)
