"""Search with the help of vector indexes. Rows of fragments without an index are read, and the distances are exact.

An index finds candidates; the vectors of the candidates are read from the table and compared. So a distance is the
same with and without an index, whatever the index has in place of vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyroaring

from lance_spark.errors import CorruptFileError, InvalidInputError, LanceError
from lance_spark.index.files import IndexFiles
from lance_spark.index.segments import warn_unused
from lance_spark.index.vector.metrics import Metric
from lance_spark.index.vector.nearest import Hits
from lance_spark.index.vector.probing import Probing
from lance_spark.index.vector.segment import LiveAddresses, VectorSegment
from lance_spark.schema.field import LanceSchema
from lance_spark.table.bases import Bases
from lance_spark.table.manifests.fragment_reuse import FRAGMENT_REUSE
from lance_spark.table.manifests.index_metadata import IndexMetadata
from lance_spark.table.manifests.index_section import parse_indices
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.reading.fragment_reader import FragmentReader
from lance_spark.table.reading.index_candidates import Candidates
from lance_spark.table.reading.scan import Scan
from lance_spark.table.reading.system_columns import ROW_ADDRESS
from lance_spark.table.rows.fragment import BaseId, DataFragment
from lance_spark.table.rows.row_address import UInt64Array, distinct, row_addresses, split_addresses
from lance_spark.table.rows.row_ids import RowIdSequence
from lance_spark.table.vector_search.exact import ExactSearch
from lance_spark.table.vector_search.query import VectorQuery

_DETAILS = "/lance.index.pb.vectorindexdetails"

_REFINE_FACTOR = 4
"""Candidates of an index of codes for each row of the result; reading their vectors costs little beside the search."""

_MAX_FILTERED_ROWS = 20_000
"""So few rows that a filter leaves are compared directly."""


@dataclass(frozen=True)
class IndexUse:
    """How indexes take part in a search.

    Attributes:
        use_index: False compares all rows.
        probing: how many partitions of an index are searched.
        refine_factor: so many candidates for each row of the result; None for what suits the kind of index.
        fast_search: leaves out rows of fragments that the index does not cover.
    """

    use_index: bool = True
    probing: Probing = field(default_factory=Probing)
    refine_factor: int | None = None
    fast_search: bool = False

    def __post_init__(self) -> None:
        if self.refine_factor is not None and (type(self.refine_factor) is not int or self.refine_factor < 1):
            raise InvalidInputError(f"refine_factor is {self.refine_factor!r}; it must be at least 1")


def nearest_hits(
    scan: Scan, manifest: Manifest, query: VectorQuery, use: IndexUse, *, use_scalar_index: bool
) -> list[Hits]:
    """The nearest rows of a version to each query.

    Args:
        scan: reads the column of vectors alone; its filter says which rows are searched.
        use_scalar_index: whether the table's scalar indexes may answer the filter.
    """
    segments = _segments(scan, manifest, query, use)
    search = ExactSearch(scan, query)
    covered = pyroaring.BitMap()
    for segment in segments:
        ids = segment.fragment_ids & pyroaring.BitMap(message.id for message in manifest.fragments.messages)
        try:
            found = _candidates(segment, scan, manifest, query, use, ids, use_scalar_index=use_scalar_index)
        except LanceError as error:
            warn_unused(segment.name, segment.uuid, error)
            continue
        search.read_rows(manifest, found)
        covered |= ids
    if not use.fast_search or not segments:
        others = [fragment for fragment in manifest.fragments if fragment.id not in covered]
        search.read_fragments(manifest, others, use_scalar_index=use_scalar_index)
    return search.hits()


def metric_of_index(scan: Scan, manifest: Manifest, query: VectorQuery, use: IndexUse) -> Metric | None:
    """The metric of the index that answers a query that names none; None if no index does."""
    segments = _segments(scan, manifest, query, use)
    return segments[0].model.metric if segments else None


def _candidates(
    segment: VectorSegment,
    scan: Scan,
    manifest: Manifest,
    query: VectorQuery,
    use: IndexUse,
    fragment_ids: pyroaring.BitMap,
    *,
    use_scalar_index: bool,
) -> UInt64Array:
    """uint64[n], ascending, distinct: the addresses of the rows that a segment suggests for all queries."""
    fragments = [fragment for fragment in manifest.fragments if fragment.id in fragment_ids]
    allowed = _filtered(scan, manifest, fragments, use_scalar_index=use_scalar_index)
    if allowed is not None and len(allowed) <= max(_MAX_FILTERED_ROWS, query.k):
        return allowed
    live = _live(fragments, scan, allowed)
    factor = use.refine_factor or (1 if segment.is_exact else _REFINE_FACTOR)
    found = [segment.candidates(vectors[0], query.k * factor, query.k, use.probing, live) for vectors in query.queries]
    return distinct(np.concatenate(found))


def _filtered(
    scan: Scan, manifest: Manifest, fragments: Sequence[DataFragment], *, use_scalar_index: bool
) -> UInt64Array | None:
    """uint64[n], ascending: the addresses of the rows for which the filter of a scan is true; None without filter."""
    if scan.filter is None:
        return None
    plan = replace(scan, projection=LanceSchema((), scan.schema.metadata), output=(ROW_ADDRESS,), uncut=True)
    candidates = Candidates.of(plan, manifest, use_scalar_index=use_scalar_index)
    found = [np.empty(0, np.uint64)]
    for fragment in fragments:
        found += [batch.column(0).to_numpy() for batch in candidates.read_fragment(fragment)]
    return np.sort(np.concatenate(found))


def _live(fragments: Sequence[DataFragment], scan: Scan, allowed: UInt64Array | None) -> LiveAddresses:
    """Tells which rows of an index a search may return: rows of `fragments` that are not deleted and are `allowed`."""
    rows = {fragment.id: fragment.physical_rows or 0 for fragment in fragments}
    ids = np.array(sorted(rows), np.int64)
    num_rows = np.array([rows[id_] for id_ in ids.tolist()], np.int64)
    deleted = _deleted(fragments, scan.bases)
    locate = _by_row_id(fragments, deleted) if scan.stable_row_ids else None

    def live(row_ids: UInt64Array) -> tuple[UInt64Array, npt.NDArray[np.bool_]]:
        addresses, known = (row_ids, np.ones(len(row_ids), np.bool_)) if locate is None else locate(row_ids)
        owners, offsets = split_addresses(addresses)
        places = np.minimum(np.searchsorted(ids, owners), len(ids) - 1)
        known &= (ids[places] == owners) & (offsets < num_rows[places])
        known &= ~_is_in(addresses, deleted)
        if allowed is not None:
            known &= _is_in(addresses, allowed)
        return addresses, known

    return live


def _is_in(values: UInt64Array, ascending: UInt64Array) -> npt.NDArray[np.bool_]:
    if not len(ascending):
        return np.zeros(len(values), np.bool_)
    places = np.minimum(np.searchsorted(ascending, values), len(ascending) - 1)
    found: npt.NDArray[np.bool_] = ascending[places] == values
    return found


def _deleted(fragments: Sequence[DataFragment], bases: Bases) -> UInt64Array:
    parts = [np.empty(0, np.uint64)]
    with bases.reading():
        for fragment in fragments:
            if fragment.deletion_file is not None:
                offsets = FragmentReader(fragment, bases).deletions.offsets
                parts.append(row_addresses(fragment.id, np.sort(offsets.astype(np.int64))))
    return np.sort(np.concatenate(parts))


def _by_row_id(fragments: Sequence[DataFragment], deleted: UInt64Array) -> LiveAddresses:
    """Where the row of an id lies now. A row that was updated has left a deleted one with the same id behind."""
    ids, addresses = [np.empty(0, np.uint64)], [np.empty(0, np.uint64)]
    for fragment in fragments:
        if fragment.row_ids is None or fragment.physical_rows is None:
            raise CorruptFileError(f"fragment {fragment.id} does not say its row ids")
        offsets = np.arange(fragment.physical_rows, dtype=np.int64)
        ids.append(RowIdSequence.from_bytes(fragment.row_ids, fragment.physical_rows).at(offsets))
        addresses.append(row_addresses(fragment.id, offsets))
    known, where = np.concatenate(ids), np.concatenate(addresses)
    kept = ~_is_in(where, deleted)
    known, where = known[kept], where[kept]
    order = np.argsort(known, kind="stable")
    known, where = known[order], where[order]

    def locate(row_ids: UInt64Array) -> tuple[UInt64Array, npt.NDArray[np.bool_]]:
        if not len(known):
            return np.zeros(len(row_ids), np.uint64), np.zeros(len(row_ids), np.bool_)
        places = np.minimum(np.searchsorted(known, row_ids), len(known) - 1)
        return where[places], known[places] == row_ids

    return locate


def _segments(scan: Scan, manifest: Manifest, query: VectorQuery, use: IndexUse) -> list[VectorSegment]:
    """The segments of the index that fits the query best; none if it has to be answered without."""
    bounded = query.within.lower is not None or query.within.upper is not None
    if not use.use_index or bounded or query.column.is_multivector or not manifest.index_section:
        return []
    by_name: dict[str, list[VectorSegment]] = {}
    for segment in _opened(scan, manifest, query):
        by_name.setdefault(segment.name, []).append(segment)
    for segments in by_name.values():
        try:
            metrics = {segment.model.metric for segment in segments}
        except LanceError as error:
            warn_unused(segments[0].name, segments[0].uuid, error)
            continue
        if len(metrics) == 1 and (query.metric_is_default or metrics == {query.metric}):
            return segments
    return []


def _opened(scan: Scan, manifest: Manifest, query: VectorQuery) -> list[VectorSegment]:
    try:
        indexes = parse_indices(manifest.index_section)
    except CorruptFileError as error:
        warn_unused("section", "all", error)
        return []
    if any(index.name == FRAGMENT_REUSE for index in indexes):
        # Addresses in index files can be those of fragments before a compaction that left the files as they were.
        return []
    searched = scan.projection.fields[0]
    while searched.children:
        searched = searched.children[0]
    found = []
    for index in indexes:
        message = index.message
        if message.index_details.type_url.lower().endswith(_DETAILS) and list(message.fields) == [searched.id]:
            segment = _segment(index, scan.bases, query.column.dimension)
            found += [] if segment is None else [segment]
    return found


def _segment(index: IndexMetadata, bases: Bases, dimension: int) -> VectorSegment | None:
    try:
        fragment_ids = index.fragment_ids()
        if not fragment_ids:
            # A definition without files, to be trained when there are rows.
            return None
        store, folder = bases.index_folder(index.uuid, None if index.base_id is None else BaseId(index.base_id))
        sizes = {file.path: file.size_bytes for file in index.message.files if file.size_bytes}
        return VectorSegment(index.name, index.uuid, fragment_ids, IndexFiles(store, folder, sizes), dimension)
    except LanceError as error:
        warn_unused(index.name, index.uuid, error)
        return None
