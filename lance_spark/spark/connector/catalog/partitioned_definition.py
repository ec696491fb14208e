"""The columns, partition fields and properties of partitioned tables that statements make or replace."""

from __future__ import annotations

import pyarrow as pa

from lance_spark.errors import UnsupportedFeatureError
from lance_spark.partitioned.names import check_properties
from lance_spark.partitioned.new_table import NewPartitionedTable
from lance_spark.partitioned.partitioned_target import PartitionedTarget
from lance_spark.partitioned.replace import replaced
from lance_spark.partitioned.save import new_partitioned
from lance_spark.partitioned.table import FILE_VERSION, STABLE_ROW_IDS, PlannedTable
from lance_spark.schema.arrow import from_arrow_schema
from lance_spark.spark.connector.catalog.partition_by import fields_of_statement
from lance_spark.spark.connector.channel.handles import CatalogSettings, Staged, TableHandle
from lance_spark.spark.constraints import with_constraints
from lance_spark.spark.options.catalog import CatalogOptions
from lance_spark.spark.options.options import WriteOptions
from lance_spark.spark.options.table_properties import TableProperties
from lance_spark.spark.types.schemas import table_types, with_comments, written_schema
from lance_spark.table.indexes.auto_zonemap import check_zone_columns
from lance_spark.table.indexes.zone_setting import AUTO_ZONEMAP
from lance_spark.table.maintenance.clustering.layout import CLUSTERING_COLUMNS, check_clustering


def new_table(
    handle: TableHandle, staged: Staged, parsed: TableProperties, like: pa.Schema | None
) -> NewPartitionedTable:
    """The table that a statement makes.

    Args:
        like: columns of another table, whose types its columns get.
    """
    columns, options = staged.columns, parsed.options
    types = table_types(written_schema(columns), like, options.column_properties, large=options.use_large_var_types)
    properties = dict(parsed.config)
    if options.file_format_version is not None:
        properties[FILE_VERSION] = options.file_format_version
    if stable_row_ids(options, staged.catalog):
        properties[STABLE_ROW_IDS] = "true"
    schema = with_constraints(with_comments(types, columns), staged.constraints)
    check_zone_columns(from_arrow_schema(schema), properties.get(AUTO_ZONEMAP))
    check_clustering(from_arrow_schema(schema), properties.get(CLUSTERING_COLUMNS))
    return new_partitioned(
        handle.uri,
        schema,
        fields_of_statement(staged.partitioning),
        storage_options=handle.storage_options,
        properties=properties,
    )


def replacement(handle: TableHandle, staged: Staged, parsed: TableProperties) -> PartitionedTarget:
    """A table as a statement replaces it, with the properties that change.

    Raises:
        UnsupportedFeatureError: data files or row ids are to be of another kind.
    """
    table = handle.open_partitioned()
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
    check_properties(parsed.config)
    schema = with_constraints(with_comments(types, staged.columns, replaces=True), staged.constraints)
    planned = replaced(table, schema, fields_of_statement(staged.partitioning))
    current = table.config
    deleted: dict[str, str | None] = {
        name: None for name in current if name not in parsed.config and name not in (FILE_VERSION, STABLE_ROW_IDS)
    }
    properties = deleted | {name: value for name, value in parsed.config.items() if current.get(name) != value}
    if properties and not isinstance(planned, PlannedTable):
        planned = PlannedTable(table, table.specs)
    return PartitionedTarget.of(planned, properties)


def stable_row_ids(options: WriteOptions, catalog: CatalogSettings | None) -> bool:
    """Whether a table that is made gets stable row ids: its options say so, or else its catalog does."""
    if options.enable_stable_row_ids is not None or catalog is None:
        return bool(options.enable_stable_row_ids)
    return CatalogOptions.parse(catalog.settings).enable_stable_row_ids
