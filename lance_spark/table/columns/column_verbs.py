"""What a `Dataset` says about columns: adding, dropping, renaming, altering them, and their metadata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lance_spark.table.columns.add_columns import add_columns
from lance_spark.table.columns.alter_column import Alteration, alter_column
from lance_spark.table.columns.schema_changes import drop_columns, rename_columns, reorder_columns
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.versions.changes import update_field_metadata, update_schema_metadata

if TYPE_CHECKING:
    from typing_extensions import Self


class ColumnVerbs:
    """The verbs on columns; each makes one version and returns it.

    Columns are named by paths: names joined by dots, backticks around a name that holds dots itself.
    """

    location: TableLocation
    manifest: Manifest

    def __init__(self, location: TableLocation, manifest: Manifest) -> None:
        self.location = location
        self.manifest = manifest

    def add_columns(
        self,
        columns: Any,
        *,
        read_columns: Sequence[str] | None = None,
        schema: pa.Schema | None = None,
        batch_size: int | None = None,
    ) -> Self:
        """The table with new columns, which allow nulls. Existing data files stay; new ones hold the new columns.

        Rows that others append meanwhile get their values too. What `columns` can be:

        - a `pyarrow.Field`, `pyarrow.Schema` or list of fields: columns that are null everywhere; no file is written.
          A struct that the table has gets the members that it lacks.
        - a dict from names to SQL text: ``{"total": "price * amount"}``; a path such as ``s.new`` adds to a struct.
        - a function from RecordBatch to RecordBatch with as many rows, in the same order. It may be called twice for
          the same rows.
        - ``(data, ["key"])``: rows with the new columns and the key columns, found by key. A row without a match gets
          nulls. ``_rowaddr`` and ``_rowid`` can be keys too.

        Args:
            columns: what to add.
            read_columns: what a function gets of the rows; None for all columns.
            schema: the new columns of a function, in the order of its batches; None to look at its first result.
            batch_size: rows that a function gets at a time.

        Raises:
            NotFoundError: a column that is read is not there.
            InvalidInputError: a column is there, values cannot be computed, or a key stands twice.
            CommitConflictError: what other writers have committed does not go together with it. Nothing was changed.
            CommitStateUnknownError: the store never said whether the version was committed.
            StorageError: the store failed. Nothing was changed.
            UnsupportedFeatureError: this release cannot write to the table, or not such columns.
        """
        made = add_columns(
            self.location, self.manifest, columns, read_columns=read_columns, schema=schema, batch_size=batch_size
        )
        return type(self)(self.location, made)

    def drop_columns(self, columns: Sequence[str]) -> Self:
        """The table without some columns or members of structs. Data files with other columns stay as they are.

        Raises:
            NotFoundError: there is no such column.
            InvalidInputError: nothing would be left of the table or of a struct. Nothing was changed.
            CommitConflictError: what other writers have committed does not go together with it. Nothing was changed.
            CommitStateUnknownError: the store never said whether the version was committed.
            UnsupportedFeatureError: this release cannot write to the table.
        """
        return type(self)(self.location, drop_columns(self.location, self.manifest, columns))

    def rename_columns(self, names: Mapping[str, str]) -> Self:
        """The table with other names of columns, ``{"old": "new", "s.x": "y"}``. Raises as `drop_columns`."""
        return type(self)(self.location, rename_columns(self.location, self.manifest, names))

    def reorder_columns(self, order: Sequence[str]) -> Self:
        """The table with these columns first, the others after them as they stand. Raises as `drop_columns`."""
        return type(self)(self.location, reorder_columns(self.location, self.manifest, order))

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
        """The table with one column changed in the ways that are not None.

        Args:
            path: the column.
            name: its new name, without the path to it.
            data_type: a type that holds all values of the old one, such as int64 for int32; its data files are written
                anew, and indices over it go.
            nullable: whether it may hold nulls; if not, it must hold none by now.
            comment: becomes the metadata entry ``comment``; an empty one removes it.
            metadata: entries of its metadata; None removes one.

        Raises:
            NotFoundError: there is no such column.
            InvalidInputError: the name is taken, the type does not hold all values, or there are nulls.
            CommitConflictError: what other writers have committed does not go together with it. Nothing was changed.
            CommitStateUnknownError: the store never said whether the version was committed.
            StorageError: the store failed. Nothing was changed.
            UnsupportedFeatureError: this release cannot write to the table.
        """
        change = Alteration(path, name, data_type, nullable, comment, metadata)
        return type(self)(self.location, alter_column(self.location, self.manifest, change))

    def update_schema_metadata(self, entries: Mapping[str, str | None], *, replace: bool = False) -> Self:
        """The version in which the schema's metadata has these entries; None removes one.

        Args:
            replace: removes all other entries.

        Raises:
            InvalidInputError: an entry is no text.
            IncompatibleConflictError: since this version another writer has changed one of the entries.
            CommitConflictError: another writer committed something that this cannot follow. Nothing was changed.
            CommitStateUnknownError: the store never said whether the version was committed.
            UnsupportedFeatureError: the table needs something that this release does not write.
        """
        return type(self)(self.location, update_schema_metadata(self.location, self.manifest, entries, replace=replace))

    def update_field_metadata(self, entries: Mapping[str, Mapping[str, str | None]], *, replace: bool = False) -> Self:
        """The version in which columns, named by path, have these entries of metadata; None removes one.

        Args:
            replace: removes all other entries of these columns.

        Raises: NotFoundError for a path that is not there, and as `update_schema_metadata`.
        """
        return type(self)(self.location, update_field_metadata(self.location, self.manifest, entries, replace=replace))
