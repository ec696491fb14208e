"""The verbs that write, delete and change rows, for tables of both kinds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lance_spark.errors import InvalidInputError
from lance_spark.table.writing.file_limits import DEFAULT_MAX_BYTES_PER_FILE, DEFAULT_MAX_ROWS_PER_FILE

if TYPE_CHECKING:
    from typing_extensions import Self

    from lance_spark.expr.nodes import Expr
    from lance_spark.table.row_level.write_target import AnyTarget, Version, WriteMode, WriteTarget
    from lance_spark.table.writing.file_limits import FileLimits
    from lance_spark.table.writing.row_source import RowSource
    from lance_spark.table.writing.save import CommitOptions


@dataclass(frozen=True, slots=True)
class RowsToWrite:
    """New rows, and how they are written and committed."""

    source: RowSource
    limits: FileLimits
    options: CommitOptions

    def where(self, condition: Expr, columns: pa.Schema) -> RowsToWrite:
        """The same rows; reading one for which `condition` is not true raises `InvalidInputError`.

        Args:
            columns: those of the table; a column that the rows lack is null.
        """
        from lance_spark.table.writing.row_source import RowSource

        source = self.source
        checked = _checked(source, condition, columns)
        return RowsToWrite(RowSource(source.schema, checked), self.limits, self.options)


def write_rows(
    target: WriteTarget[Version],
    source: RowSource,
    options: CommitOptions,
    mode: WriteMode,
    replaced: Expr | None = None,
) -> Version:
    """The version with the rows of `source`. After an error no files are left.

    Args:
        target: takes the rows (`WriteTarget.taking`).
        replaced: which rows they replace, with REPLACE_WHERE.

    Raises: as `RowWriter.write`, `WriteTarget.save` and `WriteTarget.replace_rows`.
    """
    from lance_spark.progress import progress
    from lance_spark.table.commits.retry import cleanup_on_failure
    from lance_spark.table.row_level.write_target import own_blobs
    from lance_spark.table.writing.write import num_rows_of

    with target.writer(blobs=own_blobs) as writer, progress("Writing") as bar:
        for batch in bar.track(source.batches, size=num_rows_of):
            writer.write(batch)
        written = writer.close()
    options = target.with_identity(options, [writer.used()])
    with cleanup_on_failure(writer.abort):
        if replaced is not None:
            return target.replace_rows(replaced, written, options)
        return target.save(mode, written, options)


class RowVerbs(ABC):
    """Appends, overwrites, deletes, updates and merges; each makes one version, and the columns stay as they are."""

    @abstractmethod
    def write_target(self, zone_maps: str | None = None) -> AnyTarget:
        """This version, for writes.

        Args:
            zone_maps: columns that get zone maps, as `append` takes them.
        """

    @abstractmethod
    def _of_version(self, version: Any) -> Self:
        """The table at a version that its target has made."""

    def _write(self, rows: RowsToWrite, mode: WriteMode, replaced: Expr | None = None) -> Self:
        target = self.write_target(rows.options.zone_maps)
        if replaced is not None:
            rows = rows.where(replaced, target.read_schema)
        target = target.taking(rows.source.schema, rows.limits, mode=mode)
        return self._of_version(write_rows(target, rows.source, rows.options, mode, replaced))

    @abstractmethod
    def sync_identity(self) -> Self:
        """The newest version, with a count of used values of its identity columns that fits the values its rows have;
        the newest version itself if it fits already. New rows get none of these values.

        For tables that other libraries have copied or filled, and after rows with values of their own.

        Raises:
            RetryableConflictError: another writer has used values meanwhile. Nothing was changed.
            CommitStateUnknownError: it is unknown whether the version was committed.
        """

    def append(
        self,
        data: Any,
        *,
        schema: pa.Schema | None = None,
        max_rows_per_file: int = DEFAULT_MAX_ROWS_PER_FILE,
        max_bytes_per_file: int = DEFAULT_MAX_BYTES_PER_FILE,
        commit_message: str | None = None,
        transaction_properties: Mapping[str, str] | None = None,
        auto_zonemap: str | None = None,
    ) -> Self:
        """The table with the rows of `data` added, after those that other writers have committed since this version.

        Args:
            data: rows as `lance_spark.write` takes them. A nullable column that they lack is null.
            schema: the types of plain Python values, and for an iterable that may be empty; `schema` of the table fits.
            max_rows_per_file: the rows after which a new data file begins, 1,048,576 by default.
            max_bytes_per_file: the bytes after which one begins, 90 GiB by default.
            commit_message, transaction_properties: stored with the version.
            auto_zonemap: columns with commas between them, or "*", that get zone maps; None is what the property
                `lance.auto_zonemap` of the table says.

        Raises:
            InvalidInputError: the rows do not match the columns of the table, or a column can have no zone map. Nothing
                was changed.
            NotFoundError: there is no column of those for zone maps. Nothing was changed.
            CommitConflictError: another writer has changed the columns or the file version. Nothing was changed.
            CommitStateUnknownError: it is unknown whether the version was committed.
            StorageError: the store failed. Nothing was changed.
            UnsupportedFeatureError: the table needs a feature that this release does not write.
        """
        from lance_spark.table.row_level.write_target import WriteMode
        from lance_spark.table.writing.file_limits import FileLimits
        from lance_spark.table.writing.row_source import RowSource
        from lance_spark.table.writing.save import CommitOptions

        limits = FileLimits(max_rows_per_file, max_bytes_per_file)
        options = CommitOptions(commit_message, transaction_properties, zone_maps=auto_zonemap)
        return self._write(RowsToWrite(RowSource.of(data, schema), limits, options), WriteMode.APPEND)

    def overwrite(
        self,
        data: Any,
        *,
        only_written_partitions: bool = False,
        schema: pa.Schema | None = None,
        max_rows_per_file: int = DEFAULT_MAX_ROWS_PER_FILE,
        max_bytes_per_file: int = DEFAULT_MAX_BYTES_PER_FILE,
        commit_message: str | None = None,
        transaction_properties: Mapping[str, str] | None = None,
        auto_zonemap: str | None = None,
    ) -> Self:
        """The table with the rows of `data` in place of all rows. Its columns, config and partitioning stay.

        `lance_spark.write` with mode "overwrite" also replaces the columns of a plain table.

        Args:
            only_written_partitions: replaces only the rows of partitions that `data` has rows for; for partitioned
                tables.

        Raises: as `append`.
        """
        from lance_spark.table.row_level.write_target import WriteMode
        from lance_spark.table.writing.file_limits import FileLimits
        from lance_spark.table.writing.row_source import RowSource
        from lance_spark.table.writing.save import CommitOptions

        limits = FileLimits(max_rows_per_file, max_bytes_per_file)
        options = CommitOptions(commit_message, transaction_properties, zone_maps=auto_zonemap)
        mode = WriteMode.OVERWRITE_PARTITIONS if only_written_partitions else WriteMode.TRUNCATE
        return self._write(RowsToWrite(RowSource.of(data, schema), limits, options), mode)

    def replace_where(
        self,
        data: Any,
        filter: str | Expr,
        *,
        schema: pa.Schema | None = None,
        max_rows_per_file: int = DEFAULT_MAX_ROWS_PER_FILE,
        max_bytes_per_file: int = DEFAULT_MAX_BYTES_PER_FILE,
        commit_message: str | None = None,
        transaction_properties: Mapping[str, str] | None = None,
        auto_zonemap: str | None = None,
    ) -> Self:
        """The table with the rows of `data` in place of those for which `filter` is true, as one version.

        Other arguments and errors as `append`.

        Args:
            filter: a condition as after WHERE; it must be true for each row of `data`.

        Raises:
            InvalidInputError: the filter is invalid, or not true for a row of `data`. Nothing was changed.
            NotFoundError: the filter names a column that the table does not have.
            CommitConflictError: other writers were always first, or have changed the columns, or of a partitioned table
                the partitions that get rows. If they have changed rows that are replaced, these are searched again in
                the newest version, 10 times at most. Nothing was changed.
        """
        from lance_spark.expr.sql.parse import condition_of
        from lance_spark.table.row_level.write_target import WriteMode
        from lance_spark.table.writing.file_limits import FileLimits
        from lance_spark.table.writing.row_source import RowSource
        from lance_spark.table.writing.save import CommitOptions

        condition = condition_of(filter, to_match_all="use overwrite")
        limits = FileLimits(max_rows_per_file, max_bytes_per_file)
        options = CommitOptions(commit_message, transaction_properties, zone_maps=auto_zonemap)
        return self._write(RowsToWrite(RowSource.of(data, schema), limits, options), WriteMode.REPLACE_WHERE, condition)

    def delete(
        self,
        filter: str | Expr,
        *,
        commit_message: str | None = None,
        transaction_properties: Mapping[str, str] | None = None,
    ) -> Self:
        """The table without those rows of this version for which `filter` is true; this version if there are none.

        Partitions all of whose rows match are dropped without reading their files.

        Rows that others have added since stay, unless others have changed rows that are to be deleted: then the filter
        is evaluated again, on the newest version. A row for which the filter is null stays.

        Args:
            filter: a condition as after WHERE.
            commit_message, transaction_properties: kept with the version.

        Raises:
            InvalidInputError: the filter is invalid, or fails on a value. Nothing was changed.
            NotFoundError: the filter names a column that the table does not have.
            CommitConflictError: another writer committed something that this cannot follow. Nothing was changed.
            CommitStateUnknownError: the store never said whether the version was committed.
            StorageError: the store failed. Nothing was changed.
            UnsupportedFeatureError: the table needs something that this release does not write.
        """
        from lance_spark.table.writing.save import CommitOptions

        options = CommitOptions(commit_message, transaction_properties)
        return self._of_version(self.write_target().delete_rows(filter, options))

    def update(
        self,
        updates: Mapping[str, Any],
        where: str | Expr | None = None,
        *,
        mode: str | None = None,
        commit_message: str | None = None,
        transaction_properties: Mapping[str, str] | None = None,
    ) -> Self:
        """The table with other values in those rows of this version for which `where` is true.

        It is this version if there are no such rows. If other writers have changed one of them since, condition and
        values are computed again, from the newest version. A row whose partition values change moves to its new
        partition.

        Args:
            updates: values by column, or dotted path into structs: SQL text, in which columns have the values from
                before the update (a text is ``"'text'"``, a list ``"array(1, 2)"``), or a Python or Arrow value.
            where: a condition; None for all rows.
            mode: "columns" writes the changed columns of each fragment with such rows into a new file, and the rows
                stay; "rows" moves complete rows to new fragments; "auto" takes what writes fewer bytes. None for the
                table's property `lance.update.mode`, which is "auto" unless it is set.
            commit_message, transaction_properties: kept with the version.

        Raises:
            InvalidInputError: a value does not fit its column, or condition or values are invalid, or fail on a row.
                Nothing was changed.
            NotFoundError: a column that the table does not have.
            CommitConflictError: another writer committed something that this cannot follow. Nothing was changed.
            CommitStateUnknownError: the store never said whether the version was committed.
            StorageError: the store failed. Nothing was changed.
            UnsupportedFeatureError: the table needs something that this release does not write.
        """
        from lance_spark.expr.sql.parse import condition_of
        from lance_spark.table.row_level.update import update_once
        from lance_spark.table.writing.save import CommitOptions

        options = CommitOptions(commit_message, transaction_properties)
        condition = None if where is None else condition_of(where, to_match_all="leave it out")
        version = self.write_target().attempted(
            lambda target: update_once(target, updates, condition, options, mode), options
        )
        return self._of_version(version)

    def merge(
        self,
        source: Any,
        on: str | Sequence[str],
        *,
        when_matched: str | None = "update",
        when_not_matched: str | None = "insert",
        when_not_matched_by_source: str | None = None,
        matched_condition: str | Expr | None = None,
        not_matched_by_source_condition: str | Expr | None = None,
        schema: pa.Schema | None = None,
        mode: str | None = None,
        commit_message: str | None = None,
        transaction_properties: Mapping[str, str] | None = None,
    ) -> Self:
        """The table with `source` merged into the rows of this version by key; this version if that changes nothing.

        A row of the source matches the rows of the table that have the same key: NaN equals NaN, and null equals
        nothing. If other writers have changed the same rows since, or inserted one of the keys, the merge runs again
        on the newest version. The source is held in memory, the table is not.

        Args:
            source: rows as `write` takes them, in columns of the table, the key columns among them.
            on: the key columns, names or dotted paths into structs.
            when_matched: "update" gives matching rows the values of the source (columns that it lacks keep theirs),
                "delete" removes them.
            when_not_matched: "insert" adds rows of the source that match none; columns that it lacks are null.
            when_not_matched_by_source: "delete" removes rows of the table that match none.
            matched_condition: matching rows for which it is not true stay as they are; columns of the table are written
                ``target.x``, those of the source ``source.x``.
            not_matched_by_source_condition: on columns of the table; rows for which it is not true stay.
            schema: the types of plain Python values, and for an iterable that may be empty.
            mode: what is written for updated rows, as in `update`.
            commit_message, transaction_properties: kept with the version.

        Raises:
            InvalidInputError: several rows of the source match one row of the table, the source does not fit the
                table, or a condition is invalid or fails on a value. Nothing was changed.
            NotFoundError: there is no such key column, or no such column of a condition.
            CommitConflictError: another writer committed something that this cannot follow. Nothing was changed.
            CommitStateUnknownError: the store never said whether the version was committed.
            StorageError: the store failed. Nothing was changed.
            UnsupportedFeatureError: the table needs something that this release does not write.
        """
        from lance_spark.table.row_level.merge import MergeActions, merge_once, source_rows
        from lance_spark.table.writing.row_source import RowSource
        from lance_spark.table.writing.save import CommitOptions

        conditions = (matched_condition, not_matched_by_source_condition)
        actions = MergeActions.of(when_matched, when_not_matched, when_not_matched_by_source, *conditions)
        options = CommitOptions(commit_message, transaction_properties)
        rows = source_rows(RowSource.of(source, schema))
        version = self.write_target().attempted(
            lambda target: merge_once(target, rows, on, actions, options, mode), options
        )
        return self._of_version(version)


def _checked(source: RowSource, condition: Expr, columns: pa.Schema) -> Iterator[pa.RecordBatch]:
    import pyarrow.compute as pc

    from lance_spark.expr.evaluate import evaluate

    missing = [field for field in columns if field.name not in source.schema.names]
    names = [*source.schema.names, *(field.name for field in missing)]
    for batch in source.batches:
        arrays = [*batch.columns, *(pa.nulls(batch.num_rows, field.type) for field in missing)]
        matches = pc.fill_null(evaluate(condition, pa.RecordBatch.from_arrays(arrays, names=names)), False)
        if not pc.all(matches, min_count=0).as_py():
            raise InvalidInputError(
                f"a row of the data does not match {condition}, the condition for the rows to replace. Leave such rows "
                "out, or append them"
            )
        yield batch
