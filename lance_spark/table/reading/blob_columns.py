"""Blob columns in scans (Lance file format, "Blob").

In files of 2.2 a blob column contains descriptions (the positions of the values), and a scan returns them. Files of
2.0 and 2.1 return the values themselves.

A description means nothing without the file that it is of. What moves rows to other files therefore scans with the
source of each description: the base id and the path of the data file, as ``"<base id or nothing>:<path>"``, behind
``"<key>|"`` if it is of a partition.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.errors import CorruptFileError, InvalidInputError
from lance_spark.file.blob_writer import BlobSource
from lance_spark.file_version import FileVersion
from lance_spark.schema.blob import DESCRIPTION, SOURCE, described, is_described
from lance_spark.schema.columns import is_blob
from lance_spark.schema.field import Field, LanceSchema
from lance_spark.storage.base import ObjectStore
from lance_spark.table.bases import Bases
from lance_spark.table.rows.fragment import BaseId, DataFile

_VALUES = (FileVersion.V0_1, FileVersion.V2_0, FileVersion.V2_1)


def with_blob_descriptors(
    schema: LanceSchema, file_version: FileVersion | None, *, with_source: bool = False
) -> LanceSchema:
    """The schema of what a scan returns of a table whose data files are of `file_version`.

    Args:
        with_source: whether descriptions name their data file.
    """
    if file_version is None or file_version in _VALUES:
        return schema
    return LanceSchema(tuple(_shown(field, with_source) for field in schema.fields), schema.metadata)


def has_other_descriptors(field: Field, file_version: FileVersion) -> bool:
    """True if a scan shows blobs of `field` as descriptions but files of `file_version` hold values, or the reverse."""
    holds_values = file_version in _VALUES
    return any(is_blob(node) and is_described(node) is holds_values for node in field.walk())


def _shown(field: Field, with_source: bool) -> Field:
    if is_blob(field):
        return described(field, with_source=with_source)
    children = tuple(_shown(child, with_source) for child in field.children)
    return field if children == field.children else field.with_children(children)


def wants_source(field: Field) -> bool:
    """True if descriptions of `field`, or of one below it, name their data file."""
    return any(node == SOURCE for node in field.walk())


def source_of(file: DataFile) -> str:
    """The source of the descriptions in a data file.

    >>> source_of(DataFile("a.lance", (), (), FileVersion.V2_2, base_id=BaseId(3)))
    '3:a.lance'
    """
    return f"{'' if file.base_id is None else file.base_id}:{file.path}"


def sources_in(bases: Bases) -> BlobSource:
    """Finds the data files of a version of a table."""

    def locate(source: str) -> tuple[ObjectStore, str]:
        base_id, colon, path = source.partition(":")
        if not colon or (base_id and not base_id.isdigit()):
            raise CorruptFileError(f"{source!r} names no data file")
        file = DataFile(path, (), (), FileVersion.V2_2, base_id=BaseId(int(base_id)) if base_id else None)
        return bases.data_file(file)

    return locate


def sources_in_splits(bases_of: Callable[[str], Bases]) -> BlobSource:
    """Finds the data files of the partitions whose key `bases_of` takes."""

    def locate(source: str) -> tuple[ObjectStore, str]:
        key, bar, rest = source.partition("|")
        if not bar:
            raise InvalidInputError("the partition of a blob that is copied is not known; write its bytes")
        return sources_in(bases_of(key))(rest)

    return locate


def with_split_keys(array: pa.Array, keys: pa.Array) -> pa.Array:
    """`array` with `keys` (one a row, null for a row from elsewhere) before the sources of its descriptions."""
    if not pa.types.is_struct(array.type):
        return array
    fields = list(array.type)
    parts = [array.field(number) for number in range(len(fields))]
    if [field.name for field in fields] == [field.name for field in (*DESCRIPTION, SOURCE)]:
        joined = pc.binary_join_element_wise(pc.fill_null(keys, ""), parts[-1], "|")
        parts[-1] = pc.if_else(pc.is_valid(keys), joined, parts[-1])
    else:
        parts = [with_split_keys(part, keys) for part in parts]
        fields = [field.with_type(part.type) for field, part in zip(fields, parts, strict=True)]
    return pa.StructArray.from_arrays(parts, fields=fields, mask=array.is_null() if array.null_count else None)


def with_sources(column: pa.ChunkedArray, field: Field, source: str) -> pa.ChunkedArray:
    """`column` of `field`, whose descriptions get their source."""
    chunks = [_with_source(chunk, field, source) for chunk in column.chunks]
    return pa.chunked_array(chunks) if chunks else column


def _with_source(array: pa.Array, field: Field, source: str) -> pa.Array:
    if not wants_source(field):
        return array
    mask = array.is_null() if array.null_count else None
    if is_blob(field):
        children = [array.field(number) for number in range(len(DESCRIPTION))]
        fields = [array.type.field(number) for number in range(len(DESCRIPTION))]
        children.append(pa.repeat(pa.scalar(source, pa.string()), len(array)))
        fields.append(pa.field(SOURCE.name, pa.string(), nullable=False))
        return pa.StructArray.from_arrays(children, fields=fields, mask=mask)
    by_name = {child.name: child for child in field.children}
    names = [array.type.field(number).name for number in range(array.type.num_fields)]
    parts = [_with_source(array.field(number), by_name[name], source) for number, name in enumerate(names)]
    fields = [array.type.field(number).with_type(part.type) for number, part in enumerate(parts)]
    return pa.StructArray.from_arrays(parts, fields=fields, mask=mask)
