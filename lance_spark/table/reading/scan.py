"""Reading the rows of a version: which columns, which rows, in which order.

A `Scan` is a plan. It knows the schema, the bases and the filter, but neither the manifest nor a fragment, so it can be
pickled to a task that gets its fragments one by one. Rows come in the order of the fragments and, inside of a fragment,
in the order in which they were written; deleted ones are left out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from itertools import groupby, islice
from math import inf
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

from lance_spark.encodings.blocks import Int64Array
from lance_spark.errors import CorruptFileError, InvalidInputError, NotFoundError, UnsupportedFeatureError
from lance_spark.expr.columns import compared_columns, resolve_names
from lance_spark.expr.evaluate import check_filter, evaluate_filter
from lance_spark.expr.nodes import And, Column, Expr, conjunction, referenced_columns
from lance_spark.expr.sql import to_expr
from lance_spark.layouts.arrow_take import filter_chunked
from lance_spark.layouts.base import RowRanges
from lance_spark.schema.arrow import to_arrow_field, to_arrow_schema
from lance_spark.schema.field import Field, FieldId, LanceSchema
from lance_spark.schema.projection import FieldFinder, project, prune
from lance_spark.schema.remembered import Remembered
from lance_spark.storage.cache import cached_part
from lance_spark.storage.overlap import overlapped
from lance_spark.table.bases import Bases
from lance_spark.table.reading.fragment_columns import FragmentColumns
from lance_spark.table.reading.fragment_group import FIRST_GROUP, LARGEST_GROUP, FragmentGroup, grouped
from lance_spark.table.reading.fragment_reader import FragmentReader, row_ranges
from lance_spark.table.reading.nested import narrowed
from lance_spark.table.reading.parallel_reads import Part, read_ahead, read_parts
from lance_spark.table.reading.row_group_pruning import matching_row_groups
from lance_spark.table.reading.system_columns import (
    ROW_ADDRESS,
    ROW_ID,
    SYSTEM_FIELDS,
    RowLineage,
    SystemColumns,
    filterable,
)
from lance_spark.table.reading.window import Window, fits_one_window, fixed_width, window_bytes_of
from lance_spark.table.rows.fragment import DataFragment, FragmentList

_SCATTERED_WINDOWS = 8
"""How many times as many rows are read at a time where only some of them are asked for."""

_OF_ONE_FRAGMENT = (CorruptFileError, InvalidInputError, NotFoundError, UnsupportedFeatureError)
"""Errors that one of several fragments causes; a failure of the store is not repeated."""

_MAX_FILTERED = 64
"""Conditions whose scans are kept."""

_BYTES_PER_FIELD = 512
"""About what the Arrow form of a field takes in memory."""

DEFAULT_BATCH_ROWS = 8192
DEFAULT_WINDOW_BYTES = 64 << 20
"""About how many bytes of Arrow data a scan decodes at a time."""


_projections: Remembered[LanceSchema] = Remembered()

FragmentRows = tuple[DataFragment, int, int | None, Int64Array | None]
"""Physical rows [start, stop) of a fragment, None for its end; if there are offsets (ascending), those among them."""


@dataclass(frozen=True)
class Scan:
    """What to read.

    Attributes:
        schema: the table's schema.
        bases: where the files are.
        output: names of the columns of a batch, in order: top-level fields of `projection` and system columns.
        projection: the data columns to return, nested fields that are not asked for left out.
        filter: returns only rows for which it is true; its columns need not be in `output`.
        stable_row_ids: whether the table has them.
        batch_rows: rows of a batch at most.
        batch_bytes: about how many bytes of Arrow data a batch has at most; None for no bound.
        window_bytes: about how much is decoded at a time; on a remote store, twice that of a large fragment.
        time_zone: the zone of timestamps in the filter that name none.
        uncut: returns batches as they were decoded, whatever `batch_rows` says.
    """

    schema: LanceSchema
    bases: Bases
    output: tuple[str, ...]
    projection: LanceSchema
    filter: Expr | None = None
    stable_row_ids: bool = False
    batch_rows: int = DEFAULT_BATCH_ROWS
    batch_bytes: int | None = None
    window_bytes: int = DEFAULT_WINDOW_BYTES
    time_zone: str = "UTC"
    uncut: bool = False

    @classmethod
    def of(
        cls,
        schema: LanceSchema,
        bases: Bases,
        *,
        columns: Sequence[str] | None = None,
        filter: Expr | str | None = None,
        with_row_id: bool = False,
        with_row_address: bool = False,
        stable_row_ids: bool = False,
        batch_rows: int | None = None,
        window_bytes: int = DEFAULT_WINDOW_BYTES,
        time_zone: str = "UTC",
    ) -> Scan:
        """A plan from what a user asks for.

        Args:
            columns: names, dotted paths into structs, and system columns; None for all data columns.
            filter: a tree, or SQL text.

        Raises:
            NotFoundError: no such column.
            InvalidInputError: the filter or an argument is invalid.
        """
        if batch_rows is not None and batch_rows < 1:
            raise InvalidInputError(f"a batch cannot have {batch_rows} rows")
        names = set(schema.names())
        asked = list(columns) if columns is not None else list(schema.names())
        system = [name for name in asked if name in SYSTEM_FIELDS and name not in names]
        wanted = tuple(name for name in asked if name not in system)
        projection = (
            schema if columns is None else _projections((schema,), wanted, lambda: project(schema, list(wanted)))
        )
        output = asked if columns is None else _output(schema, asked, system)
        output += [name for name, on in ((ROW_ID, with_row_id), (ROW_ADDRESS, with_row_address)) if on]
        scan = cls(
            schema=schema,
            bases=bases,
            output=tuple(dict.fromkeys(output)),
            projection=projection,
            filter=None if filter is None else to_expr(filter, time_zone=time_zone),
            stable_row_ids=stable_row_ids,
            batch_rows=batch_rows or DEFAULT_BATCH_ROWS,
            window_bytes=window_bytes,
            time_zone=time_zone,
        )
        if scan.filter is not None:
            check_filter(scan.filter, scan._filterable, time_zone=time_zone)
        return scan

    def __getstate__(self) -> dict[str, Any]:
        # Without what is worked out again where the plan is used.
        return {part.name: getattr(self, part.name) for part in fields(self)}

    def filtered(self, condition: Expr) -> Scan:
        """Those rows of a scan without a filter for which a condition is true. Scans of the last conditions are kept.

        Raises:
            NotFoundError: no such column.
            InvalidInputError: the condition is invalid.
        """
        kept = self._filtered.get(id(condition))
        # What is kept keeps its condition alive, so that no other can have its identity.
        if kept is not None and kept.filter is condition:
            return kept
        check_filter(condition, self._filterable, time_zone=self.time_zone)
        if len(self._filtered) >= _MAX_FILTERED:
            self._filtered.clear()
        scan = self._filtered[id(condition)] = replace(self, filter=condition)
        return scan

    @cached_property
    def _filtered(self) -> dict[int, Scan]:
        return {}

    @cached_property
    def as_decoded(self) -> Scan:
        """The same rows, in batches as they were decoded."""
        return replace(self, uncut=True)

    @cached_property
    def arrow_schema(self) -> pa.Schema:
        """The schema of the batches."""
        fields = {field.name: to_arrow_field(field) for field in self.projection.fields}
        metadata = to_arrow_schema(LanceSchema((), self.schema.metadata)).metadata
        return pa.schema([fields.get(name, SYSTEM_FIELDS.get(name)) for name in self.output], metadata=metadata)

    @cached_property
    def decoded(self) -> LanceSchema:
        """The data columns that are read: those of the output and of the filter."""
        return LanceSchema((*self._filter_fields, *self._later_fields))

    def read_fragment(
        self, fragment: DataFragment, *, start: int = 0, stop: int | None = None, offsets: Int64Array | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a fragment, or of its part [start, stop), counted with the deleted rows.

        Args:
            offsets: int64[n], ascending, distinct: the rows to read, deleted or not; None for all that are not deleted.

        Raises:
            CorruptFileError: a file contradicts the format.
            NotFoundError: a file is missing, usually because a clean-up has removed the version.
            InvalidInputError: the filter fails on a value.
        """
        with self.bases.reading():
            reader = FragmentReader(fragment, self.bases)
            end = reader.num_rows if stop is None else min(stop, reader.num_rows)
            if start >= end:
                return
            source = _Source(
                tuple(reader.columns(stage.fields, self.schema.fields) for stage in self._stages),
                reader.columns(self._later_fields, self.schema.fields),
                RowLineage(fragment, reader, self.stable_row_ids),
            )
            window = self._window(fragment, source, reader.num_rows if offsets is None else len(offsets))

            def decode(item: tuple[RowRanges, bool]) -> _Decoded:
                rows, is_last = item
                decoded = self._decode(source, rows, measured=not is_last)
                if not is_last:
                    window.adapt(rows.num_rows, decoded.num_bytes)
                return decoded

            windows = self._windows(reader, window, start, end, offsets)
            for decoded in read_ahead(decode, windows, is_remote=self.bases.reads_at_once > 1):
                yield from self._batches(decoded)

    def _windows(
        self, reader: FragmentReader, window: Window, start: int, end: int, offsets: Int64Array | None
    ) -> Iterator[tuple[RowRanges, bool]]:
        """The rows to decode at a time, as many as `window` says when they are asked for; True for the last ones."""
        for first, stop_row in self._row_spans(reader):
            start = max(start, first)
            while start < min(end, stop_row):
                # Of scattered rows much less is kept than is decoded.
                size = window.num_rows if offsets is None else window.num_rows * _SCATTERED_WINDOWS
                last = min(start + size, end, stop_row)
                rows = reader.deletions.live_rows(start, last) if offsets is None else _between(offsets, start, last)
                start = last
                if rows.num_rows:
                    yield rows, start >= end

    def read_fragments(
        self, fragments: Iterable[DataFragment], *, at_once: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The rows of several fragments, in order; small ones are read together. Raises as `read_fragment`.

        Args:
            at_once: read that many together at first at most; None for no expectation.
        """
        return self._read_parts(self._parts_of_fragments(fragments, at_once or FIRST_GROUP))

    def read_slices(self, slices: Iterable[FragmentRows]) -> Iterator[pa.RecordBatch]:
        """The rows of each slice, in order. Raises as `read_fragment`."""
        return self._read_parts(self._parts_of_slices(slices))

    def _read_parts(self, parts: Iterable[Part]) -> Iterator[pa.RecordBatch]:
        return read_parts(parts, at_once=self.bases.reads_at_once, window_bytes=self.window_bytes)

    def _parts_of_fragments(self, fragments: Iterable[DataFragment], first: int) -> Iterator[Part]:
        for group in grouped(fragments, self.decoded.fields, self.window_bytes, first=first):
            yield Part(partial(self._read_group, group), sum(map(self._decoded_bytes, group)))

    def _parts_of_slices(self, slices: Iterable[FragmentRows]) -> Iterator[Part]:
        for is_whole, run in groupby(slices, _is_whole):
            if is_whole:
                yield from self._parts_of_fragments((fragment for fragment, *_ in run), FIRST_GROUP)
                continue
            for fragment, start, stop, offsets in run:
                read = partial(self.read_fragment, fragment, start=start, stop=stop, offsets=offsets)
                yield Part(read, self._decoded_bytes(fragment))

    def _decoded_bytes(self, fragment: DataFragment) -> float:
        """About the most bytes that the columns of a fragment decode to; infinite if that is not known."""
        sizes = [file.size_bytes for file in fragment.files]
        known = [size for size in sizes if size is not None]
        if fragment.physical_rows is None or len(known) < len(sizes):
            return inf
        return window_bytes_of(self._fixed_widths, fragment.physical_rows, sum(known))

    @cached_property
    def _fixed_widths(self) -> list[float | None]:
        return [fixed_width(field) for field in self.decoded.fields]

    def _read_group(self, group: Sequence[DataFragment]) -> Iterator[pa.RecordBatch]:
        if len(group) == 1:
            yield from self.read_fragment(group[0])
            return
        try:
            decoded = self._decode_group(group)
        except _OF_ONE_FRAGMENT:
            # One by one, so that the error names the file, and comes after the rows before it.
            for fragment in group:
                yield from self.read_fragment(fragment)
        else:
            if decoded.num_rows:
                yield from self._batches(decoded)

    def _decode_group(self, fragments: Sequence[DataFragment]) -> _Decoded:
        """The rows of small fragments of one shape."""
        reader = FragmentGroup(fragments, self.bases, self.stable_row_ids)
        source = _Source(
            tuple(reader.columns(stage.fields, self.schema.fields) for stage in self._stages),
            reader.columns(self._later_fields, self.schema.fields),
            reader,
        )
        return self._decode(source, reader.deletions.live_rows(0, reader.num_rows))

    def _row_spans(self, reader: FragmentReader) -> list[tuple[int, int]]:
        """The rows that statistics of the data files do not rule out, as (start, stop) in ascending order."""
        files = [] if self.filter is None else reader.row_group_files()
        if self.filter is None or not files:
            return [(0, reader.num_rows)]
        return matching_row_groups(self.filter, self.schema, files, reader.num_rows, time_zone=self.time_zone)

    def count(self, fragment: DataFragment) -> int:
        """The rows of a fragment that the scan returns; without a filter as the manifest says, if it does."""
        if self.filter is None:
            known = fragment.num_rows
            with self.bases.reading():
                return FragmentReader(fragment, self.bases).num_live_rows() if known is None else known
        return sum(batch.num_rows for batch in self.read_fragment(fragment))

    def total(self, fragments: FragmentList) -> int:
        """The rows of all `fragments` that the scan returns."""
        if self.filter is None:
            return sum(self.counts(fragments))
        return sum(batch.num_rows for batch in self.read_fragments(fragments))

    def counts(self, fragments: FragmentList) -> list[int]:
        """`count` of each fragment."""
        if self.filter is not None:
            return [self.count(fragment) for fragment in fragments]
        known = fragments.row_counts()
        return [self.count(fragments[place]) if rows is None else rows for place, rows in enumerate(known)]

    def matches(self, fragment: DataFragment, offsets: Int64Array) -> npt.NDArray[np.bool_]:
        """Which rows of a fragment the filter keeps: bool[n].

        Args:
            offsets: int64[n], ascending, distinct: the rows, deleted or not.
        """
        if self.filter is None:
            return np.ones(len(offsets), np.bool_)
        with self.bases.reading():
            reader = FragmentReader(fragment, self.bases)
            rows = row_ranges(offsets)
            columns = _named(self._filter_fields, reader.columns(self._filter_fields, self.schema.fields).read(rows))
            lineage = RowLineage(fragment, reader, self.stable_row_ids)
            kept: npt.NDArray[np.bool_] = self._matches(self.filter, columns, lineage, rows).to_numpy()
        return kept

    def read_rows(self, fragment: DataFragment, positions: Int64Array) -> pa.Table:
        """The live rows number `positions` (int64[n], ascending, distinct) of a fragment, the filter left aside.

        There must be an output column.
        """
        with self.bases.reading():
            reader = FragmentReader(fragment, self.bases)
            lineage = RowLineage(fragment, reader, self.stable_row_ids)
            return self._rows_of(reader, lineage, reader.deletions.offsets_of_live(positions))

    def read_rows_of_fragments(self, wanted: Sequence[tuple[DataFragment, Int64Array]]) -> Iterator[pa.Table]:
        """`read_rows` of several fragments, in order; small ones are read together."""
        if len(wanted) == 1:
            yield self.read_rows(*wanted[0])
            return
        positions = {fragment.id: places for fragment, places in wanted}
        fragments = [fragment for fragment, _ in wanted]

        def read(group: Sequence[DataFragment]) -> list[pa.Table]:
            if len(group) > 1:
                try:
                    return [self._read_rows_of_group(group, [positions[fragment.id] for fragment in group])]
                except _OF_ONE_FRAGMENT:
                    # One by one, so that the error names the file.
                    pass
            return [self.read_rows(fragment, positions[fragment.id]) for fragment in group]

        at_once = self.bases.reads_at_once
        groups = grouped(fragments, self.projection.fields, self.window_bytes, first=LARGEST_GROUP)
        while some := list(islice(groups, at_once)):
            for tables in overlapped(read, some, at_once):
                yield from tables

    def _read_rows_of_group(self, fragments: Sequence[DataFragment], positions: Sequence[Int64Array]) -> pa.Table:
        reader = FragmentGroup(fragments, self.bases, self.stable_row_ids)
        return self._rows_of(reader, reader, reader.offsets_of_live(positions))

    def _rows_of(self, reader: FragmentReader | FragmentGroup, lineage: SystemColumns, offsets: Int64Array) -> pa.Table:
        rows = row_ranges(offsets)
        fields = self.projection.fields
        read = reader.columns(fields, self.schema.fields).read(rows)
        return self._table(self._with_system(_named(fields, read), lineage, rows, self.output))

    @cached_property
    def _filter_fields(self) -> tuple[Field, ...]:
        return () if self.filter is None else self._fields_of(self.filter)

    @cached_property
    def _stages(self) -> tuple[_Stage, ...]:
        """The filter in steps, each of which reads columns only for the rows that those before have kept.

        What compares numbers with constants comes first: it is cheap, and cannot fail. All other terms stay together,
        so that one of them still keeps errors of the next one away.
        """
        if self.filter is None:
            return ()
        terms = self.filter.terms if isinstance(self.filter, And) else (self.filter,)
        first = conjunction(tuple(term for term in terms if self._is_quick(term)))
        later = conjunction(tuple(term for term in terms if not self._is_quick(term)))
        if first is None or later is None:
            return (_Stage(self.filter, self._filter_fields),)
        read = self._fields_of(first)
        names = {field.name for field in read}
        return (
            _Stage(first, read),
            _Stage(later, tuple(field for field in self._fields_of(later) if field.name not in names)),
        )

    def _is_quick(self, term: Expr) -> bool:
        columns = compared_columns(term)
        return bool(columns) and all(self._is_number(column) for column in columns)

    @cached_property
    def _filterable(self) -> pa.Schema:
        """What the filter may name; made once, for every term of the filter looks into it."""
        schema = self.schema

        def make() -> tuple[pa.Schema, int]:
            return filterable(to_arrow_schema(schema)), _BYTES_PER_FIELD * len(schema.fields)

        return cached_part(schema, "filterable", make)

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(self.schema.names())

    def _is_number(self, column: Column) -> bool:
        known = self._filterable
        path = resolve_names(known, column.path)
        return len(path) == 1 and not self._is_system(path[0]) and pt.is_primitive(known.field(path[0]).type)

    def _fields_of(self, condition: Expr) -> tuple[Field, ...]:
        """The fields that a condition needs, each with what the output wants of it too."""
        known = self._filterable
        paths = [resolve_names(known, path) for path in referenced_columns(condition)]
        filtered = project(self.schema, [path for path in paths if not self._is_system(path[0])]).fields
        names = {field.name for field in filtered}
        ids = _ids(filtered) | _ids(field for field in self.projection.fields if field.name in names)
        return prune([field for field in self.schema.fields if field.name in names], ids)

    @cached_property
    def _later_fields(self) -> tuple[Field, ...]:
        if self.filter is None:
            # The same object in every plan of the projection, by which files know what they have prepared.
            return self.projection.fields
        first = {field.name for field in self._filter_fields}
        return tuple(field for field in self.projection.fields if field.name not in first)

    def _is_system(self, name: str) -> bool:
        return name in SYSTEM_FIELDS and name not in self._names

    def _window(self, fragment: DataFragment, source: _Source, num_rows: int) -> Window:
        sizes = [file.size_bytes for file in fragment.files]
        known = [size for size in sizes if size is not None]
        if len(known) == len(sizes) and fits_one_window(self.window_bytes, self._fixed_widths, num_rows, sum(known)):
            # The widths of columns cost more than to read a few rows, and they need one window anyway.
            return Window(self.window_bytes, self.batch_rows, ())
        return Window(self.window_bytes, self.batch_rows, self._widths(source))

    def _widths(self, source: _Source) -> list[tuple[Field, float]]:
        fields = [*(field for stage in self._stages for field in stage.fields), *self._later_fields]
        sources = (*source.stages, source.later)
        return list(zip(fields, (width for columns in sources for width in columns.encoded_widths()), strict=True))

    def _decode(self, source: _Source, rows: RowRanges, *, measured: bool = False) -> _Decoded:
        """The output columns for those of `rows` that the filter keeps.

        Args:
            measured: whether the size of what was decoded is needed; it takes some microseconds a column.
        """
        columns: dict[str, pa.ChunkedArray] = {}
        num_bytes = 0
        for stage, read in zip(self._stages, source.stages, strict=True):
            found = _named(stage.fields, read.read(rows))
            num_bytes += _num_bytes(found) if measured else 0
            columns |= found
            keep = self._matches(stage.condition, columns, source.lineage, rows)
            kept = rows.numbers(np.flatnonzero(keep.to_numpy()))
            if len(kept) < rows.num_rows:
                rows = row_ranges(kept)
                columns = {name: filter_chunked(column, keep) for name, column in columns.items()}
        later = _named(self._later_fields, source.later.read(rows))
        columns = self._with_system(columns | later, source.lineage, rows, self.output)
        return _Decoded(columns, rows.num_rows, num_bytes + (_num_bytes(later) if measured else 0))

    def _matches(
        self, condition: Expr, columns: dict[str, pa.ChunkedArray], lineage: SystemColumns, rows: RowRanges
    ) -> pa.ChunkedArray:
        """bool[rows.num_rows] without nulls: which rows a condition keeps."""
        known = self._filterable
        tops = {resolve_names(known, path)[0] for path in referenced_columns(condition)}
        whole = self._with_system(columns, lineage, rows, [name for name in tops if self._is_system(name)])
        batches = _batches_of(whole) if whole else [no_columns(rows.num_rows)]
        masks = [evaluate_filter(condition, batch, time_zone=self.time_zone) for batch in batches]
        return pa.chunked_array(masks, pa.bool_())

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
        arrays = [columns[name] for name in self.output]
        for place in self._wider:
            arrays[place] = narrowed(arrays[place], self.arrow_schema.field(place).type)
        return pa.Table.from_arrays(arrays, schema=self.arrow_schema)

    @cached_property
    def _wider(self) -> list[int]:
        """The places of output columns of which the filter reads more than is returned."""
        filtered = {field.name for field in self._filter_fields}
        return [place for place, name in enumerate(self.output) if name in filtered]

    def _batches(self, decoded: _Decoded) -> Iterator[pa.RecordBatch]:
        table = self._table(decoded.columns) if self.output else None
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


@dataclass(frozen=True, slots=True)
class _Stage:
    """A step of the filter: `fields` are those that no step before has read."""

    condition: Expr
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class _Source:
    """The columns of a fragment: those that each step of the filter reads, the others, and those that no file holds."""

    stages: tuple[FragmentColumns, ...]
    later: FragmentColumns
    lineage: SystemColumns


@dataclass(frozen=True, slots=True)
class _Decoded:
    """Columns of a window, after the filter; `num_bytes` were decoded to get them, 0 if not measured."""

    columns: dict[str, pa.ChunkedArray]
    num_rows: int
    num_bytes: int


def _is_whole(piece: FragmentRows) -> bool:
    fragment, start, stop, offsets = piece
    reaches_end = stop is None or (fragment.physical_rows is not None and stop >= fragment.physical_rows)
    return start == 0 and reaches_end and offsets is None


def _between(offsets: Int64Array, start: int, stop: int) -> RowRanges:
    first, last = np.searchsorted(offsets, [start, stop])
    return row_ranges(offsets[first:last])


def _output(schema: LanceSchema, asked: Sequence[str], system: Collection[str]) -> list[str]:
    """Names of the top-level output columns, each where it is first asked for."""
    tops = set(schema.names()) | set(system)
    finder = FieldFinder(schema)
    return [name if name in tops else finder.find(finder.names(name))[0].name for name in asked]


def _named(fields: Sequence[Field], columns: Sequence[pa.ChunkedArray]) -> dict[str, pa.ChunkedArray]:
    return {field.name: column for field, column in zip(fields, columns, strict=True)}


def _batches_of(columns: dict[str, pa.ChunkedArray]) -> list[pa.RecordBatch]:
    """The rows of columns, mostly as one batch; texts of more than 2 GiB do not fit into one."""
    if all(column.num_chunks == 1 for column in columns.values()):
        return [pa.RecordBatch.from_arrays([column.chunk(0) for column in columns.values()], list(columns))]
    batches: list[pa.RecordBatch] = pa.table(columns).combine_chunks().to_batches()
    return batches


def _num_bytes(columns: dict[str, pa.ChunkedArray]) -> int:
    return sum(column.nbytes for column in columns.values())


def _ids(fields: Iterable[Field]) -> set[FieldId]:
    return {node.id for field in fields for node in field.walk()}


def no_columns(num_rows: int) -> pa.RecordBatch:
    """A batch that has rows but no columns."""
    return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), num_rows, [None]))
