"""Pairs of a key and a row, as BITMAP, LABEL_LIST and NGRAM store them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from lance_spark.encodings.blocks import Int64Array
from lance_spark.index.builders.base import IdMapping, UInt64Array
from lance_spark.index.builders.sorting import sort_order
from lance_spark.index.row_set import RowSet

_BITS = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}


@dataclass(frozen=True, slots=True)
class Entries:
    """Pairs of a key and a row.

    Attributes:
        keys: any order; a key may occur several times, null is a key.
        codes: int64[n]: the place of each pair's key in `keys`.
        ids: uint64[n]: the row of each pair.
    """

    keys: pa.Array
    codes: Int64Array
    ids: UInt64Array

    @classmethod
    def of_values(cls, values: pa.Array, ids: UInt64Array) -> Entries:
        """One pair for each value."""
        encoded = _as_bits(values).dictionary_encode(null_encoding="encode")
        keys = encoded.dictionary if encoded.dictionary.type == values.type else encoded.dictionary.view(values.type)
        return cls(keys, encoded.indices.to_numpy().astype(np.int64), ids)

    @classmethod
    def of_sets(cls, keys: pa.Array, sets: Sequence[RowSet], mapping: IdMapping) -> Entries:
        """The pairs of each key with the mapped rows of its set."""
        numbers = [rows.numbers() for rows in sets]
        codes = np.repeat(np.arange(len(keys), dtype=np.int64), [len(found) for found in numbers])
        kept, ids = mapping(np.concatenate([np.empty(0, np.uint64), *numbers]))
        return cls(keys, codes[kept], ids)

    def sorted(self) -> tuple[pa.Array, list[int], UInt64Array]:
        """(the distinct keys in index order, bounds, rows).

        The rows of key number i are `rows[bounds[i]:bounds[i + 1]]`, ascending and distinct. Keys without a row are
        left out.
        """
        distinct = Entries.of_values(self.keys, np.zeros(len(self.keys), np.uint64))
        key_order = sort_order(distinct.keys)
        rank = np.empty(len(key_order), np.int64)
        rank[key_order] = np.arange(len(key_order))
        codes = rank[distinct.codes][self.codes] if len(self.codes) else self.codes
        order = _order(codes, self.ids)
        codes, ids = codes[order], self.ids[order]
        is_first = np.ones(len(ids), np.bool_)
        is_first[1:] = (codes[1:] != codes[:-1]) | (ids[1:] != ids[:-1])
        codes, ids = codes[is_first], ids[is_first]
        starts = np.flatnonzero(np.diff(codes, prepend=-1))
        keys = distinct.keys.take(pa.array(key_order[codes[starts]]))
        return keys, [*starts.tolist(), len(ids)], ids


def united(parts: Sequence[Entries]) -> Entries:
    """The pairs of all parts, at least one."""
    offsets = np.cumsum([0, *(len(part.keys) for part in parts)])
    codes = [part.codes + offset for part, offset in zip(parts, offsets, strict=False)]
    return Entries(
        pa.concat_arrays([part.keys for part in parts]),
        np.concatenate(codes),
        np.concatenate([part.ids for part in parts]),
    )


def _order(codes: Int64Array, ids: UInt64Array) -> Int64Array:
    """The places of pairs, ordered by key and then by row."""
    narrow = codes.astype(np.uint16) if len(codes) and int(codes.max()) < 1 << 16 else codes
    if bool(np.all(ids[1:] >= ids[:-1])):
        return np.argsort(narrow, kind="stable")
    by_id = np.argsort(ids, kind="stable")
    return by_id[np.argsort(narrow[by_id], kind="stable")]


def _as_bits(values: pa.Array) -> pa.Array:
    """Floats as integers of their width: each form of NaN and each zero is a key of its own."""
    return values.view(_BITS[values.type.bit_width]) if pt.is_floating(values.type) else values
