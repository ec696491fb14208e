"""Stable row ids and row versions of rows that move, as they are, into new fragments."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from lance_spark.encodings.blocks import Int64Array
from lance_spark.errors import CorruptFileError
from lance_spark.table.reading.fragment_reader import FragmentReader
from lance_spark.table.reading.system_columns import RowLineage
from lance_spark.table.rows.fragment import DataFragment
from lance_spark.table.rows.row_address import UInt64Array
from lance_spark.table.rows.row_ids import RowIdSequence
from lance_spark.table.rows.row_versions import RowDatasetVersionSequence


@dataclass(frozen=True, slots=True)
class KeptLineage:
    """Some rows of one fragment, in row order.

    Attributes:
        row_ids: uint64[n].
        created_at, last_updated_at: uint64[n].
    """

    row_ids: UInt64Array
    created_at: UInt64Array
    last_updated_at: UInt64Array

    @classmethod
    def of(cls, fragment: DataFragment, reader: FragmentReader, rows: Int64Array) -> KeptLineage:
        """Row ids and versions that the fragment, open as `reader`, has of `rows` (int64[n], ascending offsets).

        Raises:
            CorruptFileError: it has no row ids, or something that contradicts its rows.
        """
        lineage = RowLineage(fragment, reader, stable_row_ids=True)
        return cls(lineage.row_ids(rows), lineage.created_at(rows), lineage.last_updated_at(rows))

    def __len__(self) -> int:
        return len(self.row_ids)

    @classmethod
    def joined(cls, parts: Iterable[KeptLineage]) -> KeptLineage:
        """The rows of all parts, one after the other."""
        rows = list(parts)
        return cls(
            np.concatenate([part.row_ids for part in rows]),
            np.concatenate([part.created_at for part in rows]),
            np.concatenate([part.last_updated_at for part in rows]),
        )

    def taken(self, rows: Int64Array) -> KeptLineage:
        """Some of the rows, in another order."""
        return KeptLineage(self.row_ids[rows], self.created_at[rows], self.last_updated_at[rows])

    def part(self, start: int, stop: int) -> KeptLineage:
        """The rows of [start, stop)."""
        return KeptLineage(self.row_ids[start:stop], self.created_at[start:stop], self.last_updated_at[start:stop])


def with_lineage(fragments: Iterable[DataFragment], moved: Iterable[KeptLineage]) -> list[DataFragment]:
    """New fragments with the ids and versions of their rows: those of `moved`, one after the other.

    Raises:
        CorruptFileError: other rows than `moved` has.
    """
    parts = list(moved)
    result = []
    for fragment in fragments:
        taken: list[KeptLineage] = []
        missing = fragment.physical_rows or 0
        while missing:
            if not parts:
                raise CorruptFileError("there are more rows than row ids")
            count = min(missing, len(parts[0]))
            taken.append(parts[0].part(0, count))
            parts[:1] = [parts[0].part(count, len(parts[0]))] if count < len(parts[0]) else []
            missing -= count
        segments = tuple(segment for part in taken for segment in RowIdSequence.of_ids(part.row_ids).segments)
        result.append(
            replace(
                fragment,
                row_ids=RowIdSequence(segments).to_bytes(),
                created_at_versions=_versions([part.created_at for part in taken]),
                last_updated_at_versions=_versions([part.last_updated_at for part in taken]),
            )
        )
    if any(len(part) for part in parts):
        raise CorruptFileError("there are fewer rows than row ids")
    return result


def _versions(parts: list[UInt64Array]) -> bytes:
    return RowDatasetVersionSequence.of_versions(np.concatenate([np.empty(0, np.uint64), *parts])).to_bytes()
