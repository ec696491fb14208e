"""Blob columns in Spark: as descriptions that name their data file, or as BINARY (docs/guides/blobs.md).

A description can be written back into its table: the writer then copies the bytes. BINARY is read in tasks, after the
filters, and only if the column is selected.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as st

from lance_spark.errors import InvalidInputError
from lance_spark.expr.nodes import quote_name
from lance_spark.file_version import FileVersion
from lance_spark.schema.blob import SOURCE, has_blobs, is_blob_v1, is_described
from lance_spark.schema.field import Field, LanceSchema
from lance_spark.spark.option_values import word_value
from lance_spark.storage.base import ByteRange
from lance_spark.table.bases import Bases
from lance_spark.table.reading.blobs.binary_scan import is_described_type, with_bytes
from lance_spark.table.reading.blobs.blob_columns import parsed, wants_source, with_blob_descriptors
from lance_spark.table.reading.blobs.blob_file import BlobReader
from lance_spark.table.reading.blobs.signed_sources import signed_source
from lance_spark.table.reading.scan import Scan
from lance_spark.table.reading.selectivity import BlobBytes, ScannedFragment, blob_bytes_per_row
from lance_spark.table.versions.known_properties import BLOB_HANDLING

DESCRIPTIONS, BINARY = "descriptions", "binary"

BYTES_SUFFIX = "__blob_bytes"
"""With the name of a blob column before it, the name of the metadata column that has its bytes as BINARY."""

_NUMBER_SUFFIXES = {"__blob_pos": "position", "__blob_size": "size"}
"""The members of descriptions, by the ends of the names of metadata columns that have them as BIGINT."""

_SMALL_BYTES = 4 << 20
"""Data files of this size together have no blobs that are worth a look before a scan of other columns."""

_RANGE_KEY = "lance:range"

_NUMBERS = {"position": "int64", "size": "int64", "blob_id": "int64"}


parse_blob_handling = word_value("blob_handling", DESCRIPTIONS, BINARY)
"""Parses the form in which reads return blob columns. Raises `InvalidInputError` for another word."""


def blobs_viewed(schema: LanceSchema, file_version: FileVersion | None, handling: str) -> LanceSchema:
    """The columns of a table with blobs as Spark sees them."""
    shown = with_blob_descriptors(schema, file_version, with_source=True)
    return LanceSchema(tuple(_viewed(field, handling) for field in shown.fields), shown.metadata)


def metadata_columns(
    schema: LanceSchema, file_version: FileVersion | None, handling: str
) -> Iterator[tuple[str, st.DataType, str]]:
    """(name, type, comment) of the metadata columns with the bytes, and those with where they are, of blob columns.

    Other connectors have the latter for files of 2.0 and 2.1.
    """
    fields = {field.name: field for field in schema.fields}
    for name, (column, suffix) in _derived_columns(
        with_blob_descriptors(schema, file_version, with_source=True)
    ).items():
        if suffix == BYTES_SUFFIX and handling == DESCRIPTIONS:
            # Elsewhere the columns themselves are bytes.
            yield name, st.BinaryType(), f"bytes of the blob column {column}"
        elif suffix in _NUMBER_SUFFIXES and is_blob_v1(fields[column]):
            yield name, st.LongType(), f"{_NUMBER_SUFFIXES[suffix]} of the values of the blob column {column}"


def _derived_columns(schema: LanceSchema) -> dict[str, tuple[str, str]]:
    """The blob column and the suffix of each metadata column, also of those that a table does not show."""
    names = set(schema.names())
    return {
        f"{field.name}{suffix}": (field.name, suffix)
        for field in schema.fields
        if is_described(field)
        for suffix in (BYTES_SUFFIX, *_NUMBER_SUFFIXES)
        if f"{field.name}{suffix}" not in names
    }


def scanned_columns(asked: st.StructType, schema: LanceSchema) -> st.StructType:
    """The columns to read for those that Spark has asked for: descriptions for bytes.

    Args:
        schema: of the scan, with descriptions that name their data file.
    """
    derived = _derived_columns(schema)
    kept = [field for field in asked.fields if field.name not in derived]
    described = {derived[field.name][0]: field for field in asked.fields if field.name in derived}
    added = [
        st.StructField(name, field.dataType) for name, field in described.items() if name not in asked.fieldNames()
    ]
    return st.StructType([*kept, *added])


def _viewed(field: Field, handling: str) -> Field:
    if is_described(field):
        if handling == BINARY:
            return replace(field, logical_type="large_binary", children=())
        # Lance has unsigned numbers here, for which Spark's type would be a decimal.
        children = (
            replace(child, logical_type=_NUMBERS.get(child.name, child.logical_type)) for child in field.children
        )
        return field.with_children(tuple(children))
    # The bytes of blobs in lists are not read.
    inside = handling if field.logical_type == "struct" else DESCRIPTIONS
    below = tuple(_viewed(child, inside) for child in field.children)
    return field if below == field.children else field.with_children(below)


def check_blob_handling(option: str | None, scan: Scan, target: pa.Schema, table: str) -> None:
    """Passes if `target`, the columns of a scan that Spark knows, is as the option of the read says.

    Raises:
        InvalidInputError: the table was described without the option, so it has no effect.
    """
    if option is None or not any(has_blobs(field) for field in scan.projection.fields):
        return
    if (option == BINARY) is not _wants_bytes(scan.arrow_schema, target):
        raise InvalidInputError(
            f"option blob_handling has no effect on {table}, whose columns Spark looks up without it; set the table "
            f"property {BLOB_HANDLING}, or use load(path)"
        )


def with_ranges(target: pa.Schema, ranges: Mapping[str, Sequence[int]]) -> pa.Schema:
    """`target` of `in_target` with the part, an offset and a length in bytes, to return of some binary columns.

    Raises:
        InvalidInputError: one of `ranges` is not an offset and a length of a binary column.
    """
    fields = []
    for field in target:
        part = ranges.get(field.name)
        if part is not None:
            if len(part) != 2 or min(part) < 0 or not _is_binary(field.type):
                raise InvalidInputError(f"column {field.name!r}: {list(part)} is no part of {field.type} values")
            field = field.with_metadata({_RANGE_KEY: f"{part[0]} {part[1]}"})
        fields.append(field)
    return pa.schema(fields, metadata=target.metadata)


def _is_binary(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_binary(dtype) or pa.types.is_large_binary(dtype))


def _ranges_of(target: pa.Schema) -> dict[str, ByteRange]:
    asked = {field.name: (field.metadata or {}).get(_RANGE_KEY.encode()) for field in target}
    return {name: ByteRange(*map(int, text.split())) for name, text in asked.items() if text is not None}


def in_target(
    batches: Iterable[pa.RecordBatch], target: pa.Schema, scan: Scan, key: bytes = b""
) -> Iterator[pa.RecordBatch]:
    """`batches` of `scan` with the bytes of blobs where `target` wants them, or the part of them that it wants.

    Args:
        key: signs the sources of descriptions, so that writes of the session take them; they are plain without one.
    """
    have = scan.arrow_schema
    ranges = _ranges_of(target)
    added = _added_columns(have, target)
    blobs = frozenset((*_added_bytes(added), *_shown_as_bytes(have, target)))
    numbers = added.keys() - blobs
    if added:
        batches = (_with_copies(batch, added, target) for batch in batches)
    if numbers:
        batches = (_with_numbers(batch, numbers) for batch in batches)
    if blobs:
        batches = with_bytes(batches, BlobReader(scan.bases), only=blobs, ranges=ranges)
    batches = (with_signed_sources(batch, scan.bases, key) for batch in batches)
    sliced = {name: part for name, part in ranges.items() if name not in blobs}
    yield from (_sliced(batch, sliced) for batch in batches) if sliced else batches


def with_signed_sources(batch: pa.RecordBatch, bases: Bases, key: bytes) -> pa.RecordBatch:
    """`batch` of a table with `bases`, whose descriptions have signed sources; plain ones without a key."""
    if not key:
        return batch
    for place, column in enumerate(batch.columns):
        signed = _with_signed_sources(column, bases, key)
        if signed is not column:
            batch = batch.set_column(place, batch.schema.field(place), signed)
    return batch


def _with_signed_sources(array: pa.Array, bases: Bases, key: bytes) -> pa.Array:
    if not pa.types.is_struct(array.type):
        return array
    children = [array.field(number) for number in range(array.type.num_fields)]
    if is_described_type(array.type):
        place = array.type.get_field_index(SOURCE.name)
        sources = children[place].dictionary_encode()
        signed = [signed_source(text, parsed(text), bases, key) for text in sources.dictionary.to_pylist()]
        changed = [*children[:place], pa.array(signed, pa.string()).take(sources.indices), *children[place + 1 :]]
    else:
        changed = [_with_signed_sources(child, bases, key) for child in children]
    if all(new is old for new, old in zip(changed, children, strict=True)):
        return array
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(changed, fields=list(array.type), mask=mask)


def _with_numbers(batch: pa.RecordBatch, names: Iterable[str]) -> pa.RecordBatch:
    """`batch` with the position or the size in place of copies of descriptions."""
    for name in names:
        place = batch.schema.get_field_index(name)
        member = next(of for suffix, of in _NUMBER_SUFFIXES.items() if name.endswith(suffix))
        described = batch.column(place)
        numbers = described.flatten()[described.type.get_field_index(member)].cast(pa.int64())
        batch = batch.set_column(place, name, numbers)
    return batch


def _sliced(batch: pa.RecordBatch, ranges: Mapping[str, ByteRange]) -> pa.RecordBatch:
    """`batch` with parts of the values of binary columns."""
    for name, part in ranges.items():
        place = batch.schema.get_field_index(name)
        column = pc.binary_slice(batch.column(place), part.start, part.stop)
        batch = batch.set_column(place, batch.schema.field(place), column)
    return batch


def columns_with_bytes(have: pa.Schema, target: pa.Schema) -> tuple[str, ...]:
    """The top-level columns of a scan of `have` whose blobs `in_target` reads."""
    added = _added_bytes(_added_columns(have, target))
    return tuple(dict.fromkeys((*added.values(), *_shown_as_bytes(have, target))))


def _shown_as_bytes(have: pa.Schema, target: pa.Schema) -> list[str]:
    return [field.name for field in have if _wants_bytes([field], target)]


def _added_bytes(added: Mapping[str, str]) -> dict[str, str]:
    return {name: column for name, column in added.items() if name == f"{column}{BYTES_SUFFIX}"}


def _added_columns(have: pa.Schema, target: pa.Schema) -> dict[str, str]:
    """The blob column of each metadata column in `target`."""
    return {
        name: column
        for name in target.names
        if name not in have.names
        for suffix in (BYTES_SUFFIX, *_NUMBER_SUFFIXES)
        if (column := name.removesuffix(suffix)) != name
        and column in have.names
        and is_described_type(have.field(column).type)
    }


def blob_bytes(parts: Iterable[ScannedFragment], target: pa.Schema, scan: Scan) -> BlobBytes:
    """The average size of the blobs of a row of `parts`: of those whose bytes `in_target` reads, and in data files.

    Where no bytes are read and files are small, nothing is looked at: their size decides nothing.

    Raises:
        CorruptFileError: a file violates the format.
    """
    counted = columns_with_bytes(scan.arrow_schema, target)
    names = [field.name for field in scan.schema.fields if wants_source(field)]
    parts = list(parts) if names else []
    files = (file for _, fragment in parts for file in fragment.files)
    if not counted and (not scan.projection.fields or sum(file.size_bytes or 0 for file in files) < _SMALL_BYTES):
        return BlobBytes()
    added = _added_bytes(_added_columns(scan.arrow_schema, target))
    ranges = {added.get(name, name): part for name, part in _ranges_of(target).items()}
    described = Scan.of(scan.schema, scan.version, columns=[quote_name(name) for name in names])
    bound_parts = [
        (described.of_version(bound.version, stable_row_ids=bound.stable_row_ids), fragment)
        for bound, fragment in parts
    ]
    return blob_bytes_per_row(bound_parts, counted, ranges)


def _with_copies(batch: pa.RecordBatch, added: Mapping[str, str], target: pa.Schema) -> pa.RecordBatch:
    """The columns of `target` that a scan has, in its order, and more copies of descriptions, by name."""
    have = batch.schema
    names = [name for name in target.names if name in added or name in have.names]
    fields = [have.field(added.get(name, name)).with_name(name) for name in names]
    return pa.RecordBatch.from_arrays([batch.column(added.get(name, name)) for name in names], schema=pa.schema(fields))


def _wants_bytes(have: Iterable[pa.Field], target: pa.Schema | pa.StructType) -> bool:
    for field in have:
        place = target.get_field_index(field.name)
        if place < 0 or not pa.types.is_struct(field.type):
            continue
        wanted = target.field(place).type
        if is_described_type(field.type):
            if not pa.types.is_struct(wanted):
                return True
        elif pa.types.is_struct(wanted) and _wants_bytes(field.type, wanted):
            return True
    return False
