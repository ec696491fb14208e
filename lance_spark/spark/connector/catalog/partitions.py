"""SHOW PARTITIONS of a partitioned table."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.types import StructType

from lance_spark.spark.connector.channel.handles import TableHandle
from lance_spark.spark.connector.channel.registry import Call, operation
from lance_spark.spark.connector.scan.partition_keys import texts
from lance_spark.spark.types.schemas import to_spark_schema


@dataclass(frozen=True, slots=True)
class PartitionsRequest:
    """A partitioned table whose partitions are asked for."""

    handle: TableHandle


@dataclass(frozen=True, slots=True)
class PartitionsReply:
    """The fields of the newest spec, and for each partition their values as text; None for one it does not have."""

    schema: StructType
    values: tuple[tuple[str | None, ...], ...]


@operation("partitions.list")
def list_partitions(request: PartitionsRequest, _call: Call) -> PartitionsReply:
    """The partitions for SHOW PARTITIONS."""
    table = request.handle.open_partitioned()
    fields = [field.arrow_field for field in table.specs.current.fields]
    named = [pa.field(field.field_id, field.result_type) for field in table.specs.current.fields]
    rows = [
        tuple(
            texts(partition.values.column(field.name))[0] if field.name in partition.values.schema.names else None
            for field in fields
        )
        for partition in (opened.partition for opened in table.partitions_with_rows())
    ]
    return PartitionsReply(to_spark_schema(pa.schema(named)), tuple(rows))
