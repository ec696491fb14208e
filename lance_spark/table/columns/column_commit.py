"""Commits columns for existing rows as one version: the common part of adding and converting columns.

A Merge lists all fragments, so it is recomputed for each newer version it is rebased onto: a fragment with unchanged
data files keeps the file written for it (which has values for deleted rows too), any other one gets a new file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from lance_spark._proto import table_pb2
from lance_spark.errors import CommitStateUnknownError, UnsupportedFeatureError
from lance_spark.file.writable import WRITABLE_VERSIONS
from lance_spark.file_version import FileVersion
from lance_spark.schema.field import LanceSchema
from lance_spark.storage.deletion import delete_quietly
from lance_spark.table.bases import Bases
from lance_spark.table.columns.column_files import PlacedBatch, write_column_file
from lance_spark.table.commits.commit import Commit, NewTable
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.features import check_writable
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.manifests.transaction import Transaction
from lance_spark.table.operations import Merge, Recomputed
from lance_spark.table.operations.manifest_builder import data_format
from lance_spark.table.paths import DATA
from lance_spark.table.reading.fragment_reader import FragmentReader
from lance_spark.table.rows.fragment import DataFile, DataFragment, FragmentId, FragmentList
from lance_spark.table.writing.checks import require_columns_of_checks
from lance_spark.table.writing.save import DEFAULT_FILE_VERSION, CommitOptions


@dataclass(frozen=True, slots=True)
class NewColumns:
    """New columns of a fragment.

    Attributes:
        schema: the columns, inside their parent fields.
        batches: values for rows of the fragment, in row order.
    """

    schema: LanceSchema
    batches: Iterator[PlacedBatch]


Values = Callable[[DataFragment, Bases], NewColumns | None]
"""The columns of a new file of a fragment; None for no file."""


@dataclass(frozen=True, slots=True)
class Evolution:
    """A change of the columns of a version.

    Attributes:
        schema: the new schema; its metadata is ignored.
        values: the content of new files; None for no files at all.
        recomputed: the newer versions it can be rebased onto.
        preserves_nullability: whether no row of another writer can violate the schema.
    """

    schema: LanceSchema
    values: Values | None = None
    recomputed: Recomputed = Recomputed.ALWAYS
    preserves_nullability: bool = True


def commit_evolution(
    table: TableLocation, base: Manifest, evolution: Evolution, options: CommitOptions | None = None
) -> Manifest:
    """The version of `table` with the columns of `evolution`. After an error no file is left behind.

    Raises:
        InvalidInputError: a value does not match its column.
        RetryableConflictError: others have changed columns or rewritten rows: start again with the newest version.
        CommitConflictError: it conflicts with a concurrent transaction. Nothing was changed.
        CommitStateUnknownError: it is unknown whether the version was committed.
        StorageError: the store failed. Nothing was changed.
        UnsupportedFeatureError: this release cannot write to the table, or does not support these columns.
    """
    check_writable(base.writer_flags, table.uri)
    require_columns_of_checks(LanceSchema(evolution.schema.fields, base.schema.metadata))
    files = _ColumnFiles(table, evolution, base)
    made: Manifest | None = None
    unknown = False
    try:
        transaction = Transaction.new(base.version, files.from_version(base), options_of(options).all_properties())
        new_table = NewTable(data_format(base) or DEFAULT_FILE_VERSION)
        policy = options_of(options).policy
        made = Commit(table.history, base, transaction, new_table, policy, files.from_version).run()
    except CommitStateUnknownError:
        unknown = True
        raise
    finally:
        # Values can come from user code, so any error can occur.
        if not unknown:
            files.remove(but_those_of=made)
    return made


def options_of(options: CommitOptions | None) -> CommitOptions:
    return CommitOptions() if options is None else options


def column_file_version(base: Manifest, columns: LanceSchema) -> FileVersion:
    """The file version of new files with `columns` beside those of `base`.

    Values of deleted rows are null, and files of version 2.0 have no null structs; such columns get a newer file.

    Raises:
        UnsupportedFeatureError: the table is a legacy one.
    """
    known = data_format(base)
    if known is FileVersion.V0_1:
        raise UnsupportedFeatureError(
            "a table of the legacy file version 0.1 cannot get columns with values; "
            "convert it with upgrade_files first",
            feature="file version",
            version=known.value,
        )
    has_structs = any(node.logical_type == "struct" for field in columns.fields for node in field.walk())
    if known not in WRITABLE_VERSIONS or (known is FileVersion.V2_0 and has_structs):
        return DEFAULT_FILE_VERSION
    return known


@dataclass(frozen=True, slots=True)
class _Source:
    """The parts of a fragment that determine values: deleted rows are ignored."""

    id: FragmentId
    files: tuple[DataFile, ...]


class _ColumnFiles:
    """The files written for an evolution."""

    def __init__(self, table: TableLocation, evolution: Evolution, base: Manifest) -> None:
        self._table = table
        self._evolution = evolution
        self._base = base
        if evolution.values is not None:
            column_file_version(base, LanceSchema((), {}))  # Refuses tables that get no files.
        self._files: dict[_Source, DataFile | None] = {}

    def from_version(self, manifest: Manifest) -> Merge:
        """The operation that adds the columns to `manifest`, the version that was read or a newer one."""
        schema = LanceSchema(self._evolution.schema.fields, manifest.schema.metadata)
        fragments = manifest.fragments
        if self._evolution.values is not None:
            bases = self._table.bases(manifest)
            fragments = FragmentList(
                self._with_file(message, manifest.fragments[place], bases, self._evolution.values)
                for place, message in enumerate(manifest.fragments.messages)
            )
        return Merge(
            fragments,
            schema,
            self._evolution.preserves_nullability,
            recomputed=self._evolution.recomputed,
            new_files=frozenset(file.path for file in self._files.values() if file is not None),
        )

    def _with_file(
        self, message: table_pb2.DataFragment, fragment: DataFragment, bases: Bases, values: Values
    ) -> table_pb2.DataFragment:
        source = _Source(fragment.id, fragment.files)
        if source not in self._files:
            new = values(fragment, bases)
            self._files[source] = None if new is None else self._written(fragment, bases, new)
        file = self._files[source]
        if file is None:
            return message
        copy = table_pb2.DataFragment()
        copy.CopyFrom(message)
        copy.files.append(file.to_proto())
        return copy

    def _written(self, fragment: DataFragment, bases: Bases, new: NewColumns) -> DataFile:
        num_rows = FragmentReader(fragment, bases).num_rows
        file_version = column_file_version(self._base, new.schema)
        return write_column_file(self._table.store, new.schema, new.batches, num_rows, file_version=file_version)

    def remove(self, but_those_of: Manifest | None = None) -> None:
        """Removes the files that were written, except those of a version."""
        messages = () if but_those_of is None else but_those_of.fragments.messages
        kept = {file.path for message in messages for file in message.files}
        for file in self._files.values():
            if file is not None and file.path not in kept:
                delete_quietly(self._table.store, f"{DATA}/{file.path}")
