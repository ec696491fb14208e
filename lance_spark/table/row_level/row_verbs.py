"""The verbs that change rows, for tables of both kinds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lance_spark.expr.nodes import Expr
from lance_spark.expr.sql.parse import condition_of
from lance_spark.table.row_level.merge import MergeActions, merge_once, source_rows
from lance_spark.table.row_level.update import update_once
from lance_spark.table.writing.row_source import RowSource
from lance_spark.table.writing.save import CommitOptions

if TYPE_CHECKING:
    from typing_extensions import Self


class RowVerbs(ABC):
    """Deletes, updates and merges; each makes one version, or none if it changes nothing."""

    @abstractmethod
    def _delete(self, filter: str | Expr, options: CommitOptions) -> Self:
        """The version without the rows for which `filter` is true."""

    @abstractmethod
    def _change_rows(self, attempt: Callable[[Any], Any], options: CommitOptions) -> Self:
        """The version that `attempt` makes of a `RowTarget`: of this version, after a conflict of the newest one."""

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
        options = CommitOptions(commit_message, transaction_properties)
        return self._delete(filter, options)

    def update(
        self,
        updates: Mapping[str, Any],
        where: str | Expr | None = None,
        *,
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
        options = CommitOptions(commit_message, transaction_properties)
        condition = None if where is None else condition_of(where, to_match_all="leave it out")
        return self._change_rows(lambda target: update_once(target, updates, condition), options)

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
        conditions = (matched_condition, not_matched_by_source_condition)
        actions = MergeActions.of(when_matched, when_not_matched, when_not_matched_by_source, *conditions)
        options = CommitOptions(commit_message, transaction_properties)
        rows = source_rows(RowSource.of(source, schema))
        return self._change_rows(lambda target: merge_once(target, rows, on, actions), options)
