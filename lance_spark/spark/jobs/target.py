"""The version of a table that a job writes to: what plain and partitioned tables do differently in jobs.

A file that no commit names is invisible. A task removes its files when it fails; what killed tasks, or earlier
attempts of a task, have left carries the job's name and is removed when the job ends.
"""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from threading import Thread
from typing import TYPE_CHECKING, Union

import pyarrow as pa

from lance_spark.errors import LanceError
from lance_spark.expr.nodes import Expr
from lance_spark.spark.blobs.references import BlobInputs
from lance_spark.spark.jobs.row_changes import RowIds
from lance_spark.spark.jobs.task_result import NewFiles
from lance_spark.storage.base import ObjectStore
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.reading.scan import Scan
from lance_spark.table.row_level.read_conflicts import ReadRows
from lance_spark.table.rows.fragment import DataFragment
from lance_spark.table.rows.row_address import UInt64Array
from lance_spark.table.source import Split
from lance_spark.table.writing.identity import IdentityColumns
from lance_spark.table.writing.save import CommitOptions
from lance_spark.table.writing.write import remove_job_files

if TYPE_CHECKING:
    from lance_spark.partitioned.table import PartitionedTable

_LATE_LOOKS = 6
"""Repeated listings of an aborted job's files, to find files of tasks that were still running."""
_LATE_WAIT = 0.5
"""Seconds between two listings."""

_LOG = logging.getLogger(__name__)

Version = Union[Manifest, "PartitionedTable"]
"""A version of a table: of a plain one its manifest."""

Rows = tuple[pa.RecordBatch, RowIds | None]
"""Rows to write, in the types of the table, and which rows they were; None if all are new."""


class WriteMode(str, Enum):
    """Treatment of the existing rows of a table."""

    CREATE = "create"
    APPEND = "append"
    OVERWRITE = "overwrite"
    """All are replaced, and the table gets the columns of the new rows."""
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


class Target(ABC):
    """A version of a table, and how rows are written to it. Small, because every task gets it.

    Attributes:
        base_version: the version that the job builds on; None if there is no table.
        job: the name of the job, which its files carry; None if it writes no rows.
        identity: the identity columns whose values new rows get.
    """

    base_version: int | None
    job: str | None
    identity: IdentityColumns

    @property
    def takes_rows(self) -> bool:
        """Whether rows are written; a DELETE writes none."""
        return self.job is not None

    @abstractmethod
    def write(self, rows: Iterable[Rows], *, with_source_addresses: bool, blobs: BlobInputs) -> tuple[NewFiles, ...]:
        """Writes the rows of a task.

        Args:
            with_source_addresses: whether the result says which rows the new ones were.
            blobs: that rows name.

        Raises:
            LanceError: nothing of what was written is left.
        """

    @abstractmethod
    def opener(self) -> Callable[[str | None], Split]:
        """A function that opens the split with a key, for as long as one task or request takes."""

    @abstractmethod
    def search(self, filter: Expr) -> RowSearch:
        """The search for the rows that match `filter`, where metadata does not say which these are."""

    @abstractmethod
    def save(
        self, mode: WriteMode, files: Sequence[NewFiles], options: CommitOptions, reads: Sequence[ReadRows]
    ) -> Version:
        """Commits new files, beside or instead of the rows that the table has; the base if that changes nothing."""

    @abstractmethod
    def replace_rows(
        self,
        filter: Expr,
        files: Sequence[NewFiles],
        options: CommitOptions,
        found: Mapping[str | None, UInt64Array] | None,
    ) -> Version:
        """Commits new files instead of the rows for which `filter` is true; the base if that changes nothing.

        Args:
            found: by key of the split, the addresses of these rows in the splits of `search`; None to search for them.
        """

    @abstractmethod
    def change_rows(
        self,
        deleted: Mapping[str | None, UInt64Array],
        files: Sequence[NewFiles],
        options: CommitOptions,
        reads: Sequence[ReadRows],
    ) -> Version:
        """Commits deleted rows and new files; the base if that changes nothing."""

    @abstractmethod
    def replace_keys(
        self, keys: pa.Table, written_keys: pa.Table, files: Sequence[NewFiles], options: CommitOptions
    ) -> Version:
        """Commits new files, and deletes the other rows with one of `keys`; after a conflict on the newest version.

        Arguments and errors as `table.row_level.upsert.replace_keys`; and `IncompatibleConflictError` if another writer
        has changed the columns.
        """

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
            self._check_reads(reads, newest)

    @abstractmethod
    def _check_reads(self, reads: Sequence[ReadRows], newest: int) -> None:
        """Passes if the version `newest` has all of `reads`, which older versions have; raises as `check_reads`."""

    @abstractmethod
    def stores(self, files: Sequence[NewFiles]) -> list[ObjectStore]:
        """The roots below which the job may have left files; of a partitioned table those of the partitions in `files`.

        What killed tasks have left in other partitions is found by a clean-up.
        """

    def remove_files(self, files: Sequence[NewFiles], keep: Sequence[DataFragment] = ()) -> None:
        """Removes the files of the job, all but those of `keep`."""
        if self.job is not None:
            for store in self.stores(files):
                remove_job_files(store, self.job, keep=keep)

    def abandon(self, files: Sequence[NewFiles]) -> None:
        """Removes the files of a job that failed, without waiting for tasks that may still run.

        Spark may still be killing other tasks of the job, which can finish a file after this. So a thread looks again
        for a few seconds. If the process ends before, such a file stays for VACUUM; no version ever names it.
        """
        self.remove_files(files)
        if self.job is not None:
            remove_late_files(f"the write job {self.job}", lambda: self.remove_files(files))


def remove_late_files(failed: str, remove: Callable[[], None]) -> None:
    """Calls `remove` a few times more in a thread, for files that killed tasks finish after the failure.

    Args:
        failed: what has failed, for the log.
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
