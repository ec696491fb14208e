"""Reading the rows of a version: which columns, which rows, in which order.

A `Scan` is a plan. It knows the schema, the bases and the filter, but neither the manifest nor a fragment, so it can be
pickled to a task that gets its fragments one by one. Rows come in the order of the fragments and, inside of a fragment,
in the order in which they were written; deleted ones are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import groupby, islice
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark.cached import cached_property
from lance_spark.encodings.blocks import Int64Array
from lance_spark.errors import CorruptFileError, InvalidInputError, NotFoundError, UnsupportedFeatureError
from lance_spark.expr.evaluate import check_filter
from lance_spark.expr.nodes import Expr
from lance_spark.expr.sql.parse import to_expr
from lance_spark.expr.text.members import without_members
from lance_spark.layouts.base import RowRanges
from lance_spark.schema.field import LanceSchema
from lance_spark.schema.projection import project
from lance_spark.schema.remembered import Remembered
from lance_spark.storage.overlap import overlapped
from lance_spark.table.bases import Bases
from lance_spark.table.reading.decoding.columns import ReadColumns, output_names
from lance_spark.table.reading.decoding.few_rows import picked_rows
from lance_spark.table.reading.decoding.fragment_rows import (
    FragmentRows,
    SliceForm,
    form_of,
    offsets_within,
    ranges_within,
)
from lance_spark.table.reading.decoding.output_columns import OutputColumns
from lance_spark.table.reading.decoding.rows import Decoded, RowDecoder, Source
from lance_spark.table.reading.decoding.single_rows import RowsOfFragment, SingleRowColumns
from lance_spark.table.reading.fragment_group import FIRST_GROUP, LARGEST_GROUP, FragmentGroup, grouped
from lance_spark.table.reading.fragment_reader import FragmentReader
from lance_spark.table.reading.parallel_reads import Part, read_ahead, read_parts
from lance_spark.table.reading.row_group_pruning import matching_row_groups
from lance_spark.table.reading.system_columns import (
    ROW_ADDRESS,
    ROW_ID,
    SYSTEM_FIELDS,
    RowLineage,
    flagged,
)
from lance_spark.table.reading.window import Window, fits_one_window
from lance_spark.table.rows.fragment import DataFragment, FragmentList

_SCATTERED_WINDOWS = 8
"""How many times as many rows are read at a time where only some of them are asked for."""

_OF_ONE_FRAGMENT = (CorruptFileError, InvalidInputError, NotFoundError, UnsupportedFeatureError)
"""Errors that one of several fragments causes; a failure of the store is not repeated."""

_FEW_ROWS = 64
_FEW_BYTES = 1 << 20
"""Up to this many rows and bytes, all columns are read with those of the filter, which spares a step."""

_FEW_IN_A_RUN = 16384
_FEW_BYTES_IN_A_RUN = 32
"""The same for this many rows side by side, such as those of zones, of no more bytes each."""

_FEW_FRAGMENTS = 8
"""Up to this many, all rows are read fragment by fragment; more are decoded together, if they are small."""

_KEPT_WINDOW_BYTES = 256 << 20
"""Each part of a page decodes its dictionary again: 20,000 rows of 2,000 columns take half the time in one window."""

_OPEN_BYTES = 64 << 20
"""About what the fragments that stay open take; one of 2,000 columns takes 2 MB for each of its files, and a deleted
row 8 bytes."""

DEFAULT_BATCH_ROWS = 8192
DEFAULT_WINDOW_BYTES = 64 << 20
"""About how many bytes of Arrow data a scan decodes at a time."""


_returned: Remembered[OutputColumns] = Remembered()
_readers: Remembered[FragmentReader] = Remembered(most_bytes=_OPEN_BYTES, size_of=lambda reader: reader.held_bytes)


@dataclass(frozen=True)
class Scan:
    """A plan of a read: its columns, its filter and the sizes of its batches.

    Attributes:
        returned: the columns of the batches.
        bases: where the files are.
        filter: returns only rows for which it is true; its columns need not be in `returned`.
        stable_row_ids: whether the table has them.
        batch_rows: rows of a batch at most.
        batch_bytes: about how many bytes of Arrow data a batch has at most; None for no bound.
        window_bytes: about how much is decoded at a time; on a remote store, twice that of a large fragment.
        time_zone: the zone of timestamps in the filter that name none.
        uncut: returns batches as they were decoded, whatever `batch_rows` says.
    """

    returned: OutputColumns
    bases: Bases
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
            columns: names, dotted paths into structs, and system columns; None for all data columns. Structs have only
                the fields that are named.
            filter: a tree, or SQL text.

        Raises:
            NotFoundError: no such column.
            InvalidInputError: the filter or an argument is invalid.
        """
        if batch_rows is not None and batch_rows < 1:
            raise InvalidInputError(f"a batch cannot have {batch_rows} rows")
        names = set(schema.names())
        asked = list(columns) if columns is not None else list(schema.names())
        if names.issuperset(asked):
            wanted, output = tuple(asked), asked
        else:
            system = [name for name in asked if name in SYSTEM_FIELDS and name not in names]
            wanted, output = tuple([name for name in asked if name not in system]), output_names(schema, asked, system)
        last = flagged(with_row_id, with_row_address)
        if last:
            output = [*(name for name in output if name not in last), *last]
        shown = tuple(dict.fromkeys(output))

        def make() -> OutputColumns:
            return OutputColumns(schema, schema if columns is None else project(schema, wanted), shown)

        scan = cls(
            returned=_returned((schema,), (columns is None, wanted, shown), make),
            bases=bases,
            filter=None if filter is None else to_expr(filter, time_zone=time_zone),
            stable_row_ids=stable_row_ids,
            batch_rows=batch_rows or DEFAULT_BATCH_ROWS,
            window_bytes=window_bytes,
            time_zone=time_zone,
        )
        if scan.filter is not None:
            known = scan.returned.filterable
            check_filter(without_members(scan.filter, known), known, time_zone=time_zone)
        return scan

    def __getstate__(self) -> dict[str, Any]:
        # Without what is worked out again where the plan is used.
        return {name: self.__dict__[name] for name in _FIELDS}

    @property
    def schema(self) -> LanceSchema:
        """The table's schema."""
        return self.returned.schema

    @property
    def projection(self) -> LanceSchema:
        """The data columns of the batches."""
        return self.returned.projection

    @property
    def output(self) -> tuple[str, ...]:
        """The names of the columns of a batch, in order."""
        return self.returned.names

    def returning(self, projection: LanceSchema, output: tuple[str, ...], schema: LanceSchema | None = None) -> Scan:
        """A copy of this scan with other columns in its batches.

        Args:
            projection, output: as the attributes of `OutputColumns`.
            schema: the table's schema, if it is another one.
        """
        return replace(self, returned=OutputColumns(schema or self.schema, projection, output))

    def filtered(self, condition: Expr) -> Scan:
        """A copy of this scan with a filter in place of its own.

        Raises:
            NotFoundError: no such column.
            InvalidInputError: the condition is invalid.
        """
        check_filter(condition, self.returned.filterable, time_zone=self.time_zone)
        return replace(self, filter=condition)._based_on(self.without_filter)

    @cached_property
    def without_filter(self) -> Scan:
        """All rows, for a reader that knows those which the filter keeps."""
        return self if self.filter is None else replace(self, filter=None)

    def _based_on(self, unfiltered: Scan) -> Scan:
        # Filters of one plan share what it has prepared. A copy with other bases or columns does not inherit it.
        self.__dict__["without_filter"] = unfiltered
        return self

    @cached_property
    def as_decoded(self) -> Scan:
        """The same rows, in batches as they were decoded."""
        scan = replace(self, uncut=True)
        return scan if self.filter is None else scan._based_on(self.without_filter.as_decoded)

    @cached_property
    def with_addresses(self) -> Scan:
        """`as_decoded`, with the addresses of rows as the last column."""
        return self._with_last(ROW_ADDRESS)

    @cached_property
    def with_ids(self) -> Scan:
        """`with_addresses`, before them the row ids if the table has stable ones: else the address is the id."""
        return self._with_last(ROW_ID, ROW_ADDRESS) if self.stable_row_ids else self.with_addresses

    def _with_last(self, *names: str) -> Scan:
        others = [name for name in self.output if name not in names]
        return self.as_decoded.returning(self.projection, (*others, *names))

    @property
    def all_in_memory(self) -> Scan:
        """`as_decoded`, for a reader that keeps all rows, where larger windows take no more memory in the end."""
        # The rows that a filter leaves out are not kept.
        return self._in_large_windows if self.filter is None else self.as_decoded

    @cached_property
    def _in_large_windows(self) -> Scan:
        return replace(self.as_decoded, window_bytes=max(self.window_bytes, _KEPT_WINDOW_BYTES))

    @property
    def arrow_schema(self) -> pa.Schema:
        """The schema of the batches."""
        return self.returned.arrow_schema

    @property
    def shows_other_types(self) -> bool:
        """Whether users see other values than the stored ones."""
        return self.returned.shows_other_types

    @property
    def decoded(self) -> LanceSchema:
        """The data columns that are read: those of the output and of the filter."""
        return self._columns.decoded

    @cached_property
    def _columns(self) -> ReadColumns:
        return ReadColumns(self.returned, self.filter)

    @cached_property
    def _decoder(self) -> RowDecoder:
        return RowDecoder(self._columns, self.time_zone, self.batch_rows, self.batch_bytes, self.uncut)

    @cached_property
    def single_rows(self) -> SingleRowColumns:
        """Reads the output columns of a few rows, the filter left aside, where files are mapped."""
        if self.filter is not None:
            return self.without_filter.single_rows
        return SingleRowColumns.of(self._columns, self.bases, self._reader, stable_row_ids=self.stable_row_ids)

    @cached_property
    def _filtered_columns(self) -> SingleRowColumns:
        """Reads the columns of the filter of a few rows."""
        fields = self._columns.filter_fields
        return SingleRowColumns.of_fields(fields, self.bases, self._reader, stable_row_ids=False)

    def _reader(self, fragment: DataFragment) -> FragmentReader:
        """A fragment, open for reading. Those that were read last stay open, for files never change."""
        return _readers((fragment, self.bases), None, lambda: FragmentReader(fragment, self.bases))

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
            reader = self._reader(fragment)
            end = reader.num_rows if stop is None else min(stop, reader.num_rows)
            if start >= end:
                return
            if offsets is not None:
                inside = offsets_within(offsets, start, end)
                copied = self._picked([(fragment, inside)])
                if copied is not None:
                    yield from [copied] if copied.num_rows else []
                    return
                if self._are_few(fragment, offsets):
                    lineage = RowLineage(fragment, reader, self.stable_row_ids)
                    if len(inside):
                        few = self._decoder.decode_at_once(reader, lineage, RowRanges.of_numbers(inside))
                        yield from self._decoder.batches(few)
                    return
            source = Source.of(reader, self._columns, RowLineage(fragment, reader, self.stable_row_ids))
            window = self._window(fragment, source, reader.num_rows if offsets is None else len(offsets))

            def decode(item: tuple[RowRanges, bool]) -> Decoded:
                rows, is_last = item
                decoded = self._decoder.decode(source, rows, measured=not is_last)
                if not is_last:
                    window.adapt(rows.num_rows, decoded.num_bytes)
                return decoded

            windows = self._windows(reader, window, start, end, offsets)
            for decoded in read_ahead(decode, windows, is_remote=self.bases.reads_at_once > 1):
                yield from self._decoder.batches(decoded)

    def few_rows_at_once(self, wanted: Sequence[tuple[DataFragment, Int64Array]]) -> pa.RecordBatch | None:
        """`read_offsets`, without a filter also in any order, if files in memory have the rows; None if they do not."""
        try:
            return self._picked(wanted)
        except _OF_ONE_FRAGMENT:
            # Read one by one, the error comes after the rows before it.
            return None

    def _picked(self, wanted: Sequence[tuple[DataFragment, Int64Array]]) -> pa.RecordBatch | None:
        """The rows at offsets of fragments that the filter keeps, if they can be picked from mapped files."""
        num_rows = sum([len(offsets) for _, offsets in wanted])
        if self.batch_bytes is not None or not self.single_rows.can_read(num_rows, len(wanted)):
            return None
        size_of = self._columns.decoded_bytes
        if num_rows > _FEW_ROWS and sum([size_of(part, len(rows)) for part, rows in wanted]) > self.window_bytes:
            return None
        columns = self._columns, self._filtered_columns, self.single_rows
        return picked_rows(*columns, wanted, self.batch_rows, self.time_zone)

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
                rows = (
                    reader.deletions.live_rows(start, last) if offsets is None else ranges_within(offsets, start, last)
                )
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
            yield Part(partial(self._read_group, group), sum(map(self._columns.decoded_bytes, group)))

    def _parts_of_slices(self, slices: Iterable[FragmentRows]) -> Iterator[Part]:
        for form, run in groupby(slices, form_of):
            if form is SliceForm.WHOLE:
                yield from self._parts_of_fragments((fragment for fragment, *_ in run), FIRST_GROUP)
            elif form is SliceForm.OFFSETS:
                found = (
                    (fragment, offsets_within(offsets, start, stop))
                    for fragment, start, stop, offsets in run
                    if offsets is not None
                )
                yield from self._parts_of_offsets(found)
            else:
                for fragment, start, stop, _ in run:
                    read = partial(self.read_fragment, fragment, start=start, stop=stop)
                    yield Part(read, self._columns.decoded_bytes(fragment))

    def read_offsets(self, wanted: Iterable[tuple[DataFragment, Int64Array]]) -> Iterator[pa.RecordBatch]:
        """The rows at offsets of several fragments, in order; few rows are read together. Raises as `read_fragment`.

        Args:
            wanted: each fragment with the offsets of rows as `read_fragment` takes them.
        """
        return self._read_parts(self._parts_of_offsets(wanted))

    def _parts_of_offsets(self, wanted: Iterable[tuple[DataFragment, Int64Array]]) -> Iterator[Part]:
        some: dict[int, tuple[DataFragment, Int64Array]] = {}
        at_once = FIRST_GROUP
        for fragment, offsets in wanted:
            if fragment.id in some or len(some) >= at_once:
                yield from self._parts_of_distinct(some)
                some, at_once = {}, LARGEST_GROUP
            some[fragment.id] = fragment, offsets
        yield from self._parts_of_distinct(some)

    def _parts_of_distinct(self, wanted: Mapping[int, tuple[DataFragment, Int64Array]]) -> Iterator[Part]:
        fragments = [fragment for fragment, _ in wanted.values()]
        offsets = {fragment_id: rows for fragment_id, (_, rows) in wanted.items()}
        num_wanted = {fragment_id: len(rows) for fragment_id, rows in offsets.items()}
        for group in grouped(
            fragments, self.decoded.fields, self.window_bytes, first=LARGEST_GROUP, num_wanted=num_wanted
        ):
            num_bytes = sum([self._columns.decoded_bytes(fragment, num_wanted[fragment.id]) for fragment in group])
            yield Part(partial(self._read_group, group, offsets), num_bytes)

    def _are_few(self, fragment: DataFragment, offsets: Int64Array) -> bool:
        """Whether some rows of a fragment are so few, and so small, that all of their columns are read at once."""
        num_wanted = len(offsets)
        if num_wanted <= _FEW_ROWS:
            return self._columns.decoded_bytes(fragment, num_wanted) <= _FEW_BYTES
        if num_wanted > _FEW_IN_A_RUN or int(offsets[-1]) - int(offsets[0]) >= num_wanted:
            return False
        return self._columns.row_bytes <= _FEW_BYTES_IN_A_RUN

    def _read_group(
        self, group: Sequence[DataFragment], offsets: Mapping[int, Int64Array] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The rows of fragments of one shape: all, or by the fragments' ids those at some offsets."""
        if len(group) > 1:
            try:
                wanted = None if offsets is None else [(fragment, offsets[fragment.id]) for fragment in group]
                copied = None if wanted is None else self._picked(wanted)
                decoded = None if copied is not None else self._decode_group(group, offsets)
            except _OF_ONE_FRAGMENT:
                # One by one, so that the error names the file, and comes after the rows before it.
                pass
            else:
                if copied is not None:
                    yield from [copied] if copied.num_rows else []
                elif decoded is not None and decoded.num_rows:
                    yield from self._decoder.batches(decoded)
                return
        for fragment in group:
            yield from self.read_fragment(fragment, offsets=None if offsets is None else offsets[fragment.id])

    def _decode_group(self, fragments: Sequence[DataFragment], offsets: Mapping[int, Int64Array] | None) -> Decoded:
        reader = FragmentGroup(fragments, self.bases, self.stable_row_ids, is_selective=offsets is not None)
        if offsets is None:
            rows = reader.deletions.live_rows(0, reader.num_rows)
        else:
            rows = RowRanges.of_numbers(reader.rows_at([offsets[fragment.id] for fragment in fragments]))
            if rows.num_rows <= _FEW_ROWS:
                return self._decoder.decode_at_once(reader, reader, rows)
        return self._decoder.decode(Source.of(reader, self._columns, reader), rows)

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
            ends = self.row_ends(fragments)
            return int(ends[-1]) if len(ends) else 0
        return sum(batch.num_rows for batch in self.read_fragments(fragments))

    def counts(self, fragments: FragmentList) -> list[int]:
        """`count` of each fragment."""
        if self.filter is not None:
            return [self.count(fragment) for fragment in fragments]
        known = fragments.row_counts()
        return [self.count(fragments[place]) if rows is None else rows for place, rows in enumerate(known)]

    def row_ends(self, fragments: FragmentList) -> Int64Array:
        """int64[n]: the live rows up to the end of each fragment. The scan has no filter."""
        known = fragments.row_ends()
        return np.cumsum(self.counts(fragments), dtype=np.int64) if known is None else known

    def matches(self, fragment: DataFragment, offsets: Int64Array) -> npt.NDArray[np.bool_]:
        """Which rows of a fragment the filter keeps: bool[n].

        Args:
            offsets: int64[n], ascending, distinct: the rows, deleted or not.
        """
        if self.filter is None:
            return np.ones(len(offsets), np.bool_)
        with self.bases.reading():
            reader = self._reader(fragment)
            rows = RowRanges.of_numbers(offsets)
            lineage = RowLineage(fragment, reader, self.stable_row_ids)
            return self._decoder.matches(reader, lineage, rows)

    def read_rows(self, fragment: DataFragment, positions: Int64Array) -> pa.Table:
        """The live rows number `positions` (int64[n], ascending, distinct) of a fragment, the filter left aside.

        There must be an output column.
        """
        with self.bases.reading():
            reader = self._reader(fragment)
            offsets = reader.deletions.offsets_of_live(positions)
            columns = self.single_rows.read([RowsOfFragment(fragment, offsets)], len(offsets))
            if columns is not None:
                return pa.Table.from_arrays(columns, schema=self.arrow_schema)
            lineage = RowLineage(fragment, reader, self.stable_row_ids)
            return self._decoder.unfiltered(reader, lineage, RowRanges.of_numbers(offsets))

    def read_rows_of_fragments(self, wanted: Sequence[tuple[DataFragment, Int64Array]]) -> Iterator[pa.Table]:
        """`read_rows` of several fragments, in order; those of which few bytes are wanted are read together."""
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
        num_wanted: dict[int, int] = {fragment_id: len(places) for fragment_id, places in positions.items()}
        groups = grouped(
            fragments, self.projection.fields, self.window_bytes, first=LARGEST_GROUP, num_wanted=num_wanted
        )
        while some := list(islice(groups, at_once)):
            for tables in overlapped(read, some, at_once):
                yield from tables

    def all_rows_at_once(self, fragments: FragmentList) -> pa.Table | None:
        """All rows, if they are those of few fragments that surely fit into one window; None if not.

        They are what `read_fragments` gives, in a third of its calls. Raises as `read_fragment`.
        """
        if not 0 < len(fragments) <= _FEW_FRAGMENTS or self.filter is not None or not self.output:
            return None
        read = list(fragments)
        if None in self._columns.fixed_widths or any(fragment.deletion_file is not None for fragment in read):
            return None
        if sum(map(self._columns.decoded_bytes, read)) > self.window_bytes:
            return None
        if len(read) > 1 and self.bases.reads_at_once > 1:
            # Their requests wait for each other less if they are read as one.
            return None
        with self.bases.reading():
            tables = [self._all_rows(fragment) for fragment in read]
        return tables[0] if len(tables) == 1 else pa.concat_tables(tables)

    def _all_rows(self, fragment: DataFragment) -> pa.Table:
        reader = self._reader(fragment)
        lineage = RowLineage(fragment, reader, self.stable_row_ids)
        return self._decoder.unfiltered(reader, lineage, RowRanges.of(0, reader.num_rows))

    def _read_rows_of_group(self, fragments: Sequence[DataFragment], positions: Sequence[Int64Array]) -> pa.Table:
        reader = FragmentGroup(fragments, self.bases, self.stable_row_ids, is_selective=True)
        return self._decoder.unfiltered(reader, reader, RowRanges.of_numbers(reader.offsets_of_live(positions)))

    def _window(self, fragment: DataFragment, source: Source, num_rows: int) -> Window:
        size, widths = fragment.size_bytes, self._columns.fixed_widths
        if size is not None and fits_one_window(self.window_bytes, widths, num_rows, size):
            # The widths of columns cost more than to read a few rows, and they need one window anyway.
            return Window(self.window_bytes, self.batch_rows, ())
        return Window(self.window_bytes, self.batch_rows, source.encoded_widths(self._columns))


_FIELDS = [part.name for part in fields(Scan)]
