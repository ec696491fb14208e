"""Pairs of a key and a row, as BITMAP, LABEL_LIST and NGRAM store them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

from lance_spark.encodings.blocks import Int64Array
from lance_spark.errors import InvalidInputError
from lance_spark.index.builders.base import IdMapping, UInt64Array
from lance_spark.index.builders.sorting import sort_order
from lance_spark.index.builders.spill import SpilledParts
from lance_spark.index.row_set import RowSet
from lance_spark.kernels.grouping import group_rows
from lance_spark.kernels.jit import address_of

_PIECE_ROWS = 1 << 18
_GROUPED_ROWS = 1 << 22
"""Rows that are put to their keys at a time, in 8 bytes each; all pairs are looked at each time."""

_SHARED_BYTES = 256 << 20
"""Parts bring the same keys again. When their keys take this much, and twice what the distinct ones took last, they are
kept once."""

_MAX_KEY_BYTES = (1 << 31) - (1 << 20)
"""What an Arrow array of texts holds."""

_BITS = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}


class KeyRows:
    """The rows of each key: pairs of a key and a row, which come part by part.

    Of each part its distinct keys are kept in memory; which of them each row has, and the rows, may be in a file.

    Args:
        dtype: the type of the keys.

    Raises:
        InvalidInputError: where pairs are added: the distinct keys do not fit into an Arrow array.
    """

    def __init__(self, dtype: pa.DataType) -> None:
        self._dtype = dtype
        self._keys: list[pa.Array] = [_as_bits(pa.array([], dtype))]
        self._num_keys = 0
        self._key_bytes = 0
        self._shared_at = _SHARED_BYTES
        self._parts: list[_Part] = []
        self._rows = SpilledParts()

    def add(self, values: pa.Array, ids: UInt64Array) -> None:
        """Adds one pair for each value; null is a key."""
        for start in range(0, len(ids), _PIECE_ROWS):
            encoded = _as_bits(values.slice(start, _PIECE_ROWS)).dictionary_encode(null_encoding="encode")
            self._add(encoded.dictionary, encoded.indices.to_numpy(), ids[start : start + _PIECE_ROWS])

    def add_sets(self, keys: pa.Array, sets: Sequence[RowSet], mapping: IdMapping) -> None:
        """Adds the pairs of each key with the mapped rows of its set."""
        numbers = [rows.numbers() for rows in sets]
        codes = np.repeat(np.arange(len(keys), dtype=np.int32), [len(found) for found in numbers])
        kept, ids = mapping(np.concatenate([np.empty(0, np.uint64), *numbers]))
        self._add(_as_bits(keys), codes[kept], ids)

    def close(self) -> None:
        """Removes the file."""
        self._rows.close()

    def _add(self, keys: pa.Array, codes: npt.NDArray[np.int32], ids: UInt64Array) -> None:
        num_bytes = keys.nbytes
        if self._key_bytes + num_bytes > min(self._shared_at, _MAX_KEY_BYTES):
            self._share_keys()
            self._shared_at = max(_SHARED_BYTES, 2 * self._key_bytes)
        if self._key_bytes + num_bytes > _MAX_KEY_BYTES:
            raise InvalidInputError(
                "the distinct values take more than 2 GiB, which an index of kind BITMAP or LABEL_LIST cannot hold; "
                "create a BTREE"
            )
        self._key_bytes += num_bytes
        self._keys.append(keys)
        counts = np.bincount(codes, minlength=len(keys))
        first_row = int(ids[0]) if len(ids) > 1 and bool((np.diff(ids) == 1).all()) else None
        numbers = np.arange(self._num_keys, self._num_keys + len(keys), dtype=np.int32)
        self._parts.append(_Part(numbers, counts.astype(np.min_scalar_type(int(counts.max(initial=0)))), first_row))
        self._rows.add(_stored(codes, None if first_row is not None else ids))
        self._num_keys += len(keys)

    def _share_keys(self) -> None:
        """Keeps each key once."""
        encoded = pa.concat_arrays(self._keys).dictionary_encode(null_encoding="encode")
        numbers = encoded.indices.to_numpy()
        for place, part in enumerate(self._parts):
            self._parts[place] = replace(part, keys=numbers[part.keys])
        self._keys = [encoded.dictionary]
        self._num_keys, self._key_bytes = len(encoded.dictionary), encoded.dictionary.nbytes

    def grouped(self) -> Groups:
        """The pairs by key. Nothing can be added then."""
        encoded = pa.concat_arrays(self._keys).dictionary_encode(null_encoding="encode")
        distinct = encoded.dictionary
        keys = distinct if distinct.type == self._dtype else distinct.view(self._dtype)
        order = sort_order(keys)
        rank = np.empty(len(order), np.int32)
        rank[order] = np.arange(len(order), dtype=np.int32)
        numbers = rank[encoded.indices.to_numpy()]
        counts = np.zeros(len(order), np.int64)
        parts = [replace(part, keys=numbers[part.keys]) for part in self._parts]
        self._parts, self._keys = [], []
        for part in parts:
            # A part of an old segment can have equal keys.
            np.add.at(counts, part.keys, part.counts)
        return Groups(keys.take(pa.array(order)), counts, parts, self._rows.opened())


@dataclass(frozen=True, slots=True)
class _Part:
    """Pairs that came together.

    Attributes:
        keys: int32[k], the numbers of their distinct keys among all.
        counts: how many pairs have each of them, as narrow as it can be.
        first_row: the row of the first pair, if the rows are a range; None if they are not.
    """

    keys: npt.NDArray[np.int32]
    counts: npt.NDArray[np.integer[Any]]
    first_row: int | None


def _stored(codes: npt.NDArray[np.int32], ids: UInt64Array | None) -> pa.RecordBatch:
    """Which of its part's keys each pair has, as narrow as it can be, and the rows."""
    narrow = codes.astype(np.min_scalar_type(int(codes.max(initial=0))))
    columns = {"codes": pa.array(narrow)} | ({} if ids is None else {"ids": pa.array(ids)})
    return pa.record_batch(columns)


@dataclass(frozen=True, slots=True)
class Groups:
    """Keys in index order, and the rows of each.

    Attributes:
        keys: distinct.
        counts: int64[n], how many pairs have each of them; none have a key that is in no part any more.
        parts: the pairs, with the places of their keys in `keys`.
        stored: what else is known of each part.
    """

    keys: pa.Array
    counts: Int64Array
    parts: Sequence[_Part]
    stored: Sequence[pa.RecordBatch]

    @property
    def num_keys(self) -> int:
        """The keys that have a row."""
        return int((self.counts > 0).sum())

    def pieces(self) -> Iterator[tuple[pa.Array, list[int], UInt64Array]]:
        """(some of the keys, bounds, rows), with the rows of a key ascending and distinct."""
        ends = np.cumsum(self.counts)
        start = 0
        while start < len(self.keys):
            stop = _end_of_piece(ends, start, _GROUPED_ROWS)
            ids = self._grouped(start, stop)
            bounds = np.concatenate([np.zeros(1, np.int64), np.cumsum(self.counts[start:stop])])
            first = start
            while first < stop:
                last = min(stop, _end_of_piece(ends, first, _PIECE_ROWS))
                own = bounds[first - start : last - start + 1]
                has_rows = np.flatnonzero(self.counts[first:last])
                if len(has_rows):
                    keys = self.keys.slice(first, last - first).take(pa.array(has_rows))
                    of_keys = np.append(own[:-1][has_rows], own[-1]) - own[0]
                    yield keys, *_distinct(of_keys, ids[own[0] : own[-1]])
                first = last
            start = stop

    def _grouped(self, start: int, stop: int) -> UInt64Array:
        """uint64[m]: the rows of the keys [start, stop), key after key, in the order in which they came."""
        counts = self.counts[start:stop]
        places = np.cumsum(counts) - counts
        ids = np.empty(int(counts.sum()), np.uint64)
        for part, stored in zip(self.parts, self.stored, strict=True):
            is_here = (part.keys >= start) & (part.keys < stop)
            if not is_here.any():
                continue
            numbers = np.where(is_here, part.keys - start, -1).astype(np.int32)
            codes, rows = numbers[stored.column(0).to_numpy()], _rows_of(part, stored)
            group_rows(address_of(codes), address_of(rows), len(rows), address_of(places), address_of(ids))
        return ids


def _end_of_piece(ends: Int64Array, start: int, num_rows: int) -> int:
    """The end of the keys from number `start` on that have some rows together; at least one key."""
    before = int(ends[start - 1]) if start else 0
    return max(start + 1, int(np.searchsorted(ends, before + num_rows, side="right")))


def _rows_of(part: _Part, stored: pa.RecordBatch) -> UInt64Array:
    """uint64[n]: the rows of the pairs of a part."""
    if part.first_row is None:
        rows: UInt64Array = np.ascontiguousarray(stored.column(1).to_numpy())
    else:
        rows = np.arange(stored.num_rows, dtype=np.uint64) + np.uint64(part.first_row)
    return rows


def _distinct(bounds: Int64Array, ids: UInt64Array) -> tuple[list[int], UInt64Array]:
    """(bounds, rows) with the rows of each key ascending and distinct."""
    is_first = np.zeros(len(ids), np.bool_)
    is_first[bounds[:-1]] = True
    if not (is_first[1:] | (ids[1:] >= ids[:-1])).all():
        groups = [np.unique(ids[start:stop]) for start, stop in pairwise(bounds.tolist())]
        return np.cumsum([0, *(len(group) for group in groups)]).tolist(), np.concatenate(groups)
    is_first[1:] |= ids[1:] != ids[:-1]
    return [*(np.cumsum(is_first)[bounds[:-1]] - 1).tolist(), int(is_first.sum())], ids[is_first]


def _as_bits(values: pa.Array) -> pa.Array:
    """Floats as integers of their width: each form of NaN and each zero is a key of its own."""
    return values.view(_BITS[values.type.bit_width]) if pt.is_floating(values.type) else values
