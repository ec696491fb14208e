"""Stable row ids and row versions of rows that move, as they are, into new fragments."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from lance_spark.encodings.blocks import Int64Array
from lance_spark.errors import CorruptFileError
from lance_spark.table.fragment import DataFragment
from lance_spark.table.row_address import UInt64Array
from lance_spark.table.row_ids import RowIdSequence
from lance_spark.table.row_versions import RowDatasetVersionSequence

# Tables of old releases have stable row ids without versions; the reference library takes them for the first one's.
_UNKNOWN_VERSION = 1


@dataclass(frozen=True, slots=True)
class KeptLineage:
    """Some rows of one fragment, in row order.

    Attributes:
        row_ids: uint64[n].
        created_at, last_updated_at: uint64[n]; None if the fragment does not tell.
    """

    row_ids: UInt64Array
    created_at: UInt64Array | None
    last_updated_at: UInt64Array | None

    @classmethod
    def of(cls, fragment: DataFragment, num_rows: int, rows: Int64Array) -> KeptLineage:
        """What the fragment, of `num_rows` rows, says of `rows` (int64[n], ascending offsets).

        Raises:
            CorruptFileError: it has no row ids, or something that contradicts its rows.
        """
        if fragment.row_ids is None:
            raise CorruptFileError(f"the table has stable row ids, fragment {fragment.id} has none")

        def versions(data: bytes | None) -> UInt64Array | None:
            return None if data is None else RowDatasetVersionSequence.from_bytes(data, num_rows).at(rows)

        return cls(
            RowIdSequence.from_bytes(fragment.row_ids, num_rows).at(rows),
            versions(fragment.created_at_versions),
            versions(fragment.last_updated_at_versions),
        )

    def __len__(self) -> int:
        return len(self.row_ids)

    def part(self, start: int, stop: int) -> KeptLineage:
        """The rows of [start, stop)."""
        return KeptLineage(
            self.row_ids[start:stop],
            None if self.created_at is None else self.created_at[start:stop],
            None if self.last_updated_at is None else self.last_updated_at[start:stop],
        )


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
                created_at_versions=_versions([(len(part), part.created_at) for part in taken]),
                last_updated_at_versions=_versions([(len(part), part.last_updated_at) for part in taken]),
            )
        )
    if any(len(part) for part in parts):
        raise CorruptFileError("there are fewer rows than row ids")
    return result


def _versions(parts: list[tuple[int, UInt64Array | None]]) -> bytes | None:
    if all(versions is None for _, versions in parts):
        return None
    known = [
        np.full(num_rows, _UNKNOWN_VERSION, np.uint64) if versions is None else versions for num_rows, versions in parts
    ]
    return RowDatasetVersionSequence.of_versions(np.concatenate(known)).to_bytes()
