"""Commits deleted and added rows as one version: the common part of DELETE, UPDATE and MERGE.

A changed row is deleted and added again, in a new fragment, or stays where it is while its fragment gets a new file of
the changed columns. Rows are identified by their address in the version that was read; if other writers come first,
the deletion files are written again with what those have deleted, as long as they have touched other rows. In a table
with stable row ids a rewritten row keeps its id and the version of its creation; what is needed for that is the address
that it had.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from lance_spark.encodings.blocks import Int64Array
from lance_spark.errors import InvalidInputError, LanceError, RetryableConflictError
from lance_spark.schema.field import FieldId, LanceSchema
from lance_spark.storage.deletion import delete_quietly
from lance_spark.table.bases import Bases
from lance_spark.table.commits.commit import Commit, NewTable
from lance_spark.table.commits.retry import cleanup_on_failure
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.features import check_writable
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.manifests.transaction import Transaction
from lance_spark.table.operations.append import Append
from lance_spark.table.operations.base import CommittableOperation, OperationKind
from lance_spark.table.operations.delete import Delete
from lance_spark.table.operations.manifest_builder import data_format
from lance_spark.table.operations.update import Update
from lance_spark.table.paths import is_detached
from lance_spark.table.reading.fragment_reader import FragmentReader
from lance_spark.table.row_level.rewritten_columns import RewrittenColumns
from lance_spark.table.row_level.rewritten_rows import MovedRows, NewFragment
from lance_spark.table.rows.deletion_vector import DeletionFileType, DeletionVector
from lance_spark.table.rows.fragment import DataFragment, DeletionFile, FragmentId
from lance_spark.table.rows.fragment_runs import by_fragment
from lance_spark.table.rows.row_address import UInt64Array, distinct
from lance_spark.table.writing.save import DEFAULT_FILE_VERSION, CommitOptions
from lance_spark.table.writing.schema_merge import MapFiles, merge_operation

if TYPE_CHECKING:
    from lance_spark.table.writing.filled_columns import BackfilledFragment

MAX_ARROW_ROWS = 5000
"""Deletion files with at most this many rows use the Arrow form, as in the reference library."""

DeletedRows = Mapping[FragmentId, Int64Array | None]
"""Offsets of the deleted rows of each fragment that loses any; None: all rows of the fragment, whichever it has."""

NewerVersionCheck = Callable[[Manifest], None]
"""Checks a version newer than the one that was read; raises a `CommitConflictError` if it conflicts."""


def file_type_for(offsets: Int64Array) -> DeletionFileType:
    """The form of a deletion file with these rows."""
    return DeletionFileType.ARROW_ARRAY if len(offsets) <= MAX_ARROW_ROWS else DeletionFileType.BITMAP


def rows_by_fragment(addresses: UInt64Array) -> dict[FragmentId, Int64Array]:
    """The rows at `addresses` (uint64[n], in any order, duplicates allowed) as `commit_row_changes` takes them.

    >>> rows_by_fragment(np.array([(2 << 32) + 7, 5, 1], np.uint64))
    {0: array([1, 5]), 2: array([7])}
    """
    return dict(by_fragment(distinct(addresses)))


def commit_row_changes(
    table: TableLocation,
    base: Manifest,
    deleted: DeletedRows,
    new: Sequence[NewFragment] = (),
    options: CommitOptions | None = None,
    *,
    predicate: str = "",
    changed_fields: Sequence[FieldId] | None = None,
    check: NewerVersionCheck | None = None,
    evolved: LanceSchema | None = None,
    columns: Sequence[BackfilledFragment] = (),
) -> Manifest:
    """The version of `table` without the rows `deleted` and with the fragments `new`; `base` if there are neither.

    Made for a driver whose tasks do the work. A task reads rows of `base` with `_rowaddr`, writes what they become
    with a `FragmentWriter`, and hands back its fragments, the addresses of the deleted rows, and for each row of a new
    fragment the address that it had (`NewFragment`). The driver joins the addresses with `rows_by_fragment` and commits
    once. Rows are deleted by new deletion files; a fragment without a row left is removed, and if its rows are None, no
    file of it is read. What is committed is a Delete if there are no new rows, an Append if no row is deleted and
    there is nothing to check, else an Update.

    After an error the written deletion files are removed; the data files of `new` and `columns` are kept, for the
    caller to retry or to remove (but never after a `CommitStateUnknownError`).

    Args:
        base: the version that the rows were found in.
        deleted: live rows of `base`.
        new: new fragments, written in the table's schema.
        predicate: what chose the rows, as SQL; kept with a Delete.
        changed_fields: ids of the fields whose values may differ in the rewritten rows; None for all fields.
        check: asked for each newer version that the commit has to follow. Added rows alone are then an Update too:
            a merge by the reference library conflicts with other updates, because they may have inserted the same key.
        evolved: all columns from then on, those of `base` among them, if rows have more, which allow nulls. Then there
            is always a version, and nobody else may have changed columns.
        columns: files with new values of columns of live rows of `base`, one a fragment at most; not with `evolved`.

    Raises:
        InvalidInputError: a row that `base` does not have, a row that is rewritten twice, or rewritten but not deleted.
        RetryableConflictError: another writer has deleted, rewritten or changed one of the rows: find them again in the
            newest version, and write them again. Nothing was changed.
        CommitConflictError: it conflicts with what other writers have committed. Nothing was changed.
        CommitStateUnknownError: the store never said whether the version was committed.
        StorageError: the store failed. Nothing was changed.
        UnsupportedFeatureError: this release cannot write to the table.
    """
    if is_detached(base.version):
        raise InvalidInputError(
            "a detached version is not part of the table's history, so no version can be committed after it"
        )
    check_writable(base.writer_flags, table.uri)
    deleted = {fragment_id: rows for fragment_id, rows in deleted.items() if rows is None or len(rows)}
    if not deleted and not new and not columns and evolved is None:
        return base
    if changed_fields is None:
        changed_fields = [field.id for field in base.schema.walk()]
    options = options or CommitOptions()
    moved = MovedRows(base, table.bases(base), new, deleted)
    rewritten = RewrittenColumns(table, base, columns)
    changes = _RowChanges(table, base, deleted, moved, rewritten, predicate, tuple(changed_fields), check, evolved)
    with cleanup_on_failure(changes.remove_files):
        transaction = Transaction.new(base.version, changes.from_version(base), options.all_properties())
        new_table = NewTable(data_format(base) or DEFAULT_FILE_VERSION)
        made = Commit(
            table.history, base, transaction, new_table, options.policy, changes.from_version, marks=options.marks()
        ).run()
    changes.remove_files(but_those_of=made)
    return made


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The deletion files of a fragment before and after the commit.

    Attributes:
        before: its previous deletion file.
        after: its new deletion file; None if no row is left.
    """

    before: DeletionFile | None
    after: DeletionFile | None


class _RowChanges:
    """The deleted and added rows, and the deletion files that were written for them."""

    def __init__(
        self,
        table: TableLocation,
        base: Manifest,
        deleted: DeletedRows,
        moved: MovedRows,
        rewritten: RewrittenColumns,
        predicate: str,
        changed_fields: tuple[FieldId, ...],
        check: NewerVersionCheck | None,
        evolved: LanceSchema | None,
    ) -> None:
        self._table = table
        self._base = base
        self._deleted = deleted
        self._moved = moved
        self._rewritten = rewritten
        self._predicate = predicate
        self._changed_fields = changed_fields
        self._check = check
        self._evolved = evolved
        self._maps = None if evolved is None else MapFiles(table, base, evolved)
        self._kind = OperationKind.UPDATE if moved.fragments or rewritten else OperationKind.DELETE
        if evolved is not None:
            self._kind = OperationKind.MERGE
        self._outcomes: dict[FragmentId, _Outcome] = {}
        self._written: set[str] = set()

    def from_version(self, manifest: Manifest) -> CommittableOperation:
        """The operation that makes the changes to `manifest`, the version that was read or a newer one.

        Raises:
            RetryableConflictError: another writer deleted or moved one of the rows.
        """
        if self._check is not None and manifest.version != self._base.version:
            self._check(manifest)
        if not self._deleted and not self._rewritten and self._check is None and self._evolved is None:
            return Append(self._moved.fragments)
        updated, removed = self._losses(manifest)
        if self._rewritten:
            return self._rewritten.update(manifest, updated, removed, self._moved.with_lineage(manifest))
        if not self._moved.fragments and self._evolved is None:
            return Delete(updated, removed, self._predicate)
        update = Update(removed, updated, self._moved.with_lineage(manifest), changed_fields=self._changed_fields)
        if self._evolved is None or self._maps is None:
            return update
        return merge_operation(manifest, update, self._evolved, self._maps)

    def _losses(self, manifest: Manifest) -> tuple[tuple[DataFragment, ...], tuple[FragmentId, ...]]:
        """Fragments with new deletion files, and those without a row left."""
        bases = self._table.bases(manifest)
        updated: list[DataFragment] = []
        removed: list[FragmentId] = []
        for fragment in manifest.fragments.with_ids(self._deleted):
            outcome = self._outcomes.get(fragment.id)
            if outcome is None or outcome.before != fragment.deletion_file:
                outcome = self._outcomes[fragment.id] = self._take_from(fragment, bases, manifest.version)
            if outcome.after is None:
                removed.append(fragment.id)
            else:
                updated.append(replace(fragment, deletion_file=outcome.after))
        if len(updated) + len(removed) < len(self._deleted):
            raise self._conflict_error("removed a fragment that has some of the rows", manifest.version)
        return tuple(updated), tuple(removed)

    def _take_from(self, fragment: DataFragment, bases: Bases, version: int) -> _Outcome:
        rows = self._deleted[fragment.id]
        known = self._outcomes.get(fragment.id)
        if rows is None:
            if known is not None:
                raise self._conflict_error("deleted or moved some of the rows", version)
            return _Outcome(fragment.deletion_file, None)
        reader = FragmentReader(fragment, bases)
        offsets = distinct(np.concatenate([reader.deletions.offsets, rows]))
        if offsets[0] < 0 or offsets[-1] >= reader.num_rows:
            raise InvalidInputError(f"fragment {fragment.id} has {reader.num_rows} rows, and no row {int(offsets[-1])}")
        if len(offsets) < len(reader.deletions) + len(rows):
            raise self._conflict_error("deleted or moved some of the rows", version)
        if len(offsets) == reader.num_rows:
            return _Outcome(fragment.deletion_file, None)
        file_type = file_type_for(offsets)
        file = DeletionFile(file_type, self._base.version, secrets.randbits(64), len(offsets))
        path = file.path(fragment.id)
        self._written.add(path)
        self._table.store.put(path, DeletionVector(offsets).encode(file_type))
        return _Outcome(fragment.deletion_file, file)

    def _conflict_error(self, what: str, version: int) -> LanceError:
        if version == self._base.version:
            return InvalidInputError(f"version {version} of {self._table.uri} does not have all of the rows to delete")
        return RetryableConflictError(
            f"another writer {what} that are to be deleted from {self._table.uri}. "
            "Read the new version and run the operation again",
            own=self._kind.value,
            table_version=version,
        )

    def remove_files(self, but_those_of: Manifest | None = None) -> None:
        """Removes the files that were written, but those that a version names."""
        if self._maps is not None:
            self._maps.remove(but_those_of)
        # The path of a deletion file has the id of its fragment.
        changed = () if but_those_of is None else but_those_of.fragments.with_ids(self._outcomes)
        kept = {fragment.deletion_file.path(fragment.id) for fragment in changed if fragment.deletion_file is not None}
        for path in self._written - kept:
            delete_quietly(self._table.store, path)
