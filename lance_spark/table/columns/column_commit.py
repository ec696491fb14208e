"""Commits columns for existing rows as one version: the common part of adding and converting columns.

A Merge lists all fragments, so it is recomputed for each newer version it is rebased onto: a fragment with unchanged
data files keeps the file written for it (which has values for deleted rows too), any other one gets a new file.
"""

from __future__ import annotations

from dataclasses import dataclass

from lance_spark.errors import CommitStateUnknownError
from lance_spark.schema.field import LanceSchema
from lance_spark.table.commits.commit import Commit, NewTable
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.features import check_writable
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.manifests.transaction import Transaction
from lance_spark.table.operations.manifest_builder import data_format
from lance_spark.table.operations.merge import Merge, Recomputed
from lance_spark.table.writing.checks import require_columns_of_checks
from lance_spark.table.writing.column_files import ColumnFiles, Values
from lance_spark.table.writing.filled_columns import column_file_version
from lance_spark.table.writing.save import DEFAULT_FILE_VERSION, CommitOptions


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
    files: ColumnFiles | None = None
    if evolution.values is not None:
        column_file_version(base, LanceSchema((), {}))  # Refuses tables that get no files.
        files = ColumnFiles(table, evolution.values, lambda columns: column_file_version(base, columns))

    def on_version(manifest: Manifest) -> Merge:
        """The operation that adds the columns to `manifest`, the version that was read or a newer one."""
        return Merge(
            manifest.fragments if files is None else files.added_to(manifest),
            LanceSchema(evolution.schema.fields, manifest.schema.metadata),
            evolution.preserves_nullability,
            recomputed=evolution.recomputed,
            new_files=frozenset() if files is None else files.paths,
        )

    committed: Manifest | None = None
    unknown = False
    try:
        transaction = Transaction.new(base.version, on_version(base), options_of(options).all_properties())
        new_table = NewTable(data_format(base) or DEFAULT_FILE_VERSION)
        policy = options_of(options).policy
        committed = Commit(table.history, base, transaction, new_table, policy, on_version).run()
    except CommitStateUnknownError:
        unknown = True
        raise
    finally:
        # Values can come from user code, so any error can occur.
        if files is not None and not unknown:
            files.remove(but_those_of=committed)
    return committed


def options_of(options: CommitOptions | None) -> CommitOptions:
    return CommitOptions() if options is None else options
