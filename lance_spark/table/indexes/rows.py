"""Reads the values that an index is built from, with addresses or stable row ids."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark.errors import CorruptFileError
from lance_spark.index.builders.base import IdMapping, IndexedRows, ValuesOfRows
from lance_spark.index.members import member_values
from lance_spark.progress import progress
from lance_spark.schema.projection import quoted
from lance_spark.table.bases import Bases
from lance_spark.table.indexes.definition import IndexDefinition
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.reading.fragment_reader import FragmentReader
from lance_spark.table.reading.scan import Scan
from lance_spark.table.reading.system_columns import ROW_ADDRESS, ROW_ID, RowLineage
from lance_spark.table.rows.fragment import DataFragment
from lance_spark.table.rows.row_address import OFFSET_BITS, UInt64Array, distinct, row_addresses
from lance_spark.table.writing.write import num_rows_of

_WINDOW_BYTES = 16 << 20
"""Less than other scans decode at a time: builds sort or group what they read in parts of some mebibytes."""


def holds_row_ids(definition: IndexDefinition, manifest: Manifest) -> bool:
    """Whether new segments of an index hold stable row ids rather than addresses."""
    stable = manifest.has_stable_row_ids
    return stable and definition.builder.index_type.holds_row_ids(definition.builder.version(stable_row_ids=stable))


def row_batches(
    manifest: Manifest, bases: Bases, definition: IndexDefinition, fragments: Collection[DataFragment]
) -> Iterator[IndexedRows]:
    """The live rows of fragments of a version, piece by piece.

    Raises:
        CorruptFileError: a file contradicts the format.
        NotFoundError: a file does not exist any more.
        StorageError: the store failed.
    """
    scan = index_scan(manifest, bases, definition)
    of_values = scan.returning(scan.projection, tuple(name for name in scan.output if name != ROW_ADDRESS))
    has_row_ids = holds_row_ids(definition, manifest)
    counts = [fragment.num_rows for fragment in fragments]
    total = None if None in counts else sum(count or 0 for count in counts)
    with progress(f"Indexing {'.'.join(definition.column)}", total) as bar:
        for fragment in fragments:
            if has_row_ids or fragment.deletion_file is not None:
                for batch in bar.track(scan.read([fragment]), size=num_rows_of):
                    yield indexed_rows([batch], manifest, definition)
            else:
                yield from _all_rows(bar.track(of_values.read([fragment]), size=num_rows_of), fragment, definition)


def _all_rows(
    batches: Iterable[pa.RecordBatch], fragment: DataFragment, definition: IndexDefinition
) -> Iterator[IndexedRows]:
    """The rows of a fragment without deleted ones, whose addresses are a range: reading them takes twice the time."""
    start = 0
    for batch in batches:
        addresses = np.arange(start, start + batch.num_rows, dtype=np.uint64)
        addresses |= np.uint64(fragment.id << OFFSET_BITS)
        start += batch.num_rows
        yield IndexedRows(_values(batch, definition), addresses, addresses, start == fragment.physical_rows)


def values_of_rows(
    manifest: Manifest, bases: Bases, definition: IndexDefinition, fragments: Collection[DataFragment]
) -> ValuesOfRows:
    """Reads what an index is built from of single live rows of fragments."""
    stable = holds_row_ids(definition, manifest)

    def read(ids: UInt64Array) -> IndexedRows:
        rows = distinct(ids)
        places = []
        for fragment in fragments if len(rows) else ():
            own = np.flatnonzero(_among(_live_ids(fragment, bases, stable=stable), rows))
            if len(own):
                places.append((fragment, own))
        scan = index_scan(manifest, bases, definition)
        batches = scan.read_table(scan.version.live_rows(places)).to_batches() if places else []
        values = indexed_rows(batches, manifest, definition)
        if not np.array_equal(np.sort(values.ids), rows):
            message = f"{len(rows)} rows of index {definition.name!r} are {len(values.ids)} rows of the table"
            raise CorruptFileError(message)
        return values

    return read


def index_scan(manifest: Manifest, bases: Bases, definition: IndexDefinition) -> Scan:
    """Reads what an index is built from: the column, addresses, and stable row ids if it holds them."""
    scan = Scan.of(
        manifest.schema,
        bases,
        columns=[quoted(definition.column)],
        with_row_id=holds_row_ids(definition, manifest),
        with_row_address=True,
        stable_row_ids=manifest.has_stable_row_ids,
    )
    return replace(scan, uncut=True, window_bytes=_WINDOW_BYTES)


def indexed_rows(batches: Sequence[pa.RecordBatch], manifest: Manifest, definition: IndexDefinition) -> IndexedRows:
    """The rows that an `index_scan` has read."""
    if not batches:
        return IndexedRows.none(definition.builder.dtype)
    values = [_values(batch, definition) for batch in batches]
    addresses = _numbers(batches, ROW_ADDRESS)
    ids = _numbers(batches, ROW_ID) if holds_row_ids(definition, manifest) else addresses
    return IndexedRows(values[0] if len(values) == 1 else pa.concat_arrays(values), ids, addresses)


def _values(batch: pa.RecordBatch, definition: IndexDefinition) -> pa.Array:
    path, builder = definition.column, definition.builder
    return member_values(batch.column(path[0]), path[1:], keeps_lists=builder.keeps_lists(builder.parameters))


def live_row_ids(fragments: Collection[DataFragment], bases: Bases) -> UInt64Array:
    """uint64[n]: the stable row ids of fragments, ascending.

    Those of deleted rows are left out: an updated row has its id in another fragment too.
    """
    ids = [_live_ids(fragment, bases, stable=True) for fragment in fragments]
    return np.sort(np.concatenate([np.empty(0, np.uint64), *ids]))


def kept_addresses(fragments: Collection[DataFragment], bases: Bases) -> IdMapping:
    """Keeps the addresses of rows of some fragments that are not deleted, as they are."""
    fragment_ids = np.array([fragment.id for fragment in fragments], np.uint64)
    deleted = np.concatenate(
        [
            np.empty(0, np.uint64),
            *(
                row_addresses(fragment.id, FragmentReader(fragment, bases).deletions.offsets)
                for fragment in fragments
                if fragment.deletion_file is not None
            ),
        ]
    )

    def mapping(ids: UInt64Array) -> tuple[npt.NDArray[np.bool_], UInt64Array]:
        keep = np.isin(ids >> np.uint64(32), fragment_ids)
        if len(deleted):
            keep &= ~np.isin(ids, deleted)
        return keep, ids if keep.all() else ids[keep]

    return mapping


def kept_row_ids(fragments: Collection[DataFragment], bases: Bases) -> IdMapping:
    """Keeps the stable ids of rows that are in some fragments and are not deleted."""
    live = live_row_ids(fragments, bases)

    def mapping(ids: UInt64Array) -> tuple[npt.NDArray[np.bool_], UInt64Array]:
        keep = _among(ids, live)
        return keep, ids if keep.all() else ids[keep]

    return mapping


def _live_ids(fragment: DataFragment, bases: Bases, *, stable: bool) -> UInt64Array:
    """uint64[n]: the ids of the live rows of a fragment in their order: stable ones, or addresses."""
    reader = FragmentReader(fragment, bases)
    live = reader.deletions.live_rows(0, reader.num_rows).indices()
    return RowLineage(fragment, reader, stable).row_ids(live)


def _among(ids: UInt64Array, wanted: UInt64Array) -> npt.NDArray[np.bool_]:
    """bool[n]: which `ids` are in `wanted`, which ascend."""
    if not len(wanted):
        return np.zeros(len(ids), np.bool_)
    is_among: npt.NDArray[np.bool_] = wanted[np.minimum(np.searchsorted(wanted, ids), len(wanted) - 1)] == ids
    return is_among


def _numbers(batches: Sequence[pa.RecordBatch], name: str) -> UInt64Array:
    parts = [batch.column(name).to_numpy() for batch in batches]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
