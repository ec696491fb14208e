"""Cherrypicks: the change of one version is made on another branch, or again on its own after a rollback.

New rows are added with the files that they have; rows that the version deleted or updated must be on the branch as they
were. The transaction names what was picked, so that it is not picked twice.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

from lance_spark.errors import InvalidInputError, NotFoundError, RetryableConflictError, UnsupportedFeatureError
from lance_spark.schema.constraints import has_new_checks
from lance_spark.storage.deletion import delete_quietly
from lance_spark.table.bases import BasePath
from lance_spark.table.commits.commit import Commit, NewTable, RetryPolicy
from lance_spark.table.commits.retry import cleanup_on_failure, retry_on_conflict
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.features import FeatureFlag
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.manifests.manifest_file import ManifestFile
from lance_spark.table.manifests.transaction import OPERATION, Transaction
from lance_spark.table.operations.append import Append
from lance_spark.table.operations.base import CommittableOperation, OperationKind
from lance_spark.table.operations.manifest_builder import data_format, largest_fragment_id
from lance_spark.table.publishing.compare import shared_row_ids
from lance_spark.table.publishing.lineage import SOURCE_BRANCH, SOURCE_ID, SOURCE_VERSION, Lineage, Point
from lance_spark.table.publishing.picked_rows import PickedRows, RowPicker
from lance_spark.table.publishing.seen_from import SharedBases, shared_bases, with_shared_bases
from lance_spark.table.refs.branch_files import kept_for_branch
from lance_spark.table.refs.refs import MAIN
from lance_spark.table.row_level.rewritten_rows import NewFragment
from lance_spark.table.row_level.row_changes import DeletedRows, commit_row_changes, file_type_for
from lance_spark.table.rows.deletion_vector import DeletionVector
from lance_spark.table.rows.fragment import BaseId, DeletionFile, FragmentId
from lance_spark.table.writing.identity import IdentityColumns
from lance_spark.table.writing.save import DEFAULT_FILE_VERSION, CommitOptions

CHERRYPICK = "cherrypick"
"""The name of the operation in the transaction of a cherrypick."""

PICKED = "lance.picked_transaction"
"""The property with the UUIDs of the transactions that were picked; of a pick of a pick, those of the first."""

_ROW_CHANGES = (OperationKind.APPEND, OperationKind.DELETE, OperationKind.UPDATE)
_CLOCKS_DIFFER = 3600 * 10**9


def cherrypick(
    source: TableLocation,
    version: int,
    target: TableLocation,
    policy: RetryPolicy | None = None,
    properties: Mapping[str, str] | None = None,
    *,
    first: int | None = None,
) -> Manifest:
    """The new newest version of the branch `target`, with the change of `version` of the branch `source`.

    Args:
        properties: further properties of the transaction.
        first: the changes of this version and all up to `version` are made at once; None for `version` alone.

    Raises:
        InvalidInputError: the version does something else than to add, delete, update or merge rows; it is part of the
            branch already; rows that it deleted or updated are not there as they were; or the columns differ.
        NotFoundError: there is no such version, or the one before it was cleaned up.
        CommitConflictError: other writers were always first. Nothing was changed.
        CommitStateUnknownError: it is unknown whether the version was committed.
        UnsupportedFeatureError: the version has changed values in place, or adds rows of a table with identity columns;
            or one of the two needs a feature that this release does not write.
    """

    def attempt(newest: Manifest) -> Manifest:
        return _Pick(source, (first or version, version), target, newest, policy, properties or {}).run()

    return retry_on_conflict(attempt, target.newest(), target.newest, policy)


@dataclass(frozen=True, slots=True)
class _AddedBases:
    """Base paths that are added together with the rows whose files are there."""

    bases: tuple[BasePath, ...]

    def check(self, config: Mapping[str, str], uri: str) -> None:
        """Passes: the commit is a direct successor of the version that the base paths were chosen for."""

    def applied(self, manifest: Manifest) -> Manifest:
        """`manifest` with the base paths."""
        return replace(
            manifest,
            base_paths=(*manifest.base_paths, *self.bases),
            reader_flags=manifest.reader_flags | FeatureFlag.BASE_PATHS,
            writer_flags=manifest.writer_flags | FeatureFlag.BASE_PATHS,
        )


class _Pick:
    """One attempt, on the version `newest` of the branch `target`."""

    def __init__(
        self,
        source: TableLocation,
        versions: tuple[int, int],
        target: TableLocation,
        newest: Manifest,
        policy: RetryPolicy | None,
        properties: Mapping[str, str],
    ) -> None:
        self._source, self._target, self._newest = source, target, newest
        self._first, self._point = versions[0], Point(source.branch, versions[1])
        self._policy, self._properties = policy, properties

    def run(self) -> Manifest:
        after, origins = self._picked()
        before = self._predecessor()
        new_ids = set(after.fragments.ids) - set(before.fragments.ids)
        self._check_new(origins, adds_rows=bool(new_ids))
        self._check_columns(before, adds_rows=bool(new_ids))
        added = list(after.fragments.with_ids(new_ids))
        used = {file.base_id for item in added for file in item.files}
        shared = shared_bases(self._target, self._newest, self._source, after)
        seen = [with_shared_bases(self._newest, manifest, shared) for manifest in (before, after)]
        stable = self._newest.has_stable_row_ids
        row_ids = shared_row_ids(self._target, self._source, self._newest, before) if stable else 0
        rows = RowPicker(self._target, self._newest, seen[0], seen[1], row_ids, str(self._point)).pick()
        if not rows.deleted and not rows.new:
            return self._newest
        named = {shared.ids.get(base_id, base_id) for base_id in used}
        with self._kept(named):
            return self._commit(rows, self._options(origins, _added(shared, named)))

    def _picked(self) -> tuple[Manifest, frozenset[str]]:
        """The last version, and the UUIDs of the transactions whose changes it and those before it have made."""
        origins: list[str] = []
        for number in range(self._first, self._point.version + 1):
            file, transaction = self._row_change(Point(self._point.branch, number))
            origins += transaction.properties.get(PICKED, transaction.uuid).split(",")
        return file.manifest, frozenset(origins)

    def _row_change(self, point: Point) -> tuple[ManifestFile, Transaction]:
        file = self._source.at(point.version)
        transaction = self._source.history.transaction(file)
        kind = OperationKind.UNKNOWN if transaction is None else transaction.operation.kind
        if transaction is None or kind not in _ROW_CHANGES:
            name = kind.value if transaction is None else transaction.properties.get(OPERATION, kind.value)
            raise InvalidInputError(
                f"{point} is of kind {name}, which is not picked: only versions that add, delete, update or "
                "merge rows are; fast_forward takes all versions of a branch"
            )
        return file, transaction

    def _predecessor(self) -> Manifest:
        number = self._first - 1
        try:
            return self._source.at(number).manifest
        except NotFoundError:
            raise NotFoundError(
                f"{self._point} cannot be picked, because version {number}, which shows what it has changed, was "
                "cleaned up; make the change again"
            ) from None

    def _check_new(self, origins: frozenset[str], *, adds_rows: bool) -> None:
        """Checks that the branch does not have the change, neither by this version nor by a pick of it."""
        lineage, here = Lineage(self._target, skips_restored=True), Point(self._target.branch, self._newest.version)
        since = self._source.at(self._first).manifest.timestamp_nanos - _CLOCKS_DIFFER
        for ancestor in lineage.ancestors(here, since=since):
            is_picked = ancestor.point.branch == self._point.branch and (
                self._first <= ancestor.point.version <= self._point.version
            )
            if is_picked or not origins.isdisjoint(_changes_of(ancestor.transaction)):
                raise InvalidInputError(
                    f"the change of {self._point} is in branch {here.branch or MAIN} already, by {ancestor.point}"
                )
            if not ancestor.is_complete and adds_rows:
                raise InvalidInputError(
                    f"versions of branch {here.branch or MAIN} since {self._point} were cleaned up, so that it is not "
                    "known whether it was picked; insert its rows by a statement if they are missing"
                )

    def _check_columns(self, before: Manifest, *, adds_rows: bool) -> None:
        newest, target = self._newest, self._target.branch or MAIN
        if before.schema.fields != newest.schema.fields or before.has_stable_row_ids != newest.has_stable_row_ids:
            raise InvalidInputError(f"{self._point} has other columns than branch {target}; make the change there")
        if adds_rows and has_new_checks(before.schema, newest.schema):
            raise InvalidInputError(
                f"branch {target} has a CHECK constraint that rows of {self._point} were not checked by; insert them"
            )
        if adds_rows and self._source.branch != self._target.branch and IdentityColumns.of_version(newest):
            raise UnsupportedFeatureError(
                f"rows of {self._point} may have the same values in identity columns as rows of branch {target}; "
                "insert them without these values",
                feature="cherrypick of rows with identity columns",
            )

    def _options(self, origins: frozenset[str], added: tuple[BasePath, ...]) -> CommitOptions:
        properties = {
            OPERATION: CHERRYPICK,
            SOURCE_BRANCH: self._point.branch or MAIN,
            SOURCE_VERSION: str(self._point.version),
            SOURCE_ID: Lineage(self._target).identity(self._point.branch),
            PICKED: ",".join(sorted(origins)),
            **self._properties,
        }
        marks = (_AddedBases(added),) if added else ()
        return CommitOptions(properties=properties, policy=self._policy, other_marks=marks)

    def _kept(self, named: set[BaseId | None]) -> AbstractContextManager[None]:
        """Keeps the picked version while and after the branch names files that are not its own."""
        if named <= {None}:
            return nullcontext()
        return kept_for_branch(self._source, self._point.version, self._target)

    def _commit(self, rows: PickedRows, options: CommitOptions) -> Manifest:
        """Commits as the direct successor only: another writer may have picked the same version."""
        new, written = self._with_deletion_files(rows)
        with cleanup_on_failure(lambda: _remove(self._target, written)):
            return self._commit_new(rows.deleted, new, options)

    def _with_deletion_files(self, rows: PickedRows) -> tuple[list[NewFragment], list[str]]:
        """The new fragments without rows that the version has not, and the files written for that.

        The path of such a file has the id of its fragment, which is known, as no other version comes in between.
        """
        first = largest_fragment_id(self._newest) + 1
        new: list[NewFragment] = []
        written: list[str] = []
        for place, (item, offsets) in enumerate(zip(rows.new, rows.deleted_new, strict=True)):
            file = None
            if len(offsets):
                file = DeletionFile(file_type_for(offsets), self._newest.version, secrets.randbits(64), len(offsets))
                written.append(file.path(FragmentId(first + place)))
                self._target.store.put(written[-1], DeletionVector(offsets).encode(file.file_type))
            new.append(replace(item, fragment=replace(item.fragment, deletion_file=file)))
        return new, written

    def _commit_new(self, deleted: DeletedRows, new: Sequence[NewFragment], options: CommitOptions) -> Manifest:
        if deleted:
            return commit_row_changes(self._target, self._newest, deleted, new, options, check=self._strictly)
        operation = Append(tuple(item.fragment for item in new))

        def strictly(newer: Manifest) -> CommittableOperation:
            self._strictly(newer)
            return operation

        transaction = Transaction.new(self._newest.version, operation, options.all_properties())
        new_table = NewTable(data_format(self._newest) or DEFAULT_FILE_VERSION)
        history, marks = self._target.history, options.marks()
        return Commit(history, self._newest, transaction, new_table, self._policy, strictly, marks).run()

    def _strictly(self, newer: Manifest) -> None:
        raise RetryableConflictError(
            f"another writer has committed version {newer.version} of branch {self._target.branch or MAIN} meanwhile",
            own=CHERRYPICK,
            table_version=newer.version,
        )


def _added(shared: SharedBases, named: set[BaseId | None]) -> tuple[BasePath, ...]:
    return tuple(base for base in shared.added if base.id in named)


def _changes_of(transaction: Transaction | None) -> set[str]:
    """The UUIDs of the transactions whose changes a version has made."""
    return set() if transaction is None else {transaction.uuid, *transaction.properties.get(PICKED, "").split(",")}


def _remove(table: TableLocation, paths: Sequence[str]) -> None:
    for path in paths:
        delete_quietly(table.store, path)
