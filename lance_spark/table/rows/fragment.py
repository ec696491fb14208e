"""Fragments and their files (`lance.table.DataFragment`, `DataFile`, `DeletionFile`).

A fragment is a horizontal slice of a table. Its data files hold different columns of the same rows; a field in none
of them is null in all rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NewType, cast, overload

import numpy as np
import pyroaring
from google.protobuf.message import DecodeError

from lance_spark._proto import manifest_summary_pb2, table_pb2
from lance_spark.encodings.blocks import Int64Array
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.file_version import FileVersion
from lance_spark.schema.field import (
    CREATED_AT_FIELD,
    LAST_UPDATED_AT_FIELD,
    ROW_ID_FIELD,
    TOMBSTONE_FIELD_ID,
    FieldId,
)
from lance_spark.table.paths import checked_relative, deletion_path
from lance_spark.table.rows.deletion_vector import DeletionFileType
from lance_spark.table.rows.fragment_sizes import FragmentSizes
from lance_spark.table.rows.row_address import MAX_ROWS_PER_FRAGMENT

FragmentId = NewType("FragmentId", int)
BaseId = NewType("BaseId", int)

MAX_FRAGMENT_ID = (1 << 32) - 1

_NO_FIELDS: frozenset[FieldId] = frozenset()


@dataclass(frozen=True, slots=True)
class DataFile:
    """One data file of a fragment.

    Attributes:
        path: relative to the data folder of its base path.
        fields: ids of the fields that own a column; -2 marks a column that another file has replaced.
        column_indices: the column of each of `fields` (-1: none); empty in legacy files.
        version: the file format version.
        size_bytes: None if unknown.
        base_id: the base path of the file; None is the table's own root.
    """

    path: str
    fields: tuple[FieldId, ...]
    column_indices: tuple[int, ...]
    version: FileVersion
    size_bytes: int | None = None
    base_id: BaseId | None = None

    def __hash__(self) -> int:
        # Paths are unique; the ids of a wide table are thousands of numbers.
        return hash(self.path)

    @classmethod
    def from_proto(cls, message: table_pb2.DataFile) -> DataFile:
        """The data file of a message.

        Raises:
            CorruptFileError: the path is outside its base path, or the message is inconsistent.
        """
        path = checked_relative(message.path, "data file")
        version = FileVersion.from_numbers(message.file_major_version, message.file_minor_version, path=path)
        fields = cast("tuple[FieldId, ...]", tuple(message.fields))
        column_indices = tuple(message.column_indices)
        if column_indices and len(column_indices) != len(fields):
            raise CorruptFileError(f"{len(fields)} fields have {len(column_indices)} column indices", path=path)
        return cls(
            path=path,
            fields=fields,
            column_indices=column_indices,
            version=version,
            size_bytes=message.file_size_bytes or None,
            base_id=BaseId(message.base_id) if message.HasField("base_id") else None,
        )

    def to_proto(self) -> table_pb2.DataFile:
        major, minor = self.version.data_file_numbers
        return table_pb2.DataFile(
            path=self.path,
            fields=self.fields,
            column_indices=self.column_indices,
            file_major_version=major,
            file_minor_version=minor,
            file_size_bytes=self.size_bytes or 0,
            base_id=self.base_id,
        )

    def columns(self) -> dict[FieldId, int]:
        """The column index of each live field of this file; fields without a column are left out.

        A legacy file has one column a field, in the order of `fields`.

        Raises:
            CorruptFileError: a field has two columns, or a column two fields.
        """
        indices = self.column_indices or range(len(self.fields))
        live = [
            (field_id, index)
            for field_id, index in zip(self.fields, indices, strict=True)
            if field_id != TOMBSTONE_FIELD_ID and index >= 0
        ]
        columns = dict(live)
        if len(columns) < len(live) or len(set(columns.values())) < len(live):
            raise CorruptFileError("a field has two columns of the file, or a column two fields", path=self.path)
        return columns


@dataclass(frozen=True, slots=True)
class DeletionFile:
    """The reference to a fragment's deletion vector.

    Attributes:
        num_deleted_rows: None if unknown (old manifests).
    """

    file_type: DeletionFileType
    read_version: int
    id: int
    num_deleted_rows: int | None
    base_id: BaseId | None = None

    @classmethod
    def from_proto(cls, message: table_pb2.DeletionFile) -> DeletionFile:
        """The deletion file of a message.

        Raises:
            UnsupportedFeatureError: an unknown type of deletion file.
        """
        try:
            file_type = DeletionFileType(message.file_type)
        except ValueError:
            raise UnsupportedFeatureError(
                f"deletion files of type {message.file_type} are unknown to this release", feature="deletion file type"
            ) from None
        return cls(
            file_type=file_type,
            read_version=message.read_version,
            id=message.id,
            num_deleted_rows=message.num_deleted_rows or None,
            base_id=BaseId(message.base_id) if message.HasField("base_id") else None,
        )

    def to_proto(self) -> table_pb2.DeletionFile:
        message = table_pb2.DeletionFile(
            read_version=self.read_version,
            id=self.id,
            num_deleted_rows=self.num_deleted_rows or 0,
            base_id=self.base_id,
        )
        message.file_type = self.file_type.value  # type: ignore[assignment]
        return message

    def path(self, fragment_id: FragmentId) -> str:
        """Path of the file below its base path."""
        return deletion_path(fragment_id, self.read_version, self.id, self.file_type.extension)


@dataclass(frozen=True, slots=True)
class DataFragment:
    """Rows of a table with one set of data files.

    Attributes:
        physical_rows: rows in the data files, including deleted ones; None if unknown (old manifests).
        row_ids: serialized `RowIdSequence`, in tables with stable row ids.
        created_at_versions, last_updated_at_versions: serialized `RowDatasetVersionSequence`s.
        lineage_fields: those of these three that are columns of a data file instead.
    """

    id: FragmentId
    files: tuple[DataFile, ...]
    physical_rows: int | None
    deletion_file: DeletionFile | None = None
    row_ids: bytes | None = None
    created_at_versions: bytes | None = None
    last_updated_at_versions: bytes | None = None
    lineage_fields: frozenset[FieldId] = _NO_FIELDS

    @classmethod
    def from_proto(cls, message: table_pb2.DataFragment) -> DataFragment:
        """The fragment of a message.

        Raises:
            CorruptFileError: the message violates the format.
            UnsupportedFeatureError: it uses a feature that no release of the format has written.
        """
        _refuse_unsupported(message)
        check_counts(message)
        return cls(
            FragmentId(message.id),
            tuple(map(DataFile.from_proto, message.files)),
            message.physical_rows or None,
            DeletionFile.from_proto(message.deletion_file) if message.HasField("deletion_file") else None,
            message.inline_row_ids if message.HasField("inline_row_ids") else None,
            message.inline_created_at_versions if message.HasField("inline_created_at_versions") else None,
            message.inline_last_updated_at_versions if message.HasField("inline_last_updated_at_versions") else None,
            lineage_fields(message),
        )

    def with_columns_of(self, file: DataFile) -> DataFragment:
        """The fragment with the columns of a new file, which count no more in its other files."""
        new = frozenset(file.fields)
        old = (
            replace(other, fields=tuple(TOMBSTONE_FIELD_ID if number in new else number for number in other.fields))
            for other in self.files
        )
        return replace(self, files=(*old, file))

    def to_proto(self) -> table_pb2.DataFragment:
        message = table_pb2.DataFragment(
            id=self.id,
            files=[file.to_proto() for file in self.files],
            deletion_file=self.deletion_file.to_proto() if self.deletion_file is not None else None,
            physical_rows=self.physical_rows or 0,
        )
        if self.row_ids is not None:
            message.inline_row_ids = self.row_ids
        if self.created_at_versions is not None:
            message.inline_created_at_versions = self.created_at_versions
        if self.last_updated_at_versions is not None:
            message.inline_last_updated_at_versions = self.last_updated_at_versions
        if ROW_ID_FIELD in self.lineage_fields:
            message.column_row_ids.SetInParent()
        if CREATED_AT_FIELD in self.lineage_fields:
            message.column_created_at_versions.SetInParent()
        if LAST_UPDATED_AT_FIELD in self.lineage_fields:
            message.column_last_updated_at_versions.SetInParent()
        return message

    @classmethod
    def from_bytes(cls, data: bytes) -> DataFragment:
        """Inverse of `to_bytes`.

        Raises:
            CorruptFileError: not a serialized fragment.
        """
        try:
            return cls.from_proto(table_pb2.DataFragment.FromString(data))
        except DecodeError as error:
            raise CorruptFileError(f"not a fragment: {error}") from error

    def to_bytes(self) -> bytes:
        """The serialized message, as exchanged between driver and tasks."""
        return self.to_proto().SerializeToString(deterministic=True)

    @property
    def size_bytes(self) -> int | None:
        """Size of all data files; None if the manifest does not record the size of one of them."""
        sizes = [file.size_bytes for file in self.files]
        recorded = [size for size in sizes if size is not None]
        return sum(recorded) if len(recorded) == len(sizes) else None

    @property
    def num_rows(self) -> int | None:
        """Rows that are not deleted; None if the manifest does not record it."""
        deleted = 0 if self.deletion_file is None else self.deletion_file.num_deleted_rows
        return _live_rows(self.id, self.physical_rows, deleted)


def check_counts(message: table_pb2.DataFragment) -> None:
    """Validates that row addresses can represent the fragment and that it has no more deleted rows than rows.

    Raises:
        CorruptFileError: its id or row count does not fit into an address, or too many rows are deleted.
    """
    if message.id > MAX_FRAGMENT_ID:
        raise CorruptFileError(f"fragment id {message.id} does not fit in 32 bits")
    if message.physical_rows > MAX_ROWS_PER_FRAGMENT:
        raise CorruptFileError(
            f"fragment {message.id} says that it has {message.physical_rows} rows, row addresses reach to 2**32"
        )
    if message.deletion_file.num_deleted_rows:
        deleted = message.deletion_file.num_deleted_rows
        if deleted > (message.physical_rows or MAX_ROWS_PER_FRAGMENT):
            raise CorruptFileError(f"fragment {message.id} has {message.physical_rows} rows, {deleted} of them deleted")


def has_row_ids(message: table_pb2.DataFragment) -> bool:
    """Whether a fragment has stable row ids, in the message or in a data file."""
    return message.HasField("inline_row_ids") or message.HasField("column_row_ids")


def lineage_fields(message: table_pb2.DataFragment) -> frozenset[FieldId]:
    """The row id and row version fields of a fragment that are columns of its data files."""
    has_row_ids = message.HasField("column_row_ids")
    has_created = message.HasField("column_created_at_versions")
    has_updated = message.HasField("column_last_updated_at_versions")
    if not (has_row_ids or has_created or has_updated):
        return _NO_FIELDS
    marks = ((ROW_ID_FIELD, has_row_ids), (CREATED_AT_FIELD, has_created), (LAST_UPDATED_AT_FIELD, has_updated))
    return frozenset(field for field, is_marked in marks if is_marked)


def _live_rows(fragment_id: int, physical_rows: int | None, deleted_rows: int | None) -> int | None:
    if physical_rows is None or deleted_rows is None:
        return None
    if deleted_rows > physical_rows:
        raise CorruptFileError(f"fragment {fragment_id} has {physical_rows} rows, {deleted_rows} of them deleted")
    return physical_rows - deleted_rows


def _refuse_unsupported(message: table_pb2.DataFragment) -> None:
    if message.overlays:
        raise UnsupportedFeatureError(f"fragment {message.id} has data overlay files", feature="data overlay files")
    for name in ("external_row_ids", "external_created_at_versions", "external_last_updated_at_versions"):
        if message.HasField(name):
            raise UnsupportedFeatureError(
                f"fragment {message.id} keeps its {name.removeprefix('external_')} in a file of their own",
                feature=name,
            )


def _manifest_bytes(messages: Iterable[table_pb2.DataFragment]) -> bytes:
    manifest = table_pb2.Manifest()
    manifest.fragments.extend(messages)
    return manifest.SerializeToString(deterministic=True)


def _check_ids(messages: Sequence[table_pb2.DataFragment]) -> None:
    """Passes if no two fragments have one id, by which rows are addressed.

    The release 0.16 of the reference library gave an id twice, to fragments of different files; its tables are still
    read. Files of these days tell their version by other numbers than later ones.

    Raises:
        CorruptFileError: two fragments have one id.
    """
    first: dict[int, table_pb2.DataFragment] = {}
    for message in messages:
        other = first.setdefault(message.id, message)
        if other is message:
            continue
        files = [*other.files, *message.files]
        paths = {file.path for file in files}
        if len(paths) < len(files) or any(file.file_major_version > 0 for file in files):
            raise CorruptFileError(f"two fragments have the id {message.id}, so rows of the table have no address")


class FragmentList(Sequence[DataFragment]):
    """The fragments of a version, in scan order. Immutable; fragments are parsed lazily.

    A version that adds a few fragments to many shares the messages of the old ones, including unknown fields.

    Args:
        messages: the fragments.
        manifest: a serialized `Manifest` with these fragments, if there is one; other fields of it do not matter.
    """

    __slots__ = ("_as_manifest", "_counts", "_ends", "_ids", "_manifest", "_messages", "_parsed", "_places", "_sizes")

    def __init__(self, messages: Iterable[table_pb2.DataFragment] = (), manifest: bytes | None = None) -> None:
        self._messages = tuple(messages)
        self._manifest = manifest
        self._as_manifest: bytes | None = None
        self._parsed: dict[int, DataFragment] = {}
        self._counts: list[int | None] | None = None
        self._ends: Int64Array | None = None
        self._ids: pyroaring.BitMap | None = None
        self._places: dict[int, int] | None = None
        self._sizes: FragmentSizes | None = None

    @classmethod
    def from_wire(cls, messages: Iterable[table_pb2.DataFragment], manifest: bytes | None = None) -> FragmentList:
        """The fragments of a manifest, with their counts checked eagerly: many requests need only the messages.

        Args:
            manifest: the manifest, serialized, if it is as it was read.

        Raises:
            CorruptFileError: see `check_counts`, or two fragments have one id.
        """
        fragments = cls(messages, manifest)
        last, ascends = -1, True
        for message in fragments.messages:
            # Nearly all fragments pass with these few comparisons.
            id_ = message.id
            if id_ <= last:
                ascends = False
            last = id_
            if (
                id_ > MAX_FRAGMENT_ID
                or message.physical_rows > MAX_ROWS_PER_FRAGMENT
                or message.HasField("deletion_file")
            ):
                check_counts(message)
        if not ascends:
            _check_ids(fragments.messages)
        return fragments

    @property
    def messages(self) -> tuple[table_pb2.DataFragment, ...]:
        """The protobuf messages; must not be modified."""
        return self._messages

    def row_counts(self) -> Sequence[int | None]:
        """`num_rows` of each fragment, without parsing the fragments.

        Raises:
            CorruptFileError: a fragment has more deleted rows than rows.
        """
        if self._counts is None:
            counts: list[int | None] = [message.physical_rows or None for message in self._messages]
            for place, message in enumerate(self._messages):
                if message.HasField("deletion_file"):
                    deleted = message.deletion_file.num_deleted_rows or None
                    counts[place] = _live_rows(message.id, counts[place], deleted)
            self._counts = counts
        return self._counts

    def row_ends(self) -> Int64Array | None:
        """int64[n]: the live rows up to the end of each fragment; None if the manifest does not record all of them.

        Raises:
            CorruptFileError: a fragment has more deleted rows than rows.
        """
        if self._ends is None:
            counts = [rows for rows in self.row_counts() if rows is not None]
            if len(counts) < len(self):
                return None
            self._ends = np.cumsum(counts, dtype=np.int64)
        return self._ends

    @property
    def sizes(self) -> FragmentSizes:
        """Rows and data files of each fragment, without parsing the fragments.

        Raises:
            CorruptFileError: a data file has an unknown version.
        """
        if self._sizes is None:
            self._sizes = FragmentSizes.of(self._messages)
        return self._sizes

    @property
    def ids(self) -> pyroaring.BitMap:
        """The ids of the fragments; must not be changed."""
        if self._ids is None:
            self._ids = pyroaring.BitMap([message.id for message in self._messages])
        return self._ids

    def with_ids(self, ids: Iterable[int]) -> Iterator[DataFragment]:
        """Iterates over the fragments of the list with `ids`, in its order; the others are not looked at."""
        places = self._places_by_id()
        return (self[place] for place in sorted(places[id_] for id_ in ids if id_ in places))

    def with_id(self, fragment_id: int) -> DataFragment:
        """The fragment with this id, which is in the list."""
        return self[self.place_of(fragment_id)]

    def place_of(self, fragment_id: int) -> int:
        """The place of the fragment with this id, which is in the list."""
        return self._places_by_id()[fragment_id]

    def to_bytes(self, place: int) -> bytes:
        """The message of the fragment at a place as `DataFragment.to_bytes` serializes it, without parsing it."""
        return self._messages[place].SerializeToString(deterministic=True)

    def _places_by_id(self) -> dict[int, int]:
        if self._places is None:
            self._places = {message.id: place for place, message in enumerate(self._messages)}
        return self._places

    def appended(self, fragments: Iterable[DataFragment]) -> FragmentList:
        """These fragments followed by `fragments`."""
        new = [fragment.to_proto() for fragment in fragments]
        result = FragmentList((*self._messages, *new))
        result._as_manifest = self.to_manifest_bytes() + _manifest_bytes(new)
        return result

    def to_manifest_bytes(self) -> bytes:
        """A serialized `Manifest` with the fragments and nothing else.

        Fragments that were read are copied as bytes, in a quarter of the time that their messages take.
        """
        if self._as_manifest is not None:
            return self._as_manifest
        if self._manifest is None:
            return _manifest_bytes(self._messages)
        held = manifest_summary_pb2.ManifestSummary.FromString(self._manifest)
        return manifest_summary_pb2.ManifestSummary(fragments=held.fragments).SerializeToString()

    def __len__(self) -> int:
        return len(self._messages)

    @overload
    def __getitem__(self, index: int) -> DataFragment: ...

    @overload
    def __getitem__(self, index: slice) -> list[DataFragment]: ...

    def __getitem__(self, index: int | slice) -> DataFragment | list[DataFragment]:
        if isinstance(index, slice):
            return [self[position] for position in range(*index.indices(len(self)))]
        position = range(len(self._messages))[index]
        if position not in self._parsed:
            self._parsed[position] = DataFragment.from_proto(self._messages[position])
        return self._parsed[position]

    def __iter__(self) -> Iterator[DataFragment]:
        return (self[position] for position in range(len(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FragmentList) and self._messages == other._messages

    def __hash__(self) -> int:
        return hash(tuple(message.id for message in self._messages))

    def __repr__(self) -> str:
        return f"FragmentList({len(self)} fragments)"
