"""New fragments, and which of their rows were in the table before (Lance specification, "Row ID & Lineage").

In a table with stable row ids a row that moves keeps its id and the version that created it. Both follow from where
the row was, so that whoever writes a fragment need not know them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from lance_spark.encodings.blocks import Int64Array
from lance_spark.errors import InvalidInputError
from lance_spark.table.bases import Bases
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.reading.fragment_reader import FragmentReader
from lance_spark.table.reading.system_columns import RowLineage
from lance_spark.table.rows.fragment import DataFragment, FragmentId
from lance_spark.table.rows.fragment_runs import by_fragment
from lance_spark.table.rows.row_address import UInt64Array, is_strictly_ascending
from lance_spark.table.rows.row_ids import RowIdSequence, check_ids_left
from lance_spark.table.rows.row_versions import RowDatasetVersionSequence
from lance_spark.table.writing.write import FragmentWriter

NO_ORIGIN = (1 << 64) - 1
"""Instead of an address: the row is a new one."""

_CODEC = "zstd"


@dataclass(frozen=True, slots=True)
class PackedAddresses:
    """Row addresses, uint64[count], on their way from a task to the driver: compressed differences.

    >>> packed = PackedAddresses.of(np.array([7, 8, 9, 3], np.uint64))
    >>> packed.unpack().tolist()
    [7, 8, 9, 3]
    """

    count: int
    data: bytes

    @classmethod
    def of(cls, addresses: UInt64Array) -> PackedAddresses:
        """`addresses`, packed."""
        # Differences wrap around, and so do the sums that bring them back.
        steps = np.diff(addresses.astype(np.uint64, copy=False), prepend=np.uint64(0))
        return cls(len(addresses), pa.compress(steps.tobytes(), codec=_CODEC, asbytes=True))

    def unpack(self) -> UInt64Array:
        """uint64[count]."""
        steps = pa.decompress(self.data, self.count * 8, codec=_CODEC)
        addresses: UInt64Array = np.cumsum(np.frombuffer(steps, np.uint64), dtype=np.uint64)
        return addresses


@dataclass(frozen=True, slots=True)
class NewFragment:
    """A fragment that was written, and where its rows come from. Travels from a task to the driver.

    Attributes:
        fragment: the fragment, its id still open.
        source_addresses: uint64[rows of the fragment]: the address that each row had in the version that was read,
            `NO_ORIGIN` for a row that is new; None if all rows are.
    """

    fragment: DataFragment
    source_addresses: UInt64Array | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        packed = None if self.source_addresses is None else PackedAddresses.of(self.source_addresses)
        return _unpacked, (self.fragment.to_bytes(), packed)


def _unpacked(fragment: bytes, packed: PackedAddresses | None) -> NewFragment:
    return NewFragment(DataFragment.from_bytes(fragment), None if packed is None else packed.unpack())


class MovedRowWriter:
    """A writer of fragments that have the source addresses of their rows.

    Args:
        writer: writes the rows; this object closes and aborts it.
    """

    def __init__(self, writer: FragmentWriter) -> None:
        self._writer = writer
        self._num_rows: list[int] = []
        self._source_addresses: list[UInt64Array | None] = []

    def write(self, batch: pa.RecordBatch, source_addresses: UInt64Array | None = None) -> None:
        """Appends rows.

        Args:
            source_addresses: uint64[batch.num_rows]: the address that each row had in the version that was read,
                `NO_ORIGIN` for a new row; None if all rows are new.

        Raises:
            InvalidInputError: the batch does not fit the schema, or not its source addresses.
        """
        if source_addresses is not None and len(source_addresses) != batch.num_rows:
            raise InvalidInputError(f"{batch.num_rows} rows come with the addresses of {len(source_addresses)}")
        self._writer.write(batch)
        self._num_rows.append(batch.num_rows)
        self._source_addresses.append(source_addresses)

    def close(self) -> list[NewFragment]:
        """Finishes the last file; the new fragments in row order."""
        fragments = self._writer.close()
        if all(addresses is None for addresses in self._source_addresses):
            return list(map(NewFragment, fragments))
        addresses = np.concatenate(
            [
                np.full(num_rows, NO_ORIGIN, np.uint64) if part is None else part
                for num_rows, part in zip(self._num_rows, self._source_addresses, strict=True)
            ]
        )
        ends = np.cumsum(np.array([fragment.physical_rows for fragment in fragments], np.int64))
        parts = np.split(addresses, ends[:-1])
        return [NewFragment(fragment, part) for fragment, part in zip(fragments, parts, strict=False)]

    def abort(self) -> None:
        """Removes everything that was written."""
        self._writer.abort()


class MovedRows:
    """New fragments, before row ids and row versions are assigned.

    Args:
        base: the version that the rows were read from.
        bases: where its files are.
        new: the fragments.
        deleted: offsets in the fragments of `base` of the deleted rows; None for all rows of a fragment.

    Raises:
        InvalidInputError: a row is rewritten twice, or rewritten but not deleted; or the fragments and the source
            addresses of their rows do not match.
    """

    def __init__(
        self,
        base: Manifest,
        bases: Bases,
        new: Sequence[NewFragment],
        deleted: Mapping[FragmentId, Int64Array | None],
    ) -> None:
        self.fragments = tuple(item.fragment for item in new)
        self._base = base
        self._source_addresses = [_checked_source_addresses(item) for item in new]
        parts = [source_addresses[source_addresses != NO_ORIGIN] for source_addresses in self._source_addresses]
        addresses = np.concatenate([np.empty(0, np.uint64), *parts])
        order: slice | Int64Array = slice(None)
        if not is_strictly_ascending(addresses):
            order = np.argsort(addresses, kind="stable")
        ascending = addresses[order]
        if bool((ascending[1:] == ascending[:-1]).any()):
            raise InvalidInputError("a row is rewritten more than once")
        self._check_deleted(ascending, deleted)
        self._row_ids: list[UInt64Array] = []
        self._created: list[UInt64Array] = []
        if base.has_stable_row_ids:
            row_ids, created = np.empty(len(addresses), np.uint64), np.empty(len(addresses), np.uint64)
            row_ids[order], created[order] = self._looked_up(ascending, bases)
            cuts = np.cumsum(np.array([len(part) for part in parts], np.int64))[:-1]
            self._row_ids, self._created = np.split(row_ids, cuts), np.split(created, cuts)

    def with_lineage(self, previous: Manifest) -> tuple[DataFragment, ...]:
        """The fragments for a version after `previous`, with ids and versions up to their last moved row.

        New rows in between get ids that `previous` has not assigned.
        """
        if not self._base.has_stable_row_ids:
            return self.fragments
        next_row_id = previous.next_row_id
        result = []
        for number, (fragment, source_addresses) in enumerate(zip(self.fragments, self._source_addresses, strict=True)):
            is_rewritten = source_addresses != NO_ORIGIN
            if not is_rewritten.any():
                result.append(fragment)
                continue
            is_rewritten = is_rewritten[: int(np.flatnonzero(is_rewritten)[-1]) + 1]
            num_new = int(np.count_nonzero(~is_rewritten))
            check_ids_left(next_row_id, num_new)
            row_ids, created = np.empty(len(is_rewritten), np.uint64), np.empty(len(is_rewritten), np.uint64)
            row_ids[is_rewritten], created[is_rewritten] = self._row_ids[number], self._created[number]
            row_ids[~is_rewritten] = np.arange(next_row_id, next_row_id + num_new, dtype=np.uint64)
            created[~is_rewritten] = previous.version + 1
            next_row_id += num_new
            result.append(
                replace(
                    fragment,
                    row_ids=RowIdSequence.of_ids(row_ids).to_bytes(),
                    created_at_versions=RowDatasetVersionSequence.of_versions(created).to_bytes(),
                )
            )
        return tuple(result)

    def _check_deleted(self, addresses: UInt64Array, deleted: Mapping[FragmentId, Int64Array | None]) -> None:
        for fragment_id, offsets in by_fragment(addresses):
            rows = deleted.get(fragment_id, np.empty(0, np.int64))
            if rows is None or np.array_equal(offsets, rows):
                continue
            if not bool(np.isin(offsets, rows).all()):
                raise InvalidInputError(f"a rewritten row of fragment {fragment_id} is not among the deleted rows")

    def _looked_up(self, addresses: UInt64Array, bases: Bases) -> tuple[UInt64Array, UInt64Array]:
        """Row ids and versions of creation at `addresses` (uint64[n], ascending), both uint64[n]."""
        row_ids = [np.empty(0, np.uint64)]
        created = [np.empty(0, np.uint64)]
        places = {message.id: place for place, message in enumerate(self._base.fragments.messages)}
        for fragment_id, offsets in by_fragment(addresses):
            if fragment_id not in places:
                raise InvalidInputError(f"version {self._base.version} has no fragment {fragment_id}")
            fragment = self._base.fragments[places[fragment_id]]
            reader = FragmentReader(fragment, bases)
            if int(offsets[-1]) >= reader.num_rows:
                raise InvalidInputError(f"fragment {fragment_id} has no row {int(offsets[-1])}")
            lineage = RowLineage(fragment, reader, stable_row_ids=True)
            row_ids.append(lineage.row_ids(offsets))
            created.append(lineage.created_at(offsets))
        return np.concatenate(row_ids), np.concatenate(created)


def _checked_source_addresses(item: NewFragment) -> UInt64Array:
    num_rows = item.fragment.physical_rows
    if num_rows is None:
        raise InvalidInputError("a new fragment has no number of rows")
    if item.source_addresses is None:
        return np.full(num_rows, NO_ORIGIN, np.uint64)
    if len(item.source_addresses) != num_rows:
        raise InvalidInputError(
            f"a new fragment of {num_rows} rows has the source addresses of {len(item.source_addresses)}"
        )
    return item.source_addresses
