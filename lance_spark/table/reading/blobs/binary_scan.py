"""The forms in which reads return blob columns: descriptions, the places of values in old files, or bytes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark.errors import InvalidInputError, UnsupportedFeatureError
from lance_spark.schema.blob import BLOB_KEY, SOURCE, BlobKind
from lance_spark.schema.field import LanceSchema
from lance_spark.schema.projection import prune
from lance_spark.storage.base import ByteRange
from lance_spark.table.reading.scan import Scan

if TYPE_CHECKING:
    from lance_spark.table.reading.blobs.blob_file import BlobReader

DESCRIPTIONS, BINARY = "blobs_descriptions", "all_binary"
BLOB_HANDLING = (DESCRIPTIONS, BINARY, "all_descriptions")
"""In the reference library the last two words for descriptions differ in nothing that it returns."""

BATCH_BYTES = 64 << 20
"""Bytes of values in a batch, unless a single row has more."""

_PLACE = pa.struct([("position", pa.uint64()), ("size", pa.uint64())])


def wants_bytes(blob_handling: str | None) -> bool:
    """Whether a scan returns the bytes of blobs.

    Raises:
        InvalidInputError: an unknown word.
    """
    if blob_handling is not None and blob_handling not in BLOB_HANDLING:
        raise InvalidInputError(f"unknown blob_handling {blob_handling!r}; one of {', '.join(BLOB_HANDLING)}")
    return blob_handling == BINARY


@dataclass(frozen=True, slots=True)
class BlobForm:
    """Form of blob columns in the result of a read, in place of descriptions with a source.

    Attributes:
        schema: that of the result, from the schema of the rows that are read.
        batches: the result, from these rows.
    """

    schema: Callable[[pa.Schema], pa.Schema]
    batches: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]

    def table(self, rows: pa.Table) -> pa.Table:
        """The rows in this form."""
        return self.table_of(rows.to_batches(), rows.schema)

    def table_of(self, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
        """Batches with a `schema` in this form."""
        return pa.Table.from_batches(self.batches(batches), schema=self.schema(schema))


def with_sources(plan: Scan, schema: LanceSchema) -> Scan:
    """`plan` over `schema`, the columns of the table in which descriptions of blobs name their data file."""
    fields = {field.name: field for field in prune(schema.fields, {node.id for node in plan.projection.walk()})}
    projection = LanceSchema(tuple(fields[name] for name in plan.projection.names()), plan.projection.metadata)
    return plan.returning(projection, plan.output, schema)


def binary_schema(schema: pa.Schema, only: Collection[str] | None = None) -> pa.Schema:
    """The schema of batches whose descriptions with a source have become bytes, as `with_bytes` makes them."""
    fields = [_binary_field(field) if only is None or field.name in only else field for field in schema]
    return pa.schema(fields, metadata=schema.metadata)


def places_schema(schema: pa.Schema) -> pa.Schema:
    """The schema of batches whose descriptions with a source have become places, as `with_places` makes them."""
    return pa.schema([_place_field(field) for field in schema], metadata=schema.metadata)


def with_places(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows with the position and the size of each blob in its file, as files of 2.0 and 2.1 describe them."""
    for batch in batches:
        schema = places_schema(batch.schema)
        columns = [_with_places(column, field.type) for column, field in zip(batch.columns, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, schema=schema) if columns else batch


PLACES = BlobForm(places_schema, with_places)
"""Form of blobs of files of 2.0 and 2.1, as in the reference library."""


def bytes_form(reader: BlobReader) -> BlobForm:
    """The values, from a reader of them. Its batches raise as `with_bytes`."""
    return BlobForm(binary_schema, lambda batches: with_bytes(batches, reader))


def with_bytes(
    batches: Iterable[pa.RecordBatch],
    reader: BlobReader,
    only: Collection[str] | None = None,
    ranges: Mapping[str, ByteRange] | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows with the bytes of blobs, in batches of about `BATCH_BYTES` at most. Raises as `BlobReader`.

    Args:
        only: the columns to read the bytes of; others keep their descriptions. None for all.
        ranges: the part to read of the values of some columns, as far as a value has it.
    """
    from lance_spark.table.reading.blobs.blob_file import batches_by_bytes

    ranges = ranges or {}
    for batch in batches:
        schema = binary_schema(batch.schema, only)
        is_read = [only is None or name in only for name in batch.schema.names]
        sizes = np.zeros(batch.num_rows)
        parts_of = [ranges.get(name) for name in batch.schema.names]
        for column, wanted, part in zip(batch.columns, is_read, parts_of, strict=True):
            if wanted:
                sizes += blob_sizes(column, part)
        for start, stop in batches_by_bytes(sizes, BATCH_BYTES):
            columns = [column.slice(start, stop - start) for column in batch.columns]
            for number, part in enumerate(parts_of):
                if is_read[number]:
                    columns[number] = _with_bytes(columns[number], reader, part)
            yield pa.RecordBatch.from_arrays(columns, schema=schema)


def is_described_type(dtype: pa.DataType) -> bool:
    """True for the type of descriptions with a source."""
    return bool(pa.types.is_struct(dtype) and dtype.get_field_index(SOURCE.name) == 5 and dtype[0].name == "kind")


def blob_sizes(array: pa.Array, part: ByteRange | None = None, *, inline_only: bool = False) -> npt.NDArray[np.float64]:
    """float64[n]: the bytes of the blobs of each row, in descriptions with a source at any depth of structs.

    Args:
        part: counts only this part of each value.
        inline_only: whether to count only values that are stored in the data file itself.
    """
    if not pa.types.is_struct(array.type):
        return np.zeros(len(array))
    if is_described_type(array.type):
        sizes = array.field("size").cast(pa.float64()).to_numpy(zero_copy_only=False)
        if part is not None:
            sizes = np.clip(sizes - part.start, 0, part.length)
        counted = array.is_valid().to_numpy(zero_copy_only=False)
        if inline_only:
            counted = counted & (array.field("kind").to_numpy(zero_copy_only=False) == BlobKind.INLINE)
        return np.where(counted, sizes, 0.0)
    children = (blob_sizes(child, part, inline_only=inline_only) for child in array.flatten())
    return sum(children, np.zeros(len(array)))


def _binary_field(field: pa.Field) -> pa.Field:
    metadata = dict(field.metadata or {})
    if is_described_type(field.type) and BLOB_KEY.encode() in metadata:
        return pa.field(field.name, pa.large_binary(), field.nullable, metadata)
    if pa.types.is_struct(field.type):
        return field.with_type(pa.struct([_binary_field(child) for child in field.type]))
    if _has_blobs_in_lists(field.type):
        raise UnsupportedFeatureError(
            f"column {field.name!r} has blobs in lists, whose bytes are not read; read their descriptions, with "
            "blob_handling='blobs_descriptions'",
            feature="list of blobs",
        )
    return field


def _has_blobs_in_lists(dtype: pa.DataType) -> bool:
    if not pa.types.is_nested(dtype) or pa.types.is_union(dtype):
        return False
    children = [dtype.field(number) for number in range(dtype.num_fields)]
    return any(BLOB_KEY.encode() in (child.metadata or {}) or _has_blobs_in_lists(child.type) for child in children)


def _with_bytes(array: pa.Array, reader: BlobReader, part: ByteRange | None = None) -> pa.Array:
    if not pa.types.is_struct(array.type):
        return array
    if is_described_type(array.type):
        return reader.to_binary(array, part)
    children = [_with_bytes(child, reader, part) for child in array.flatten()]
    fields = [field.with_type(child.type) for field, child in zip(array.type, children, strict=True)]
    return pa.StructArray.from_arrays(children, fields=fields, mask=array.is_null() if array.null_count else None)


def _place_field(field: pa.Field) -> pa.Field:
    if is_described_type(field.type):
        return field.with_type(_PLACE)
    if pa.types.is_struct(field.type):
        return field.with_type(pa.struct([_place_field(child) for child in field.type]))
    return field


def _with_places(array: pa.Array, dtype: pa.DataType) -> pa.Array:
    if not pa.types.is_struct(array.type):
        return array
    if is_described_type(array.type):
        children = [array.field(member.name) for member in _PLACE]
    else:
        children = [_with_places(child, field.type) for child, field in zip(array.flatten(), dtype, strict=True)]
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(dtype), mask=mask)
