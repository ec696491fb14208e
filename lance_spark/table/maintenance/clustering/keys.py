"""Values of the columns that a table is clustered by, in a form whose order is the one of the layout.

Nulls come first, of a descending column last; NaN is greater than every number, and -0.0 is 0.0. Curves take ranks: how
many of some sampled values are not greater, so that every range of ranks has as many rows, however values are spread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lance_spark.encodings.blocks import Int64Array
from lance_spark.table.maintenance.clustering.curve import hilbert, zorder
from lance_spark.table.maintenance.clustering.layout import ClusteringKey, Layout
from lance_spark.table.rows.row_address import UInt64Array

SAMPLE_ROWS = 1 << 16
_RANK_BITS = 12


def key_table(layout: Layout, batch: pa.RecordBatch | pa.Table) -> pa.Table:
    """The keys of rows: for each column whether it has a value, and the value in a type that Arrow sorts rightly.

    Args:
        batch: top-level columns by name.
    """
    arrays: list[pa.Array] = []
    for key in layout.keys:
        values = _plain(_column(batch, key))
        arrays += [pc.is_valid(values).cast(pa.int8()), values]
    return pa.table(arrays, names=[str(place) for place in range(len(arrays))])


def sorted_places(layout: Layout, keys: pa.Table) -> Int64Array:
    """int64[n]: the rows of `key_table` in the order of their values; equal ones stay as they are."""
    orders = ("descending" if key.descending else "ascending" for key in layout.keys)
    sort_keys = [
        pair for place, order in enumerate(orders) for pair in ((str(2 * place), order), (str(2 * place + 1), order))
    ]
    places: Int64Array = pc.sort_indices(keys, sort_keys=sort_keys).to_numpy().astype(np.int64)
    return places


@dataclass(frozen=True, slots=True)
class CurveKeys:
    """Ranks of the values of each column of a layout among sampled ones.

    Attributes:
        bounds: of each column, ascending values without nulls.
        bits: of each rank.
    """

    layout: Layout
    bounds: tuple[pa.Array, ...]
    bits: int

    @classmethod
    def of(cls, layout: Layout, sample: pa.Table) -> CurveKeys:
        """The ranks that some rows of `key_table` give."""
        bits = min(_RANK_BITS, 63 // len(layout.keys))
        columns = [_number(sample.column(2 * place + 1)).drop_null() for place in range(len(layout.keys))]
        return cls(layout, tuple(_bounds(column, (1 << bits) - 2) for column in columns), bits)

    def places(self, keys: pa.Table) -> UInt64Array:
        """uint64[n]: the places of rows of `key_table` on the curve."""
        ranks = np.zeros((len(self.bounds), keys.num_rows), np.int64)
        for place, bounds in enumerate(self.bounds):
            values = _number(keys.column(2 * place + 1))
            valid = values.is_valid().to_numpy(zero_copy_only=False)
            ranks[place][valid] = 1 + num_not_greater(bounds, values.drop_null())
            # Ranks take all bits, whether there are many different values or few.
            ranks[place] = (ranks[place] << self.bits) // (len(bounds) + 2)
        return hilbert(ranks, self.bits) if self.layout.curve == "hilbert" else zorder(ranks, self.bits)


def num_not_greater(bounds: pa.Array, values: pa.Array) -> Int64Array:
    """int64[n]: how many of the ascending `bounds` are not greater than each of `values`; none is null."""
    if pt.is_integer(values.type) or pt.is_floating(values.type):
        numbers: Int64Array = np.searchsorted(bounds.to_numpy(), values.to_numpy(), side="right").astype(np.int64)
        return numbers
    order = pc.sort_indices(pa.concat_arrays([bounds, values])).to_numpy()
    is_bound = order < len(bounds)
    counts = np.empty(len(values), np.int64)
    counts[order[~is_bound].astype(np.int64) - len(bounds)] = np.cumsum(is_bound)[~is_bound]
    return counts


def _bounds(values: pa.Array, limit: int) -> pa.Array:
    """At most `limit` values, as far from each other in the order as can be."""
    ordered = values.take(pc.sort_indices(values))
    if len(ordered) <= limit:
        return ordered
    return ordered.take(pa.array((np.arange(limit) * len(ordered)) // limit))


def _column(batch: pa.RecordBatch | pa.Table, key: ClusteringKey) -> pa.Array:
    values = batch.column(key.path[0])
    values = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    for name in key.path[1:]:
        values = pc.struct_field(values, [values.type.get_field_index(name)])
    return values


def _plain(values: pa.Array) -> pa.Array:
    """Values whose order in Arrow is the wanted one; nulls stay."""
    if pt.is_dictionary(values.type):
        values = values.dictionary_decode()
    dtype = values.type
    if pt.is_floating(dtype):
        return _ordered_floats(values)
    if pt.is_boolean(dtype):
        return values.cast(pa.uint8())
    if pt.is_temporal(dtype):
        return values.view(pa.int32() if dtype.bit_width == 32 else pa.int64())
    if pt.is_decimal(dtype):
        return values.cast(
            pa.decimal256(76, dtype.scale) if pt.is_decimal256(dtype) else pa.decimal128(38, dtype.scale)
        )
    if pt.is_large_string(dtype) or pt.is_large_binary(dtype) or pt.is_integer(dtype):
        return values
    return values.cast(pa.large_binary()) if pt.is_fixed_size_binary(dtype) else values


def _ordered_floats(values: pa.Array) -> pa.Array:
    """Whole numbers in the order of floats: -0.0 is 0.0, and NaN comes last."""
    nulls = values.is_null().to_numpy(zero_copy_only=False)
    floats = values.cast(pa.float64()).fill_null(0).to_numpy(zero_copy_only=False) + 0.0
    bits = floats.view(np.int64)
    numbers = np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits)
    numbers[np.isnan(floats)] = 2**63 - 1
    return pa.array(numbers, mask=nulls)


def _number(values: pa.ChunkedArray) -> pa.Array:
    """One array; decimals as floats, whose order is the same but for equal ones."""
    array = values.combine_chunks()
    array = pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array
    return array.cast(pa.float64()) if pt.is_decimal(array.type) else array


def sampled(tables: Sequence[pa.Table]) -> pa.Table:
    """One table of samples."""
    return pa.concat_tables(tables).combine_chunks()
