"""Writes the values of blob columns beside the pages of a data file (Lance file format, "Blob").

In files of 2.0 and 2.1 all values lie in the data file, aligned as its buffers. In files of 2.2:

A small value lies in the data file, aligned as its buffers. A larger one lies in a sidecar of the file, an object
``<path of the data file without .lance>/<id>.blob`` without header or footer: with other values, or alone. Ids count
from 1 in the order in which sidecars are opened; the name is the id's 32 bits, the least significant first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from lance_spark.errors import CorruptFileError, InvalidInputError, UnsupportedFeatureError
from lance_spark.file_version import FileVersion
from lance_spark.schema.arrow import to_arrow_type
from lance_spark.schema.blob import INGEST, PLACE, SOURCE, BlobKind, BlobSizes, has_blobs, is_blob_v2, stored
from lance_spark.schema.columns import is_blob
from lance_spark.schema.field import Field
from lance_spark.schema.projection import written_path
from lance_spark.storage.base import ByteRange, ObjectStore, OutputStream, copy_object
from lance_spark.storage.deletion import delete_quietly

COPY_BYTES = 16 << 20
"""About how many bytes of values that are copied from other files are in memory at a time."""

MAX_BLOB_BYTES = 1 << 40
"""A value that claims to be larger is corrupt."""


class BlobSource(Protocol):
    """Finds the objects whose bytes are copied."""

    def __call__(self, source: str, /) -> tuple[ObjectStore, str]:
        """The store and the path of the data file that the source of a description names."""

    def reference(self, source: str, base_id: int, uri: str, /) -> tuple[int, str]:
        """The base id and the URI, in the table that is written, of an object that a description refers to."""

    def object_at(self, uri: str, /) -> tuple[ObjectStore, str]:
        """The store and the path of the object at a URI."""


def sidecar_path(data_path: str, blob_id: int) -> str:
    """The path of a sidecar of a data file.

    >>> sidecar_path("data/a.lance", 6)
    'data/a/01100000000000000000000000000000.blob'
    """
    return f"{data_path.removesuffix('.lance')}/{f'{blob_id:032b}'[::-1]}.blob"


@dataclass(frozen=True, slots=True)
class _Value:
    """Bytes to write: in memory, or a range of an object, which `is_object` says is all of it."""

    data: pa.Buffer | None = None
    store: ObjectStore | None = None
    path: str = ""
    range: ByteRange | None = None
    is_object: bool = False

    @property
    def size(self) -> int:
        if self.data is not None:
            return int(self.data.size)
        return 0 if self.range is None else self.range.length

    def pieces(self) -> Iterator[pa.Buffer]:
        """The bytes in pieces of `COPY_BYTES` at most."""
        if self.data is not None:
            yield self.data
        if self.store is None or self.range is None:
            return
        for start in range(self.range.start, self.range.stop, COPY_BYTES):
            yield self.store.read_range(self.path, ByteRange(start, min(COPY_BYTES, self.range.stop - start)))


class Sidecars:
    """The sidecars of one data file."""

    def __init__(self, store: ObjectStore, data_path: str) -> None:
        self._store = store
        self._data_path = data_path
        self._open: list[OutputStream] = []
        self._paths: list[str] = []
        self._closed_bytes = 0

    def new(self) -> tuple[int, OutputStream]:
        """A new sidecar and its id."""
        blob_id = len(self._paths) + 1
        path = sidecar_path(self._data_path, blob_id)
        output = self._store.open_output(path)
        self._paths.append(path)
        self._open.append(output)
        return blob_id, output

    def copied(self, store: ObjectStore, path: str, size: int) -> int | None:
        """The id of a new sidecar with the bytes of an object, which its store copies; None if it cannot."""
        blob_id = len(self._paths) + 1
        target = sidecar_path(self._data_path, blob_id)
        self._paths.append(target)
        if not copy_object(store, path, self._store, target, size):
            self._paths.pop()
            return None
        self._closed_bytes += size
        return blob_id

    def finish(self, output: OutputStream) -> None:
        """Publishes a sidecar."""
        size = output.tell()
        output.close()
        self._open.remove(output)
        self._closed_bytes += size

    def tell(self) -> int:
        """Bytes in all sidecars so far."""
        return self._closed_bytes + sum(output.tell() for output in self._open)

    def close(self) -> None:
        """Publishes those that are still open."""
        for output in list(self._open):
            self.finish(output)

    def abort(self) -> None:
        """Removes all of them."""
        for output in self._open:
            output.abort()
        for path in self._paths:
            delete_quietly(self._store, path)
        self._open, self._paths = [], []


class BlobColumnWriter:
    """Writes the values of one blob column, and gives their descriptions.

    Args:
        field: the column as the table declares it.
        name: its dotted path, for messages.
        sidecars: those of the data file.
        write_inline: writes a value into the data file; returns its position.
        source: finds the files of descriptions with a source.
    """

    def __init__(
        self,
        field: Field,
        name: str,
        sidecars: Sidecars,
        write_inline: Callable[[Sequence[pa.Buffer]], int],
        source: BlobSource | None,
    ) -> None:
        self._name = name
        self._field = field
        self._sizes = BlobSizes.of(field) if is_blob_v2(field) else _ONE_FILE
        self._sidecars = sidecars
        self._write_inline = write_inline
        self._source = source
        self._type = to_arrow_type(stored(field))
        self._pack: tuple[int, OutputStream] | None = None

    def write(self, array: pa.StructArray) -> pa.StructArray:
        """Writes the values of `array`; returns their descriptions.

        Args:
            array: the values as the table's schema has them, or descriptions with their source.

        Raises:
            InvalidInputError: a row has both bytes and a reference, or neither, or descriptions have no source.
            UnsupportedFeatureError: a value is managed by the table, which this release does not copy, or a reference
                where files have none.
        """
        rows = _BlobRows(len(array))
        if not pa.types.is_struct(array.type):
            array = pa.StructArray.from_arrays([array], ["data"], mask=array.is_null() if array.null_count else None)
        if array.type.get_field_index(SOURCE.name) >= 0:
            self._copy(array, rows)
        elif array.type.get_field_index("kind") >= 0:
            raise InvalidInputError(
                f"column {self._name!r} has descriptions of blobs, which mean nothing in another table; write the "
                "bytes (read them with blob_handling='all_binary')"
            )
        else:
            self._write_values(array, rows)
        return rows.to_array(self._type, array.is_null() if array.null_count else None)

    def _reference(self, place: tuple[int, int, int, int, str]) -> tuple[int, int, int, int, str]:
        if is_blob_v2(self._field):
            return place
        raise UnsupportedFeatureError(
            f"column {self._name!r}: references to objects are written in files of version 2.2; write the bytes",
            feature="blob reference",
            version=FileVersion.V2_2.value,
        )

    def _write_values(self, array: pa.StructArray, rows: _BlobRows) -> None:
        data = array.field("data")
        members = {array.type.field(number).name for number in range(array.type.num_fields)}
        uris = array.field("uri").to_pylist() if "uri" in members else [None] * len(array)
        ranges = [array.field(name).to_pylist() if name in members else [None] * len(array) for name in _RANGE]
        ingests = array.field(INGEST).to_pylist() if INGEST in members else [False] * len(array)
        valid, has_data = array.is_valid().to_pylist(), data.is_valid().to_pylist()
        for row in range(len(array)):
            if not valid[row]:
                continue
            uri = uris[row]
            where = f"column {self._name!r}, row {row} of the batch"
            if has_data[row] == (uri is not None):
                raise InvalidInputError(
                    f"{where}: a blob has either data or a uri; this one has {'both' if has_data[row] else 'none'}"
                )
            if uri is None:
                rows.set(row, self._place(_Value(data[row].as_buffer())))
            elif ingests[row]:
                rows.set(row, self._place(self._object_at(uri, ranges[0][row], ranges[1][row], where)))
            else:
                place = _external(uri, ranges[0][row], ranges[1][row], f"{self._name!r}, row {row}")
                rows.set(row, self._reference(place))

    def _object_at(self, uri: str, position: int | None, size: int | None, where: str) -> _Value:
        """The bytes of an object, or a part of it."""
        if self._source is None:
            raise InvalidInputError(f"{where}: this write cannot read {uri}")
        store, path = self._source.object_at(uri)
        start, total = position or 0, store.size(path)
        length = total - start if size is None else size
        if length < 0 or start + length > total:
            raise InvalidInputError(f"{where}: {uri} has {total} bytes, not bytes [{start}, {start + length})")
        is_object = length == total and length > self._sizes.dedicated
        return _Value(None, store, path, ByteRange(start, length), is_object)

    def _copy(self, array: pa.StructArray, rows: _BlobRows) -> None:
        """Copies values from other data files, `COPY_BYTES` or one value at a time."""
        if self._source is None:
            raise InvalidInputError(f"column {self._name!r}: the files of these blobs are not known")
        kinds, positions, sizes, ids = (array.field(name).to_numpy(zero_copy_only=False) for name in _NUMBERS)
        uris, sources = array.field("blob_uri"), array.field(SOURCE.name)
        waiting: list[tuple[int, _Value]] = []
        total = 0
        for row in np.flatnonzero(array.is_valid().to_numpy(zero_copy_only=False)).tolist():
            kind, size = int(kinds[row]), int(sizes[row])
            if kind == BlobKind.EXTERNAL:
                base_id, uri = self._source.reference(sources[row].as_py(), int(ids[row]), uris[row].as_py())
                rows.set(row, self._reference((kind, int(positions[row]), size, base_id, uri)))
                continue
            if kind not in (BlobKind.INLINE, BlobKind.PACKED, BlobKind.DEDICATED):
                raise UnsupportedFeatureError(
                    f"column {self._name!r} has blobs of kind {kind}, which this release does not copy",
                    feature=f"blob kind {kind}",
                )
            if size > MAX_BLOB_BYTES:
                raise CorruptFileError(f"column {self._name!r} has a blob of {size} bytes")
            store, path = self._source(sources[row].as_py())
            path = path if kind == BlobKind.INLINE else sidecar_path(path, int(ids[row]))
            position = int(positions[row])
            is_object = kind == BlobKind.DEDICATED and position == 0 and size > self._sizes.dedicated
            waiting.append((row, _Value(None, store, path, ByteRange(position, size), is_object)))
            total += 0 if is_object else size
            if total >= COPY_BYTES:
                self._write_waiting(waiting, rows)
                waiting, total = [], 0
        self._write_waiting(waiting, rows)

    def _write_waiting(self, waiting: list[tuple[int, _Value]], rows: _BlobRows) -> None:
        for row, value in _fetched(waiting):
            rows.set(row, self._place(value))

    def _place(self, value: _Value) -> tuple[int, int, int, int, str]:
        """Writes a value where its size wants it; its description."""
        size = value.size
        if size > self._sizes.dedicated:
            copied = self._sidecars.copied(value.store, value.path, size) if value.is_object and value.store else None
            if copied is not None:
                return BlobKind.DEDICATED, 0, size, copied, ""
            blob_id, output = self._sidecars.new()
            _write_all(output, value)
            self._sidecars.finish(output)
            return BlobKind.DEDICATED, 0, size, blob_id, ""
        if size <= self._sizes.inline:
            return BlobKind.INLINE, self._write_inline(list(value.pieces())), size, 0, ""
        if self._pack is not None and self._pack[1].tell() + size > self._sizes.pack:
            self._sidecars.finish(self._pack[1])
            self._pack = None
        if self._pack is None:
            self._pack = self._sidecars.new()
        blob_id, output = self._pack
        position = output.tell()
        _write_all(output, value)
        return BlobKind.PACKED, position, size, blob_id, ""


_ONE_FILE = BlobSizes(inline=MAX_BLOB_BYTES, dedicated=MAX_BLOB_BYTES)
"""Those of files that have no sidecars."""

_RANGE = ("position", "size")
_NUMBERS = ("kind", "position", "size", "blob_id")


class _BlobRows:
    """Descriptions by row; rows that are not set are null, or zeros below a null."""

    def __init__(self, num_rows: int) -> None:
        self._numbers = np.zeros((4, num_rows), np.uint64)
        self._uris = [""] * num_rows

    def set(self, row: int, description: tuple[int, int, int, int, str]) -> None:
        self._numbers[:, row] = description[:4]
        self._uris[row] = description[4]

    def to_array(self, dtype: pa.StructType, nulls: pa.BooleanArray | None) -> pa.StructArray:
        """The descriptions, or the places alone, as `dtype` has them."""
        kinds, positions, sizes, ids = self._numbers
        if dtype.num_fields == len(PLACE):
            # An empty value at another position would be a null.
            children = [pa.array(np.where(sizes == 0, np.uint64(0), positions)), pa.array(sizes)]
        else:
            children = [
                pa.array(kinds.astype(np.uint8)),
                pa.array(positions),
                pa.array(sizes),
                pa.array(ids.astype(np.uint32)),
                pa.array(self._uris, pa.string()),
            ]
        return pa.StructArray.from_arrays(children, fields=list(dtype), mask=nulls)


def _external(uri: str, position: int | None, size: int | None, where: str) -> tuple[int, int, int, int, str]:
    if "://" not in uri:
        raise InvalidInputError(f"column {where}: {uri!r} is no absolute URI")
    if position is not None and size is None:
        raise InvalidInputError(f"column {where}: a part of {uri} needs a size beside its position")
    return BlobKind.EXTERNAL, position or 0, size or 0, 0, uri


def _write_all(output: OutputStream, value: _Value) -> None:
    for piece in value.pieces():
        output.write(piece)


def _fetched(waiting: Sequence[tuple[int, _Value]]) -> Iterator[tuple[int, _Value]]:
    """The values in order, small ones read together, file by file."""
    by_path: dict[tuple[int, str], list[int]] = {}
    for number, (_, value) in enumerate(waiting):
        if value.size <= COPY_BYTES and not value.is_object:
            by_path.setdefault((id(value.store), value.path), []).append(number)
    buffers: dict[int, pa.Buffer] = {}
    for numbers in by_path.values():
        store, path = waiting[numbers[0]][1].store, waiting[numbers[0]][1].path
        ranges = {number: byte_range for number in numbers if (byte_range := waiting[number][1].range) is not None}
        filled = {number: byte_range for number, byte_range in ranges.items() if byte_range.length}
        if filled and store is not None:
            buffers.update(zip(filled, store.read_ranges(path, list(filled.values())), strict=True))
    for number, (row, value) in enumerate(waiting):
        yield row, _Value(buffers.pop(number)) if number in buffers else value


class BlobColumns:
    """The blob columns of a data file that is written: batches with values become batches with descriptions."""

    def __init__(
        self,
        fields: Sequence[Field],
        sidecars: Sidecars,
        write_inline: Callable[[Sequence[pa.Buffer]], int],
        source: BlobSource | None,
    ) -> None:
        self._writers: dict[tuple[str, ...], BlobColumnWriter] = {}
        self._fields = {field.name: field for field in fields if has_blobs(field)}
        for field in self._fields.values():
            for path in _blob_paths(field):
                names = tuple(node.name for node in path)
                self._writers[names] = BlobColumnWriter(path[-1], written_path(path), sidecars, write_inline, source)

    def __call__(self, batch: pa.RecordBatch | pa.Table) -> pa.RecordBatch | pa.Table:
        """`batch` with descriptions in its blob columns, whose values are written."""
        for name, field in self._fields.items():
            number = batch.schema.get_field_index(name)
            if number < 0:
                continue
            column = batch.column(number)
            if isinstance(column, pa.ChunkedArray):
                chunks = [self._written(chunk, field, (name,)) for chunk in column.chunks]
                column = pa.chunked_array(chunks) if chunks else pa.chunked_array([], to_arrow_type(stored(field)))
            else:
                column = self._written(column, field, (name,))
            batch = batch.set_column(number, batch.schema.field(number).with_type(column.type), column)
        return batch

    def _written(self, array: pa.Array, field: Field, names: tuple[str, ...]) -> pa.Array:
        if isinstance(array, pa.ExtensionArray):
            array = array.storage
        writer = self._writers.get(names)
        if writer is not None:
            return writer.write(array)
        if not pa.types.is_struct(array.type):
            return array
        parts, fields = [], []
        by_name = {child.name: child for child in field.children}
        for number in range(array.type.num_fields):
            member = array.type.field(number)
            # With the nulls of the struct: what is below a null is no value.
            part = array.flatten()[number] if has_blobs(by_name[member.name]) else array.field(number)
            if has_blobs(by_name[member.name]):
                part = self._written(part, by_name[member.name], (*names, member.name))
            parts.append(part)
            fields.append(member.with_type(part.type))
        return pa.StructArray.from_arrays(parts, fields=fields, mask=array.is_null() if array.null_count else None)


def copied_bytes(batch: pa.RecordBatch, fields: Sequence[Field]) -> int:
    """The size of the values of top-level `fields` that writing `batch` copies from other files."""
    return sum(_copied(batch.column(field.name), field) for field in fields if field.name in batch.schema.names)


def _copied(array: pa.Array, field: Field) -> int:
    import pyarrow.compute as pc

    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if not pa.types.is_struct(array.type):
        return 0
    if is_blob(field):
        has_source = array.type.get_field_index(SOURCE.name) >= 0
        # In floating point: sizes are not checked yet, and their sum may not wrap.
        return int(pc.sum(array.field("size").cast(pa.float64())).as_py() or 0) if has_source else 0
    by_name = {child.name: child for child in field.children}
    return sum(
        _copied(array.field(number), by_name[array.type.field(number).name])
        for number in range(array.type.num_fields)
        if has_blobs(by_name[array.type.field(number).name])
    )


def _blob_paths(field: Field) -> Iterator[tuple[Field, ...]]:
    if is_blob(field):
        yield (field,)
        return
    for child in field.children:
        for path in _blob_paths(child):
            yield (field, *path)
