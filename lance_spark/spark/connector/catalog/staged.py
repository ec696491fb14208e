"""Tables that a statement makes or replaces: their rows come first, and they are visible with the commit.

A plain table is only a reserved name until then. Rows of a new partitioned table are written to the directory that it
gets, and their commit makes its first version; its name in the catalog comes last. Such a directory has no `.lance` at
its end, so listings of the catalog's root do not show it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.types import StructType

from lance_spark.errors import AlreadyExistsError, NotFoundError
from lance_spark.namespace.directory.places import delete_tables_in
from lance_spark.namespace.locations import CATALOG_DIRECTORY
from lance_spark.partitioned.new_name import NewName
from lance_spark.partitioned.new_table import NewPartitionedTable
from lance_spark.partitioned.partitioned_target import PartitionedTarget
from lance_spark.partitioned.table import PartitionedTable
from lance_spark.spark.connector.catalog.partitioned_definition import new_table, replacement, stable_row_ids
from lance_spark.spark.connector.catalog.resolve import (
    ResolvedTable,
    open_namespace,
    remove_expired_tables,
)
from lance_spark.spark.connector.catalog.table import EVOLVES, READS, WRITES, TableDescription, describe
from lance_spark.spark.connector.channel.handles import Staged, TableHandle
from lance_spark.spark.connector.write.job_results import unpickle_job, unpickle_results
from lance_spark.spark.connector.write.tables import write_target
from lance_spark.spark.jobs.job import Version
from lance_spark.spark.jobs.write_job import WriteJob
from lance_spark.spark.jobs.write_plans import TableDefinition, plan_write
from lance_spark.spark.options.options import WriteOptions
from lance_spark.spark.options.table_properties import TableProperties
from lance_spark.storage import open_store
from lance_spark.table.dataset import Dataset
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.row_level.write_target import WriteMode


class StagedTable:
    """A table that a statement is about to make or replace.

    Attributes:
        handle: of the table.
        staged: the statement's definition of it.
    """

    def __init__(self, handle: TableHandle) -> None:
        assert handle.staged is not None, "the table is staged"
        self.handle = handle
        self.staged: Staged = handle.staged

    def job(
        self,
        columns: StructType,
        options: Mapping[str, str],
        *,
        like: pa.Schema | None = None,
        from_query: bool = False,
    ) -> WriteJob:
        """The job that fills the table with rows in `columns`.

        Args:
            like: columns of another table, whose types those of a new table get.
            from_query: whether `columns` are those of a query; then columns that it makes are nullable, as in Spark.
        """
        handle, staged = self.handle, self.staged
        parsed = TableProperties.parse(staged.properties, handle.uri, options)
        write_options = parsed.options
        if handle.partitioned:
            WriteOptions.parse({**options, "path": handle.uri}).check_makes_table(None)
            if handle.version is None:
                target = PartitionedTarget.of(new_table(handle, staged, parsed, like))
            else:
                target = replacement(handle, staged, parsed)
            return plan_write(target, columns, WriteMode.OVERWRITE, write_options)
        write_options.check_makes_table(handle.branch)
        write_options.check_without_partitions()
        is_new = handle.version is None
        if is_new:
            write_options = replace(write_options, enable_stable_row_ids=stable_row_ids(write_options, staged.catalog))
        return plan_write(
            write_target(handle),
            columns,
            WriteMode.CREATE if is_new else WriteMode.OVERWRITE,
            write_options,
            definition=TableDefinition(parsed.config, like, staged.constraints),
            from_query=from_query,
        )

    def commit(self, attachments: tuple[bytes, ...] = (), like: pa.Schema | None = None) -> Version | None:
        """Commits the rows that the attachments describe, or none, and gives the table its name.

        Args:
            attachments: the pickled job, then the results of its tasks.

        Raises:
            AlreadyExistsError, NotFoundError: another statement was first with the name. The new table is deleted.
        """
        job = unpickle_job(attachments[0]) if attachments else self.job(self.staged.columns, {}, like=like)
        committed = job.commit(unpickle_results(attachments[1:]))
        if self.staged.location is not None:
            try:
                self._new_name().give(self.staged.replaces)
            except (AlreadyExistsError, NotFoundError):  # After other errors the table may have its name.
                self._delete_unnamed(committed)
                raise
            if self.staged.replaces is not None and self.staged.catalog is not None:
                remove_expired_tables(self.staged.catalog)
        return committed

    def give_up(self) -> None:
        """Removes what the statement has made, unless there is a table."""
        if self.staged.location is not None or self.staged.declared:
            self._new_name().withdraw()

    def describe(self, place: ResolvedTable, committed: Version | None) -> TableDescription:
        """The table after the commit, which has made the version `committed`."""
        if isinstance(committed, Manifest):
            return describe(place, Dataset(place.location(), committed), READS + WRITES)
        return describe(place, committed or self.handle.open_partitioned(), READS + WRITES + EVOLVES)

    def _delete_unnamed(self, committed: Version | None) -> None:
        """Deletes a new table that did not get its name, unless another writer has changed it."""
        name = self._new_name()
        if isinstance(committed, PartitionedTable) and committed.newest().version != committed.version:
            return
        if name.has_own_place:
            name.delete_files()
        elif isinstance(committed, PartitionedTable):
            store = open_store(committed.root, self.handle.storage_options)
            for part in (CATALOG_DIRECTORY, *(item.location for item in committed.partitions())):
                delete_tables_in(store, committed.root, part, self.handle.storage_options)

    def _new_name(self) -> NewName:
        """The name in the catalog that the table is to get."""
        staged = self.staged
        assert staged.catalog is not None, "a name is one of a catalog"
        assert staged.identifier is not None, "a path has its place"
        return NewName(
            open_namespace(staged.catalog),
            staged.identifier,
            self.handle.uri,
            self.handle.storage_options,
            staged.location,
            has_own_place="location" not in staged.properties,
        )


def stage_partitioned(
    staged: Staged,
    place: ResolvedTable,
    table: PartitionedTable | None,
    options: Mapping[str, str],
    like: pa.Schema | None,
) -> TableHandle:
    """A partitioned table that a statement makes or replaces; nothing of it is there before its commit.

    Args:
        place: where it is, or is to be.
        table: the table that is replaced; None if it is a new one.
        options: of a write by path; Spark passes those of a write by name later.
        like: columns of another table, whose types those of a new table get.

    Raises:
        AlreadyExistsError: something is there.
        InvalidInputError: a column or a field is invalid.
        UnsupportedFeatureError: data files or row ids of the replaced table are to be of another kind.
    """
    handle = TableHandle(
        uri=place.uri,
        version=None if table is None else table.version,
        timestamp_nanos=None if table is None else table.versions_manifest.timestamp_nanos,
        storage_options=place.storage_options,
        staged=staged,
        partitioned=True,
        name=place.name,
    )
    table_to_make = StagedTable(handle)
    try:
        target = table_to_make.job(staged.columns, options, like=like).target
        if isinstance(target.version, NewPartitionedTable):
            target.version.at_free_root()
    except BaseException:
        if staged.declared:
            table_to_make.give_up()
        raise
    return handle
