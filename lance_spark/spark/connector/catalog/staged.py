"""Tables that a statement makes or replaces: their rows come first, and they are visible with the commit.

A plain table is only a reserved name until then. A partitioned table that a statement makes gets its directory, with a
`__manifest` of its own, before its rows come, and its name in the catalog last: no query finds the table before its
rows are there. Such a directory has no `.lance` at its end, so listings of the catalog's root do not show it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyspark.sql.types import StructType

from lance_spark.errors import AlreadyExistsError, NotFoundError, UnsupportedFeatureError
from lance_spark.namespace.directory import DirectoryNamespace
from lance_spark.namespace.directory_places import delete_tables_in
from lance_spark.namespace.locations import CATALOG_DIRECTORY, hashed_directory, location_uri, requested_location
from lance_spark.namespace.object_id import object_id
from lance_spark.partitioned.partitioned_target import PartitionedTarget
from lance_spark.partitioned.replace import replaced
from lance_spark.partitioned.save import PartitionBy, create_partitioned
from lance_spark.partitioned.table import (
    FILE_VERSION,
    STABLE_ROW_IDS,
    PartitionedTable,
    PlannedTable,
    is_partitioned_table,
)
from lance_spark.schema.arrow import from_arrow_schema
from lance_spark.spark.connector.catalog.partition_by import partition_fields
from lance_spark.spark.connector.catalog.resolve import (
    ResolvedTable,
    directory,
    display_name,
    open_namespace,
    remove_expired_tables,
)
from lance_spark.spark.connector.catalog.table import EVOLVES, READS, WRITES, TableDescription, describe
from lance_spark.spark.connector.channel.handles import CatalogSettings, Staged, TableHandle
from lance_spark.spark.connector.write.job_task import unpickle_job, unpickle_results
from lance_spark.spark.connector.write.tables import write_target
from lance_spark.spark.constraints import with_constraints
from lance_spark.spark.jobs.job import Version
from lance_spark.spark.jobs.write_job import WriteJob
from lance_spark.spark.jobs.write_plans import TableDefinition, plan_write
from lance_spark.spark.options.catalog import CatalogOptions
from lance_spark.spark.options.options import WriteOptions
from lance_spark.spark.options.table_properties import TableProperties
from lance_spark.spark.types.schemas import table_types, with_comments, written_schema
from lance_spark.storage import open_store
from lance_spark.table.dataset import Dataset
from lance_spark.table.indexes.auto_zonemap import check_zone_columns
from lance_spark.table.indexes.zone_setting import AUTO_ZONEMAP
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.row_level.write_target import WriteMode, remove_late_files


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
            return plan_write(self._partitioned_target(write_options), columns, WriteMode.OVERWRITE, write_options)
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

    def _partitioned_target(self, options: WriteOptions) -> PartitionedTarget:
        """The table without rows that the statement has made, or one with the columns that replace its own."""
        if not self.staged.declared:
            return _replacement(self.handle, self.staged)
        table = self.handle.open_partitioned()
        _check_large(table, options)
        return PartitionedTarget.of(table)

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
                _give_name(self.staged)
            except (AlreadyExistsError, NotFoundError):
                if self.handle.partitioned:
                    self._delete(self.handle.version if committed is None else committed.version)
                else:
                    _delete_staged(self.handle, self.staged)
                raise
        return committed

    def give_up(self) -> None:
        """Removes what the statement has made, unless another writer has changed it since."""
        handle, staged = self.handle, self.staged
        if handle.partitioned:
            if self._delete(handle.version) and _has_own_directory(staged):
                # Tasks that Spark is still killing may make the directory again.
                remove_late_files(f"the table at {handle.uri}", lambda: _delete_staged(handle, staged))
            return
        if not staged.declared or staged.catalog is None or staged.identifier is None:
            return
        if handle.location().latest() is None:
            # The job has removed its files. A directory that the statement has named may hold others.
            open_namespace(staged.catalog).drop_table(staged.identifier, purge="location" not in staged.properties)

    def describe(self, place: ResolvedTable, committed: Version | None) -> TableDescription:
        """The table after the commit, which has made the version `committed`."""
        if isinstance(committed, Manifest):
            return describe(place, Dataset(place.location(), committed), READS + WRITES)
        return describe(place, committed or self.handle.open_partitioned(), READS + WRITES + EVOLVES)

    def _delete(self, version: int | None) -> bool:
        """Deletes a new partitioned table; false if it was removed or another writer has changed it after `version`."""
        handle = self.handle
        if not self.staged.declared or not is_partitioned_table(handle.uri, handle.storage_options):
            return False
        if handle.open_partitioned().newest().version != version:
            return False
        _delete_staged(handle, self.staged)
        return True


@dataclass(frozen=True, slots=True)
class NewPartitionedTable:
    """A partitioned table that a statement is about to make.

    Attributes:
        partition_by: the fields of its spec.
        options: of the write that makes it by path; Spark passes those of a write by name later.
        like: columns of another table, whose types the columns get.
    """

    staged: Staged
    partition_by: Sequence[PartitionBy]
    storage_options: Mapping[str, str]
    options: Mapping[str, str] = field(default_factory=dict)
    like: pa.Schema | None = None

    def stage(self, place: ResolvedTable | None) -> TableHandle:
        """Makes it, without rows and without a name, at `place` or in a new directory of the catalog.

        Raises:
            AlreadyExistsError: something is there.
            InvalidInputError: a column or a field is invalid.
        """
        staged = self.staged
        if place is None:
            names, identifier = _name_of(staged)
            location = _new_location(names, identifier, staged.properties)
            staged = replace(staged, location=location)
            assert staged.catalog is not None, "a name is one of a catalog"
            name = display_name(staged.catalog, identifier)
            place = ResolvedTable(location_uri(names.root, location), self.storage_options, name=name)
        table = self._create(place)
        return TableHandle(
            uri=place.uri,
            version=table.version,
            timestamp_nanos=table.versions_manifest.timestamp_nanos,
            storage_options=place.storage_options,
            staged=replace(staged, declared=True),
            partitioned=True,
            name=place.name,
        )

    def _create(self, place: ResolvedTable) -> PartitionedTable:
        parsed = TableProperties.parse(self.staged.properties, place.uri, self.options)
        columns, options = self.staged.columns, parsed.options
        types = table_types(
            written_schema(columns), self.like, options.column_properties, large=options.use_large_var_types
        )
        properties = dict(parsed.config)
        if options.file_format_version is not None:
            properties[FILE_VERSION] = options.file_format_version
        if stable_row_ids(options, self.staged.catalog):
            properties[STABLE_ROW_IDS] = "true"
        schema = with_constraints(with_comments(types, columns), self.staged.constraints)
        check_zone_columns(from_arrow_schema(schema), properties.get(AUTO_ZONEMAP))
        return create_partitioned(
            place.uri,
            schema,
            self.partition_by,
            storage_options=place.storage_options,
            properties=properties,
        )

    def stage_over(self, place: ResolvedTable, table: PartitionedTable) -> TableHandle:
        """A replacement of the rows of `table`, and of its columns, partitions and properties.

        Raises:
            InvalidInputError: a column or a field is invalid.
            UnsupportedFeatureError: data files or row ids are to be of another kind.
        """
        handle = TableHandle(
            uri=place.uri,
            version=table.version,
            timestamp_nanos=table.versions_manifest.timestamp_nanos,
            storage_options=place.storage_options,
            staged=self.staged,
            partitioned=True,
            name=place.name,
        )
        StagedTable(handle).job(self.staged.columns, {})
        return handle


def stable_row_ids(options: WriteOptions, catalog: CatalogSettings | None) -> bool:
    """Whether a table that is made gets stable row ids: its options say so, or else its catalog does."""
    if options.enable_stable_row_ids is not None or catalog is None:
        return bool(options.enable_stable_row_ids)
    return CatalogOptions.parse(catalog.settings).enable_stable_row_ids


def _name_of(staged: Staged) -> tuple[DirectoryNamespace, tuple[str, ...]]:
    """The name that a table is to get, and where."""
    assert staged.catalog is not None, "a name is one of a catalog"
    assert staged.identifier is not None, "a path has its place"
    return directory(staged.catalog), staged.identifier


def _give_name(staged: Staged) -> None:
    """Gives a staged table its name, which another table may have until now.

    Raises:
        AlreadyExistsError: another statement was first with the name.
        NotFoundError: the table that is to be replaced no longer exists.
    """
    names, identifier = _name_of(staged)
    assert staged.location is not None, "the table has a directory of its own"
    if staged.replaces is None:
        names.declare_table(identifier, location=staged.location)
    else:
        names.replace_table(identifier, staged.replaces, staged.location)
        assert staged.catalog is not None, "a name is one of a catalog"
        remove_expired_tables(staged.catalog)


def _has_own_directory(staged: Staged) -> bool:
    """Whether the table is in a directory that nobody else uses, whatever its name."""
    return staged.location is not None and staged.catalog is not None and "location" not in staged.properties


def _delete_staged(handle: TableHandle, staged: Staged) -> None:
    """Deletes the files of a table that never got its name."""
    if staged.catalog is not None and staged.location is not None and _has_own_directory(staged):
        root, directory_name = directory(staged.catalog).root, staged.location
    else:
        root, directory_name = handle.uri, CATALOG_DIRECTORY
    delete_tables_in(open_store(root, handle.storage_options), root, directory_name, handle.storage_options)


def _replacement(handle: TableHandle, staged: Staged) -> PartitionedTarget:
    """A table as a statement replaces it, with the properties that change."""
    table = handle.open_partitioned()
    parsed = TableProperties.parse(staged.properties, handle.uri, {})
    version, stable = parsed.options.file_format_version, parsed.options.enable_stable_row_ids
    if version not in (None, table.file_version.value) or (stable and not table.has_stable_row_ids):
        raise UnsupportedFeatureError(
            "a partitioned table keeps its file format version and the kind of its row ids when it is replaced; "
            "DROP it first",
            feature="REPLACE TABLE with another file format",
        )
    types = table_types(
        written_schema(staged.columns),
        table.stored_schema,
        parsed.options.column_properties,
        replaces=True,
        large=parsed.options.use_large_var_types,
    )
    schema = with_constraints(with_comments(types, staged.columns, replaces=True), staged.constraints)
    planned = replaced(table, schema, partition_fields(staged.partitioning))
    current = table.config
    deleted: dict[str, str | None] = {
        name: None for name in current if name not in parsed.config and name not in (FILE_VERSION, STABLE_ROW_IDS)
    }
    properties = deleted | {name: value for name, value in parsed.config.items() if current.get(name) != value}
    if properties and not isinstance(planned, PlannedTable):
        planned = PlannedTable(table, table.specs)
    return PartitionedTarget.of(planned, properties)


def _new_location(names: DirectoryNamespace, identifier: tuple[str, ...], properties: Mapping[str, str]) -> str:
    location = properties.get("location")
    return hashed_directory(object_id(identifier)) if location is None else requested_location(names.root, location)


def _check_large(table: PartitionedTable, options: WriteOptions) -> None:
    if options.use_large_var_types and table_types(table.stored_schema, None, large=True) != table_types(
        table.stored_schema, None
    ):
        raise UnsupportedFeatureError(
            "option use_large_var_types: the columns of a partitioned table are made before Spark hands over the "
            "options of the write; make the table with this property, such as by writeTo(...).tableProperty(...)",
            feature="large types of a partitioned table",
        )
