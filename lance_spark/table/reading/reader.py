"""Reads the rows of a scan: fragment by fragment in windows, small fragments and few rows together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark.cached import cached_property
from lance_spark.encodings.blocks import Int64Array
from lance_spark.errors import CorruptFileError, InvalidInputError, NotFoundError, UnsupportedFeatureError
from lance_spark.layouts.base import RowRanges
from lance_spark.table.reading.decoding.columns import ReadColumns
from lance_spark.table.reading.decoding.rows import Decoded, RowDecoder, Source
from lance_spark.table.reading.decoding.single_rows import SingleRowColumns
from lance_spark.table.reading.fragment_group import FIRST_GROUP, FragmentGroup, grouped
from lance_spark.table.reading.fragment_reader import FragmentReader
from lance_spark.table.reading.opened_version import OpenedVersion
from lance_spark.table.reading.parallel_reads import Part, read_ahead, read_parts
from lance_spark.table.reading.selection import FragmentRows, Selection, fragment_rows, ranges_within
from lance_spark.table.reading.system_columns import RowLineage
from lance_spark.table.reading.window import Window, fits_one_window
from lance_spark.table.rows.fragment import DataFragment

_SCATTERED_WINDOWS = 8
"""Factor of the rows that are read at a time where only some of them are selected."""

_OF_ONE_FRAGMENT = (CorruptFileError, InvalidInputError, NotFoundError, UnsupportedFeatureError)
"""Errors that one of several fragments causes; a failure of the store is not repeated."""

_FEW_ROWS = 64
_FEW_BYTES = 1 << 20
"""Maximum rows and bytes of which all columns are read with those of the filter, which spares a step."""

_FEW_IN_A_RUN = 16384
_FEW_BYTES_IN_A_RUN = 32
"""Maximum rows side by side, such as those of zones, and bytes of each, for the same."""


@dataclass(frozen=True)
class ScanReader:
    """Reads the rows of a scan.

    Attributes:
        columns: the columns that it decodes, and its filter.
        version: the version that it reads.
        decoder: decodes the columns.
        window_bytes: about how many bytes are decoded at a time.
        stable_row_ids: whether the table has them.
        unfiltered: the reader of the scan without its filter, if it has one.
    """

    columns: ReadColumns
    version: OpenedVersion
    decoder: RowDecoder
    window_bytes: int
    stable_row_ids: bool
    unfiltered: ScanReader | None

    @cached_property
    def single_rows(self) -> SingleRowColumns:
        """Reads the output columns of a few rows, the filter left aside, where files are mapped."""
        if self.unfiltered is not None:
            return self.unfiltered.single_rows
        return SingleRowColumns.of(self.columns, self.version, stable_row_ids=self.stable_row_ids)

    @cached_property
    def _filter_columns(self) -> SingleRowColumns:
        """Reads the columns of the filter of a few rows."""
        return SingleRowColumns.of_fields(self.columns.filter_fields, self.version, stable_row_ids=False)

    def read(self, selection: Selection, first: int = FIRST_GROUP) -> Iterator[pa.RecordBatch]:
        """Same as `Scan.read`.

        Args:
            first: fragments of the first group at most; later ones are larger.
        """
        if isinstance(selection, Sequence) and len(selection) == 1:
            return self._fragment(fragment_rows(selection[0]))
        rows = (item for item in map(fragment_rows, selection) if item.offsets is None or len(item.offsets))
        parts = self._parts(rows, first)
        return read_parts(parts, at_once=self.version.bases.reads_at_once, window_bytes=self.window_bytes)

    def _parts(self, selection: Iterable[FragmentRows], first: int) -> Iterator[Part]:
        for group in grouped(selection, self.columns.decoded.fields, self.window_bytes, first):
            yield Part(partial(self._group, group), sum(map(self._decoded_bytes, group)))

    def _decoded_bytes(self, rows: FragmentRows) -> float:
        return self.columns.decoded_bytes(rows.fragment, None if rows.offsets is None else len(rows.offsets))

    def _group(self, group: Sequence[FragmentRows]) -> Iterator[pa.RecordBatch]:
        """The rows of a group that `grouped` has made."""
        if len(group) > 1:
            try:
                batches = self._together(group)
            except _OF_ONE_FRAGMENT:
                # One by one, so that the error names the file, and comes after the rows before it.
                pass
            else:
                yield from batches
                return
        for rows in group:
            yield from self._fragment(rows)

    def _together(self, group: Sequence[FragmentRows]) -> Iterable[pa.RecordBatch]:
        offsets = [rows.offsets for rows in group if rows.offsets is not None]
        picked = self._picked(group) if offsets else None
        if picked is not None:
            return picked
        fragments = [rows.fragment for rows in group]
        reader = FragmentGroup(fragments, self.version.bases, self.stable_row_ids, is_selective=bool(offsets))
        if offsets:
            numbers = RowRanges.of_numbers(reader.rows_at(offsets))
        else:
            numbers = reader.deletions.live_rows(0, reader.num_rows)
        if offsets and numbers.num_rows <= _FEW_ROWS:
            decoded = self.decoder.decode_at_once(reader, reader, numbers)
        else:
            decoded = self.decoder.decode(Source.of(reader, self.columns, reader), numbers)
        return self.decoder.batches(decoded) if decoded.num_rows else []

    def _picked(self, group: Sequence[FragmentRows]) -> list[pa.RecordBatch] | None:
        """The rows at offsets that the filter keeps, in one batch if there are any; None unless they are few and can be
        picked from mapped files.
        """
        from lance_spark.table.reading.decoding.few_rows import picked_rows

        pairs = [(rows.fragment, rows.offsets) for rows in group if rows.offsets is not None]
        num_rows = sum([len(offsets) for _, offsets in pairs])
        if self.decoder.batch_bytes is not None or not self.single_rows.can_read(num_rows, len(pairs)):
            return None
        if num_rows > _FEW_ROWS and sum(map(self._decoded_bytes, group)) > self.window_bytes:
            return None
        most, zone = self.decoder.batch_rows, self.decoder.time_zone
        batch = picked_rows(self.columns, self._filter_columns, self.single_rows, pairs, most, zone)
        return None if batch is None else [batch] if batch.num_rows else []

    def _fragment(self, rows: FragmentRows) -> Iterator[pa.RecordBatch]:
        """The rows of one fragment."""
        with self.version.bases.reading():
            reader = self.version.reader(rows.fragment)
            rows = rows.until(reader.num_rows)
            if rows.num_rows == 0:
                return
            lineage = RowLineage(rows.fragment, reader, self.stable_row_ids)
            if rows.offsets is not None:
                picked = self._picked([rows])
                if picked is not None:
                    yield from picked
                    return
                if self._are_few(rows.fragment, rows.offsets):
                    numbers = RowRanges.of_numbers(rows.offsets)
                    yield from self.decoder.batches(self.decoder.decode_at_once(reader, lineage, numbers))
                    return
            source = Source.of(reader, self.columns, lineage)
            window = self._window(source, rows)

            def decode(item: tuple[RowRanges, bool]) -> Decoded:
                numbers, is_last = item
                decoded = self.decoder.decode(source, numbers, measured=not is_last)
                if not is_last:
                    window.adapt(numbers.num_rows, decoded.num_bytes)
                return decoded

            windows = self._windows(reader, window, rows)
            for decoded in read_ahead(decode, windows, is_remote=self.version.bases.reads_at_once > 1):
                yield from self.decoder.batches(decoded)

    def _are_few(self, fragment: DataFragment, offsets: Int64Array) -> bool:
        """Whether some rows of a fragment are so few, and so small, that all of their columns are read at once."""
        num_rows = len(offsets)
        if num_rows <= _FEW_ROWS:
            return self.columns.decoded_bytes(fragment, num_rows) <= _FEW_BYTES
        if num_rows > _FEW_IN_A_RUN or int(offsets[-1]) - int(offsets[0]) >= num_rows:
            return False
        return self.columns.row_bytes <= _FEW_BYTES_IN_A_RUN

    def _window(self, source: Source, rows: FragmentRows) -> Window:
        size, widths, batch_rows = rows.fragment.size_bytes, self.columns.fixed_widths, self.decoder.batch_rows
        if size is not None and fits_one_window(self.window_bytes, widths, rows.num_rows, size):
            # The widths of columns cost more than to read a few rows, and they need one window anyway.
            return Window(self.window_bytes, batch_rows, ())
        return Window(self.window_bytes, batch_rows, source.encoded_widths(self.columns))

    def _windows(
        self, reader: FragmentReader, window: Window, selected: FragmentRows
    ) -> Iterator[tuple[RowRanges, bool]]:
        """The rows to decode at a time, as many as `window` says when they are read; True for the last ones."""
        offsets, start, end = selected.offsets, selected.start, selected.stop or reader.num_rows
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

    def _row_spans(self, reader: FragmentReader) -> list[tuple[int, int]]:
        """The rows that statistics of the data files do not rule out, as (start, stop) in ascending order."""
        condition = self.columns.filter
        files = [] if condition is None else reader.row_group_files()
        if condition is None or not files:
            return [(0, reader.num_rows)]
        from lance_spark.table.reading.row_group_pruning import matching_row_groups

        schema, zone = self.columns.returned.schema, self.decoder.time_zone
        return matching_row_groups(condition, schema, files, reader.num_rows, time_zone=zone)

    def count(self, fragment: DataFragment) -> int:
        """Same as `Scan.count`."""
        if self.columns.filter is not None:
            return sum(batch.num_rows for batch in self.read([fragment]))
        num_rows = fragment.num_rows
        if num_rows is None:
            with self.version.bases.reading():
                num_rows = self.version.reader(fragment).num_live_rows()
        return num_rows

    def matches(self, fragment: DataFragment, offsets: Int64Array) -> npt.NDArray[np.bool_]:
        """Same as `Scan.matches`."""
        if self.columns.filter is None:
            return np.ones(len(offsets), np.bool_)
        with self.version.bases.reading():
            reader = self.version.reader(fragment)
            lineage = RowLineage(fragment, reader, self.stable_row_ids)
            return self.decoder.matches(reader, lineage, RowRanges.of_numbers(offsets))
