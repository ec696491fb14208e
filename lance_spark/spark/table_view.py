"""The columns of a table as Spark sees them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as pt
from pyspark.sql.types import DataType, StringType, StructType

from lance_spark.errors import InvalidInputError
from lance_spark.file_version import FileVersion
from lance_spark.schema.arrow import to_arrow_schema
from lance_spark.schema.extension import is_json_field
from lance_spark.schema.field import Field, LanceSchema
from lance_spark.spark.blobs.columns import BINARY, DESCRIPTIONS, blobs_viewed, parse_blob_handling
from lance_spark.spark.types import uuids as uuid_types
from lance_spark.spark.types.collations import has_collation
from lance_spark.spark.types.identities import spark_identities, with_nullable
from lance_spark.spark.types.json_columns import STRING, VARIANT, parse_json_as, shown_json
from lance_spark.spark.types.schemas import to_spark_schema
from lance_spark.spark.types.uuids import is_uuid_field, shown_uuid
from lance_spark.table.versions.known_properties import BLOB_HANDLING, JSON_AS, UUID_AS


@dataclass(frozen=True, slots=True)
class ShownAs:
    """Display types in Spark of columns whose types Spark does not have.

    Attributes:
        blobs: blob columns, `descriptions` or `binary`.
        json: JSON columns, `variant` or `string`.
        uuid: columns of UUIDs, `binary` or `string`.
    """

    blobs: str = DESCRIPTIONS
    json: str = VARIANT
    uuid: str = uuid_types.BINARY

    @classmethod
    def of(
        cls,
        properties: Mapping[str, str],
        *,
        blob_handling: str | None = None,
        json_as: str | None = None,
        uuid_as: str | None = None,
    ) -> ShownAs:
        """The options of a read, or else the properties of the table, or else the defaults."""
        return cls(
            blob_handling or parse_blob_handling(properties.get(BLOB_HANDLING, DESCRIPTIONS)),
            json_as or parse_json_as(properties.get(JSON_AS, VARIANT)),
            uuid_as or uuid_types.parse_uuid_as(properties.get(UUID_AS, uuid_types.BINARY)),
        )


def spark_view(schema: LanceSchema, file_version: FileVersion | None, shown: ShownAs) -> LanceSchema:
    """The columns of a table as Spark sees them."""
    viewed = blobs_viewed(schema, file_version, shown.blobs)
    return LanceSchema(tuple(_with_text(field, shown) for field in viewed.fields), viewed.metadata)


def written_columns(schema: LanceSchema, file_version: FileVersion | None, properties: Mapping[str, str]) -> StructType:
    """The columns of a table in the types of the rows that are written into it: blobs are BINARY, identity columns may
    be NULL.
    """
    shown = to_arrow_schema(spark_view(schema, file_version, ShownAs.of(properties, blob_handling=BINARY)))
    return with_nullable(to_spark_schema(shown), spark_identities(schema))


def _with_text(field: Field, shown: ShownAs) -> Field:
    below = tuple(_with_text(child, shown) for child in field.children)
    field = field if below == field.children else field.with_children(below)
    return shown_uuid(shown_json(field, shown.json), shown.uuid)


def check_text_options(
    have: pa.Schema, target: pa.Schema, table: str, *, json_as: str | None, uuid_as: str | None
) -> None:
    """Passes if `target`, the columns of a scan of `have` that Spark knows, is as the options of the read say.

    Raises:
        InvalidInputError: the table was described without the options, so they have no effect.
    """
    asked = (("json_as", json_as, JSON_AS, is_json_field), ("uuid_as", uuid_as, UUID_AS, is_uuid_field))
    known = {field.name: field.type for field in target}
    for name, value, name_of_property, is_meant in asked:
        if value is None:
            continue
        pairs = [(field, known[field.name]) for field in have if field.name in known]
        shown = [dtype for field, kind in pairs for dtype in _shown_types(field, kind, is_meant)]
        if any((value == STRING) is not pt.is_string(dtype) for dtype in shown):
            raise InvalidInputError(
                f"option {name} has no effect on {table}, whose columns Spark looks up without it; set the table "
                f"property {name_of_property}, or use load(path)"
            )


def _shown_types(field: pa.Field, target: pa.DataType, is_meant: Callable[[pa.Field], bool]) -> Iterator[pa.DataType]:
    """The types in `target` of those columns in `field` that are meant."""
    if is_meant(field):
        yield target
    elif pt.is_struct(target) and pt.is_struct(field.type):
        for child in target:
            if field.type.get_field_index(child.name) >= 0:
                yield from _shown_types(field.type.field(child.name), child.type, is_meant)
    elif pt.is_list(target):
        yield from _shown_types(field.type.value_field, target.value_type, is_meant)
    elif pt.is_map(target):
        yield from _shown_types(field.type.item_field, target.item_type, is_meant)


def with_same_values(have: pa.Schema, shown: StructType) -> list[str]:
    """The columns of a scan of `have` that are not text for Spark alone, nor have a collation: their keys are keys in
    Spark too.
    """
    known = {field.name: field for field in have}

    def has_other_values(field: pa.Field, dtype: DataType) -> bool:
        is_text = isinstance(dtype, StringType) and (is_json_field(field) or is_uuid_field(field))
        return is_text or has_collation(field)

    return [
        field.name
        for field in shown.fields
        if field.name not in known or not has_other_values(known[field.name], field.dataType)
    ]
