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
from lance_spark.index.row_set import RowSet
from lance_spark.kernels.grouping import group_rows
from lance_spark.kernels.jit import address_of

_PIECE_ROWS = 1 << 18

_SHARED_BYTES = 256 << 20
"""Parts bring the same keys again. When their keys take this much, and twice what the distinct ones took last, they are
kept once."""

_MAX_KEY_BYTES = (1 << 31) - (1 << 20)
"""What an Arrow array of texts holds."""

_BITS = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}


class KeyRows:
    """The rows of each key: pairs of a key and a row, which come part by part.

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
        self._parts.append(_Part.of(self._num_keys, codes, ids))
        self._num_keys += len(keys)

    def _share_keys(self) -> None:
        """Keeps each key once."""
        encoded = pa.concat_arrays(self._keys).dictionary_encode(null_encoding="encode")
        numbers = encoded.indices.to_numpy()
        for place, part in enumerate(self._parts):
            self._parts[place] = part.renumbered(numbers)
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
        for part in self._parts:
            counts += np.bincount(numbers[part.first_key :][part.codes], minlength=len(order))
        places = np.cumsum(counts) - counts
        ids = np.empty(int(counts.sum()), np.uint64)
        for place, part in enumerate(self._parts):
            codes, rows = numbers[part.first_key :][part.codes], part.ids()
            group_rows(address_of(codes), address_of(rows), len(rows), address_of(places), address_of(ids))
            # Their memory is for the groups.
            self._parts[place] = _Part.none()
        has_rows = counts > 0
        bounds = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts[has_rows])])
        return Groups(keys.take(pa.array(order[has_rows])), bounds, ids)


@dataclass(frozen=True, slots=True)
class Groups:
    """Keys in index order, and the rows of each.

    Attributes:
        keys: distinct, n of them; each has a row.
        bounds: int64[n + 1]: the rows of key number i are `ids[bounds[i]:bounds[i + 1]]`.
        ids: uint64[m], in the order in which they came, so that a row can occur twice.
    """

    keys: pa.Array
    bounds: Int64Array
    ids: UInt64Array

    def pieces(self) -> Iterator[tuple[pa.Array, list[int], UInt64Array]]:
        """(some of the keys, bounds, rows), with the rows of a key ascending and distinct."""
        start = 0
        while start < len(self.keys):
            reached = int(self.bounds[start]) + _PIECE_ROWS
            stop = max(start + 1, int(np.searchsorted(self.bounds, reached, side="right")) - 1)
            bounds = self.bounds[start : stop + 1] - self.bounds[start]
            yield (
                self.keys.slice(start, stop - start),
                *_distinct(bounds, self.ids[self.bounds[start] : self.bounds[stop]]),
            )
            start = stop


def _distinct(bounds: Int64Array, ids: UInt64Array) -> tuple[list[int], UInt64Array]:
    """(bounds, rows) with the rows of each key ascending and distinct."""
    is_first = np.zeros(len(ids), np.bool_)
    is_first[bounds[:-1]] = True
    if not (is_first[1:] | (ids[1:] >= ids[:-1])).all():
        groups = [np.unique(ids[start:stop]) for start, stop in pairwise(bounds.tolist())]
        return np.cumsum([0, *(len(group) for group in groups)]).tolist(), np.concatenate(groups)
    is_first[1:] |= ids[1:] != ids[:-1]
    return [*(np.cumsum(is_first)[bounds[:-1]] - 1).tolist(), int(is_first.sum())], ids[is_first]


@dataclass(frozen=True, slots=True)
class _Part:
    """Pairs that came together.

    Attributes:
        first_key: the number of their first key among all.
        codes: the number of each pair's key, counted from the first one, as narrow as it can be.
        rows: uint64[n], the rows of the pairs; uint64[1] the first one of a range.
    """

    first_key: int
    codes: npt.NDArray[np.integer[Any]]
    rows: UInt64Array

    @classmethod
    def of(cls, first_key: int, codes: npt.NDArray[np.int32], ids: UInt64Array) -> _Part:
        narrow = codes.astype(np.min_scalar_type(int(codes.max(initial=0))))
        is_range = len(ids) > 1 and bool((np.diff(ids) == 1).all())
        return cls(first_key, narrow, ids[:1].copy() if is_range else ids)

    def renumbered(self, numbers: npt.NDArray[np.int32]) -> _Part:
        """The same pairs; `numbers` are those of all keys so far among the keys that are kept."""
        codes = numbers[self.first_key :][self.codes]
        return replace(self, first_key=0, codes=codes.astype(np.min_scalar_type(int(codes.max(initial=0)))))

    @classmethod
    def none(cls) -> _Part:
        return cls(0, np.empty(0, np.int32), np.empty(0, np.uint64))

    def ids(self) -> UInt64Array:
        if len(self.rows) == len(self.codes):
            return np.ascontiguousarray(self.rows)
        return np.arange(self.rows[0], self.rows[0] + np.uint64(len(self.codes)), dtype=np.uint64)


def _as_bits(values: pa.Array) -> pa.Array:
    """Floats as integers of their width: each form of NaN and each zero is a key of its own."""
    return values.view(_BITS[values.type.bit_width]) if pt.is_floating(values.type) else values
