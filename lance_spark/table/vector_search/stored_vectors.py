"""The vectors of single rows, without a scan: where a data file has each vector at a place that can be computed.

Pages of large fixed-size lists are such places (`FullZipLayout` without lists): row `i` of a page is at
``start + i * stride``, behind a control word where the page has nulls. Other pages (vectors of a few bytes, constants,
compressed values, files of version 2.0) are left to the scan.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lance_spark.encodings.blocks import Int64Array
from lance_spark.file.reader import FileReader
from lance_spark.file_version import FileVersion
from lance_spark.index.vector.metrics import Vectors
from lance_spark.index.vector.vector_places import VectorPlaces
from lance_spark.schema.field import FieldId
from lance_spark.storage.cache import cached_part
from lance_spark.storage.overlap import overlapped
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.reading.fragment_reader import FragmentReader
from lance_spark.table.reading.scan import Scan
from lance_spark.table.rows.fragment import DataFragment
from lance_spark.table.rows.row_address import OFFSET_BITS, UInt64Array, distinct, offsets_of
from lance_spark.table.vector_search.query import VectorColumn

_GROUP_BYTES = 64 << 20
"""About how many bytes of vectors are in memory at a time."""

_CACHED_BYTES = 1 << 16
"""What the places of a file count in the cache; it bounds the number of files that stay mapped."""


class RowVectors(NamedTuple):
    """Vectors of some rows.

    Attributes:
        values: [n, d].
        is_null: bool[n]: rows without a vector, whose values are arbitrary.
    """

    values: Vectors
    is_null: npt.NDArray[np.bool_]


class LocatedVectors(NamedTuple):
    """Vectors in mapped files.

    Attributes:
        addresses: int64[n], where they are.
        held: what keeps them there.
    """

    addresses: Int64Array
    held: object


FragmentOffsets = tuple[DataFragment, Int64Array]
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

    def groups(self, wanted: Sequence[FragmentOffsets]) -> Iterator[list[FragmentOffsets]]:
        """`wanted`, in order, in groups of rows that fit into memory together."""
        most = max(1, _GROUP_BYTES // (self._dimension * self._dtype.itemsize))
        if sum([len(rows) for _, rows in wanted]) <= most:
            yield [*wanted]
            return
        for fragment, rows in wanted:
            for start in range(0, len(rows), most):
                yield [(fragment, rows[start : start + most])]

    def read(self, wanted: Sequence[FragmentOffsets]) -> list[RowVectors | None]:
        """The vectors of rows; None for a fragment whose vectors have to be scanned.

        Raises:
            LanceError: a file is missing or contradicts the format.
        """
        with self._scan.bases.reading():
            if len(wanted) == 1:
                return [self._read(wanted[0])]
            return overlapped(self._read, wanted, self._scan.bases.reads_at_once)

    def located(self, addresses: UInt64Array) -> LocatedVectors | None:
        """The vectors of rows at `addresses` (uint64[n], n > 0, in any order); None if some are not in mapped files.

        Raises:
            LanceError: a file is missing or contradicts the format.
        """
        fragments = self._manifest.fragments
        offsets, ids = offsets_of(addresses), addresses >> np.uint64(OFFSET_BITS)
        if bool((ids == ids[0]).all()):
            return self._located(fragments.with_id(int(ids[0])), offsets)
        found, held = np.empty(len(offsets), np.int64), []
        for number in distinct(ids).tolist():
            (rows,) = (ids == number).nonzero()
            part = self._located(fragments.with_id(number), offsets[rows])
            if part is None:
                return None
            found[rows] = part.addresses
            held.append(part.held)
        return LocatedVectors(found, held)

    def _located(self, fragment: DataFragment, rows: Int64Array) -> LocatedVectors | None:
        with self._scan.bases.reading():
            places = self._places(fragment)
        addresses = None if places is None else places.addresses(rows, self._dtype)
        return None if addresses is None else LocatedVectors(addresses, places)

    def _read(self, item: FragmentOffsets) -> RowVectors | None:
        fragment, rows = item
        places = self._places(fragment)
        if places is None or int(rows[-1]) >= int(places.ends[-1]):
            return None
        values, is_null = places.read(rows)
        vectors = values.view(self._dtype)
        # A single vector is a view, and behind a control word it can begin at any byte.
        return RowVectors(vectors if vectors.flags.aligned else vectors.copy(), is_null)

    def _places(self, fragment: DataFragment) -> VectorPlaces | None:
        width = self._dimension * self._dtype.itemsize
        field = self._scan.projection.fields[0]
        while field.children:
            field = field.children[0]

        def find() -> tuple[tuple[VectorPlaces | None], int]:
            return (_places_of(fragment, self._scan, field.id, self._dimension, width),), _CACHED_BYTES

        return cached_part(self._manifest, ("places of vectors", field.id, fragment.id), find)[0]


def _places_of(
    fragment: DataFragment, scan: Scan, field_id: FieldId, dimension: int, width: int
) -> VectorPlaces | None:
    """The places in the file that has the field; None if there is no such file, or its pages are of other kinds."""
    files = [file for file in fragment.files if field_id in file.fields]
    if len(files) != 1 or files[0].version in (FileVersion.V0_1, FileVersion.V2_0):
        return None
    reader = FragmentReader(fragment, scan.bases).open_file(files[0])
    number = files[0].columns().get(field_id, -1)
    if not isinstance(reader, FileReader) or number < 0:
        return None
    (column,) = reader.encoded_columns_at([number])
    return VectorPlaces.of(column.pages, reader.num_rows, *scan.bases.data_file(files[0]), dimension, width)
