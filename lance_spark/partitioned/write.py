"""Writes rows into a partitioned table by its URI, which the write makes if it is not there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lance_spark.errors import AlreadyExistsError, InvalidInputError
from lance_spark.partitioned.dataset import PartitionedDataset, find_partitioned_table
from lance_spark.partitioned.field import PartitionField
from lance_spark.partitioned.partition_by import parse_transform, partition_fields
from lance_spark.partitioned.partitioned_target import PartitionedTarget
from lance_spark.partitioned.save import new_partitioned
from lance_spark.partitioned.table import FILE_VERSION, STABLE_ROW_IDS
from lance_spark.schema.field import LanceSchema
from lance_spark.storage.paths import UriOrPath
from lance_spark.table.indexes.auto_zonemap import check_zone_columns
from lance_spark.table.location import TableLocation
from lance_spark.table.row_level.row_verbs import RowsToWrite, write_rows
from lance_spark.table.row_level.write_target import WriteMode
from lance_spark.table.writing.identity import without_identities


def write_partitioned(
    rows: RowsToWrite,
    uri: UriOrPath,
    partition_by: Sequence[str],
    mode: WriteMode,
    *,
    storage_options: dict[str, str] | None,
    file_format_version: str | None,
    merge_schema: bool,
) -> PartitionedDataset:
    """The table with the rows, as one version.

    Args:
        partition_by: transforms as in PARTITIONED BY; those of the table, if it is there.

    Raises: as `lance_spark.write`.
    """
    if isinstance(partition_by, str):
        raise InvalidInputError(f"partition_by takes a list of transforms; write [{partition_by!r}]")
    table = find_partitioned_table(uri, storage_options=storage_options)
    if table is None:
        return _made(rows, uri, partition_by, mode, storage_options, file_format_version)
    if mode is WriteMode.CREATE:
        raise AlreadyExistsError(f"there is a table at {table.root} already; use mode 'append' or 'overwrite'")
    wanted = _fields(partition_by, table.lance_schema)
    current = table.specs.current.fields
    if [field.definition for field in wanted] != [field.definition for field in current]:
        names = ", ".join(field.field_id for field in current) or "nothing"
        raise InvalidInputError(
            f"the table at {table.root} is partitioned by {names}; ALTER TABLE changes its fields, a write does not"
        )
    if rows.options.stable_row_ids and not table.has_stable_row_ids:
        raise InvalidInputError("stable row ids are chosen when a table is created; this one has none")
    source = rows.source if mode is WriteMode.APPEND else without_identities(rows.source)
    target = table.write_target(rows.options.zone_maps).taking(
        source.schema,
        rows.limits,
        mode=mode,
        merge_schema=merge_schema,
        file_format_version=file_format_version,
    )
    return PartitionedDataset.of(write_rows(target, source, rows.options, mode))


def _made(
    rows: RowsToWrite,
    uri: UriOrPath,
    partition_by: Sequence[str],
    mode: WriteMode,
    storage_options: dict[str, str] | None,
    file_format_version: str | None,
) -> PartitionedDataset:
    if TableLocation(uri, storage_options).latest() is not None:
        raise AlreadyExistsError(f"there is a table without partitions at {uri}; write it to another place")
    source = without_identities(rows.source)
    properties: dict[str, Any] = {}
    if file_format_version is not None:
        properties[FILE_VERSION] = file_format_version
    if rows.options.stable_row_ids:
        properties[STABLE_ROW_IDS] = "true"
    calls = [parse_transform(text) for text in partition_by]
    new = new_partitioned(
        uri, source.schema, partition_fields(calls), storage_options=storage_options, properties=properties
    )
    check_zone_columns(new.lance_schema, rows.options.zone_maps)
    target = PartitionedTarget.of(new).taking(source.schema, rows.limits, mode=mode)
    return PartitionedDataset.of(write_rows(target, source, rows.options, mode))


def _fields(partition_by: Sequence[str], schema: LanceSchema) -> list[PartitionField]:
    return [item.field(schema) for item in partition_fields([parse_transform(text) for text in partition_by])]
