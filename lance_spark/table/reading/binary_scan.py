"""Scans that return the bytes of blob columns in place of their descriptions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from lance_spark.errors import InvalidInputError
from lance_spark.schema.blob import BLOB_KEY, SOURCE
from lance_spark.schema.field import LanceSchema
from lance_spark.schema.projection import prune
from lance_spark.table.reading.blob_file import BlobReader, batches_by_bytes
from lance_spark.table.reading.scan import Scan

DESCRIPTIONS, BINARY = "blobs_descriptions", "all_binary"
BLOB_HANDLING = (DESCRIPTIONS, BINARY)

BATCH_BYTES = 64 << 20
"""Bytes of values in a batch, unless a single row has more."""


def wants_bytes(blob_handling: str | None) -> bool:
    """Whether a scan returns the bytes of blobs.

    Raises:
        InvalidInputError: an unknown word.
    """
    if blob_handling is not None and blob_handling not in BLOB_HANDLING:
        raise InvalidInputError(f"unknown blob_handling {blob_handling!r}; one of {', '.join(BLOB_HANDLING)}")
    return blob_handling == BINARY


def with_sources(plan: Scan, schema: LanceSchema) -> Scan:
    """`plan` over `schema`, the columns of the table in which descriptions of blobs name their data file."""
    fields = {field.name: field for field in prune(schema.fields, {node.id for node in plan.projection.walk()})}
    projection = LanceSchema(tuple(fields[name] for name in plan.projection.names()), plan.projection.metadata)
    return replace(plan, schema=schema, projection=projection)


def binary_schema(schema: pa.Schema, only: Collection[str] | None = None) -> pa.Schema:
    """The schema of batches whose descriptions with a source have become bytes, as `with_bytes` makes them."""
    fields = [_binary_field(field) if only is None or field.name in only else field for field in schema]
    return pa.schema(fields, metadata=schema.metadata)


def with_bytes(
    batches: Iterable[pa.RecordBatch], reader: BlobReader, only: Collection[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows with the bytes of blobs, in batches of about `BATCH_BYTES` at most. Raises as `BlobReader`.

    Args:
        only: the columns to read the bytes of; others keep their descriptions. None for all.
    """
    for batch in batches:
        schema = binary_schema(batch.schema, only)
        is_read = [only is None or name in only for name in batch.schema.names]
        sizes = np.zeros(batch.num_rows)
        for column, wanted in zip(batch.columns, is_read, strict=True):
            if wanted:
                sizes += _sizes(column)
        for start, stop in batches_by_bytes(sizes, BATCH_BYTES):
            parts = (column.slice(start, stop - start) for column in batch.columns)
            columns = [
                _with_bytes(part, reader) if wanted else part for part, wanted in zip(parts, is_read, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)


def is_described_type(dtype: pa.DataType) -> bool:
    """True for the type of descriptions with a source."""
    return bool(pa.types.is_struct(dtype) and dtype.get_field_index(SOURCE.name) == 5 and dtype[0].name == "kind")


def _binary_field(field: pa.Field) -> pa.Field:
    metadata = dict(field.metadata or {})
    if is_described_type(field.type) and BLOB_KEY.encode() in metadata:
        return pa.field(field.name, pa.large_binary(), field.nullable, metadata)
    if pa.types.is_struct(field.type):
        return field.with_type(pa.struct([_binary_field(child) for child in field.type]))
    return field


def _sizes(array: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """float64[n]: the bytes of the blobs of each row."""
    if not pa.types.is_struct(array.type):
        return np.zeros(len(array))
    if is_described_type(array.type):
        sizes = array.field("size").cast(pa.float64()).to_numpy(zero_copy_only=False)
        # Below a null there is no size.
        filled: np.ndarray[tuple[int], np.dtype[np.float64]] = np.nan_to_num(sizes)
        return filled
    return sum((_sizes(array.field(number)) for number in range(array.type.num_fields)), np.zeros(len(array)))


def _with_bytes(array: pa.Array, reader: BlobReader) -> pa.Array:
    if not pa.types.is_struct(array.type):
        return array
    if is_described_type(array.type):
        return reader.to_binary(array)
    parts = [_with_bytes(part, reader) for part in array.flatten()]
    fields = [field.with_type(part.type) for field, part in zip(array.type, parts, strict=True)]
    return pa.StructArray.from_arrays(parts, fields=fields, mask=array.is_null() if array.null_count else None)
