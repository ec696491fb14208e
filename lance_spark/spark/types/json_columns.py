"""JSON columns of Lance: binary documents with the extension `lance.json`, in Spark VARIANT or STRING.

The table property `lance.json_as`, or the option `json_as` of a read, says which (docs/reference/types.md).
The types decide what is converted: no other column is binary in the table and VARIANT or STRING in Spark.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pyarrow as pa
import pyarrow.types as pt
from pyspark.sql.types import VariantVal
from pyspark.sql.variant_utils import VariantBuilder

from lance_spark.expr.json_path.documents import json_documents, json_texts
from lance_spark.schema.extension import is_json_field
from lance_spark.schema.field import Field
from lance_spark.spark.option_values import word_value
from lance_spark.spark.types.variants import is_exchanged_variant, is_variant_field

VARIANT, STRING = "variant", "string"


parse_json_as = word_value("json_as", VARIANT, STRING)
"""Parses the type of JSON columns in Spark. Raises `InvalidInputError` for another word."""


def shown_json(field: Field, json_as: str) -> Field:
    """A column as Spark sees it: JSON documents as text, if `json_as` says so."""
    if json_as != STRING or field.logical_type != "json":
        return field
    kept = {key: value for key, value in field.metadata.items() if not key.startswith("ARROW:extension:")}
    return replace(field, logical_type="string", metadata=kept, extension_name="")


def with_json_texts(table: pa.Table) -> pa.Table:
    """`table` with its JSON columns as text; those inside of nested columns stay."""
    for place, field in enumerate(table.schema):
        if is_json_field(field):
            chunks = [json_texts(chunk) for chunk in table.column(place).chunks]
            texts = pa.chunked_array(chunks, pa.string())
            table = table.set_column(place, pa.field(field.name, pa.string(), field.nullable), texts)
    return table


def is_written_as_json(field: pa.Field) -> bool:
    """Whether Spark's values of a column can be written as JSON documents: those of VARIANT and STRING."""
    return pt.is_string(field.type) or pt.is_large_string(field.type) or is_variant_field(field)


def convert_json(array: pa.Array, target: pa.DataType) -> pa.Array | None:
    """JSON documents between their form in a table and those in Spark; None if these are not the types of two forms.

    Raises:
        InvalidInputError: a text is no JSON, or the table's bytes are no document.
    """
    if _is_binary(array.type):
        if pt.is_string(target):
            return json_texts(array)
        return to_variants(json_texts(array).to_pylist(), target) if is_exchanged_variant(target) else None
    if not _is_binary(target):
        return None
    if pt.is_string(array.type) or pt.is_large_string(array.type):
        return json_documents(array, target)
    return json_documents(_variant_texts(array), target) if is_exchanged_variant(array.type) else None


def to_variants(texts: Iterable[str | None], target: pa.DataType) -> pa.Array:
    """The variants of JSON texts, as `target`; null for null."""
    built = [None if text is None else VariantBuilder().build(text) for text in texts]
    rows = [None if pair is None else {"value": pair[0], "metadata": pair[1]} for pair in built]
    return pa.array(rows, target)


def _variant_texts(variants: pa.Array) -> pa.Array:
    found = [None if item is None else VariantVal(item["value"], item["metadata"]) for item in variants.to_pylist()]
    return pa.array([None if item is None else item.toJson() for item in found], pa.string())


def _is_binary(dtype: pa.DataType) -> bool:
    return bool(pt.is_binary(dtype) or pt.is_large_binary(dtype))
