"""Creates partitioned tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lance_spark.file_version import FileVersion
from lance_spark.partitioned.field import PartitionField, partition_field
from lance_spark.partitioned.names import check_properties
from lance_spark.partitioned.new_table import NewPartitionedTable, commit_new
from lance_spark.partitioned.spec import PartitionSpec, PartitionSpecs
from lance_spark.partitioned.table import FILE_VERSION, PartitionedTable
from lance_spark.partitioned.transforms.base import Transform
from lance_spark.schema.arrow import from_arrow_schema
from lance_spark.schema.blob import as_blob_v2
from lance_spark.schema.field import LanceSchema
from lance_spark.storage.paths import UriOrPath, absolute_uri, uri_text
from lance_spark.table.writing.save import DEFAULT_FILE_VERSION


@dataclass(frozen=True, slots=True)
class PartitionBy:
    """A field of a new partition spec.

    Attributes:
        field_id: its name for ever.
        sources: the source columns, by name.
        transform: how the value follows from them; or
        expression: an expression in DataFusion's SQL on `col0`, `col1`... in the order of `sources`.
    """

    field_id: str
    sources: tuple[str | tuple[str, ...], ...]
    transform: Transform | None = None
    expression: str | None = None

    def field(self, schema: LanceSchema) -> PartitionField:
        """The field, of columns of `schema`. Raises as `partition_field`."""
        return partition_field(self.field_id, schema, self.sources, self.transform, self.expression)


def create_partitioned(
    root: UriOrPath,
    schema: pa.Schema,
    partition_by: Sequence[PartitionBy],
    *,
    storage_options: Mapping[str, str] | None = None,
    properties: Mapping[str, str] | None = None,
) -> PartitionedTable:
    """A new partitioned table without rows at `root`, of which nothing else may be a part.

    Args:
        properties: of the namespace; `table` has the ones with a meaning.

    Raises:
        AlreadyExistsError: there is a table, or a catalog with tables.
        InvalidInputError: a column or a field is invalid.
    """
    new = new_partitioned(root, schema, partition_by, storage_options=storage_options, properties=properties)
    return commit_new(new)


def new_partitioned(
    root: UriOrPath,
    schema: pa.Schema,
    partition_by: Sequence[PartitionBy],
    *,
    storage_options: Mapping[str, str] | None = None,
    properties: Mapping[str, str] | None = None,
) -> NewPartitionedTable:
    """The table that `create_partitioned` makes, before its first commit; nothing is written.

    Raises:
        InvalidInputError: a column, a field or the name of a property is invalid.
    """
    check_properties(properties or {})
    root = absolute_uri(uri_text(root))
    lance_schema = from_arrow_schema(schema)
    if FileVersion.parse((properties or {}).get(FILE_VERSION, DEFAULT_FILE_VERSION.value)) is FileVersion.V2_2:
        lance_schema = as_blob_v2(lance_schema)
    fields = [item.field(lance_schema) for item in partition_by]
    specs = PartitionSpecs(lance_schema, (PartitionSpec(1, tuple(fields)),))
    specs.check()
    return NewPartitionedTable(root, storage_options, specs, properties or {})
