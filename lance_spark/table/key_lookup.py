"""Finding rows by the values of key columns.

Values are equal as their bits are, so that NaN equals NaN; a null equals nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lance_spark.encodings.blocks import Int64Array
from lance_spark.errors import InvalidInputError


@dataclass(frozen=True, slots=True)
class KeyLookup:
    """Rows by their keys.

    Attributes:
        names: the key columns.
        domains: the different values of each.
        keys: int64[n]: for each row with a key, the numbers of its values as one number; ascending.
        places: int64[n]: these rows.
    """

    names: tuple[str, ...]
    domains: tuple[pa.Array, ...]
    keys: Int64Array
    places: Int64Array

    @classmethod
    def of(cls, columns: Sequence[pa.ChunkedArray], types: Sequence[pa.DataType], names: Sequence[str]) -> KeyLookup:
        """The rows of these key columns, compared as values of `types`.

        Raises:
            InvalidInputError: a key stands twice, or cannot be compared.
        """
        plain = [_plain(column, dtype, name) for column, dtype, name in zip(columns, types, names, strict=True)]
        domains = tuple(_unique(column, name) for column, name in zip(plain, names, strict=True))
        if np.prod([float(len(domain) + 1) for domain in domains]) >= float(1 << 62):
            raise InvalidInputError("the key columns have more combinations of values than can be told apart")
        keys = _numbers(plain, domains)
        places = np.flatnonzero(keys >= 0)
        order = np.argsort(keys[places], kind="stable")
        keys, places = keys[places][order], places[order]
        twice = np.flatnonzero(keys[1:] == keys[:-1])
        if len(twice):
            row = {name: column[int(places[twice[0]])].as_py() for name, column in zip(names, plain, strict=True)}
            raise InvalidInputError(f"more than one row has the key {row}")
        return cls(tuple(names), domains, keys, places)

    def find(self, columns: Sequence[pa.Array]) -> Int64Array:
        """int64[n]: the row with each of these keys, -1 where there is none."""
        plain = [
            _plain(pa.chunked_array([column]), domain.type, name)
            for column, domain, name in zip(columns, self.domains, self.names, strict=True)
        ]
        wanted = _numbers(plain, self.domains)
        if not len(self.keys):
            return np.full(len(wanted), -1, np.int64)
        nearest = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        return np.where((self.keys[nearest] == wanted) & (wanted >= 0), self.places[nearest], -1)


def _plain(column: pa.ChunkedArray, dtype: pa.DataType, name: str) -> pa.Array:
    array = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    while isinstance(array, pa.ExtensionArray):
        array = array.storage
    wanted = dtype.value_type if pt.is_dictionary(dtype) else dtype
    try:
        if pt.is_dictionary(array.type):
            array = array.dictionary_decode()
        return array if array.type == wanted else array.cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidInputError(f"key {name!r} is a {wanted} in the table, not a {array.type}: {error}") from error


def _unique(array: pa.Array, name: str) -> pa.Array:
    try:
        return array.drop_null().unique()
    except pa.ArrowNotImplementedError as error:
        raise InvalidInputError(f"key {name!r} has type {array.type}, by which rows cannot be found") from error


def _numbers(columns: Sequence[pa.Array], domains: Sequence[pa.Array]) -> Int64Array:
    """int64[n]: the place of each key among all combinations of values, -1 for one that is none of them."""
    total = np.zeros(len(columns[0]), np.int64)
    missing = np.zeros(len(columns[0]), np.bool_)
    for column, domain in zip(columns, domains, strict=True):
        places = pc.index_in(column, value_set=domain).fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        missing |= places < 0
        total = total * (len(domain) + 1) + places
    return np.where(missing, -1, total)
