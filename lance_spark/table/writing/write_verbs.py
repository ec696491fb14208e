"""The verbs that write rows, for tables of both kinds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.errors import InvalidInputError
from lance_spark.expr.evaluate import evaluate
from lance_spark.expr.nodes import Expr
from lance_spark.expr.sql.parse import condition_of
from lance_spark.table.writing.identity import IdentityValues
from lance_spark.table.writing.row_source import RowSource
from lance_spark.table.writing.save import CommitOptions
from lance_spark.table.writing.write import DEFAULT_MAX_BYTES_PER_FILE, DEFAULT_MAX_ROWS_PER_FILE, FileLimits

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True, slots=True)
class RowsToWrite:
    """New rows, and how they are written and committed."""

    source: RowSource
    limits: FileLimits
    options: CommitOptions

    def with_values(self, identity: IdentityValues) -> RowsToWrite:
        """The same rows with values in the identity columns; `identity` then has what the commit sets."""
        return RowsToWrite(identity.source(self.source), self.limits, self.options)

    def where(self, condition: Expr, columns: pa.Schema) -> RowsToWrite:
        """The same rows; reading one for which `condition` is not true raises `InvalidInputError`.

        Args:
            columns: those of the table; a column that the rows lack is null.
        """
        source = self.source
        checked = _checked(source, condition, columns)
        return RowsToWrite(RowSource(source.schema, checked), self.limits, self.options)


class WriteVerbs(ABC):
    """Appends and overwrites; each makes one version. The columns of the table stay as they are."""

    @abstractmethod
    def _append(self, rows: RowsToWrite) -> Self:
        """The version with `rows` added."""

    @abstractmethod
    def _overwrite(self, rows: RowsToWrite, only_written_partitions: bool) -> Self:
        """The version with `rows` in place of all rows, or of those in the partitions that get new rows."""

    @abstractmethod
    def _replace_where(self, rows: RowsToWrite, condition: Expr) -> Self:
        """The version with `rows` in place of those for which `condition` is true."""

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
            max_rows_per_file, max_bytes_per_file: when to start a new data file.
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
        limits = FileLimits(max_rows_per_file, max_bytes_per_file)
        options = CommitOptions(commit_message, transaction_properties, zone_maps=auto_zonemap)
        return self._append(RowsToWrite(RowSource.of(data, schema), limits, options))

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
        limits = FileLimits(max_rows_per_file, max_bytes_per_file)
        options = CommitOptions(commit_message, transaction_properties, zone_maps=auto_zonemap)
        return self._overwrite(RowsToWrite(RowSource.of(data, schema), limits, options), only_written_partitions)

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

        Args:
            filter: a condition as after WHERE; it must be true for each row of `data`.

        Raises:
            InvalidInputError: the filter is invalid, or not true for a row of `data`. Nothing was changed.
            NotFoundError: the filter names a column that the table does not have.
            CommitConflictError: other writers were always first, or have changed the columns, or of a partitioned table
                the partitions that get rows. If they have changed rows that are replaced, these are searched again in
                the newest version, 10 times at most. Nothing was changed.
            Others as `append`.
        """
        condition = condition_of(filter, to_match_all="use overwrite")
        limits = FileLimits(max_rows_per_file, max_bytes_per_file)
        options = CommitOptions(commit_message, transaction_properties, zone_maps=auto_zonemap)
        return self._replace_where(RowsToWrite(RowSource.of(data, schema), limits, options), condition)


def _checked(source: RowSource, condition: Expr, columns: pa.Schema) -> Iterator[pa.RecordBatch]:
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
