"""Exact search: the distance of every row to the query."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.index.vector.batch import QueryProducts, is_worthwhile
from lance_spark.index.vector.metrics import (
    Float32Array,
    Vectors,
    computed_type,
    distances,
    distances_of_parts,
    distances_to_each,
)
from lance_spark.index.vector.nearest import Hits, NearestRows
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.reading.index_candidates import Candidates
from lance_spark.table.reading.scan import Scan
from lance_spark.table.reading.selection import FragmentRows
from lance_spark.table.reading.system_columns import ROW_ADDRESS, ROW_ID
from lance_spark.table.rows.fragment import DataFragment
from lance_spark.table.rows.fragment_runs import by_fragment
from lance_spark.table.rows.row_address import UInt64Array
from lance_spark.table.vector_search.query import VectorQuery
from lance_spark.table.vector_search.stored_vectors import FragmentOffsets, RowVectors, StoredVectors


class ExactSearch:
    """Collects the nearest of the rows that it reads.

    Attributes:
        num_rows: the rows that it has read.

    Args:
        scan: reads the column of vectors alone; its filter says which rows count.
        query: the search.
    """

    def __init__(self, scan: Scan, query: VectorQuery) -> None:
        self.scan = scan.with_ids
        self._query = query
        self.num_rows = 0
        self._collectors = [NearestRows(query.k, query.within) for _ in query.queries]
        use_products = query.is_batch and is_worthwhile(query.metric, len(self._collectors), query.k)
        self._products = (
            QueryProducts(query.metric, query.vectors, query.k)
            if use_products and not self._collectors[0].is_bounded
            else None
        )

    def read_fragments(self, manifest: Manifest, fragments: Iterable[DataFragment], *, use_scalar_index: bool) -> None:
        """Compares all rows of some fragments of a version.

        Args:
            use_scalar_index: whether the table's scalar indexes may narrow what is read.
        """
        candidates = Candidates.of(self.scan, manifest, use_scalar_index=use_scalar_index)
        for fragment in fragments:
            for batch in candidates.read([fragment]):
                self._offer_batch(batch)

    def read_rows(self, manifest: Manifest, addresses: UInt64Array, row_ids: UInt64Array | None = None) -> None:
        """Compares the rows at `addresses` (uint64[n], ascending, distinct), whatever the filter says of them.

        Args:
            row_ids: uint64[n]: their ids, if they are known; then the vectors can be read where they are stored.
        """
        ids = row_ids if self.scan.stable_row_ids else addresses
        wanted = [(manifest.fragments.with_id(number), offsets) for number, offsets in by_fragment(addresses)]
        if ids is None or self._query.column.is_multivector:
            self._scan_rows(wanted)
            return
        stored = StoredVectors(self.scan, manifest, self._query.column)
        start = 0
        for group in stored.groups(wanted):
            stop = start + sum([len(offsets) for _, offsets in group])
            self._compare_stored(group, stored.read(group), ids[start:stop], addresses[start:stop])
            start = stop

    def read_matching_rows(self, manifest: Manifest, addresses: UInt64Array) -> None:
        """Compares those of the rows at `addresses` (uint64[n], ascending, distinct) for which the filter is true."""
        rows = by_fragment(addresses)
        self._scan_rows([(manifest.fragments.with_id(number), offsets) for number, offsets in rows])

    def offer_candidates(self, manifest: Manifest, found: Sequence[Hits]) -> bool:
        """Compares the candidates of a single query where their vectors are; False if they have to be read.

        Args:
            found: for each query, rows of a version, whose distances are estimates.
        """
        query = self._query
        if len(found) > 1 or query.column.is_multivector or computed_type(query.vectors.dtype) != query.vectors.dtype:
            return False
        (hits,) = found
        addresses = hits.addresses
        if len({*addresses.tolist()}) < len(addresses):
            return False
        if len(addresses):
            located = StoredVectors(self.scan, manifest, query.column).located(addresses)
            if located is None:
                return False
            lengths = np.ones(len(addresses), np.int64)
            near = distances_of_parts(query.metric, located.addresses, lengths, query.vectors[0])
            row_ids = hits.row_ids if self.scan.stable_row_ids else addresses
            self._collectors[0].offer(near, row_ids, addresses)
            self.num_rows += len(addresses)
        return True

    def _compare_stored(
        self,
        group: Sequence[FragmentOffsets],
        found: Sequence[RowVectors | None],
        row_ids: UInt64Array,
        addresses: UInt64Array,
    ) -> None:
        """Compares rows whose vectors were found; the others are scanned."""
        known = [vectors for vectors in found if vectors is not None]
        if len(known) < len(found):
            self._scan_rows([item for item, vectors in zip(group, found, strict=True) if vectors is None])
        if not known:
            return
        if len(known) < len(found):
            was_found = [np.full(len(item[1]), vectors is not None) for item, vectors in zip(group, found, strict=True)]
            places = np.flatnonzero(np.concatenate(was_found))
            row_ids, addresses = row_ids[places], addresses[places]
        values = known[0].values if len(known) == 1 else np.concatenate([vectors.values for vectors in known])
        is_null = known[0].is_null if len(known) == 1 else np.concatenate([vectors.is_null for vectors in known])
        self.num_rows += len(values)
        self._compare(values, is_null, row_ids, addresses)

    def _scan_rows(self, wanted: Sequence[FragmentOffsets]) -> None:
        for batch in self.scan.read([FragmentRows(*item) for item in wanted]):
            self._offer_batch(batch)

    def offer(self, found: Sequence[Hits]) -> None:
        """Takes the rows that were found for each query into account; their distances are exact."""
        for hits, collector in zip(found, self._collectors, strict=True):
            collector.offer_hits(hits)

    def hits(self) -> list[Hits]:
        """The nearest rows to each query."""
        return [collector.hits() for collector in self._collectors]

    def _offer_batch(self, batch: pa.RecordBatch) -> None:
        self.num_rows += batch.num_rows
        addresses = batch.column(ROW_ADDRESS).to_numpy()
        row_ids = batch.column(ROW_ID).to_numpy() if ROW_ID in batch.schema.names else addresses
        column = innermost(batch.column(0))
        if self._query.column.is_multivector:
            for vectors, collector in zip(self._query.queries, self._collectors, strict=True):
                collector.offer(_least_sums(column, vectors, self._query), row_ids, addresses)
            return
        is_null = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
        self._compare(values_of(column, self._query.column.dimension), is_null, row_ids, addresses)

    def _compare(
        self, values: Vectors, is_null: npt.NDArray[np.bool_] | None, row_ids: UInt64Array, addresses: UInt64Array
    ) -> None:
        """Takes rows with these vectors ([n, d]) into account."""
        query = self._query
        if self._products is not None:
            if is_null is not None and is_null.any():
                kept = np.flatnonzero(~is_null)
                values, row_ids, addresses = values[kept], row_ids[kept], addresses[kept]
            self._compare_by_products(self._products, values, row_ids, addresses)
            return
        for vector, collector in zip(query.vectors, self._collectors, strict=True):
            found = distances(query.metric, values, vector)
            if is_null is not None:
                found[is_null] = np.nan
            collector.offer(found, row_ids, addresses)

    def _compare_by_products(
        self, products: QueryProducts, values: Vectors, row_ids: UInt64Array, addresses: UInt64Array
    ) -> None:
        """Compares `values` with many queries at once; same result as one query after the other. No vector is null."""
        query, collectors = self._query, self._collectors
        near: list[tuple[int, npt.NDArray[np.int32]]] = []
        for number, places in products.near_places(values, [collector.bound for collector in collectors]):
            if places is None:
                collectors[number].offer(distances(query.metric, values, query.vectors[number]), row_ids, addresses)
            else:
                near.append((number, places))
        if near:
            numbers, rows = [number for number, _ in near], np.concatenate([places for _, places in near])
            counts = np.array([len(places) for _, places in near])
            found = distances_to_each(query.metric, values[rows], counts, query.vectors[numbers])
            chosen = [collectors[number] for number in numbers]
            NearestRows.offer_to_each(chosen, counts, found, row_ids[rows], addresses[rows])


def innermost(column: pa.Array) -> pa.Array:
    """The vectors of a column, which can be a field of structs."""
    while pa.types.is_struct(column.type):
        column = pc.struct_field(column, 0)
    return column


def _least_sums(column: pa.Array, wanted: Vectors, query: VectorQuery) -> Float32Array:
    """float32[n]: for each list of vectors the sum, over those of the query, of the least distance to one of them; NaN
    for a list without vectors."""
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    inner = column.flatten()
    total = np.zeros(len(column), np.float32)
    filled = lengths > 0
    starts = (np.cumsum(lengths) - lengths)[filled]
    for row in wanted:
        if len(starts):
            total[filled] += np.fmin.reduceat(_of_vectors(inner, row, query), starts)
    total[~filled] = np.nan
    return total


def _of_vectors(column: pa.Array, wanted: Vectors, query: VectorQuery) -> Float32Array:
    found = distances(query.metric, values_of(column, query.column.dimension), wanted)
    if column.null_count:
        found[column.is_null().to_numpy(zero_copy_only=False)] = np.nan
    return found


def values_of(column: pa.Array, dimension: int) -> npt.NDArray[np.generic]:
    """[n, d]: the values of an array of vectors; null values are 0, those of null vectors undefined."""
    values = column.values.slice(column.offset * dimension, len(column) * dimension)
    if values.null_count:
        values = pc.fill_null(values, 0)
    found: npt.NDArray[np.generic] = values.to_numpy(zero_copy_only=False)
    return found.reshape(len(column), dimension)
