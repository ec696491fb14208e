"""Columns of one fragment, read from all of its data files that have them.

A field is identified by its id. Parts of one struct can be in several files; a field in no file is null.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lance_spark.cached import cached_property
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.file.data_file_reader import DataFileReader
from lance_spark.file_version import FileVersion
from lance_spark.layouts.arrow_take import filter_chunked
from lance_spark.layouts.base import RowRanges
from lance_spark.layouts.merge import merge_columns
from lance_spark.schema.arrow import to_arrow_type
from lance_spark.schema.columns import is_leaf
from lance_spark.schema.field import Field, FieldId
from lance_spark.schema.projection import prune
from lance_spark.table.reading.blobs.blob_columns import has_other_descriptors, wants_source, with_sources
from lance_spark.table.reading.nested import narrowed
from lance_spark.table.reading.window import fixed_width
from lance_spark.table.rows.fragment import DataFile

_FEW_RANGES = 16
_CLOSE = 256
"""Rows from one range to the next on average, of which chunks have more."""

_MAX_SHAPES = 64
"""Lists of columns of files for which a selection keeps the parts of its fields."""

_SHARES = ((24, 12), (1024, 4))
"""Encoded bytes of a value, and n: columns of at most that width are decoded in full if at least one row in n is
wanted, and the wanted ones are close to each other. Larger values cost more to copy than to find.
"""

_WORD_BYTES = 16
_SHARE_OF_WORDS = 128
"""The same of columns whose values are words of up to 16 bytes, which are decoded and copied without a branch."""


@dataclass(frozen=True, slots=True)
class FilePart:
    """The part of the columns that is read from one file.

    Attributes:
        fields: top-level fields, pruned to the part in this file.
        column_indices: the file's columns by field id.
        place: of the file among the fragment's files.
    """

    reader: DataFileReader
    fields: tuple[Field, ...]
    column_indices: Mapping[FieldId, int]
    place: int


class SelectedFields:
    """Top-level fields that are read together, and where the files of fragments have them.

    A plan makes one for each step, so that what files prepare for it is found by the object itself.

    Attributes:
        fields: the fields, nested ones possibly pruned.
        complete: the table's top-level fields, which are not pruned.
    """

    __slots__ = ("_resolved", "complete", "fields")

    def __init__(self, fields: tuple[Field, ...], complete: tuple[Field, ...] = ()) -> None:
        self.fields = fields
        self.complete = complete
        self._resolved: dict[tuple[object, ...], _Resolved] = {}

    def resolved(self, files: Sequence[DataFile]) -> _Resolved:
        """The parts of the fields in the files of a fragment.

        Raises:
            CorruptFileError: a field is in two files.
            UnsupportedFeatureError: files of several versions have different forms of a blob column.
        """
        # Most fragments of a version have the same columns in the same places.
        columns = tuple([(file.fields, file.column_indices, file.version) for file in files])
        resolved = self._resolved.get(columns)
        if resolved is None:
            resolved = _resolve(self.fields, files, self.complete)
            if len(self._resolved) < _MAX_SHAPES:
                self._resolved[columns] = resolved
        return resolved


Sources = Callable[[int, RowRanges], pa.Array]
"""From the place of a file among the fragment's files, and rows, to the sources of the rows' blobs (string[n])."""


class FragmentColumns:
    """Top-level fields of a fragment, resolved in its files.

    Args:
        selected: the fields to read.
        files: the fragment's data files.
        open_file: opens one of them.
        sources: the data files that descriptions of blobs are of.

    Raises:
        UnsupportedFeatureError: files of several versions have different forms of a blob column.
    """

    def __init__(
        self,
        selected: SelectedFields,
        files: Sequence[DataFile],
        open_file: Callable[[DataFile], DataFileReader],
        sources: Sources,
    ) -> None:
        self._sources = sources
        self._returned = selected.fields
        resolved = selected.resolved(files)
        self._fields = resolved.fields
        self._with_sources = resolved.with_sources
        self._is_whole = resolved.is_whole
        self._parts = [
            FilePart(open_file(files[place]), parts, columns, place)
            for place, parts, columns in resolved.parts
            if parts
        ]

    def read(self, rows: RowRanges) -> list[pa.ChunkedArray]:
        """The values at `rows` (offsets that count deleted rows), one array per field.

        Raises:
            CorruptFileError: the files contradict the format or each other.
        """
        if not self._returned or rows.num_rows == 0:
            return [pa.chunked_array([], to_arrow_type(field)) for field in self._returned]
        if self._are_dense(rows):
            # Decoding all of a window is cheaper than skipping the others.
            whole = self._read(RowRanges.of(*rows.span))
            keep = pa.chunked_array([rows.mask()])
            return [filter_chunked(column, keep) for column in whole]
        return self._read(rows)

    def _are_dense(self, rows: RowRanges) -> bool:
        """Whether nearly all chunks from the first to the last of `rows` have to be decoded, and of them many rows."""
        num_ranges, num_rows, (first, stop) = rows.num_ranges, rows.num_rows, rows.span
        span = stop - first
        is_close = num_ranges * _CLOSE > span
        if num_ranges <= _FEW_RANGES or num_rows * (_SHARE_OF_WORDS if is_close else 2) <= span:
            return False
        return num_rows * (self._share if is_close else min(self._share, 2)) > span

    @cached_property
    def _share(self) -> int:
        """n, where one wanted row in n is dense; 0: none are."""
        widths = [fixed_width(field) for field in self._returned]
        if all(width is not None and width <= _WORD_BYTES for width in widths):
            return _SHARE_OF_WORDS
        encoded = sum(self.encoded_widths) / len(self._returned)
        return next((share for most, share in _SHARES if encoded < most), 0)

    @cached_property
    def encoded_widths(self) -> list[float]:
        """The approximate encoded size in bytes of a row of each field."""
        widths = {field.id: 0.0 for field in self._fields}
        for part in self._parts:
            sizes = part.reader.estimated_bytes(part.fields, part.column_indices)
            for field, num_bytes in zip(part.fields, sizes, strict=True):
                widths[field.id] += num_bytes / max(part.reader.num_rows, 1)
        return [widths[field.id] for field in self._fields]

    def _read(self, rows: RowRanges) -> list[pa.ChunkedArray]:
        if self._is_whole:
            [part] = self._parts
            return part.reader.read(part.fields, part.column_indices, rows)
        pieces: dict[FieldId, list[pa.ChunkedArray]] = {field.id: [] for field in self._fields}
        for part in self._parts:
            columns = part.reader.read(part.fields, part.column_indices, rows)
            if self._with_sources:
                sources = self._sources(part.place, rows)
                columns = [
                    with_sources(column, field, sources) for field, column in zip(part.fields, columns, strict=True)
                ]
            for field, column in zip(part.fields, columns, strict=True):
                pieces[field.id].append(column)
        try:
            merged = [merge_columns(field, pieces[field.id], rows.num_rows) for field in self._fields]
        except CorruptFileError as error:
            if not self._parts:  # The columns are in no file; only the manifest has them.
                raise
            raise error.at(path=self._parts[0].reader.path) from None
        return [
            column if field is returned else narrowed(column, to_arrow_type(returned))
            for column, field, returned in zip(merged, self._fields, self._returned, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class _Resolved:
    """Which parts of fields the files of a fragment have.

    Attributes:
        fields: the fields to read.
        parts: for each file its place, the parts of the fields in it, and its columns by field id.
        with_sources: whether a field is a blob column whose descriptions name their data file.
        is_whole: whether the only part is all of the fields, exactly as they were asked for.
    """

    fields: tuple[Field, ...]
    parts: tuple[tuple[int, tuple[Field, ...], Mapping[FieldId, int]], ...]
    with_sources: bool
    is_whole: bool


def _resolve(fields: Sequence[Field], files: Sequence[DataFile], complete: Sequence[Field]) -> _Resolved:
    columns = _columns_by_file(files)
    ids = {field_id for file in files for field_id in columns[file]}
    whole_fields = {field.id: field for field in complete}
    read = tuple(_telling(field, whole_fields.get(field.id, field), ids) for field in fields)
    held = _without_mere_structs([(file, _held(read, file, columns[file])) for file in files], columns)
    num_files: dict[FieldId, int] = {}
    for _, parts in held:
        for field_id in parts:
            num_files[field_id] = num_files.get(field_id, 0) + 1
    whole = {field.id: field for field in read}
    # A field in this file only is read completely: members that the file lacks are returned as null.
    parts_of_files = tuple(
        (
            place,
            tuple(part if num_files[field_id] > 1 else whole[field_id] for field_id, part in parts.items()),
            columns[file],
        )
        for place, (file, parts) in enumerate(held)
    )
    with_sources = any(wants_source(field) for field in read)
    non_empty = [parts for _, parts, _ in parts_of_files if parts]
    is_whole = len(non_empty) == 1 and not with_sources and _are_same(non_empty[0], fields)
    return _Resolved(read, parts_of_files, with_sources, is_whole)


def _are_same(fields: Sequence[Field], others: Sequence[Field]) -> bool:
    return len(fields) == len(others) and all(one is other for one, other in zip(fields, others, strict=True))


def _telling(field: Field, whole: Field, held: Collection[int]) -> Field:
    """`field`, with an additional member of `whole` where no file has the selected members of a struct or list.

    Such members were added as null. The nulls of the struct and the lengths of the list are stored in other members.
    """
    if is_leaf(whole):
        return field
    if not any(node.id in held for node in field.walk()):
        told = next((node.id for node in whole.walk() if is_leaf(node) and node.id in held), None)
        return field if told is None else prune((whole,), {told, *(node.id for node in field.walk())})[0]
    below = {child.id: child for child in whole.children}
    children = tuple(_telling(child, below.get(child.id, child), held) for child in field.children)
    same = all(one is other for one, other in zip(children, field.children, strict=True))
    return field if same else field.with_children(children)


def _columns_by_file(files: Sequence[DataFile]) -> dict[DataFile, dict[FieldId, int]]:
    """The columns of each file, by field id.

    A release of the reference library reused the ids of dropped columns (0.10, files of version 0.1 only), so that two
    files have the same field. The last file has the values of the current column. In files of 2.0, structs and lists
    own columns beside their members, and can be in several files.

    Raises:
        CorruptFileError: a field is twice in the files, so that it is not known which values are its own.
    """
    by_file: dict[DataFile, dict[FieldId, int]] = {}
    later: set[FieldId] = set()
    for file in reversed(files):
        columns = file.columns()
        if file.version is FileVersion.V0_1:
            columns = {field_id: index for field_id, index in columns.items() if field_id not in later}
        elif file.version is not FileVersion.V2_0 and not later.isdisjoint(columns):
            raise CorruptFileError(f"field {min(later & columns.keys())} is in two files of a fragment", path=file.path)
        later.update(columns)
        by_file[file] = columns
    return by_file


def _held(fields: Sequence[Field], file: DataFile, columns: Mapping[FieldId, int]) -> dict[FieldId, Field]:
    """The part of each of `fields` that `file` has, by the id of the top-level field."""
    held = {field.id: part for field in fields if (part := _part(field, columns)) is not None}
    if any(has_other_descriptors(part, file.version) for part in held.values()):
        raise UnsupportedFeatureError(
            "a blob column lies in files of 2.2 and of an older version; compact the table first",
            feature="blob column in files of several versions",
        )
    return held


def _without_mere_structs(
    held: Sequence[tuple[DataFile, dict[FieldId, Field]]], columns: Mapping[DataFile, Mapping[FieldId, int]]
) -> list[tuple[DataFile, dict[FieldId, Field]]]:
    """`held` without redundant parts: structs and lists of files of 2.0 whose selected members are all in other files.

    In 2.0 structs and lists own columns, which remain when the last of their members is converted or replaced.
    """
    with_leaves = [_with_leaves(parts, columns[file]) for file, parts in held]
    told = set().union(*with_leaves)
    return [
        (file, {field_id: part for field_id, part in parts.items() if field_id not in told or field_id in own})
        for (file, parts), own in zip(held, with_leaves, strict=True)
    ]


def _with_leaves(parts: Mapping[FieldId, Field], columns: Mapping[FieldId, int]) -> set[FieldId]:
    """The ids in `parts` for which a file with these `columns` has a leaf."""
    return {field_id for field_id, part in parts.items() if _holds_leaf(part, columns)}


def _holds_leaf(field: Field, columns: Mapping[FieldId, int]) -> bool:
    return any(is_leaf(node) and node.id in columns for node in field.walk())


def _part(field: Field, columns: Mapping[FieldId, int]) -> Field | None:
    """The part of a top-level field in a file with these `columns`; None if it has none."""
    if not any(node.id in columns for node in field.walk()):
        return None
    pruned = prune((field,), columns.keys())
    return pruned[0] if pruned else field
