"""Blob columns in scans (Lance file format, "Blob").

In files of 2.2 a blob column contains descriptions (the positions of the values), and a plan reads them. In tables of
2.0 and 2.1 it reads the values themselves, or descriptions that name their data file where these are asked for.

A description means nothing without the file that it is of. What moves rows to other files therefore scans with the
source of each description: the base id and the path of the data file, as ``"<base id or nothing>:<path>"``, behind
``"<key>|"`` if it is of a partition. Sources that leave the table are signed (`signed_sources`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import accumulate
from operator import is_
from typing import TYPE_CHECKING

import pyarrow as pa

from lance_spark.errors import CorruptFileError, InvalidInputError
from lance_spark.file_version import FileVersion
from lance_spark.schema.arrow import to_arrow_field
from lance_spark.schema.blob import DESCRIPTION, PLACE, SOURCE, BlobKind, described, is_blob_v1, is_described
from lance_spark.schema.columns import is_blob
from lance_spark.schema.field import Field, LanceSchema
from lance_spark.storage.base import ObjectStore
from lance_spark.storage.paths import absolute_uri, split_object
from lance_spark.table.base_places import open_place
from lance_spark.table.bases import Bases
from lance_spark.table.paths import checked_relative
from lance_spark.table.reading.blobs.signed_sources import (
    PlainSource,
    SignedSource,
    SignedSources,
    without_signature,
)
from lance_spark.table.rows.fragment import BaseId, DataFile

if TYPE_CHECKING:
    from lance_spark.file.blob_writer import BlobSource

_VALUES = (FileVersion.V0_1, FileVersion.V2_0, FileVersion.V2_1)


def with_blob_descriptors(
    schema: LanceSchema, file_version: FileVersion | None, *, with_source: bool = False
) -> LanceSchema:
    """The schema of what a scan returns of a table whose data files are of `file_version`.

    Args:
        with_source: whether descriptions name their data file.
    """
    if file_version is None or file_version is FileVersion.V0_1 or (file_version in _VALUES and not with_source):
        return schema
    shown = tuple([_shown(field, with_source) for field in schema.fields])
    # The same object, so that all of its plans find what is made of it.
    return schema if all(map(is_, shown, schema.fields)) else LanceSchema(shown, schema.metadata)


def has_other_descriptors(field: Field, file_version: FileVersion) -> bool:
    """True if a scan shows blobs of `field` in a form that it does not make of those in files of `file_version`."""
    if file_version is FileVersion.V0_1:
        return any(is_described(node) for node in field.walk())
    if file_version in _VALUES:
        return any(is_described(node) and not wants_source(node) for node in field.walk())
    return any(is_blob(node) and not is_described(node) for node in field.walk())


def _shown(field: Field, with_source: bool) -> Field:
    if not (field.children or field.metadata or field.extension_name):
        return field  # Most columns; a table can have thousands.
    if is_blob(field):
        # In lists of tables of 2.0 values are read, because descriptions without a source are of 2.2.
        return field if is_blob_v1(field) and not with_source else described(field, with_source=with_source)
    # In lists descriptions have no source, so their bytes are not read.
    has_source = with_source and field.logical_type == "struct"
    children = tuple(_shown(child, has_source) for child in field.children)
    return field if children == field.children else field.with_children(children)


def wants_source(field: Field) -> bool:
    """True if descriptions of `field`, or of one below it, name their data file."""
    return any(node == SOURCE for node in field.walk())


def source_of(file: DataFile, split_key: str | None = None) -> str:
    """The source of the descriptions in a data file.

    >>> file = DataFile("a.lance", (), (), FileVersion.V2_2, base_id=BaseId(3))
    >>> source_of(file), source_of(file, "0f")
    ('3:a.lance', '0f|3:a.lance')
    """
    prefix = "" if split_key is None else f"{split_key}|"
    return f"{prefix}{'' if file.base_id is None else file.base_id}:{file.path}"


BasesOf = Callable[[str | None], Bases]
"""The bases of the split with a key, None for a plain table."""


def bases_only(bases: Bases) -> BasesOf:
    """For descriptions that are all of one split.

    Raises:
        InvalidInputError: (the result) for another split.
    """

    def of(key: str | None) -> Bases:
        if key not in (None, bases.split_key):
            raise InvalidInputError(f"a blob is of partition {key}, of another table; write its bytes")
        return bases

    return of


def file_of(source: str, bases_of: BasesOf) -> tuple[Bases, ObjectStore, str]:
    """The bases, the store and the path of the data file that a source names.

    Raises:
        CorruptFileError: it names none.
    """
    plain = parsed(source)
    bases = bases_of(plain.key)
    file = DataFile(checked_relative(plain.path, "data file"), (), (), FileVersion.V2_2, base_id=plain.base_id)
    return (bases, *bases.data_file(file))


def parsed(source: str) -> PlainSource:
    """The parts of a plain source.

    Raises:
        CorruptFileError: it names no data file.
    """
    key, bar, rest = source.rpartition("|")
    base_id, colon, path = rest.partition(":")
    if not colon or (base_id and not (base_id.isascii() and base_id.isdigit() and len(base_id) <= 10)):
        raise CorruptFileError(f"{source!r} names no data file")
    return PlainSource(key if bar else None, BaseId(int(base_id)) if base_id else None, path)


def sources_in(
    bases: Bases | BasesOf,
    root_uri: str,
    storage_options: Mapping[str, str] | None = None,
    others: SignedSources | None = None,
) -> BlobSource:
    """Finds the data files of a version of a table, and objects outside of it.

    Args:
        root_uri: of the table; objects of its service are read by the storage options.
        others: finds the data files of other tables.
    """
    return _Sources(bases_only(bases) if isinstance(bases, Bases) else bases, root_uri, storage_options, others)


def objects_only(
    root_uri: str, storage_options: Mapping[str, str] | None, others: SignedSources | None = None
) -> BlobSource:
    """Finds objects, and data files of other tables, for a table that does not exist yet."""

    def no_files(_key: str | None) -> Bases:
        raise InvalidInputError("a blob is of another table; write its bytes")

    return _Sources(no_files, root_uri, storage_options, others)


_MAX_FILES = 1024
"""Data files that are remembered."""


class _Sources:
    def __init__(
        self,
        bases_of: BasesOf,
        root_uri: str,
        storage_options: Mapping[str, str] | None,
        others: SignedSources | None,
    ) -> None:
        self._bases_of = bases_of
        self._root_uri = root_uri
        self._storage_options = storage_options
        self._others = others or SignedSources()
        self._stores: dict[str, ObjectStore] = {}
        self._files: dict[str, tuple[ObjectStore, str]] = {}

    def __call__(self, source: str) -> tuple[ObjectStore, str]:
        known = self._files.get(source)
        if known is None:
            if len(self._files) >= _MAX_FILES:
                self._files.clear()
            known = self._files[source] = self._file(source)
        return known

    def _file(self, source: str) -> tuple[ObjectStore, str]:
        foreign = self._foreign(source)
        if foreign is None:
            return file_of(without_signature(source), self._bases_of)[1:]
        return self._others.file(foreign, parsed(foreign.source))

    def reference(self, source: str, base_id: int, uri: str) -> tuple[int, str]:
        foreign = self._foreign(source)
        return (base_id, uri) if foreign is None or not base_id else (0, self._others.absolute(foreign, base_id, uri))

    def _foreign(self, source: str) -> SignedSource | None:
        """The source of another table; None for one of this table."""
        signed = SignedSource.of(source)
        if signed is None or self._others.key:
            self._others.check(signed)
        if signed is None or self._is_own(signed):
            return None
        self._others.check(signed)
        return signed

    def _is_own(self, source: SignedSource) -> bool:
        try:
            bases = self._bases_of(parsed(source.source).key)
        except InvalidInputError:
            return False  # There is no such table or partition.
        return absolute_uri(bases.root.uri) == source.root

    def object_at(self, uri: str) -> tuple[ObjectStore, str]:
        folder, path = split_object(uri)
        if folder not in self._stores:
            self._stores[folder] = open_place(folder, self._root_uri, self._storage_options)
        return self._stores[folder], path


def with_sources(column: pa.ChunkedArray, field: Field, sources: pa.Array) -> pa.ChunkedArray:
    """`column` of `field`, whose descriptions get their source (string[n])."""
    starts = accumulate((len(chunk) for chunk in column.chunks), initial=0)
    chunks = [
        _with_source(chunk, field, sources.slice(start, len(chunk)))
        for start, chunk in zip(starts, column.chunks, strict=False)
    ]
    return pa.chunked_array(chunks) if chunks else column


def _with_source(array: pa.Array, field: Field, sources: pa.Array) -> pa.Array:
    if not wants_source(field):
        return array
    mask = array.is_null() if array.null_count else None
    if is_blob(field):
        array = _described(array)
        children = [array.field(number) for number in range(len(DESCRIPTION))]
        fields = [array.type.field(number) for number in range(len(DESCRIPTION))]
        children.append(sources)
        fields.append(pa.field(SOURCE.name, pa.string(), nullable=False))
        return pa.StructArray.from_arrays(children, fields=fields, mask=mask)
    by_name = {child.name: child for child in field.children}
    names = [array.type.field(number).name for number in range(array.type.num_fields)]
    parts = [_with_source(array.field(number), by_name[name], sources) for number, name in enumerate(names)]
    fields = [array.type.field(number).with_type(part.type) for number, part in enumerate(parts)]
    return pa.StructArray.from_arrays(parts, fields=fields, mask=mask)


def _described(array: pa.StructArray) -> pa.StructArray:
    """Descriptions of 2.2, also where a file of 2.0 or 2.1 has only the positions and sizes of its values."""
    if array.type.num_fields != len(PLACE):
        return array
    num_rows = len(array)
    children = [
        pa.repeat(pa.scalar(BlobKind.INLINE, pa.uint8()), num_rows),
        *(array.field(number) for number in range(len(PLACE))),
        pa.repeat(pa.scalar(0, pa.uint32()), num_rows),
        pa.repeat(pa.scalar("", pa.string()), num_rows),
    ]
    fields = [to_arrow_field(member) for member in DESCRIPTION]
    return pa.StructArray.from_arrays(children, fields=fields, mask=array.is_null() if array.null_count else None)
