"""A version of a table that rows are written to: the interface of plain and partitioned tables for all writes.

A target travels to the tasks of a write, which write files by it, and the driver commits these files. A file that no
commit names is invisible. A writer removes its files when it fails; files that killed tasks, or earlier attempts of a
task, have left carry the name of the job and are removed when the job ends.
"""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from threading import Thread
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import pyarrow as pa

from lance_spark.errors import IncompatibleConflictError, LanceError
from lance_spark.expr.nodes import Expr
from lance_spark.schema.constraints import has_new_checks
from lance_spark.schema.field import FieldId, LanceSchema
from lance_spark.storage.base import ObjectStore
from lance_spark.table.commits.retry import retry_on_conflict
from lance_spark.table.operations.base import OperationKind
from lance_spark.table.reading.blobs.signed_sources import SignedSources
from lance_spark.table.reading.scan import Scan
from lance_spark.table.row_level.read_conflicts import ReadRows
from lance_spark.table.row_level.row_writer import RowWriter, WrittenSplit
from lance_spark.table.rows.fragment import DataFile
from lance_spark.table.rows.row_address import UInt64Array
from lance_spark.table.source import Split
from lance_spark.table.writing.conform import same_columns
from lance_spark.table.writing.file_limits import FileLimits
from lance_spark.table.writing.identity import IdentityColumns, UsedByTask
from lance_spark.table.writing.save import CommitOptions
from lance_spark.table.writing.write import remove_job_files

if TYPE_CHECKING:
    from typing_extensions import Self

    from lance_spark.table.writing.filled_columns import BackfilledSplit

_LATE_LOOKS = 6
"""Repeated listings of an aborted job's files, to find files of tasks that were still running."""
_LATE_WAIT = 0.5
"""Seconds between two listings."""

_LOG = logging.getLogger(__name__)

Version = TypeVar("Version")

OtherTables = Callable[["Mapping[str, str] | None"], SignedSources]
"""Finds the blobs of other tables; called with storage options for tables that the statement does not name."""


class WriteMode(str, Enum):
    """Treatment of the existing rows of a table."""

    CREATE = "create"
    APPEND = "append"
    OVERWRITE = "overwrite"
    """All are replaced, and a plain table gets the columns of the new rows."""
    TRUNCATE = "truncate"
    """All are replaced, and the table keeps its columns."""
    REPLACE_WHERE = "replace_where"
    """Rows for which a filter is true are replaced."""
    OVERWRITE_PARTITIONS = "overwrite_partitions"
    """Rows of the partitions that get new rows are replaced."""


@dataclass(frozen=True, slots=True)
class RowSearch:
    """A search for rows.

    Attributes:
        splits: where to search.
        scan: for the address of each row, as the only column, in the first split; None if there is none.
    """

    splits: Sequence[Split]
    scan: Scan | None


class WriteTarget(ABC, Generic[Version]):
    """A version of a table, of which rows are added, deleted and changed. Small, because every task gets it.

    A target without columns (`taking`) only deletes.

    Attributes:
        changed_properties: properties of a partitioned table that change with the rows if columns or specs do.
        base_version: the number of the version; None if there is no table.
        job: the name of the write, which its files carry; None if it writes no rows.
        identity: the identity columns whose values new rows get.
    """

    base_version: int | None
    job: str | None
    identity: IdentityColumns
    changed_properties: Mapping[str, str | None] | None = None

    @property
    def can_rebase(self) -> bool:
        """Whether new files may be committed after versions that other writers have committed meanwhile."""
        return True

    @property
    @abstractmethod
    def uri(self) -> str:
        """The root of the table, for messages."""

    @property
    @abstractmethod
    def lance_schema(self) -> LanceSchema:
        """The columns of the version, and those that rows of a statement bring, with their field ids."""

    @property
    @abstractmethod
    def table_schema(self) -> LanceSchema:
        """The columns of the table once the rows are in it."""

    @property
    @abstractmethod
    def table_properties(self) -> Mapping[str, str]:
        """The properties of the table; none if there is no table."""

    @property
    def placing_fields(self) -> frozenset[int]:
        """Ids of the fields whose values choose the split of a row; none in a plain table."""
        return frozenset()

    @property
    @abstractmethod
    def has_stable_row_ids(self) -> bool:
        """Whether rows keep their ids when they move."""

    @property
    @abstractmethod
    def committed_nanos(self) -> int:
        """Commit time in nanoseconds; another one with this number means that the table was created again."""

    @property
    @abstractmethod
    def read_schema(self) -> pa.Schema:
        """The columns as they are read to be written again; descriptions of blobs name their data file."""

    @property
    @abstractmethod
    def version(self) -> Version:
        """The version."""

    @abstractmethod
    def at(self, version: Version) -> Self:
        """A target of another version of the table."""

    @abstractmethod
    def numbered(self, version: int) -> Version:
        """The version with a number.

        Raises:
            NotFoundError: there is none.
        """

    @abstractmethod
    def newest(self) -> Version:
        """The newest version."""

    @abstractmethod
    def check_commits(self) -> None:
        """Passes if versions can be committed.

        Raises:
            StorageError: commits are not safe in this store (`History.check_commits`).
            UnsupportedFeatureError: this release cannot write to the table.
        """

    @abstractmethod
    def splits(self, filter: Expr | None = None) -> Sequence[Split]:
        """The splits that may hold rows which match `filter`."""

    @abstractmethod
    def changed_splits(self, before: Self) -> Sequence[Split]:
        """The splits, without those that are known to be the same in an older version."""

    def few_splits(self, filter: Expr, most: int) -> Sequence[Split] | None:
        """The splits that may hold rows which match `filter`; None if they are more than `most`."""
        return self.splits(filter)

    @abstractmethod
    def has_columns_of(self, other: Self) -> bool:
        """Whether another version of the table has the same columns, and partition specs."""

    @abstractmethod
    def opener(self) -> Callable[[str | None], Split]:
        """A function that opens the split with a key, for as long as one task or request takes."""

    @abstractmethod
    def search(self, filter: Expr) -> RowSearch:
        """The search for the rows that match `filter`, where metadata does not say which these are."""

    @abstractmethod
    def taking(
        self,
        columns: pa.Schema,
        limits: FileLimits | None = None,
        *,
        mode: WriteMode = WriteMode.APPEND,
        merge_schema: bool = False,
        file_format_version: str | None = None,
    ) -> Self:
        """The target of a new job, for rows with the columns `columns`.

        Args:
            merge_schema: whether an append may add columns to the table.
            file_format_version: of the data files; None for that of the table. A partitioned table has one.

        Raises:
            InvalidInputError: the columns do not fit the table.
            StorageError: commits are not safe in this store.
            UnsupportedFeatureError: this release cannot write to the table, or not such columns.
        """

    @abstractmethod
    def writer(self, task: int = 0, num_tasks: int = 1, blobs: OtherTables | None = None) -> RowWriter:
        """A writer of the rows of a task.

        Args:
            blobs: finds the blobs of other tables whose descriptions rows have; None if rows have no descriptions.
        """

    @abstractmethod
    def fitting(self, written: Sequence[WrittenSplit], planned: Self) -> Sequence[WrittenSplit]:
        """Files for a commit on this version, which were written for the version of `planned`.

        Raises:
            IncompatibleConflictError: another writer has changed columns, CHECK constraints or places, so they do not
                fit.
        """

    @abstractmethod
    def check_of(self, reads: Sequence[ReadRows]) -> Callable[[Version], None] | None:
        """The check of a statement with these reads, asked for newer versions; None if it has read nothing."""

    @abstractmethod
    def save(
        self,
        mode: WriteMode,
        written: Sequence[WrittenSplit],
        options: CommitOptions,
        check: Callable[[Version], None] | None = None,
    ) -> Version:
        """Commits new files, beside or instead of the rows that the table has. After an error the files stay.

        Args:
            check: asked for each newer version that the commit has to follow.

        Raises:
            RetryableConflictError: another writer has touched one of the rows.
            CommitConflictError: it conflicts with what other writers have committed. Nothing was changed.
            CommitStateUnknownError: the store never said whether the version was committed.
            StorageError: the store failed. Nothing was changed.
        """

    @abstractmethod
    def change_rows(
        self,
        deleted: Mapping[str | None, UInt64Array],
        written: Sequence[WrittenSplit],
        options: CommitOptions,
        *,
        changed_fields: Sequence[FieldId] | None = None,
        check: Callable[[Version], None] | None = None,
        columns: Sequence[BackfilledSplit] = (),
    ) -> Version:
        """Commits deleted rows and new files; the version itself if that changes nothing. Raises as `save`.

        Args:
            deleted: by key of the split, addresses of rows.
            changed_fields: ids of the fields whose values may differ in rewritten rows; None for all.
            columns: files with new values of columns of rows that do not move.
        """

    @abstractmethod
    def _matching(self, filter: Expr, before: Any) -> Any:
        """The rows of this version for which `filter` is true, for `_replace`.

        Args:
            before: those of an older version, of which only what has changed since is read; None if there are none.
        """

    @abstractmethod
    def _found(self, filter: Expr, matching: Mapping[str | None, UInt64Array]) -> Any:
        """The result of `_matching` from the addresses of rows in the splits of `search`, by key of the split."""

    @abstractmethod
    def _replace(
        self,
        matching: Any,
        written: Sequence[WrittenSplit] | None,
        options: CommitOptions,
        *,
        predicate: str,
        check: Callable[[Version], None] | None = None,
    ) -> Version:
        """Commits new files instead of `matching` rows; None for a deletion.

        Args:
            predicate: the filter, as SQL.
        """

    @abstractmethod
    def stores(self, written: Sequence[WrittenSplit], columns: Sequence[BackfilledSplit] = ()) -> list[ObjectStore]:
        """The roots below which the job may have left files; of a partitioned table those of the written partitions.

        A clean-up finds what killed tasks have left in other partitions.
        """

    def changes_nothing(self, mode: WriteMode, written: Sequence[WrittenSplit]) -> bool:
        """Whether `save` would make a version equal to this one."""
        return False

    def replace_rows(
        self,
        filter: Expr,
        written: Sequence[WrittenSplit],
        options: CommitOptions,
        matching: Mapping[str | None, UInt64Array] | None = None,
    ) -> Version:
        """Commits new files instead of the rows for which `filter` is true. After an error the files stay.

        If other writers have changed such rows, they are searched again in the newest version.

        Args:
            matching: by key of the split, the addresses of these rows in the splits of `search`; None to search.

        Raises: as `save`, and `IncompatibleConflictError` as `fitting`.
        """
        before = None if matching is None else self._found(filter, matching)

        def attempt(version: Version) -> Version:
            nonlocal before
            current = self.at(version)
            files = current.fitting(written, self)
            if before is None or current.base_version != self.base_version:
                before = current._matching(filter, before)
            return current._replace(before, files, options, predicate=str(filter))

        if options.identity is not None or not self.can_rebase:
            return attempt(self.version)  # After a conflict the new rows would need other values.
        return retry_on_conflict(attempt, self.version, self.newest, options.policy)

    def delete_rows(
        self, filter: Expr | str, options: CommitOptions | None = None, *, is_serializable: bool = False
    ) -> Version:
        """Deletes the rows for which `filter` is true; the version itself if there are none.

        The rows are found in this version. If other writers have touched some of them, in the newest one.

        Args:
            is_serializable: whether nobody else may have added rows of `filter` meanwhile.

        Raises:
            InvalidInputError: the filter is invalid, or fails on a value.
            NotFoundError: the filter names a column that the table does not have.
            Others as `save`.
        """
        from lance_spark.expr.sql.parse import condition_of

        options = options or CommitOptions()
        condition = condition_of(filter, to_match_all="give 'true'")

        before = None

        def attempt(target: Self) -> Version:
            nonlocal before
            before = target._matching(condition, before)
            reads = [ReadRows(target.base_version or 0, condition)] if is_serializable else []
            return target._replace(before, None, options, predicate=str(filter), check=target.check_of(reads))

        return self.attempted(attempt, options)

    def attempted(self, attempt: Callable[[Self], Version], options: CommitOptions) -> Version:
        """The version that `attempt` makes of this one, or after a conflict of the newest one. Raises as `attempt`.

        Raises:
            StorageError: commits are not safe in this store.
        """
        self.check_commits()
        return retry_on_conflict(lambda version: attempt(self.at(version)), self.version, self.newest, options.policy)

    def with_identity(self, options: CommitOptions, used: Iterable[UsedByTask | None]) -> CommitOptions:
        """`options` with the values of identity columns that tasks used."""
        by_task = [item for item in used if item is not None]
        return replace(options, identity=self.identity.mark(by_task)) if by_task else options

    def check_reads(self, reads: Sequence[ReadRows]) -> None:
        """Passes if one version has all of `reads`: Spark loads the target and its other scans one after the other.

        The commit compares them only with what came after the version that the job builds on, and a statement that
        changes nothing has none.

        Raises:
            RetryableConflictError: another writer has changed such rows between two scans of the statement.
        """
        newest = max((read.version for read in reads), default=0)
        newest = max(newest, self.base_version or 0)
        if any(read.version < newest for read in reads):
            check = self.check_of(reads)
            assert check is not None, "there are reads"
            check(self.numbered(newest))

    def remove_files(
        self,
        written: Sequence[WrittenSplit],
        columns: Sequence[BackfilledSplit] = (),
        keep: Sequence[DataFile] = (),
    ) -> None:
        """Removes the files of the job, all but those of `keep`."""
        if self.job is not None:
            for store in self.stores(written, columns):
                remove_job_files(store, self.job, keep=keep)

    def abandon(self, written: Sequence[WrittenSplit], columns: Sequence[BackfilledSplit] = ()) -> None:
        """Removes the files of a job that failed, without waiting for tasks that may still run.

        Spark may still be killing other tasks of the job, which can finish a file after this. So a thread looks again
        for a few seconds. If the process ends before, such a file stays for VACUUM; no version ever names it.
        """
        self.remove_files(written, columns)
        if self.job is not None:
            remove_late_files(f"the write job {self.job}", lambda: self.remove_files(written, columns))


def own_blobs(storage_options: Mapping[str, str] | None) -> SignedSources:
    """Finds no blobs of other tables: for rows of the table itself."""
    return SignedSources()


AnyTarget = WriteTarget[Any]
"""A target of either kind."""


def check_columns_fit(current: LanceSchema, written: LanceSchema, uri: str, version: int) -> None:
    """Passes if rows that were written for the columns `written` can be committed to a version with `current`.

    Raises:
        IncompatibleConflictError: another writer has changed the columns, or has added a CHECK constraint.
    """
    if not same_columns(current, written):
        raise unfit(f"the columns of {uri}", version)
    if has_new_checks(written, current):
        raise unfit(f"the CHECK constraints of {uri}", version)


def unfit(changed: str, version: int) -> IncompatibleConflictError:
    """The error for written rows that no longer fit their table."""
    return IncompatibleConflictError(
        f"another writer has changed {changed}. Run the operation again",
        own=OperationKind.UPDATE.value,
        table_version=version,
    )


def remove_late_files(failed: str, remove: Callable[[], None]) -> None:
    """Calls `remove` a few times more in a thread, for files that killed tasks finish after the failure.

    Args:
        failed: the failed operation, for the log.
    """

    def look_again() -> None:
        try:
            for _ in range(_LATE_LOOKS):
                time.sleep(_LATE_WAIT)
                remove()
        except LanceError as error:
            # The failure has been reported already; VACUUM removes what is left.
            _LOG.warning("files of %s, which failed, may be left for VACUUM: %s", failed, error)

    Thread(target=look_again, name=f"lance clean-up of {failed}", daemon=True).start()
