"""Decodes windows of rows: filters them step by step, and makes batches of what is left."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark.expr.columns import resolve_names
from lance_spark.expr.nodes import Expr, referenced_columns
from lance_spark.layouts.arrow_take import filter_chunked
from lance_spark.layouts.base import RowRanges
from lance_spark.layouts.row_bits import RowBits
from lance_spark.schema.field import Field
from lance_spark.schema.number_types import elements
from lance_spark.table.reading.decoding.columns import ReadColumns
from lance_spark.table.reading.fragment_columns import FragmentColumns, SelectedFields
from lance_spark.table.reading.fragment_group import FragmentGroup
from lance_spark.table.reading.fragment_reader import FragmentReader
from lance_spark.table.reading.nested import narrowed
from lance_spark.table.reading.system_columns import SystemColumns

_LARGE_CHUNK = 1 << 16
"""Rows of a chunk on average, from which on a filter looks at each chunk by itself: joining them copies every value."""


@dataclass(frozen=True, slots=True)
class Source:
    """The columns of a fragment: those that each step of the filter reads, the others, and those that no file holds."""

    stages: tuple[FragmentColumns, ...]
    later: FragmentColumns
    lineage: SystemColumns

    @classmethod
    def of(cls, reader: FragmentReader | FragmentGroup, columns: ReadColumns, lineage: SystemColumns) -> Source:
        """Columns that a scan decodes of one fragment, or of several that are read together."""
        stages = tuple([reader.columns(stage.selected) for stage in columns.stages])
        return cls(stages, reader.columns(columns.later), lineage)

    def encoded_widths(self, columns: ReadColumns) -> list[tuple[Field, float]]:
        """The columns in the order in which they are read, each with its bytes per row in the files."""
        fields = [*(field for stage in columns.stages for field in stage.selected.fields), *columns.later.fields]
        widths = (width for read in (*self.stages, self.later) for width in read.encoded_widths)
        return list(zip(fields, widths, strict=True))


@dataclass(frozen=True, slots=True)
class Decoded:
    """Columns of a window, after the filter; `num_bytes` were decoded to get them, 0 if not measured."""

    columns: dict[str, pa.ChunkedArray]
    num_rows: int
    num_bytes: int


@dataclass(frozen=True)
class RowDecoder:
    """Decodes rows of the sources of a scan, whose attributes have the same names."""

    columns: ReadColumns
    time_zone: str
    batch_rows: int
    batch_bytes: int | None
    uncut: bool

    def decode(self, source: Source, rows: RowRanges, *, measured: bool = False) -> Decoded:
        """The output columns for those of `rows` that the filter keeps.

        Args:
            measured: whether the size of what was decoded is needed; it takes some microseconds a column.
        """
        columns: dict[str, pa.ChunkedArray] = {}
        num_rows, num_bytes = rows.num_rows, 0
        is_read_later = bool(self.columns.later.fields) or self.columns.has_system_output
        steps = zip(self.columns.stages, source.stages, self.columns.used_later, strict=True)
        for number, (stage, read, used) in enumerate(steps, start=1):
            found = _named(stage.selected, read.read(rows))
            num_bytes += _num_bytes(found) if measured else 0
            keep = self._matches(stage.condition, columns | found, source.lineage, rows)
            columns, num_rows = _filtered(columns | found, keep, used)
            if is_read_later or number < len(self.columns.stages):
                rows = _kept_rows(rows, keep, num_rows)
        if is_read_later:
            later = _named(self.columns.later, source.later.read(rows))
            num_bytes += _num_bytes(later) if measured else 0
            columns = self._with_system(columns | later, source.lineage, rows, self.columns.returned.names)
        return Decoded(columns, num_rows, num_bytes)

    def decode_at_once(
        self, reader: FragmentReader | FragmentGroup, lineage: SystemColumns, rows: RowRanges
    ) -> Decoded:
        """Decodes all columns for all of `rows` before it filters: for few rows, of which the filter keeps most."""
        selected = self.columns.all
        columns = _named(selected, reader.columns(selected).read(rows))
        num_rows, left = rows.num_rows, len(self.columns.stages)
        for stage, used in zip(self.columns.stages, self.columns.used_later, strict=True):
            left -= 1
            keep = self._matches(stage.condition, columns, lineage, rows)
            columns, num_rows = _filtered(columns, keep, used)
            rows = _kept_rows(rows, keep, num_rows) if left or self.columns.has_system_output else rows
        return Decoded(self._with_system(columns, lineage, rows, self.columns.returned.names), num_rows, 0)

    def matches(self, reader: FragmentReader, lineage: SystemColumns, rows: RowRanges) -> npt.NDArray[np.bool_]:
        """bool[rows.num_rows]: which rows of a fragment the filter keeps."""
        selected = self.columns.filtered
        columns = _named(selected, reader.columns(selected).read(rows))
        places = np.arange(rows.num_rows)
        found: npt.NDArray[np.bool_] = np.zeros(rows.num_rows, np.bool_)
        for stage in self.columns.stages:
            keep = self._matches(stage.condition, columns, lineage, rows)
            columns, num_rows = _filtered(columns, keep, columns.keys())
            places, rows = places[keep.to_numpy()], _kept_rows(rows, keep, num_rows)
        found[places] = True
        return found

    def batches(self, decoded: Decoded) -> Iterator[pa.RecordBatch]:
        """The rows of a window, cut as the scan says."""
        table = self._table(decoded.columns) if self.columns.returned.names else None
        if self.uncut and table is not None:
            # The chunks as they were decoded: joining them would copy every value.
            yield from table.to_batches()
            return
        batch_rows = self.batch_rows
        if table is not None and self.batch_bytes is not None and table.num_rows:
            batch_rows = min(batch_rows, max(1, self.batch_bytes * table.num_rows // max(1, table.nbytes)))
        for start in range(0, decoded.num_rows, batch_rows):
            num_rows = min(batch_rows, decoded.num_rows - start)
            if table is None:
                yield no_columns(num_rows)
            else:
                yield from table.slice(start, num_rows).combine_chunks().to_batches()

    def _matches(
        self, condition: Expr, columns: dict[str, pa.ChunkedArray], lineage: SystemColumns, rows: RowRanges
    ) -> pa.ChunkedArray:
        from lance_spark.expr.evaluate import evaluate_filter

        known = self.columns.returned.filterable
        tops = {resolve_names(known, path)[0] for path in referenced_columns(condition)}
        system = [name for name in tops if self.columns.is_system(name)]
        whole = self._with_system(columns, lineage, rows, system)
        batches = _batches_of(whole) if whole else [no_columns(rows.num_rows)]
        masks = [evaluate_filter(condition, batch, time_zone=self.time_zone) for batch in batches]
        keep = pa.chunked_array(masks, pa.bool_())
        return pa.chunked_array([keep.combine_chunks()]) if keep.num_chunks > 1 else keep

    def _with_system(
        self, columns: dict[str, pa.ChunkedArray], lineage: SystemColumns, rows: RowRanges, names: Sequence[str]
    ) -> dict[str, pa.ChunkedArray]:
        missing = [name for name in names if name not in columns]
        if not missing:
            return columns
        offsets = rows.indices()
        return columns | {name: pa.chunked_array([lineage.column(name, offsets)]) for name in missing}

    def _table(self, columns: dict[str, pa.ChunkedArray]) -> pa.Table:
        """The output columns in order and in their types."""
        schema = self.columns.returned.arrow_schema
        arrays = [columns[name] for name in self.columns.returned.names]
        for place in self.columns.wider:
            arrays[place] = narrowed(arrays[place], schema.field(place).type)
        return pa.Table.from_arrays(arrays, schema=schema)


def no_columns(num_rows: int) -> pa.RecordBatch:
    """A batch that has rows but no columns."""
    return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), num_rows, [None]))


def _filtered(
    columns: dict[str, pa.ChunkedArray], keep: pa.ChunkedArray, used: Collection[str]
) -> tuple[dict[str, pa.ChunkedArray], int]:
    """(those of `columns` that are `used`, only where `keep` is true; how many rows that are)."""
    num_rows = sum([chunk.true_count for chunk in keep.chunks])
    wanted = {name: column for name, column in columns.items() if name in used}
    if num_rows < len(keep):
        wanted = {name: filter_chunked(column, keep) for name, column in wanted.items()}
    return wanted, num_rows


def _kept_rows(rows: RowRanges, keep: pa.ChunkedArray, num_kept: int) -> RowRanges:
    import pyarrow.compute as pc

    if num_kept == rows.num_rows:
        return rows
    if keep.num_chunks > 1 or len(rows.starts) > 1:
        return RowRanges.of_numbers(rows.numbers(elements(pc.indices_nonzero(keep), np.dtype(np.int64))))
    return RowBits(keep.chunk(0), int(rows.starts[0]), num_kept)


def _named(selected: SelectedFields, columns: Sequence[pa.ChunkedArray]) -> dict[str, pa.ChunkedArray]:
    return {field.name: column for field, column in zip(selected.fields, columns, strict=True)}


def _batches_of(columns: dict[str, pa.ChunkedArray]) -> list[pa.RecordBatch]:
    """The rows of columns in few batches; small chunks are joined."""
    if all(column.num_chunks == 1 for column in columns.values()):
        return [pa.RecordBatch.from_arrays([column.chunk(0) for column in columns.values()], list(columns))]
    table = pa.table(columns)
    if table.num_rows <= _LARGE_CHUNK * max(column.num_chunks for column in columns.values()):
        table = table.combine_chunks()
    batches: list[pa.RecordBatch] = table.to_batches()
    return batches


def _num_bytes(columns: dict[str, pa.ChunkedArray]) -> int:
    return sum(column.nbytes for column in columns.values())
