"""Values of blob columns that `blob_uri` and `blob_ingest` stand for: objects that a row refers to, or whose bytes are
copied.

The functions return BINARY that begins with a mark. It is random in each driver, and the tasks of its writes alone know
it, so that no bytes in the data can be taken for a reference.
"""

from __future__ import annotations

import struct
from base64 import b64decode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from dataclasses import field as attribute
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lance_spark.errors import InvalidInputError
from lance_spark.schema.blob import BLOB_KEY, INGEST
from lance_spark.table.bases import Bases
from lance_spark.table.location import TableLocation
from lance_spark.table.reading.blobs.signed_sources import SignedSources

_HEADER = struct.Struct(">Bqq")
"""Header that `LanceBlobUri.java` writes: whether to copy, offset, length or -1."""

_ROWS = 64
"""Rows with references that are written together: the writer looks at the size of its file after them."""

_TYPE = pa.struct(
    [
        pa.field("data", pa.large_binary()),
        pa.field("uri", pa.string()),
        pa.field("position", pa.uint64()),
        pa.field("size", pa.uint64()),
        pa.field(INGEST, pa.bool_(), nullable=False),
    ]
)


@dataclass(frozen=True)
class BlobInputs:
    """Secrets and storage options by which the tasks of a write resolve blobs that rows name.

    Attributes:
        mark: begins the values that `blob_uri` and `blob_ingest` have made; without one there are none.
        key: signs the sources of descriptions; without one only plain ones are taken.
        storage_options: of the tables that the statement reads, by URI.
    """

    mark: bytes = b""
    key: bytes = b""
    storage_options: Mapping[str, Mapping[str, str]] = attribute(default_factory=dict)

    def others(self, default: Mapping[str, str] | None) -> SignedSources:
        """Finds the data files of other tables.

        Args:
            default: storage options of tables that the statement does not name.
        """
        return SignedSources(self.key, self.storage_options, default, newest_bases)


def newest_bases(uri: str, storage_options: Mapping[str, str] | None) -> Bases:
    """Return the bases of the newest version of the table at a URI.

    Raises:
        NotFoundError: there is no table.
    """
    location = TableLocation(uri, storage_options)
    return location.bases(location.newest())


def decoded_secret(text: str | None) -> bytes:
    """The mark or the key of a driver; no bytes if it has none."""
    return b64decode(text or "")


def with_references(batch: pa.RecordBatch, mark: bytes) -> Iterator[pa.RecordBatch]:
    """`batch` with references in the form in which blob columns take them, in one or more parts.

    Args:
        mark: of the driver; without one there are no references.

    Raises:
        InvalidInputError: a column that is not a blob column has a reference.
    """
    marked = dict(_marked(batch, mark))
    if not marked:
        yield batch
        return
    for start in range(0, batch.num_rows, _ROWS):
        part = batch.slice(start, _ROWS)
        for name, rows in marked.items():
            place = part.schema.get_field_index(name)
            column = _resolved(part.column(place), rows[start : start + _ROWS], len(mark))
            part = part.set_column(place, part.schema.field(place).with_type(_TYPE), column)
        yield part


def check_no_references(batch: pa.RecordBatch, mark: bytes) -> None:
    """Passes if no value is a reference.

    Raises:
        InvalidInputError: one is.
    """
    for name in dict(_marked(batch, mark)):
        raise InvalidInputError(
            f"column {name!r}: blob_uri and blob_ingest are for INSERT, UPDATE, MERGE and writes of DataFrames"
        )


def _marked(batch: pa.RecordBatch, mark: bytes) -> Iterator[tuple[str, npt.NDArray[np.bool_]]]:
    """The columns with references, and which rows have one."""
    if not mark:
        return
    for field, column in zip(batch.schema, batch.columns, strict=True):
        for values in _binary_values(column):
            found = pc.fill_null(pc.starts_with(values, mark), False).to_numpy(zero_copy_only=False)
            if not found.any():
                continue
            if values is not column or BLOB_KEY.encode() not in (field.metadata or {}):
                raise InvalidInputError(
                    f"column {field.name!r} is no blob column; blob_uri and blob_ingest are for top-level columns with "
                    f"the property {field.name}.lance.encoding = blob"
                )
            yield field.name, found


def _binary_values(array: pa.Array) -> Iterator[pa.Array]:
    """The array if it is binary, else the binary arrays in it."""
    if pt.is_binary(array.type) or pt.is_large_binary(array.type):
        yield array
    elif pt.is_struct(array.type):
        for child in array.flatten():
            yield from _binary_values(child)
    elif pt.is_map(array.type):
        yield from _binary_values(array.keys)
        yield from _binary_values(array.items)
    elif pt.is_list(array.type) or pt.is_large_list(array.type) or pt.is_fixed_size_list(array.type):
        yield from _binary_values(array.flatten())


def _resolved(column: pa.Array, is_reference: npt.NDArray[np.bool_], mark_bytes: int) -> pa.StructArray:
    rows: list[dict[str, Any] | None] = []
    for value, refers in zip(column, is_reference.tolist(), strict=True):
        data = value.as_py()
        if data is None:
            rows.append(None)
        elif not refers:
            rows.append({"data": data, INGEST: False})
        else:
            copies, offset, length = _HEADER.unpack_from(data, mark_bytes)
            part = {} if length < 0 else {"position": offset, "size": length}
            uri = data[mark_bytes + _HEADER.size :].decode()
            rows.append({"uri": uri, INGEST: bool(copies), **part})
    return pa.array(rows, _TYPE)
