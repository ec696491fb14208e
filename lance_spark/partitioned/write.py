"""Writes rows into a partitioned table by its URI, which the write makes if it is not there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lance_spark.errors import AlreadyExistsError, InvalidInputError
from lance_spark.partitioned.dataset import PartitionedDataset, find_partitioned_table
from lance_spark.partitioned.partition_by import parse_transform, partition_fields
from lance_spark.partitioned.partitioned_target import PartitionedTarget
from lance_spark.partitioned.save import PartitionBy, new_partitioned
from lance_spark.partitioned.table import FILE_VERSION, STABLE_ROW_IDS
from lance_spark.storage.paths import UriOrPath
from lance_spark.table.access import check_row_ids
from lance_spark.table.indexes.auto_zonemap import check_zone_columns
from lance_spark.table.row_level.row_verbs import RowsToWrite, write_rows
from lance_spark.table.row_level.write_target import WriteMode
from lance_spark.table.writing.identity import without_identities


def write_partitioned(
    rows: RowsToWrite,
    uri: UriOrPath,
    partition_by: Sequence[str],
    mode: WriteMode,
    *,
    storage_options: Mapping[str, str] | None = None,
    file_format_version: str | None = None,
    merge_schema: bool = False,
) -> PartitionedDataset:
    """The table with the rows, as one version.

    Args:
        partition_by: transforms as in PARTITIONED BY; those of the table, if it is there.

    Raises: as `lance_spark.write`.
    """
    if isinstance(partition_by, str):
        raise InvalidInputError(f"partition_by takes a list of transforms; write [{partition_by!r}]")
    fields = partition_fields([parse_transform(text) for text in partition_by])
    options = rows.options
    table = find_partitioned_table(uri, storage_options=storage_options)
    source = rows.source if table is not None and mode is WriteMode.APPEND else without_identities(rows.source)
    if table is None:
        properties = dict(options.config or {})
        if file_format_version is not None:
            properties[FILE_VERSION] = file_format_version
        if options.stable_row_ids:
            properties[STABLE_ROW_IDS] = "true"
        new = new_partitioned(
            uri, source.schema, fields, storage_options=storage_options, properties=properties
        ).at_free_root()
        check_zone_columns(new.lance_schema, options.zone_maps)
        target = PartitionedTarget.of(new)
    else:
        _check_fits(table, fields, mode)
        if options.config:
            raise InvalidInputError("the table exists and keeps its properties; leave them out")
        check_row_ids(has_stable=table.has_stable_row_ids, wants_stable=options.stable_row_ids)
        target = table.write_target(options.zone_maps)
    target = target.taking(
        source.schema, rows.limits, mode=mode, merge_schema=merge_schema, file_format_version=file_format_version
    )
    return PartitionedDataset.of(write_rows(target, source, options, mode))


def _check_fits(table: PartitionedDataset, fields: Sequence[PartitionBy], mode: WriteMode) -> None:
    """Refuses to create a table that is there, and to write to one with other partition fields."""
    if mode is WriteMode.CREATE:
        raise AlreadyExistsError(f"there is a table at {table.root} already; use mode 'append' or 'overwrite'")
    current = table.specs.current.fields
    if [item.field(table.lance_schema).definition for item in fields] != [field.definition for field in current]:
        names = ", ".join(field.field_id for field in current) or "nothing"
        raise InvalidInputError(
            f"the table at {table.root} is partitioned by {names}; ALTER TABLE changes its fields, a write does not"
        )
