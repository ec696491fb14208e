"""The verbs that read, for tables of both kinds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from lance_spark.errors import InvalidInputError, NotFoundError, UnsupportedFeatureError
from lance_spark.file_version import FileVersion
from lance_spark.schema.blob import blob_columns
from lance_spark.schema.field import LanceSchema
from lance_spark.table.bases import Bases
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.reading.blobs.binary_scan import PLACES, BlobForm, bytes_form, wants_bytes, with_sources
from lance_spark.table.reading.blobs.blob_columns import with_blob_descriptors
from lance_spark.table.reading.index_candidates import Candidates
from lance_spark.table.reading.named_columns import check_distinct, may_name_fields
from lance_spark.table.reading.scan import Scan
from lance_spark.table.reading.shown_types import shown_batches, shown_schema, shown_table
from lance_spark.table.rows.fragment import FragmentList

if TYPE_CHECKING:
    from lance_spark.expr.nodes import Expr
    from lance_spark.index.text.queries import TextQuery
    from lance_spark.table.reading.blobs.blob_file import BlobReader
    from lance_spark.table.reading.read_shape import ReadColumns
    from lance_spark.table.reading.take import Take

BlobOptions: TypeAlias = tuple[str | None, bool]
"""`blob_handling` and `allow_external_blobs` of a read."""

_AS_PLACES = (FileVersion.V2_0, FileVersion.V2_1)
"""Files that describe a blob by its position and size alone."""


class ReadVerbs(ABC):
    """Reads a version split by split: a table without partitions as one, a partitioned one partition by partition."""

    @abstractmethod
    def _planned(
        self,
        columns: Sequence[str] | None,
        filter: str | Expr | None = None,
        *,
        batch_rows: int | None = None,
        with_row_id: bool = False,
        with_row_address: bool = False,
    ) -> tuple[Scan, list[tuple[Scan, Manifest]]]:
        """The scan, for its schema; and scan and version of each split that may have matching rows."""

    def plan_parts(
        self, columns: Sequence[str] | None, filter: str | Expr | None = None, *, with_blob_bytes: bool = False
    ) -> tuple[Scan, list[tuple[Scan, Manifest]]]:
        """(what is read, for its schema; for each split that may have such rows what reads it, and its version).

        Args:
            columns, filter: as in `scan`.
            with_blob_bytes: descriptions of blobs have what a `BlobForm` needs.
        """
        nothing, parts = self._planned(columns, filter)
        if with_blob_bytes:
            schema = self._schema_with_sources
            nothing, parts = with_sources(nothing, schema), [(with_sources(scan, schema), each) for scan, each in parts]
        return nothing, [(scan.as_decoded, manifest) for scan, manifest in parts]

    @property
    def _schema_with_sources(self) -> LanceSchema:
        """The columns, in which descriptions of blobs name their data file."""
        return with_blob_descriptors(self.lance_schema, self.file_version, with_source=True)

    def changes_blobs(self, blobs: BlobOptions) -> bool:
        """Whether a read of blob columns returns another form of them than plans read. Raises as `wants_bytes`."""
        is_asked = wants_bytes(blobs[0]) or self.file_version in _AS_PLACES
        return is_asked and bool(blob_columns(self.lance_schema.fields))

    def _described(self, plan: Scan) -> Scan:
        """`plan`, in which descriptions of blobs, if it reads any, have what a `BlobForm` needs."""
        return with_sources(plan, self._schema_with_sources) if blob_columns(plan.projection.fields) else plan

    def _in_form(
        self, plan: Scan, parts: list[tuple[Scan, Manifest]], blobs: BlobOptions, *, in_memory: bool = False
    ) -> tuple[Scan, list[tuple[Scan, Manifest]], BlobForm | None]:
        """Scans that read what the form of blobs needs, and this form; None if rows are returned as they are read.

        Args:
            in_memory: whether all rows are in memory in the end, so that batches need no bound.
        """
        if not self.changes_blobs(blobs) or not blob_columns(plan.projection.fields):
            return plan, parts, None
        if wants_bytes(blobs[0]) and self.file_version in _AS_PLACES and (in_memory or self._filters_by_blobs(plan)):
            return plan, parts, None  # Plans read the values of old files.
        parts = [(self._described(scan), manifest) for scan, manifest in parts]
        return self._described(plan), parts, self.blob_form(parts, blobs)

    def blob_form(self, parts: Sequence[tuple[Scan, Manifest]], blobs: BlobOptions) -> BlobForm:
        """The form that `blobs` ask for of what these splits read."""
        if wants_bytes(blobs[0]):
            return bytes_form(blob_reader(parts, allow_external=blobs[1]))
        return PLACES

    def _filters_by_blobs(self, plan: Scan) -> bool:
        if plan.filter is None:
            return False
        from lance_spark.expr.nodes import referenced_columns

        names = {field.name for field in blob_columns(self.lance_schema.fields)}
        return any(path[0] in names for path in referenced_columns(plan.filter))

    @property
    @abstractmethod
    def lance_schema(self) -> LanceSchema:
        """The columns with their field ids."""

    @property
    @abstractmethod
    def file_version(self) -> FileVersion | None:
        """File version of new data files; None if the table does not say."""

    @property
    @abstractmethod
    def stored_schema(self) -> pa.Schema:
        """The columns in the Arrow types in which they are stored, as plans read them."""

    @property
    def schema(self) -> pa.Schema:
        """The columns in Arrow's types, as `scan` returns them."""
        return shown_schema(self.stored_schema)

    def scan(
        self,
        columns: ReadColumns | None = None,
        filter: str | Expr | None = None,
        limit: int | None = None,
        offset: int | None = None,
        batch_size: int | None = None,
        with_row_id: bool = False,
        with_row_address: bool = False,
        use_scalar_index: bool = True,
        blob_handling: str | None = None,
        allow_external_blobs: bool = False,
        order_by: Sequence[Any] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The rows as batches, in the order of the table. JSON columns are text (`arrow.json`).

        Args:
            columns: distinct names, dotted paths into structs, and system columns such as ``_rowid``; None for all
                columns. A path is the name of a column with the values of the field; into a list or a map, the column
                with fewer fields. Of a mapping the names of the result, each with the expression of its values, such as
                ``{"b": "a * 2"}``.
            filter: a condition as after WHERE; only rows for which it is true are returned.
            limit: at most this many rows.
            offset: after leaving out this many of them.
            batch_size: rows of a batch at most.
            with_row_id: adds ``_rowid`` at the end, in a partitioned table the id of a row within its partition.
            with_row_address: adds ``_rowaddr``, likewise.
            use_scalar_index: whether the table's scalar indexes may narrow what is read. The rows are the same.
            blob_handling: "all_binary" for the bytes of blob columns, in batches of about 64 MiB at most. None,
                "blobs_descriptions" and "all_descriptions" are for where they are: in tables of 2.0 and 2.1 the
                position and the size in the data file.
            allow_external_blobs: whether blobs that are references to objects outside of the table are read.
            order_by: columns of the table to order the rows by, before the limit: names, for ascending order with nulls
                last; ``(name, "descending")``; or objects with `column_name`, `ascending` and `nulls_first`. NaN is
                greater than all numbers. Without a limit all rows are in memory.

        Raises:
            NotFoundError: no such column.
            InvalidInputError: an argument is invalid, a column is named twice, or the filter or an expression fails on
                a value.
        """
        blobs = (blob_handling, allow_external_blobs)
        if _is_shaped(columns) or order_by:
            flags = (with_row_id, with_row_address, use_scalar_index)
            return shown_batches(self._shaped(columns, order_by, filter, limit, offset, batch_size, flags, blobs)[1])
        assert not isinstance(columns, Mapping), "expressions make a shape"
        options = {"with_row_id": with_row_id, "with_row_address": with_row_address}
        plan, parts = self._planned(columns, filter, batch_rows=batch_size, **options)
        _, parts, form = self._in_form(plan, parts, blobs)
        batches = _limited(parts, limit, offset, use_scalar_index=use_scalar_index)
        return shown_batches(batches if form is None else form.batches(batches))

    def _shaped(
        self,
        columns: ReadColumns | None,
        order_by: Sequence[Any] | None,
        filter: str | Expr | None,
        limit: int | None,
        offset: int | None,
        batch_size: int | None,
        flags: tuple[bool, bool, bool],
        blobs: BlobOptions,
    ) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """(schema, batches in the form in which they are stored) of a read with computed columns or an order.

        Args:
            flags: `with_row_id`, `with_row_address` and `use_scalar_index` of `scan`.
        """
        from lance_spark.table.reading.read_shape import ReadShape, sort_keys

        with_row_id, with_row_address, use_scalar_index = flags
        options = {"with_row_id": with_row_id, "with_row_address": with_row_address}
        shape = ReadShape.of(columns, order_by, self.stored_schema, **options)
        plan, parts = self._planned(shape.read, filter, batch_rows=batch_size, **options)
        plan, parts, form = self._in_form(plan, parts, blobs)
        schema = plan.arrow_schema
        if form is not None and order_by:
            sort_keys(order_by, schema)  # Blobs of old files have an order only where their values are read.
        if shape.keys:
            rows = shape.rows(parts, schema, limit, offset, use_scalar_index=use_scalar_index)
            batches = iter(rows.to_batches(batch_size))
        else:
            batches = _limited(parts, limit, offset, use_scalar_index=use_scalar_index)
        if form is not None:
            schema, batches = form.schema(schema), form.batches(batches)
        return shape.shaped_schema(schema), shape.all_shaped(batches)

    def to_table(
        self,
        columns: ReadColumns | None = None,
        filter: str | Expr | None = None,
        limit: int | None = None,
        offset: int | None = None,
        batch_size: int | None = None,
        with_row_id: bool = False,
        with_row_address: bool = False,
        use_scalar_index: bool = True,
        blob_handling: str | None = None,
        allow_external_blobs: bool = False,
        order_by: Sequence[Any] | None = None,
        *,
        nearest: Mapping[str, Any] | None = None,
        full_text_query: str | TextQuery | Mapping[str, Any] | None = None,
        prefilter: bool | None = None,
        fast_search: bool | None = None,
        **others: Any,
    ) -> pa.Table:
        """The rows in memory, in chunks of `batch_size` rows at most if it is set; arguments and errors as `scan`.

        With one of the two searches, in the reference library's words, they are the rows that it finds, best first.

        Args:
            nearest: a vector search, as in `to_table_of_nearest`.
            full_text_query: a text search: words, a query, or a mapping of ``query`` and ``columns``, the columns to
                search; `search` says more.
            prefilter: whether the filter chooses the rows that are searched; False, as without it, filters the best
                rows, so fewer than the limit can be left.
            fast_search: leaves out rows that the index does not cover.
            others: options of the reference library's reads, which are refused unless they change nothing.

        Raises:
            InvalidInputError: both searches, or an argument of a search without one; and as `scan`.
            UnsupportedFeatureError: one of the other options.
        """
        if others:
            from lance_spark.table.reading.reference_options import known_options

            known_options(others, ())
        flags, blobs = (with_row_id, with_row_address, use_scalar_index), (blob_handling, allow_external_blobs)
        options = (("prefilter", prefilter), ("fast_search", fast_search))
        search: dict[str, Any] = {name: value for name, value in options if value is not None}
        if nearest is None and full_text_query is None:
            if search:
                names = " and ".join(search)
                raise InvalidInputError(f"{names} belongs to nearest or full_text_query, which is not given")
            return self._table_of_scan(columns, filter, limit, offset, batch_size, order_by, flags, blobs)
        if nearest is not None and full_text_query is not None:
            raise InvalidInputError("give one of nearest and full_text_query; hybrid_search does both")
        if order_by or isinstance(columns, Mapping):
            raise InvalidInputError(
                "a search returns columns of the table, best rows first; order or compute its result"
            )
        search |= {"columns": columns, "filter": filter, "limit": limit, "offset": offset}
        return self._table_of_search(nearest, full_text_query, search, flags, blobs)

    def _table_of_search(
        self,
        nearest: Mapping[str, Any] | None,
        full_text_query: str | TextQuery | Mapping[str, Any] | None,
        arguments: dict[str, Any],
        flags: tuple[bool, bool, bool],
        blobs: BlobOptions,
    ) -> pa.Table:
        """The result of one of the two searches of `to_table`.

        Args:
            arguments: `columns`, `filter`, `limit`, `offset`; `prefilter` and `fast_search` if they are given.
            flags: (`with_row_id`, `with_row_address`, `use_scalar_index`).

        Raises:
            UnsupportedFeatureError: the table has no verbs that search.
        """
        raise UnsupportedFeatureError("this table is not searched; open it as a dataset")

    def _table_of_scan(
        self,
        columns: ReadColumns | None,
        filter: str | Expr | None,
        limit: int | None,
        offset: int | None,
        batch_size: int | None,
        order_by: Sequence[Any] | None,
        flags: tuple[bool, bool, bool],
        blobs: BlobOptions,
    ) -> pa.Table:
        if _is_shaped(columns) or order_by:
            schema, shaped = self._shaped(columns, order_by, filter, limit, offset, batch_size, flags, blobs)
            batches = list(shaped)
            # pyarrow loses the number of rows of tables without columns when it is given a schema.
            return shown_table(pa.Table.from_batches(batches, schema=schema if schema.names or not batches else None))
        assert not isinstance(columns, Mapping), "expressions make a shape"
        with_row_id, with_row_address, use_scalar_index = flags
        plan, parts = self._planned(
            columns, filter, batch_rows=batch_size, with_row_id=with_row_id, with_row_address=with_row_address
        )
        if batch_size is None:
            parts = [(scan.all_in_memory, manifest) for scan, manifest in parts]
        plan, parts, form = self._in_form(plan, parts, blobs, in_memory=True)
        batches = list(_limited(parts, limit, offset, use_scalar_index=use_scalar_index))
        if form is not None:
            return shown_table(form.table_of(batches, plan.arrow_schema))
        if not plan.output and batches:
            # pyarrow loses the number of rows of tables without columns when it is given a schema.
            return pa.Table.from_batches(batches)
        return _shown(plan, pa.Table.from_batches(batches, schema=plan.arrow_schema))

    def stored_rows(
        self,
        columns: Sequence[str],
        limit: int | None = None,
        offset: int | None = None,
        batch_size: int | None = None,
    ) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """Rows in the form in which they are stored, for those who compute with them or write them, and their schema.

        Arguments and errors as `scan`.
        """
        plan, parts = self._planned(columns, batch_rows=batch_size)
        return plan.arrow_schema, _limited(parts, limit, offset, use_scalar_index=True)

    def count_rows(self, filter: str | Expr | None = None, *, use_scalar_index: bool = True) -> int:
        """The number of rows; without a filter from metadata alone, if that has the numbers.

        Args:
            filter: a condition as after WHERE; only rows for which it is true count.
            use_scalar_index: whether the table's scalar indexes may answer. The number is the same.

        Raises:
            NotFoundError: the filter names a column that the table does not have.
            InvalidInputError: the filter is invalid, or fails on a value.
        """
        _, parts = self._planned([], filter)
        candidates = _candidates(parts, use_scalar_index=use_scalar_index)
        return sum(reader.total(fragments) for reader, fragments in candidates)

    def take(
        self,
        indices: Sequence[int],
        columns: ReadColumns | None = None,
        blob_handling: str | None = None,
        allow_external_blobs: bool = False,
    ) -> pa.Table:
        """The rows at some positions (deleted rows not counted), in the order asked for, twice if asked twice.

        Args:
            indices: the positions, counted from 0.
            columns: as in `scan`, but dotted paths give structs with the fields that are named, and a column that is
                named twice is in the result once.
            blob_handling, allow_external_blobs: as in `scan`.

        Raises:
            InvalidInputError: a position that the table does not have.
            NotFoundError: no such column.
        """
        blobs = (blob_handling, allow_external_blobs)
        if columns is not None and isinstance(columns, Mapping):
            from lance_spark.table.reading.read_shape import ReadShape

            shape = ReadShape.of(columns, None, self.stored_schema)
            return shown_table(shape.shaped_table(self._take(shape.read, blobs).rows(indices)))
        take = self._take(columns, blobs)
        return shown_table(take.rows(indices)) if take.shows_other_types else take.rows(indices)

    def _take(self, columns: Sequence[str] | None, blobs: BlobOptions) -> Take:
        """Reader of these columns by the positions of rows."""
        from lance_spark.table.reading.take import Take

        plan, parts = self._planned(columns)
        plan, parts, form = self._in_form(plan, parts, blobs, in_memory=True)
        return Take(plan, [(scan, manifest.fragments) for scan, manifest in parts], form)


def _is_shaped(columns: ReadColumns | None) -> bool:
    """Whether the columns of a result are made from those that are read.

    Raises:
        InvalidInputError: one is named twice.
    """
    if isinstance(columns, Mapping):
        return True
    check_distinct(columns)
    return may_name_fields(columns)


def _shown(plan: Scan, rows: pa.Table) -> pa.Table:
    return shown_table(rows) if plan.shows_other_types else rows


def blob_reader(parts: Sequence[tuple[Scan, Manifest]], *, allow_external: bool) -> BlobReader:
    """Reads the blobs of these splits."""
    from lance_spark.table.reading.blobs.blob_file import BlobReader

    bases = {scan.bases.split_key: scan.bases for scan, _ in parts}

    def bases_of(key: str | None) -> Bases:
        if key not in bases:
            raise NotFoundError(f"the table has no partition {key}, in which a blob should be")
        return bases[key]

    return BlobReader(bases_of, allow_external=allow_external)


def _limited(
    parts: Sequence[tuple[Scan, Manifest]], limit: int | None, offset: int | None, *, use_scalar_index: bool
) -> Iterator[pa.RecordBatch]:
    if len(parts) == 1 and limit is None and not offset:
        scan, manifest = parts[0]
        return Candidates.of(scan, manifest, use_scalar_index=use_scalar_index).read(manifest.fragments)
    from lance_spark.table.reading.limit import limited_splits

    return limited_splits(_candidates(parts, use_scalar_index=use_scalar_index), limit=limit, offset=offset)


def _candidates(
    parts: Sequence[tuple[Scan, Manifest]], *, use_scalar_index: bool
) -> Iterator[tuple[Candidates, FragmentList]]:
    """The readers of some splits, one after the other. Of several, each is closed before the next one is read."""
    for scan, manifest in parts:
        yield Candidates.of(scan, manifest, use_scalar_index=use_scalar_index), manifest.fragments
        if len(parts) > 1:
            scan.version.close()
