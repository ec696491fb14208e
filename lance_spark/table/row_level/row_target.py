"""A version of a table whose rows a statement changes: all that updates and merges have to know of its kind.

Rows are read split by split and written by a writer that knows where each row goes. The commit is that of the kind: a
transaction of a plain table (`PlainRows`), or one version of `__manifest` (`partitioned.row_changes`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Generic, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from lance_spark.expr.nodes import Expr
from lance_spark.file.writable import require_writable
from lance_spark.file_version import FileVersion
from lance_spark.schema.arrow import to_arrow_schema
from lance_spark.schema.field import FieldId, LanceSchema
from lance_spark.table.commits.retry import cleanup_on_failure, retry_on_conflict
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.features import check_writable
from lance_spark.table.manifests.identity_mark import IdentityMark
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.operations.manifest_builder import data_format
from lance_spark.table.reading.blobs.blob_columns import sources_in, with_blob_descriptors
from lance_spark.table.row_level.rewritten_row_writer import MovedRowWriter, remove_new
from lance_spark.table.row_level.rewritten_rows import NewFragment
from lance_spark.table.row_level.row_changes import commit_row_changes, rows_by_fragment
from lance_spark.table.rows.row_address import UInt64Array
from lance_spark.table.source import Split
from lance_spark.table.writing.identity import IdentityColumns
from lance_spark.table.writing.row_pipeline import RowPipeline
from lance_spark.table.writing.save import DEFAULT_FILE_VERSION, CommitOptions

Version = TypeVar("Version")
Written = TypeVar("Written")
WrittenOut = TypeVar("WrittenOut", covariant=True)


class RowWriter(Protocol[WrittenOut]):
    """Writes rows, each to where it belongs."""

    def write(self, batch: pa.RecordBatch, split: Split | None = None, addresses: UInt64Array | None = None) -> None:
        """Appends rows: new ones, or those that were at `addresses` in `split`, in their order.

        Raises:
            InvalidInputError: the rows do not fit the table.
        """

    def close(self) -> WrittenOut:
        """Finishes all files; what was written, for the commit."""


class RowTarget(ABC, Generic[Version, Written]):
    """One version of a table, of which rows are deleted, changed and added.

    Attributes:
        uri: the root of the table, for messages.
        version: the number of the version.
        lance_schema: the columns with their field ids.
    """

    uri: str
    version: int
    lance_schema: LanceSchema

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """The columns as they are read; descriptions of blobs name their data file."""

    @property
    @abstractmethod
    def identity(self) -> IdentityColumns:
        """The identity columns."""

    @abstractmethod
    def splits(self, filter: Expr | None = None) -> Sequence[Split]:
        """The splits that may hold rows which match `filter`."""

    @abstractmethod
    def newer(self, version: Version) -> tuple[RowTarget[Version, Written], Sequence[Split]]:
        """A newer version, and its splits, those left out that are known to be the same as here."""

    @abstractmethod
    def writer(self, columns: pa.Schema) -> AbstractContextManager[RowWriter[Written]]:
        """A writer of rows with `columns`, all of the table; its files are removed after an error inside.

        Raises:
            UnsupportedFeatureError: this release cannot write to the table.
        """

    @abstractmethod
    def commit(
        self,
        deleted: Mapping[str | None, UInt64Array],
        written: Written,
        *,
        changed_fields: Sequence[FieldId],
        check: Callable[[Version], None] | None = None,
        identity: IdentityMark | None = None,
    ) -> Version:
        """Commits deleted and written rows; this version if there are neither. After an error the files are removed.

        Args:
            deleted: by key of the split, addresses of rows.
            changed_fields: ids of the fields whose values may differ in rewritten rows.
            check: asked for each newer version that the commit has to follow.
            identity: the values of identity columns that new rows have.

        Raises:
            RetryableConflictError: another writer has touched one of the rows.
            CommitConflictError: it conflicts with what other writers have committed. Nothing was changed.
            CommitStateUnknownError: the store never said whether the version was committed.
            StorageError: the store failed. Nothing was changed.
        """


class PlainRows(RowTarget[Manifest, list[NewFragment]]):
    """A version of a plain table, which is one split.

    Args:
        keeps_files: an error of the commit leaves written files to the caller.
    """

    def __init__(
        self, table: TableLocation, base: Manifest, options: CommitOptions, *, keeps_files: bool = False
    ) -> None:
        self.uri = table.uri
        self._keeps_files = keeps_files
        self.version = base.version
        self.lance_schema = base.schema
        self._table = table
        self._base = base
        self._options = options

    @property
    def schema(self) -> pa.Schema:
        shown = with_blob_descriptors(self._base.schema, data_format(self._base), with_source=True)
        return to_arrow_schema(shown)

    @property
    def identity(self) -> IdentityColumns:
        return IdentityColumns.of_version(self._base)

    def splits(self, filter: Expr | None = None) -> list[Split]:
        return [Split(self._table, self._base)]

    def newer(self, version: Manifest) -> tuple[PlainRows, list[Split]]:
        found = PlainRows(self._table, version, self._options)
        return found, found.splits()

    def writer(self, columns: pa.Schema) -> _PlainWriter:
        return _PlainWriter(self._table, self._base, columns)

    def commit(
        self,
        deleted: Mapping[str | None, UInt64Array],
        written: list[NewFragment],
        *,
        changed_fields: Sequence[FieldId],
        check: Callable[[Manifest], None] | None = None,
        identity: IdentityMark | None = None,
    ) -> Manifest:
        options = replace(self._options, identity=identity)
        rows = rows_by_fragment(np.concatenate([np.empty(0, np.uint64), *deleted.values()]))
        with nullcontext() if self._keeps_files else cleanup_on_failure(lambda: remove_new(self._table.store, written)):
            return commit_row_changes(
                self._table, self._base, rows, written, options, changed_fields=changed_fields, check=check
            )


def change_rows(
    table: TableLocation, base: Manifest, attempt: Callable[[PlainRows], Manifest], options: CommitOptions
) -> Manifest:
    """The version that `attempt` makes of `base`, after a conflict of the newest version.

    Raises:
        StorageError: commits are not safe in this store (`History.check_commits`), and as `attempt`.
    """
    table.history.check_commits()

    def on_version(version: Manifest) -> Manifest:
        return attempt(PlainRows(table, version, options))

    return retry_on_conflict(on_version, base, table.newest, options.policy)


class _PlainWriter:
    def __init__(self, table: TableLocation, base: Manifest, columns: pa.Schema) -> None:
        version = version_to_write(base)
        sources = sources_in(table.bases(base))
        self._pipeline = RowPipeline(base.schema, columns)
        self._writer = MovedRowWriter(table.store, base.schema, file_version=version, blob_source=sources)

    def write(self, batch: pa.RecordBatch, split: Split | None = None, addresses: UInt64Array | None = None) -> None:
        self._writer.write(self._pipeline(batch), addresses)

    def close(self) -> list[NewFragment]:
        return self._writer.close()

    def __enter__(self) -> _PlainWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: object) -> None:
        self._writer.__exit__(kind, error, traceback)


def version_to_write(base: Manifest) -> FileVersion:
    """The version of data files whose rows come from other files of the table.

    Raises:
        UnsupportedFeatureError: this release does not write to the table, or not files of its version or columns.
    """
    check_writable(base.writer_flags, f"version {base.version} of the table")
    version = data_format(base) or DEFAULT_FILE_VERSION
    require_writable(base.schema, version)
    return version
