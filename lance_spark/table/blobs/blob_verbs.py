"""`Dataset` methods that read blobs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lance_spark.errors import InvalidInputError, NotFoundError
from lance_spark.schema.columns import is_blob
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.reading.blobs.binary_scan import is_described_type, with_sources
from lance_spark.table.reading.blobs.blob_file import DEFAULT_BUFFER_BYTES
from lance_spark.table.reading.read_verbs import ReadVerbs, blob_reader
from lance_spark.table.reading.scan import Scan
from lance_spark.table.reading.selection import FragmentRows
from lance_spark.table.reading.system_columns import ROW_ADDRESS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lance_spark.table.reading.blobs.blob_file import BlobFile, BlobReader
    from lance_spark.table.search.locate import RowLocator


class BlobVerbs(ReadVerbs, ABC):
    """Reading the values of blob columns, for tables of both kinds."""

    @abstractmethod
    def _described_rows(self, scan: Scan, ids: Sequence[int] | None, addresses: Sequence[int] | None) -> pa.Table:
        """The rows of `scan` with these row ids or addresses, in that order.

        Raises:
            InvalidInputError: rows of this kind of table have no such number.
            NotFoundError: there is no such row.
        """

    def take_blobs(
        self,
        blob_column: str,
        ids: Sequence[int] | None = None,
        addresses: Sequence[int] | None = None,
        indices: Sequence[int] | None = None,
        *,
        buffer_size: int = DEFAULT_BUFFER_BYTES,
        allow_external_blobs: bool = False,
    ) -> list[BlobFile | None]:
        """The values of some rows as files, in the order asked for; None for a null. Nothing but descriptions is read.

        Args:
            blob_column: the column, or a dotted path to one inside of structs.
            ids: row ids, as in ``_rowid``; one of `ids`, `addresses` and `indices` is needed.
            addresses: row addresses, as in ``_rowaddr``.
            indices: positions of rows, deleted rows not counted; in a partitioned table rows have no other number.
            buffer_size: bytes that a file reads ahead.
            allow_external_blobs: whether references to objects outside of the table are followed.

        Raises:
            InvalidInputError: not a blob column, or one in lists or in files of 0.1; not one of the three arguments; or
                a reference that is not allowed.
            NotFoundError: there is no such column or row.
        """
        from lance_spark.table.reading.blobs.blob_file import BlobFile

        _, rows, parts = self._blob_rows(blob_column, ids, addresses, indices)
        locations = blob_reader(parts, allow_external=allow_external_blobs).locations(rows)
        return [None if location is None else BlobFile(location, buffer_size) for location in locations]

    def read_blobs(
        self,
        blob_column: str,
        ids: Sequence[int] | None = None,
        addresses: Sequence[int] | None = None,
        indices: Sequence[int] | None = None,
        *,
        allow_external_blobs: bool = False,
    ) -> list[tuple[int, bytes | None]]:
        """(row address, value) of some rows, in the order asked for; None for a null.

        Values of one file are read together. Arguments and errors as `take_blobs`.
        """
        from lance_spark.table.reading.blobs.blob_file import read_values

        places, rows, parts = self._blob_rows(blob_column, ids, addresses, indices)
        locations = blob_reader(parts, allow_external=allow_external_blobs).locations(rows)
        return list(zip(places, read_values(locations), strict=True))

    def blob_reader(self, *, allow_external_blobs: bool = False) -> BlobReader:
        """Reads the values of descriptions that name their data file, of this version or an older one."""
        return blob_reader(self._planned([])[1], allow_external=allow_external_blobs)

    def _blob_rows(
        self,
        column: str,
        ids: Sequence[int] | None,
        addresses: Sequence[int] | None,
        indices: Sequence[int] | None,
    ) -> tuple[list[int], pa.Array, Sequence[tuple[Scan, Manifest]]]:
        """The addresses of some rows, their descriptions with sources, and the splits."""
        from lance_spark.schema.projection import FieldFinder
        from lance_spark.table.reading.take import Take

        if [ids, addresses, indices].count(None) != 2:
            raise InvalidInputError("give one of ids, addresses and indices")
        self._check_blob_column(column)
        plan, parts = self._planned([column], with_row_address=True)
        plan = with_sources(plan, self._schema_with_sources)
        parts = [(with_sources(scan, self._schema_with_sources), manifest) for scan, manifest in parts]
        if indices is not None:
            rows = Take(plan, [(scan, manifest.fragments) for scan, manifest in parts]).rows(indices)
        else:
            rows = self._described_rows(plan, ids, addresses)
        names = FieldFinder(self.lance_schema).names(column)
        array: pa.Array = rows.column(names[0]).combine_chunks()
        for name in names[1:]:
            array = array.flatten()[array.type.get_field_index(name)]
        if not is_described_type(array.type):
            raise InvalidInputError(f"the values of {column!r} are not read one by one; scan the column")
        return rows.column(ROW_ADDRESS).to_pylist(), array, parts

    def _check_blob_column(self, column: str) -> None:
        from lance_spark.schema.projection import FieldFinder

        finder = FieldFinder(self.lance_schema)
        if not is_blob(finder.find(finder.names(column))[-1]):
            raise InvalidInputError(f"column {column!r} is not a blob column; read it as other columns")


class DatasetBlobVerbs(BlobVerbs, ABC):
    """Reading the values of blob columns, for tables without partitions."""

    location: TableLocation
    manifest: Manifest

    def _described_rows(self, scan: Scan, ids: Sequence[int] | None, addresses: Sequence[int] | None) -> pa.Table:
        return self._rows_at(scan, addresses) if ids is None else self._rows_of(scan, ids)

    def _rows_of(self, scan: Scan, ids: Sequence[int]) -> pa.Table:
        from lance_spark.table.search.locate import RowLocator

        locate = RowLocator(self.manifest.fragments, scan.bases, stable_row_ids=self.manifest.has_stable_row_ids)
        return self._located(scan, ids, locate, "row id")

    def _rows_at(self, scan: Scan, addresses: Sequence[int] | None) -> pa.Table:
        from lance_spark.table.search.locate import RowLocator

        locate = RowLocator(self.manifest.fragments, scan.bases, stable_row_ids=False)
        return self._located(scan, addresses or (), locate, "row address")

    def _located(self, scan: Scan, numbers: Sequence[int], locate: RowLocator, kind: str) -> pa.Table:
        from lance_spark.layouts.arrow_take import take as take_rows
        from lance_spark.table.rows.fragment_runs import by_fragment

        positions = _numbers(numbers, kind)
        addresses, exists = locate(positions)
        if not exists.all():
            raise NotFoundError(f"the table has no {kind} {int(positions[np.flatnonzero(~exists)[0]])}")
        distinct, order = np.unique(addresses, return_inverse=True)
        fragments = {fragment.id: fragment for fragment in self.manifest.fragments}
        batches = [
            batch
            for fragment_id, offsets in by_fragment(distinct)
            for batch in scan.read([FragmentRows(fragments[fragment_id], offsets)])
        ]
        rows = pa.Table.from_batches(batches, schema=scan.arrow_schema).combine_chunks()
        columns = [take_rows(column.combine_chunks(), order.astype(np.int64)) for column in rows.columns]
        return pa.Table.from_arrays(columns, schema=rows.schema)


def _numbers(numbers: Any, kind: str) -> NDArray[np.uint64]:
    try:
        array = np.asarray(numbers)
        if array.size and array.dtype.kind not in "iu":
            raise InvalidInputError(f"a {kind} is a whole number")
        unsigned = array.astype(np.uint64)
    except (OverflowError, ValueError, TypeError) as error:
        raise InvalidInputError(f"a {kind} is a whole number: {error}") from error
    if array.size and int(array.min()) < 0:
        raise NotFoundError(f"the table has no {kind} {int(array.min())}")
    return unsigned
