"""The methods of a `Dataset` for columns: adding, dropping, renaming and altering them, and their metadata."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from lance_spark.errors import InvalidInputError
from lance_spark.schema.field import FieldId, LanceSchema
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.manifest import Manifest

if TYPE_CHECKING:
    from typing_extensions import Self

    from lance_spark.table.columns.add_columns import ColumnsToAdd
    from lance_spark.table.columns.alter_column import Alteration
    from lance_spark.table.columns.schema_changes import Change, Edit
    from lance_spark.table.source import TableSource

FieldEntries: TypeAlias = Callable[[LanceSchema], Mapping[FieldId, Mapping[str, str | None]]]
"""Changed entries of the metadata of columns, by their ids, from a schema; None removes one."""


class ColumnVerbs(ABC):
    """Operations on columns; each creates one version and returns it.

    Columns are named by paths: names joined by dots, with backticks around a name that contains dots.
    """

    @abstractmethod
    def _change_columns(self, change: Change) -> Self:
        """The version with `change` applied to the columns; this version if that changes nothing."""

    @abstractmethod
    def _alter_column(self, change: Alteration) -> Self:
        """The version with one column changed; this version if that changes nothing."""

    @abstractmethod
    def _add_columns(self, columns: ColumnsToAdd) -> Self:
        """The version with new columns. Raises as `add_columns`."""

    def add_columns(
        self,
        columns: Any,
        *,
        read_columns: Sequence[str] | None = None,
        schema: pa.Schema | None = None,
        batch_size: int | None = None,
    ) -> Self:
        """The table with new, nullable columns. Existing data files are kept; new ones have the new columns.

        Rows that others append concurrently get their values too. `columns` can be:

        - a `pyarrow.Field`, `pyarrow.Schema` or list of fields: columns that are null in all rows; no file is written.
          An existing struct gets the members that it lacks.
        - a dict from names to SQL text: ``{"total": "price * amount"}``; a path such as ``s.new`` adds to a struct.
        - a function from RecordBatch to RecordBatch with as many rows, in the same order. It may be called twice for
          the same rows, but never by two threads at once.
        - ``(data, ["key"])``: rows with the new columns and the key columns, joined by key. A row without a match gets
          nulls. ``_rowaddr`` and ``_rowid`` can be keys too, but not of a partitioned table.

        Args:
            columns: the columns to add.
            read_columns: the input columns of a function; None for all columns.
            schema: the new columns of a function, in the order of its batches; None to infer it from its first result.
            batch_size: rows per call of a function.

        Raises:
            NotFoundError: a column to read does not exist.
            InvalidInputError: a new column already exists, values cannot be computed, or a key is duplicated.
            CommitConflictError: it conflicts with a concurrent transaction. Nothing was changed.
            CommitStateUnknownError: it is unknown whether the version was committed.
            StorageError: the store failed. Nothing was changed.
            UnsupportedFeatureError: this release cannot write to the table, or does not support these columns.
        """
        from lance_spark.table.columns.add_columns import ColumnsToAdd

        return self._add_columns(ColumnsToAdd.of(columns, read_columns, schema, batch_size))

    def drop_columns(self, columns: Sequence[str]) -> Self:
        """The table without some columns or struct members. Data files with other columns are unchanged.

        Raises:
            NotFoundError: there is no such column.
            InvalidInputError: the table or a struct would have no columns. Nothing was changed.
            CommitConflictError: it conflicts with a concurrent transaction. Nothing was changed.
            CommitStateUnknownError: it is unknown whether the version was committed.
            UnsupportedFeatureError: this release cannot write to the table.
        """
        from lance_spark.schema import evolution

        paths = _texts(columns)
        return self._change_columns(lambda schema: evolution.without(schema, paths))

    def rename_columns(self, names: Mapping[str, str]) -> Self:
        """The table with columns renamed, ``{"old": "new", "s.x": "y"}``. Raises as `drop_columns`."""
        from lance_spark.schema import evolution

        pairs = dict(names)
        return self._change_columns(lambda schema: evolution.renamed(schema, pairs))

    def reorder_columns(self, order: Sequence[str]) -> Self:
        """The table with these columns first, followed by the others in their order. Raises as `drop_columns`."""
        from lance_spark.schema import evolution

        paths = _texts(order)
        return self._change_columns(lambda schema: evolution.reordered(schema, paths))

    def alter_column(
        self,
        path: str,
        *,
        name: str | None = None,
        data_type: pa.DataType | None = None,
        nullable: bool | None = None,
        comment: str | None = None,
        metadata: Mapping[str, str | None] | None = None,
    ) -> Self:
        """The table with one column changed; None means unchanged.

        Args:
            path: the column.
            name: its new name, without the parent path.
            data_type: a type that can hold all values of the old one, such as int64 for int32; its data files are
                rewritten, and indexes over it are removed.
            nullable: whether it may contain nulls; if not, it must not contain any.
            comment: the metadata entry ``comment``; an empty one removes it.
            metadata: entries of its metadata; None removes one.

        Raises:
            NotFoundError: there is no such column.
            InvalidInputError: the name is taken, the type cannot hold all values, or there are nulls.
            CommitConflictError: it conflicts with a concurrent transaction. Nothing was changed.
            CommitStateUnknownError: it is unknown whether the version was committed.
            StorageError: the store failed. Nothing was changed.
            UnsupportedFeatureError: this release cannot write to the table.
        """
        from lance_spark.table.columns.alter_column import Alteration

        return self._alter_column(Alteration(path, name, data_type, nullable, comment, metadata))

    @abstractmethod
    def edit_columns(self, edit: Edit) -> Self:
        """The version with several changes of the columns; this version if nothing changes. Raises as `edit_schema`."""

    @abstractmethod
    def with_edited_columns(self, edit: Edit) -> TableSource:
        """This version with the columns that a write is about to give it. Nothing is committed."""

    @abstractmethod
    def update_properties(self, entries: Mapping[str, str | None], fields: FieldEntries) -> Self:
        """The version with other properties and other metadata of columns; this version if nothing changes.

        Args:
            entries: of the properties; None removes one.
            fields: the changed entries of columns by their ids, from the schema.

        Raises: as `update_config`.
        """

    @abstractmethod
    def add_check(self, name: str, condition: str) -> Self:
        """The version with the CHECK constraint `name`, which later writes of this package must satisfy.

        Args:
            condition: SQL; a row for which it is FALSE violates it.

        Raises:
            AlreadyExistsError: there is a constraint of that name.
            InvalidInputError: a row violates it, or the condition does not fit the columns.
            UnsupportedFeatureError: the condition, or the table, is not supported.
            CommitConflictError: other writers were always first. Nothing was changed.
            CommitStateUnknownError: it is unknown whether the version was committed.
            StorageError: the store failed. Nothing was changed.
        """

    @abstractmethod
    def drop_check(self, name: str) -> Self:
        """The version without a CHECK constraint. Other errors as `add_check`.

        Raises:
            NotFoundError: there is no such constraint.
        """

    @abstractmethod
    def update_field_metadata(self, entries: Mapping[str, Mapping[str, str | None]], *, replace: bool = False) -> Self:
        """Sets entries of the metadata of columns, named by path; None removes one.

        Args:
            replace: removes all other entries of these columns.

        Raises:
            NotFoundError: there is no such column.
            InvalidInputError: an entry is not a string.
            IncompatibleConflictError: a concurrent transaction has changed one of the entries.
            CommitConflictError: it conflicts with a concurrent transaction. Nothing was changed.
            CommitStateUnknownError: it is unknown whether the version was committed.
            UnsupportedFeatureError: the table needs a feature that this release does not write.
        """


class DatasetColumnVerbs(ColumnVerbs):
    """Column verbs of a table without partitions, and metadata, which only such a table has."""

    location: TableLocation
    manifest: Manifest

    def __init__(self, location: TableLocation, manifest: Manifest) -> None:
        self.location = location
        self.manifest = manifest

    def _change_columns(self, change: Change) -> Self:
        from lance_spark.table.columns.schema_changes import project

        return type(self)(self.location, project(self.location, self.manifest, change))

    def _alter_column(self, change: Alteration) -> Self:
        from lance_spark.table.columns.alter_column import alter_column

        return type(self)(self.location, alter_column(self.location, self.manifest, change))

    def _add_columns(self, columns: ColumnsToAdd) -> Self:
        from lance_spark.table.columns.add_columns import add_columns

        return type(self)(self.location, add_columns(self.location, self.manifest, columns))

    def edit_columns(self, edit: Edit) -> Self:
        from lance_spark.table.columns.schema_changes import edit_schema

        return type(self)(self.location, edit_schema(self.location, self.manifest, edit))

    def update_properties(self, entries: Mapping[str, str | None], fields: FieldEntries) -> Self:
        from lance_spark.table.versions.changes import update_properties

        present = self.manifest.config
        changed = {name: value for name, value in entries.items() if present.get(name) != value}
        of_fields = fields(self.manifest.schema)
        if not changed and not of_fields:
            return self
        return type(self)(self.location, update_properties(self.location, self.manifest, changed, of_fields))

    def add_check(self, name: str, condition: str) -> Self:
        from lance_spark.table.columns.check_constraints import add_check

        return type(self)(self.location, add_check(self.location, self.manifest, name, condition))

    def drop_check(self, name: str) -> Self:
        from lance_spark.table.columns.check_constraints import drop_check

        return type(self)(self.location, drop_check(self.location, self.manifest, name))

    def update_schema_metadata(self, entries: Mapping[str, str | None], *, replace: bool = False) -> Self:
        """Sets entries of the schema's metadata; None removes one.

        Args:
            replace: removes all other entries.

        Raises:
            InvalidInputError: an entry is not a string.
            IncompatibleConflictError: a concurrent transaction has changed one of the entries.
            CommitConflictError: it conflicts with a concurrent transaction. Nothing was changed.
            CommitStateUnknownError: it is unknown whether the version was committed.
            UnsupportedFeatureError: the table needs a feature that this release does not write.
        """
        from lance_spark.table.versions.changes import update_schema_metadata

        return type(self)(self.location, update_schema_metadata(self.location, self.manifest, entries, replace=replace))

    def update_field_metadata(self, entries: Mapping[str, Mapping[str, str | None]], *, replace: bool = False) -> Self:
        from lance_spark.table.versions.changes import update_field_metadata

        return type(self)(self.location, update_field_metadata(self.location, self.manifest, entries, replace=replace))


def _texts(names: Iterable[str]) -> tuple[str, ...]:
    if isinstance(names, str):
        raise InvalidInputError(f"give a list of columns, such as [{names!r}]")
    return tuple(names)
