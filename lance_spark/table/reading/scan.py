"""Reading the rows of a version: which columns, which rows, in which order.

A `Scan` is a plan. It knows the schema, the bases and the filter, but neither the manifest nor a fragment, so it can be
pickled to a task that gets its fragments one by one. Rows come in the order of the fragments and, inside of a fragment,
in the order in which they were written; deleted ones are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark.cached import cached_property
from lance_spark.encodings.blocks import Int64Array
from lance_spark.errors import InvalidInputError
from lance_spark.schema.field import LanceSchema
from lance_spark.schema.projection import project
from lance_spark.table.bases import Bases
from lance_spark.table.reading.decoding.columns import ReadColumns, output_names
from lance_spark.table.reading.decoding.output_columns import OutputColumns
from lance_spark.table.reading.decoding.rows import RowDecoder
from lance_spark.table.reading.decoding.single_rows import SingleRowColumns
from lance_spark.table.reading.fragment_group import LARGEST_GROUP
from lance_spark.table.reading.opened_version import OpenedVersion
from lance_spark.table.reading.reader import ScanReader
from lance_spark.table.reading.selection import Selection
from lance_spark.table.reading.system_columns import ROW_ADDRESS, ROW_ID, SYSTEM_FIELDS, flagged
from lance_spark.table.rows.fragment import DataFragment, FragmentList

if TYPE_CHECKING:
    from lance_spark.expr.nodes import Expr

_KEPT_WINDOW_BYTES = 256 << 20
"""Each part of a page decodes its dictionary again: 20,000 rows of 2,000 columns take half the time in one window."""

DEFAULT_BATCH_ROWS = 8192
DEFAULT_WINDOW_BYTES = 64 << 20
"""About how many bytes of Arrow data a scan decodes at a time."""


@dataclass(frozen=True)
class Scan:
    """A plan of a read: its columns, its filter and the sizes of its batches.

    Attributes:
        returned: the columns of the batches.
        version: the files that are read.
        filter: returns only rows for which it is true; its columns need not be in `returned`.
        stable_row_ids: whether the table has them.
        batch_rows: rows of a batch at most.
        batch_bytes: about how many bytes of Arrow data a batch has at most; None for no bound.
        window_bytes: about how much is decoded at a time; on a remote store, twice that of a large fragment.
        time_zone: the zone of timestamps in the filter that name none.
        uncut: returns batches as they were decoded, whatever `batch_rows` says.
    """

    returned: OutputColumns
    version: OpenedVersion
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
        files: Bases | OpenedVersion,
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
            schema: that of the rows.
            files: the stores of the version's files, or what other scans of the version share.
            columns: names, dotted paths into structs, and system columns; None for all data columns. Structs have only
                the fields that are named.
            filter: a tree, or SQL text.

        Raises:
            NotFoundError: no such column.
            InvalidInputError: the filter or an argument is invalid.
        """
        if batch_rows is not None and batch_rows < 1:
            raise InvalidInputError(f"a batch cannot have {batch_rows} rows")
        stored, output = list(schema.names()), list(schema.names() if columns is None else columns)
        projection = schema
        if columns is not None:
            names = set(stored)
            system = [name for name in output if name in SYSTEM_FIELDS and name not in names]
            projection = project(schema, [name for name in output if name not in system])
            output = output if names.issuperset(output) else output_names(schema, output, system)
        last = flagged(with_row_id, with_row_address)
        if last:
            output = [*(name for name in output if name not in last), *last]
        scan = cls(
            returned=OutputColumns(schema, projection, tuple(dict.fromkeys(output))),
            version=OpenedVersion.of(files),
            stable_row_ids=stable_row_ids,
            batch_rows=batch_rows or DEFAULT_BATCH_ROWS,
            window_bytes=window_bytes,
            time_zone=time_zone,
        )
        if filter is None:
            return scan
        from lance_spark.expr.sql.parse import to_expr

        return scan.filtered(to_expr(filter, time_zone=time_zone))

    def __getstate__(self) -> dict[str, Any]:
        # Without what is worked out again where the plan is used.
        return {name: self.__dict__[name] for name in _FIELDS}

    @property
    def bases(self) -> Bases:
        """The stores of the files."""
        return self.version.bases

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

    def of_version(self, files: Bases | OpenedVersion, *, stable_row_ids: bool) -> Scan:
        """A copy of this scan of another version, or of another table that has its columns.

        Args:
            files: the stores of its files.
            stable_row_ids: whether it has them.
        """
        return replace(self, version=OpenedVersion.of(files), stable_row_ids=stable_row_ids)

    def filtered(self, condition: Expr) -> Scan:
        """A copy of this scan with a filter in place of its own.

        Raises:
            NotFoundError: no such column.
            InvalidInputError: the condition is invalid.
        """
        from lance_spark.expr.evaluate import check_filter
        from lance_spark.expr.text.members import without_members

        columns = self.returned.filterable
        check_filter(without_members(condition, columns), columns, time_zone=self.time_zone)
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
    def _reader(self) -> ScanReader:
        decoder = RowDecoder(self._columns, self.time_zone, self.batch_rows, self.batch_bytes, self.uncut)
        unfiltered = None if self.filter is None else self.without_filter._reader
        return ScanReader(self._columns, self.version, decoder, self.window_bytes, self.stable_row_ids, unfiltered)

    @property
    def single_rows(self) -> SingleRowColumns:
        """Reads the output columns of a few rows, the filter left aside, where files are mapped."""
        return self._reader.single_rows

    def read(self, selection: Selection) -> Iterator[pa.RecordBatch]:
        """The rows of a selection that the filter keeps, in order. Small fragments are read together, and so are a few
        rows of several.

        Raises:
            CorruptFileError: a file contradicts the format.
            NotFoundError: a file is missing, usually because a clean-up has removed the version.
            InvalidInputError: the filter fails on a value.
        """
        return self._reader.read(selection)

    def read_table(self, selection: Selection) -> pa.Table:
        """`read` as a table, of a scan with output columns. All rows are needed, so groups begin large."""
        return pa.Table.from_batches(self._reader.read(selection, LARGEST_GROUP), schema=self.arrow_schema)

    def matches(self, fragment: DataFragment, offsets: Int64Array) -> npt.NDArray[np.bool_]:
        """Rows of a fragment that the filter keeps: bool[n].

        Args:
            offsets: int64[n], ascending, distinct: the rows, deleted or not.
        """
        return self._reader.matches(fragment, offsets)

    def count(self, fragment: DataFragment) -> int:
        """The rows of a fragment that the scan returns; without a filter as the manifest says, if it does."""
        return self._reader.count(fragment)

    def total(self, fragments: FragmentList) -> int:
        """The rows of all `fragments` that the scan returns."""
        if self.filter is None:
            ends = self.row_ends(fragments)
            return int(ends[-1]) if len(ends) else 0
        return sum(batch.num_rows for batch in self.read(fragments))

    def counts(self, fragments: FragmentList) -> list[int]:
        """`count` of each fragment."""
        if self.filter is not None:
            return [self.count(fragment) for fragment in fragments]
        counts = fragments.row_counts()
        return [self.count(fragments[place]) if rows is None else rows for place, rows in enumerate(counts)]

    def row_ends(self, fragments: FragmentList) -> Int64Array:
        """int64[n]: the live rows up to the end of each fragment. The scan has no filter."""
        ends = fragments.row_ends()
        return np.cumsum(self.counts(fragments), dtype=np.int64) if ends is None else ends


_FIELDS = [part.name for part in fields(Scan)]
