"""The vectors of single rows, without a scan: where a data file has each vector at a place that can be computed.

Pages of large fixed-size lists are such places (`FullZipLayout` without lists): row `i` of a page is at
``start + i * stride``, behind a control word where the page has nulls. Other pages (vectors of a few bytes, constants,
compressed values, files of version 2.0) are left to the scan.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark.encodings.blocks import Int64Array
from lance_spark.encodings.fixed_size_list import FixedSizeList
from lance_spark.encodings.flat import Flat
from lance_spark.file.reader import FileReader
from lance_spark.file_version import FileVersion
from lance_spark.index.vector.metrics import Vectors
from lance_spark.layouts.base import EncodedPage
from lance_spark.layouts.full_zip.layout import FullZipLayout
from lance_spark.layouts.read_spans import ReadSpans, gathered, spanned
from lance_spark.layouts.registry import parse_page
from lance_spark.schema.field import FieldId
from lance_spark.storage.base import ByteRange, ObjectStore
from lance_spark.storage.cache import cached_part, has_free_etags
from lance_spark.storage.overlap import overlapped
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.reading.fragment_reader import FragmentReader
from lance_spark.table.reading.scan import Scan
from lance_spark.table.rows.fragment import DataFragment
from lance_spark.table.vector_search.query import VectorColumn

_GROUP_BYTES = 64 << 20
"""About how many bytes of vectors are in memory at a time."""

_CACHED_BYTES = 1 << 16
"""What the places of a file count in the cache; it bounds the number of files that stay mapped."""


@dataclass(frozen=True)
class _Places:
    """Where a data file has the vectors of a column.

    Attributes:
        ends: int64[p]: rows up to the end of each page.
        starts: int64[p]: the first byte of each page in the file.
        control: int64[p]: bytes of the control word before each vector.
        width: bytes of a vector.
        mapped: the file from `starts[0]` on, if the store has it in memory; else it is read.
    """

    store: ObjectStore
    path: str
    ends: Int64Array
    starts: Int64Array
    control: Int64Array
    width: int
    mapped: pa.Buffer | None

    @cached_property
    def _first_rows(self) -> Int64Array:
        """int64[p]: the first row of each page."""
        return np.concatenate([np.zeros(1, np.int64), self.ends[:-1]])

    def read(self, rows: Int64Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.bool_]]:
        """(uint8[n, width]: the vectors of `rows`; bool[n]: which of them are null).

        Args:
            rows: int64[n], ascending, distinct, below ``ends[-1]``.

        Raises:
            StorageError: the store failed.
        """
        pages = self.ends.searchsorted(rows, side="right")
        control = self.control[pages]
        offsets = (rows - self._first_rows[pages]) * (control + self.width)
        data, places = self._located(self.starts[pages] + offsets, control)
        values = gathered(data, places + control, np.full(len(rows), self.width, np.int64))
        is_null = np.zeros(len(rows), np.bool_)
        (words,) = control.nonzero()
        if len(words):
            # Any level other than 0 says that the vector, or a struct around it, is null.
            sizes = control[words]
            levels = np.frombuffer(gathered(data, places[words], sizes), np.uint8)
            is_null[words] = np.bitwise_or.reduceat(levels, np.cumsum(sizes) - sizes) != 0
        return np.frombuffer(values, np.uint8).reshape(len(rows), self.width), is_null

    def _located(self, starts: Int64Array, control: Int64Array) -> tuple[pa.Buffer, Int64Array]:
        """(a buffer that has the slots at bytes `starts` of the file; where each begins in it)."""
        if self.mapped is not None:
            return self.mapped, starts - self.starts[0]
        spans = ReadSpans.plan(starts, starts + control + self.width)
        wanted = [ByteRange(*span) for span in zip(spans.starts.tolist(), spans.lengths.tolist(), strict=True)]
        return spans.located(spanned(self.store.read_ranges(self.path, wanted)))


class RowVectors(NamedTuple):
    """Vectors of some rows.

    Attributes:
        values: [n, d].
        is_null: bool[n]: rows without a vector, whose values are arbitrary.
    """

    values: Vectors
    is_null: npt.NDArray[np.bool_]


FragmentRows = tuple[DataFragment, Int64Array]
"""A fragment and the offsets of some of its rows, int64[n], n > 0, ascending, distinct."""


class StoredVectors:
    """Reads vectors of single rows of one version.

    Args:
        scan: reads the column of vectors alone.
        column: the column; it has no lists of vectors.
    """

    def __init__(self, scan: Scan, manifest: Manifest, column: VectorColumn) -> None:
        self._scan = scan
        self._manifest = manifest
        self._dtype = np.dtype(column.dtype)
        self._dimension = column.dimension

    def groups(self, wanted: Sequence[FragmentRows]) -> Iterator[list[FragmentRows]]:
        """`wanted`, in order, in groups of rows that fit into memory together."""
        most = max(1, _GROUP_BYTES // (self._dimension * self._dtype.itemsize))
        if sum([len(rows) for _, rows in wanted]) <= most:
            yield [*wanted]
            return
        for fragment, rows in wanted:
            for start in range(0, len(rows), most):
                yield [(fragment, rows[start : start + most])]

    def read(self, wanted: Sequence[FragmentRows]) -> list[RowVectors | None]:
        """The vectors of rows; None for a fragment whose vectors have to be scanned.

        Raises:
            LanceError: a file is missing or contradicts the format.
        """
        with self._scan.bases.reading():
            if len(wanted) == 1:
                return [self._read(wanted[0])]
            return overlapped(self._read, wanted, self._scan.bases.reads_at_once)

    def _read(self, item: FragmentRows) -> RowVectors | None:
        fragment, rows = item
        places = self._places(fragment)
        if places is None or int(rows[-1]) >= int(places.ends[-1]):
            return None
        values, is_null = places.read(rows)
        vectors = values.view(self._dtype)
        # A single vector is a view, and behind a control word it can begin at any byte.
        return RowVectors(vectors if vectors.flags.aligned else vectors.copy(), is_null)

    def _places(self, fragment: DataFragment) -> _Places | None:
        width = self._dimension * self._dtype.itemsize
        field = self._scan.projection.fields[0]
        while field.children:
            field = field.children[0]

        def find() -> tuple[tuple[_Places | None], int]:
            return (_places_of(fragment, self._scan, field.id, self._dimension, width),), _CACHED_BYTES

        return cached_part(self._manifest, ("places of vectors", field.id, fragment.id), find)[0]


def _places_of(fragment: DataFragment, scan: Scan, field_id: FieldId, dimension: int, width: int) -> _Places | None:
    """The places in the file that has the field; None if there is no such file, or its pages are of other kinds."""
    files = [file for file in fragment.files if field_id in file.fields]
    if len(files) != 1 or files[0].version in (FileVersion.V0_1, FileVersion.V2_0):
        return None
    reader = FragmentReader(fragment, scan.bases).open_file(files[0])
    number = files[0].columns().get(field_id, -1)
    if not isinstance(reader, FileReader) or number < 0:
        return None
    column = reader.encoded_columns_at([number])[0]
    controls = [_control_bytes(page, dimension, width) for page in column.pages]
    known = [control for control in controls if control is not None]
    ends = np.cumsum([page.num_rows for page in column.pages], dtype=np.int64)
    if not known or len(known) < len(controls) or int(ends[-1]) != reader.num_rows:
        return None
    starts = np.array([page.buffers[0].position for page in column.pages], np.int64)
    stops = starts + np.array([page.buffers[0].size for page in column.pages], np.int64)
    if bool((starts[1:] < stops[:-1]).any()):
        return None
    store, path = scan.bases.data_file(files[0])
    mapped = _mapped(store, path, int(starts[0]), int(stops[-1]))
    return _Places(store, path, ends, starts, np.array(known, np.int64), width, mapped)


def _control_bytes(page: EncodedPage, dimension: int, width: int) -> int | None:
    """Bytes before each vector of a page; None if its vectors are at no computable places."""
    layout = parse_page(page.type_url, page.message)
    if not page.buffers or not page.num_rows:
        return None
    if not isinstance(layout, FullZipLayout) or layout.bits_rep or any(layer.is_list for layer in layout.layers):
        return None
    values = layout.value_compression
    if not isinstance(values, FixedSizeList) or values.has_validity or not isinstance(values.values, Flat):
        return None
    fits = values.items_per_value == dimension and values.values.bits_per_value * dimension == 8 * width
    fits &= layout.bits_per_value == 8 * width and layout.num_items == page.num_rows
    stride = layout.control_bytes + width
    return layout.control_bytes if fits and page.buffers[0].size == page.num_rows * stride else None


def _mapped(store: ObjectStore, path: str, start: int, stop: int) -> pa.Buffer | None:
    """Bytes [start, stop) of a file, if reads of the store are views of mapped memory: reading a byte twice gives the
    same address then."""
    if not has_free_etags(store):
        return None
    probes = [store.read_ranges(path, [ByteRange(start, 1)])[0] for _ in range(2)]
    if probes[0].address != probes[1].address:
        return None
    return store.read_ranges(path, [ByteRange(start, stop - start)])[0]
