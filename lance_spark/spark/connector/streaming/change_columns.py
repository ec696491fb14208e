"""The columns that a change feed adds to the table's."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from lance_spark.errors import InvalidInputError
from lance_spark.spark.connector.catalog.table import TableDescription
from lance_spark.table.change_feed.change_feed import CHANGE_TYPE, COMMIT_TIMESTAMP, COMMIT_VERSION

CHANGE_COLUMNS = (
    StructField(CHANGE_TYPE, StringType(), False),
    StructField(COMMIT_VERSION, LongType(), False),
    StructField(COMMIT_TIMESTAMP, TimestampType(), False),
)


def with_change_columns(table: TableDescription) -> TableDescription:
    """The description of a table's change feed.

    Raises:
        InvalidInputError: a column of the table has the name of one of these.
    """
    return replace(table, schema=columns_of_changes(table.schema), capabilities=("MICRO_BATCH_READ",))


def columns_of_changes(schema: StructType) -> StructType:
    """The columns of the change feed of a table with the columns `schema`. Raises as `with_change_columns`."""
    clash = set(schema.fieldNames()) & {item.name for item in CHANGE_COLUMNS}
    if clash:
        raise InvalidInputError(f"the table has a column {min(clash)!r}, as changes have; rename it")
    data = [StructField(item.name, item.dataType, True, item.metadata) for item in schema.fields]
    return StructType([*data, *CHANGE_COLUMNS])
