"""Partitioned tables that a statement makes, replaces or empties.

A partitioned table that a statement makes gets its directory, with a `__manifest` of its own, before its rows come, and
its name in the catalog last: no query finds the table before its rows are there. Such a directory has no `.lance` at
its end, so listings of the catalog's root do not show it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyspark.sql.types import StructType

from lance_spark.errors import UnsupportedFeatureError
from lance_spark.namespace.directory import DirectoryNamespace
from lance_spark.namespace.locations import hashed_directory, location_uri, requested_location
from lance_spark.namespace.object_id import object_id
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
from lance_spark.spark.connector.catalog.resolve import ResolvedTable, display_name
from lance_spark.spark.connector.catalog.staged import (
    StagedTable,
    delete_staged,
    has_own_directory,
    name_of,
    stable_row_ids,
)
from lance_spark.spark.connector.catalog.table import EVOLVES, READS, WRITES, TableDescription, describe
from lance_spark.spark.connector.channel.handles import Staged, TableHandle
from lance_spark.spark.constraints import with_constraints
from lance_spark.spark.jobs.partitioned_target import plan_partitioned_write
from lance_spark.spark.jobs.target import Version, WriteMode, remove_late_files
from lance_spark.spark.jobs.write_job import WriteJob
from lance_spark.spark.options.options import WriteOptions
from lance_spark.spark.options.table_properties import TableProperties
from lance_spark.spark.types.schemas import table_types, with_comments, written_schema
from lance_spark.table.indexes.auto_zonemap import AUTO_ZONEMAP, check_zone_columns


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
            names, identifier = name_of(staged)
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
        made = with_constraints(with_comments(types, columns), self.staged.constraints)
        check_zone_columns(from_arrow_schema(made), properties.get(AUTO_ZONEMAP))
        return create_partitioned(
            place.uri,
            made,
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
        StagedPartitionedTable(handle).job(self.staged.columns, {})
        return handle


class StagedPartitionedTable(StagedTable):
    """A partitioned table: made without rows already, or to be replaced."""

    def job(
        self,
        columns: StructType,
        options: Mapping[str, str],
        *,
        like: pa.Schema | None = None,
        from_query: bool = False,
    ) -> WriteJob:
        parsed = TableProperties.parse(self.staged.properties, self.handle.uri, options)
        WriteOptions.parse({**options, "path": self.handle.uri}).check_makes_table(None)
        if self.staged.declared:
            made = self.handle.open_partitioned()
            _check_large(made, parsed.options)
            return plan_partitioned_write(made, columns, WriteMode.OVERWRITE, parsed.options)
        table, properties = _replacement(self.handle, self.staged)
        return plan_partitioned_write(table, columns, WriteMode.OVERWRITE, parsed.options, properties=properties)

    def give_up(self) -> None:
        if self._delete(self.handle.version) and has_own_directory(self.staged):
            # Tasks that Spark is still killing may make the directory again.
            remove_late_files(f"the table at {self.handle.uri}", lambda: delete_staged(self.handle, self.staged))

    def describe(self, place: ResolvedTable, made: Version | None) -> TableDescription:
        table = made if isinstance(made, PartitionedTable) else self.handle.open_partitioned()
        return describe(place, table, READS + WRITES + EVOLVES)

    def _delete_unnamed(self, made: Version | None) -> None:
        self._delete(self.handle.version if made is None else made.version)

    def _delete(self, version: int | None) -> bool:
        """Deletes the table, unless it was removed or somebody has changed it after `version`; whether it did."""
        handle = self.handle
        if not self.staged.declared or not is_partitioned_table(handle.uri, handle.storage_options):
            return False
        if handle.open_partitioned().newest().version != version:
            return False
        delete_staged(handle, self.staged)
        return True


def _replacement(handle: TableHandle, staged: Staged) -> tuple[PartitionedTable, dict[str, str | None]]:
    """A table as a statement replaces it, and the properties that change."""
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
    made = with_constraints(with_comments(types, staged.columns, replaces=True), staged.constraints)
    planned = replaced(table, made, partition_fields(staged.partitioning))
    known = table.config
    deleted: dict[str, str | None] = {
        name: None for name in known if name not in parsed.config and name not in (FILE_VERSION, STABLE_ROW_IDS)
    }
    properties = deleted | {name: value for name, value in parsed.config.items() if known.get(name) != value}
    if properties and not isinstance(planned, PlannedTable):
        planned = PlannedTable(table, table.specs)
    return planned, properties


def _new_location(names: DirectoryNamespace, identifier: tuple[str, ...], properties: Mapping[str, str]) -> str:
    given = properties.get("location")
    return hashed_directory(object_id(identifier)) if given is None else requested_location(names.root, given)


def _check_large(made: PartitionedTable, options: WriteOptions) -> None:
    if options.use_large_var_types and table_types(made.stored_schema, None, large=True) != table_types(
        made.stored_schema, None
    ):
        raise UnsupportedFeatureError(
            "option use_large_var_types: the columns of a partitioned table are made before Spark hands over the "
            "options of the write; make the table with this property, such as by writeTo(...).tableProperty(...)",
            feature="large types of a partitioned table",
        )
