"""Estimates the bytes of the files of fragments that a read of some columns touches, from the manifest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark.schema.arrow import to_arrow_type
from lance_spark.schema.columns import column_fields, is_blob, is_leaf
from lance_spark.schema.field import Field, LanceSchema
from lance_spark.table.reading.selectivity import BlobBytes
from lance_spark.table.rows.fragment_sizes import FileKind, FragmentSizes

_OTHER_WIDTH = 20.0
"""Assumed for a value of variable width."""

_STRUCTURE_WIDTH = 1.0
"""The assumed width of the columns of structs and lists in 2.0 files."""


@dataclass(frozen=True, slots=True)
class _KindWidths:
    """Estimated width of a row in a file.

    Attributes:
        read, whole: the width of the columns that are read, and of all.
        has_blobs: whether there are blob columns.
    """

    read: float
    whole: float
    has_blobs: bool


class ProjectedSizes:
    """Estimates the size of a projected read from the manifest: the size of each file and its columns.

    A column's share of a file is proportional to the width of its values: a text is more than 10 % of a file of ten
    columns.

    Args:
        schema: the table's schema.
        projection: the columns to read.
        blobs: the average size of the blobs of a row, where their bytes are read.

    Attributes:
        blobs: as given.
    """

    def __init__(self, schema: LanceSchema, projection: LanceSchema, blobs: BlobBytes | None = None) -> None:
        self._schema = schema
        self._projection = projection
        self.blobs = blobs or BlobBytes()
        self._blob_ids = {node.id for node in schema.walk() if is_blob(node)}
        self._known: dict[FileKind, _KindWidths] = {}

    def of(self, fragments: FragmentSizes) -> npt.NDArray[np.float64]:
        """Bytes of each fragment: float64[num_fragments], whole numbers; NaN where the size of a file is not known."""
        widths = [self._widths_of(kind) for kind in fragments.file_kinds]
        kinds, rows = fragments.kinds, fragments.physical_rows
        shares = np.array([item.read / item.whole if item.whole else 0.0 for item in widths])
        total = rows * self.blobs.total
        if self.blobs.inline and any(item.has_blobs for item in widths):
            rows_of_files = rows[fragments.fragments]
            has_blobs = np.array([item.has_blobs for item in widths])[kinds]
            inline = np.where(has_blobs, rows_of_files * self.blobs.inline, 0.0)
            others = np.maximum(0.0, fragments.size_bytes - inline) * shares[kinds]
            # Blobs are estimated: an excess must not make other columns vanish.
            least = rows_of_files * np.array([item.read for item in widths])[kinds]
            others = np.where(inline > 0, np.maximum(others, least), others)
        else:
            others = fragments.size_bytes * shares[kinds] if len(kinds) else fragments.size_bytes
        np.add.at(total, fragments.fragments, others)
        sizes: npt.NDArray[np.float64] = np.floor(total)
        return sizes

    def _widths_of(self, kind: FileKind) -> _KindWidths:
        if kind not in self._known:
            widths = {field.id: _width(field) for field in column_fields(self._schema.fields, kind.version)}
            owners = {field.id for field in column_fields(self._projection.fields, kind.version)}
            self._known[kind] = _KindWidths(
                read=sum(widths.get(field_id, _OTHER_WIDTH) for field_id in owners.intersection(kind.fields)),
                whole=sum(widths.get(field_id, _OTHER_WIDTH) for field_id in kind.fields),
                has_blobs=not self._blob_ids.isdisjoint(kind.fields),
            )
        return self._known[kind]


def _width(field: Field) -> float:
    if field.children and not is_leaf(field):
        return _STRUCTURE_WIDTH
    dtype, count = to_arrow_type(field), 1
    while pa.types.is_fixed_size_list(dtype):
        dtype, count = dtype.value_type, count * dtype.list_size
    try:
        return count * float(dtype.bit_width) / 8
    except ValueError:  # Variable width.
        return _OTHER_WIDTH
