"""Reading the columns of one fragment, whichever of its data files hold them.

A field is found by its id. Parts of one struct can lie in several files; what no file holds is null.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.file.reader import FileReader
from lance_spark.layouts.base import RowRanges
from lance_spark.layouts.merge import merge_columns
from lance_spark.schema.arrow import to_arrow_type
from lance_spark.schema.field import Field, FieldId
from lance_spark.schema.projection import prune
from lance_spark.table.bases import Bases
from lance_spark.table.blob_columns import holds_values
from lance_spark.table.deletion_vector import DeletionVector
from lance_spark.table.fragment import DataFile, DataFragment
from lance_spark.table.row_address import MAX_ROWS_PER_FRAGMENT

_FEW_RANGES = 16


class FragmentReader:
    """One fragment, open for reading. Files are opened when a column of theirs is first asked for."""

    def __init__(self, fragment: DataFragment, bases: Bases) -> None:
        self._fragment = fragment
        self._bases = bases
        self._files: dict[DataFile, FileReader] = {}
        self._num_rows: int | None = None
        self._deletions: DeletionVector | None = None

    @property
    def num_rows(self) -> int:
        """Rows in the data files, deleted ones included.

        Raises:
            CorruptFileError: neither the manifest nor a data file tells.
        """
        if self._num_rows is None:
            rows = self._fragment.physical_rows
            if rows is None:
                rows = self._open(self._fragment.files[0]).num_rows if self._fragment.files else 0
            if rows > MAX_ROWS_PER_FRAGMENT:
                raise CorruptFileError(f"fragment {self._fragment.id} says that it has {rows} rows")
            self._num_rows = rows
        return self._num_rows

    @property
    def deletions(self) -> DeletionVector:
        """The deleted rows."""
        if self._deletions is None:
            self._deletions = self._load_deletions()
        return self._deletions

    def num_live_rows(self) -> int:
        """Rows that are not deleted."""
        return self.num_rows - len(self.deletions)

    def read(self, fields: Sequence[Field], rows: RowRanges) -> list[pa.ChunkedArray]:
        """The values of top-level `fields` at `rows` (numbered with the deleted ones), one array a field.

        Raises:
            CorruptFileError: the files contradict the format or each other.
        """
        if not fields or rows.num_rows == 0:
            return [pa.chunked_array([], to_arrow_type(field)) for field in fields]
        span = int(rows.stops[-1]) - int(rows.starts[0])
        if len(rows.starts) > _FEW_RANGES and rows.num_rows * 2 > span:
            # Most rows of a window are wanted: decoding all of it is cheaper than stepping over the others.
            first = int(rows.starts[0])
            whole = self._read(fields, RowRanges.of(first, int(rows.stops[-1])))
            positions = pa.array(rows.indices() - first)
            return [column.take(positions) for column in whole]
        return self._read(fields, rows)

    def encoded_widths(self, fields: Sequence[Field]) -> dict[FieldId, float]:
        """For each of top-level `fields` about how many bytes of the files a row of it takes."""
        widths = {field.id: 0.0 for field in fields}
        for file, held in self._held(fields):
            reader = self._open(file)
            for part in held:
                num_bytes = reader.estimated_bytes([part], file.columns())
                widths[part.id] += num_bytes / max(reader.num_rows, 1)
        return widths

    def _held(self, fields: Sequence[Field]) -> list[tuple[DataFile, list[Field]]]:
        """For each file the parts of `fields` that it holds."""
        result = []
        for file in self._fragment.files:
            columns = file.columns()
            if any(holds_values(field, file.version) for field in fields):
                raise UnsupportedFeatureError(
                    "a blob column lies in files of 2.2 and of an older version; compact the table first",
                    feature="blob column in files of several versions",
                )
            parts = [_part(field, columns) for field in fields]
            held = [part for part in parts if part is not None]
            if held:
                result.append((file, held))
        return result

    def _read(self, fields: Sequence[Field], rows: RowRanges) -> list[pa.ChunkedArray]:
        parts: dict[FieldId, list[pa.ChunkedArray]] = {field.id: [] for field in fields}
        shared = self._split_fields(fields)
        for file, held in self._held(fields):
            whole = {field.id: field for field in fields}
            # A field that lies in this file alone is read whole: what the file lacks of it comes back as null.
            wanted = [part if part.id in shared else whole[part.id] for part in held]
            for field, column in zip(wanted, self._open(file).read(wanted, file.columns(), rows), strict=True):
                parts[field.id].append(column)
        return [merge_columns(field, parts[field.id], rows.num_rows) for field in fields]

    def _split_fields(self, fields: Sequence[Field]) -> set[FieldId]:
        """Ids of the fields that lie in more than one file."""
        seen: set[FieldId] = set()
        split: set[FieldId] = set()
        for _, held in self._held(fields):
            for part in held:
                (split if part.id in seen else seen).add(part.id)
        return split

    def _open(self, file: DataFile) -> FileReader:
        if file not in self._files:
            store, path = self._bases.data_file(file)
            reader = FileReader.open(store, path, size=file.size_bytes)
            expected = self._fragment.physical_rows
            if expected is not None and reader.num_rows != expected:
                raise CorruptFileError(
                    f"the file has {reader.num_rows} rows, fragment {self._fragment.id} has {expected}", path=path
                )
            self._files[file] = reader
        return self._files[file]

    def _load_deletions(self) -> DeletionVector:
        described = self._fragment.deletion_file
        if described is None:
            return DeletionVector.empty()
        store, path = self._bases.deletion_file(self._fragment.id, described)
        try:
            return DeletionVector.decode(
                described.file_type,
                store.read(path),
                physical_rows=self.num_rows,
                num_deleted_rows=described.num_deleted_rows,
            )
        except CorruptFileError as error:
            raise error.at(path=path) from None


def _part(field: Field, columns: dict[FieldId, int]) -> Field | None:
    """What a file with these `columns` holds of a top-level field; None if nothing."""
    if not any(node.id in columns for node in field.walk()):
        return None
    pruned = prune((field,), columns.keys())
    return pruned[0] if pruned else field


def row_ranges(rows: np.typing.NDArray[np.int64]) -> RowRanges:
    """Ascending, distinct row numbers (int64[n]) as ranges."""
    breaks = np.flatnonzero(np.diff(rows) != 1) + 1
    starts = rows[np.concatenate([np.zeros(min(len(rows), 1), np.int64), breaks])]
    ends = rows[np.concatenate([breaks - 1, np.full(min(len(rows), 1), len(rows) - 1, np.int64)])]
    return RowRanges(starts, ends + 1)
