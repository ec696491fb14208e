"""The columns of a table as Spark sees them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql.types import StructType

from lance_spark.file_version import FileVersion
from lance_spark.schema.arrow import to_arrow_schema
from lance_spark.schema.field import Field, LanceSchema
from lance_spark.spark.blob_columns import BINARY, BLOB_HANDLING, DESCRIPTIONS, blobs_viewed, parse_blob_handling
from lance_spark.spark.json_types import JSON_AS, VARIANT, parse_json_as, shown_json
from lance_spark.spark.types import to_spark_schema


@dataclass(frozen=True, slots=True)
class ShownAs:
    """What columns of types that Spark does not have are in Spark.

    Attributes:
        blobs: blob columns, `descriptions` or `binary`.
        json: JSON columns, `variant` or `string`.
    """

    blobs: str = DESCRIPTIONS
    json: str = VARIANT

    @classmethod
    def of(
        cls, properties: Mapping[str, str], *, blob_handling: str | None = None, json_as: str | None = None
    ) -> ShownAs:
        """The options of a read, or else the properties of the table, or else the defaults."""
        return cls(
            blob_handling or parse_blob_handling(properties.get(BLOB_HANDLING, DESCRIPTIONS)),
            json_as or parse_json_as(properties.get(JSON_AS, VARIANT)),
        )


def spark_view(schema: LanceSchema, file_version: FileVersion | None, shown: ShownAs) -> LanceSchema:
    """The columns of a table as Spark sees them."""
    viewed = blobs_viewed(schema, file_version, shown.blobs)
    return LanceSchema(tuple(_with_json(field, shown.json) for field in viewed.fields), viewed.metadata)


def written_columns(schema: LanceSchema, file_version: FileVersion | None, properties: Mapping[str, str]) -> StructType:
    """The columns of a table in the types of the rows that are written into it: blobs are BINARY."""
    return to_spark_schema(
        to_arrow_schema(spark_view(schema, file_version, ShownAs.of(properties, blob_handling=BINARY)))
    )


def _with_json(field: Field, json_as: str) -> Field:
    below = tuple(_with_json(child, json_as) for child in field.children)
    return shown_json(field if below == field.children else field.with_children(below), json_as)
