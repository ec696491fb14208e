"""Partitioned tables that a statement makes, replaces or empties.

A partitioned table that a statement makes gets its directory, with a `__manifest` of its own, before its rows come, and
its name in the catalog last: no query finds the table before its rows are there. Such a directory has no `.lance` at
its end, so listings of the catalog's root do not show it.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pyspark.sql.types import StructType

from lance_spark.errors import AlreadyExistsError, NotFoundError, UnsupportedFeatureError
from lance_spark.namespace.directory import DirectoryNamespace
from lance_spark.namespace.locations import CATALOG_DIRECTORY, given_location, hashed_directory, location_uri
from lance_spark.namespace.object_id import object_id
from lance_spark.namespace.table_files import delete_tables_in
from lance_spark.partitioned.properties import user_properties
from lance_spark.partitioned.replace import replaced
from lance_spark.partitioned.save import PartitionBy, SaveMode, create_partitioned
from lance_spark.partitioned.table import (
    FILE_VERSION,
    STABLE_ROW_IDS,
    PartitionedTable,
    PlannedTable,
    is_partitioned_table,
)
from lance_spark.spark.connector.catalog.partition_by import partition_fields
from lance_spark.spark.connector.catalog.places import Place, directory, shown_name
from lance_spark.spark.connector.channel.handles import CatalogSettings, Staged, TableHandle
from lance_spark.spark.connector.write.partitioned_writes import commit_partitioned, timestamp_of
from lance_spark.spark.jobs.partitioned_write_job import PartitionedWriteJob
from lance_spark.spark.options import CatalogOptions, TableProperties, WriteOptions
from lance_spark.spark.types import table_types, to_spark_schema, with_comments, written_schema
from lance_spark.storage import open_store


@dataclass(frozen=True, slots=True)
class NewPartitionedTable:
    """A partitioned table that a statement is about to make.

    Attributes:
        partition_by: the fields of its spec.
        options: of the write that makes it by path; Spark tells those of a write by name later.
    """

    staged: Staged
    partition_by: Sequence[PartitionBy]
    storage_options: Mapping[str, str]
    options: Mapping[str, str] = field(default_factory=dict)

    def stage(self, place: Place | None) -> TableHandle:
        """Makes it, without rows and without a name, at `place` or in a new directory of the catalog.

        Raises:
            AlreadyExistsError: something is there.
            InvalidInputError: a column or a field makes no sense.
        """
        staged = self.staged
        if place is None:
            names, identifier = _name(staged)
            location = _new_location(names, identifier, staged.properties)
            staged = replace(staged, location=location)
            assert staged.catalog is not None, "a name is one of a catalog"
            name = shown_name(staged.catalog, identifier)
            place = Place(location_uri(names.root, location), self.storage_options, name=name)
        whole = self._create(place)
        return TableHandle(
            uri=place.uri,
            version=whole.version,
            timestamp_nanos=timestamp_of(whole),
            storage_options=place.storage_options,
            staged=replace(staged, declared=True),
            partitioned=True,
            name=place.name,
        )

    def _create(self, place: Place) -> PartitionedTable:
        parsed = TableProperties.parse(self.staged.properties, place.uri, self.options)
        columns, options = self.staged.columns, parsed.options
        types = table_types(written_schema(columns), None, options.column_properties, large=options.use_large_var_types)
        properties = dict(parsed.config)
        if options.file_format_version is not None:
            properties[FILE_VERSION] = options.file_format_version
        if stable_row_ids(options, self.staged.catalog):
            properties[STABLE_ROW_IDS] = "true"
        return create_partitioned(
            place.uri,
            with_comments(types, columns),
            self.partition_by,
            storage_options=place.storage_options,
            properties=properties,
        )

    def stage_over(self, place: Place, whole: PartitionedTable) -> TableHandle:
        """A replacement of the rows of `whole`, and of its columns, partitions and properties.

        Raises:
            InvalidInputError: a column or a field makes no sense.
            UnsupportedFeatureError: data files or row ids are to be of another kind.
        """
        handle = TableHandle(
            uri=place.uri,
            version=whole.version,
            timestamp_nanos=timestamp_of(whole),
            storage_options=place.storage_options,
            staged=self.staged,
            partitioned=True,
            name=place.name,
        )
        staged_partitioned_job(handle, self.staged.columns, {})
        return handle


def _replacement(handle: TableHandle, staged: Staged) -> tuple[PartitionedTable, dict[str, str | None]]:
    """A table as a statement replaces it, and the properties that change."""
    whole = handle.open_partitioned()
    parsed = TableProperties.parse(staged.properties, handle.uri, {})
    version, stable = parsed.options.file_format_version, parsed.options.enable_stable_row_ids
    if version not in (None, whole.file_version.value) or (stable and not whole.has_stable_row_ids):
        raise UnsupportedFeatureError(
            "a partitioned table keeps its file format version and the kind of its row ids when it is replaced; "
            "DROP it first",
            feature="REPLACE TABLE with another file format",
        )
    types = table_types(
        written_schema(staged.columns),
        whole.schema,
        parsed.options.column_properties,
        replaces=True,
        large=parsed.options.use_large_var_types,
    )
    planned = replaced(whole, with_comments(types, staged.columns), partition_fields(staged.partitioning))
    known = user_properties(whole.properties)
    gone: dict[str, str | None] = {
        name: None for name in known if name not in parsed.config and name not in (FILE_VERSION, STABLE_ROW_IDS)
    }
    properties = gone | {name: value for name, value in parsed.config.items() if known.get(name) != value}
    if properties and not isinstance(planned, PlannedTable):
        planned = PlannedTable(whole, whole.specs)
    return planned, properties


def stable_row_ids(options: WriteOptions, catalog: CatalogSettings | None) -> bool:
    """Whether a table that is made gets stable row ids: its options say so, or else its catalog does."""
    if options.enable_stable_row_ids is not None or catalog is None:
        return bool(options.enable_stable_row_ids)
    return CatalogOptions.parse(catalog.settings).enable_stable_row_ids


def _name(staged: Staged) -> tuple[DirectoryNamespace, tuple[str, ...]]:
    """The name that a table is to get, and where."""
    assert staged.catalog is not None, "a name is one of a catalog"
    assert staged.identifier is not None, "a path has its place"
    return directory(staged.catalog), staged.identifier


def _new_location(names: DirectoryNamespace, identifier: tuple[str, ...], properties: Mapping[str, str]) -> str:
    given = properties.get("location")
    return hashed_directory(object_id(identifier)) if given is None else given_location(names.root, given)


def staged_partitioned_job(handle: TableHandle, columns: StructType, options: Mapping[str, str]) -> PartitionedWriteJob:
    """The job that fills a staged table with rows in `columns`."""
    staged = handle.staged
    assert staged is not None, "the table is staged"
    parsed = TableProperties.parse(staged.properties, handle.uri, options)
    WriteOptions.parse({**options, "path": handle.uri}).check_makes_table(None)
    if staged.declared:
        _check_large(handle.open_partitioned(), parsed.options)
        return PartitionedWriteJob.of(handle.open_partitioned(), columns, SaveMode.OVERWRITE, parsed.options)
    whole, properties = _replacement(handle, staged)
    job = PartitionedWriteJob.of(whole, columns, SaveMode.OVERWRITE, parsed.options)
    return replace(job, properties=properties)


def _check_large(made: PartitionedTable, options: WriteOptions) -> None:
    if options.use_large_var_types and table_types(made.schema, None, large=True) != table_types(made.schema, None):
        raise UnsupportedFeatureError(
            "option use_large_var_types: the columns of a partitioned table are made before Spark hands over the "
            "options of the write; make the table with this property, such as by writeTo(...).tableProperty(...)",
            feature="large types of a partitioned table",
        )


def commit_staged_partitioned(handle: TableHandle, attachments: tuple[bytes, ...]) -> PartitionedTable:
    """Commits the rows of a staged table, and gives it its name.

    Raises:
        AlreadyExistsError: another statement was first with the name. Nothing is left of ours.
    """
    staged = handle.staged
    assert staged is not None, "the table is staged"
    job = pickle.loads(attachments[0]) if attachments else staged_partitioned_job(handle, staged.columns, {})
    made = commit_partitioned(job, attachments[1:])
    if staged.location is not None:
        try:
            give_name(staged)
        except (AlreadyExistsError, NotFoundError):
            give_up_partitioned(handle, handle.version if made is None else made.version)
            raise
    return made or handle.open_partitioned()


def give_name(staged: Staged) -> None:
    """Gives a staged table its name, which another table may have until now.

    Raises:
        AlreadyExistsError: another statement was first with the name.
        NotFoundError: the table that is to be replaced is gone.
    """
    names, identifier = _name(staged)
    assert staged.location is not None, "the table has a directory of its own"
    if staged.replaces is None:
        names.declare_table(identifier, location=staged.location)
    else:
        names.replace_table(identifier, staged.replaces, staged.location)


def delete_staged(handle: TableHandle, staged: Staged) -> None:
    """Deletes the files of a table that never got its name."""
    if staged.location is not None and staged.catalog is not None and "location" not in staged.properties:
        # The directory is ours alone.
        root, directory_name = directory(staged.catalog).root, staged.location
    else:
        root, directory_name = handle.uri, CATALOG_DIRECTORY
    delete_tables_in(open_store(root, handle.storage_options), root, directory_name, handle.storage_options)


def give_up_partitioned(handle: TableHandle, version: int | None = None) -> None:
    """Removes a staged table, unless it is gone or was changed after `version`, by default the one that was staged."""
    staged, ours = handle.staged, handle.version if version is None else version
    if staged is None or not staged.declared or not is_partitioned_table(handle.uri, handle.storage_options):
        return
    if handle.open_partitioned().newest().version != ours:
        return
    delete_staged(handle, staged)


def truncate_partitioned(handle: TableHandle) -> bool:
    """Removes all rows; false if there were none."""
    whole = handle.open_partitioned().newest()
    options = WriteOptions.parse({"path": handle.uri})
    job = PartitionedWriteJob.of(whole, to_spark_schema(whole.schema), SaveMode.OVERWRITE, options)
    return job.commit([], repeated=False) is not None
