"""Columns that no data file holds: what a row is called and where it lies (Lance specification, "Row ID & Lineage").

========================================  =============================================================
``_rowid``                                stable row id; the row's address in a table without those
``_rowaddr``                              fragment id in the high 32 bits, offset in the low 32
``_fragid``                               fragment id
``_row_created_at_version``               version that brought the row in (tables with stable row ids)
``_row_last_updated_at_version``          version that last changed it (tables with stable row ids)
========================================  =============================================================
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType

import numpy as np
import pyarrow as pa

from lance_spark.encodings.blocks import Int64Array
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.table.fragment import DataFragment
from lance_spark.table.row_address import UInt64Array, row_addresses
from lance_spark.table.row_ids import RowIdSequence
from lance_spark.table.row_versions import RowDatasetVersionSequence

ROW_ID = "_rowid"
ROW_ADDRESS = "_rowaddr"
FRAGMENT_ID = "_fragid"
CREATED_AT = "_row_created_at_version"
LAST_UPDATED_AT = "_row_last_updated_at_version"


class RowLineage:
    """The system columns of one fragment, parsed once.

    Args:
        fragment: the fragment.
        num_rows: its rows, deleted ones included.
        stable_row_ids: whether the table has stable row ids.
    """

    def __init__(self, fragment: DataFragment, num_rows: int, stable_row_ids: bool) -> None:
        self._fragment = fragment
        self._num_rows = num_rows
        self._stable_row_ids = stable_row_ids
        self._row_ids: RowIdSequence | None = None
        self._versions: dict[str, RowDatasetVersionSequence] = {}

    def column(self, name: str, rows: Int64Array) -> pa.Array:
        """The system column `name` for `rows` (int64[n], ascending offsets in the fragment).

        Raises:
            CorruptFileError: the fragment tells nothing, or something that contradicts its rows.
            UnsupportedFeatureError: row versions of a table without stable row ids.
        """
        return pa.array(_VALUES[name](self, rows))

    def row_ids(self, rows: Int64Array) -> UInt64Array:
        if not self._stable_row_ids:
            return self.row_addresses(rows)
        if self._row_ids is None:
            if self._fragment.row_ids is None:
                raise CorruptFileError(f"the table has stable row ids, fragment {self._fragment.id} has none")
            self._row_ids = RowIdSequence.from_bytes(self._fragment.row_ids, self._num_rows)
        return self._row_ids.at(rows)

    def row_addresses(self, rows: Int64Array) -> UInt64Array:
        return row_addresses(self._fragment.id, rows)

    def fragment_ids(self, rows: Int64Array) -> UInt64Array:
        return np.full(len(rows), self._fragment.id, np.uint64)

    def created_at(self, rows: Int64Array) -> UInt64Array:
        return self._version_sequence(CREATED_AT, self._fragment.created_at_versions).at(rows)

    def last_updated_at(self, rows: Int64Array) -> UInt64Array:
        return self._version_sequence(LAST_UPDATED_AT, self._fragment.last_updated_at_versions).at(rows)

    def _version_sequence(self, name: str, data: bytes | None) -> RowDatasetVersionSequence:
        if data is None:
            raise UnsupportedFeatureError(
                f"{name} is not known: it is kept in tables that were created with stable row ids", feature=name
            )
        if name not in self._versions:
            self._versions[name] = RowDatasetVersionSequence.from_bytes(data, self._num_rows)
        return self._versions[name]


_VALUES: dict[str, Callable[[RowLineage, Int64Array], UInt64Array]] = {
    ROW_ID: RowLineage.row_ids,
    ROW_ADDRESS: RowLineage.row_addresses,
    FRAGMENT_ID: RowLineage.fragment_ids,
    CREATED_AT: RowLineage.created_at,
    LAST_UPDATED_AT: RowLineage.last_updated_at,
}

SYSTEM_FIELDS = MappingProxyType({name: pa.field(name, pa.uint64()) for name in _VALUES})
"""The Arrow field of each system column."""
