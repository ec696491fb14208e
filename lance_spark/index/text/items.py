"""Documents that are the items of lists: each has a number within its list, and a place in the order of the table.

All items of a list are documents, those without terms and nulls included, as in the reference library. Where lists are
in lists, the items of the innermost ones are, and have a number at each level: that of the list around comes first.
"""

from __future__ import annotations

from enum import Enum

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark.errors import InvalidInputError
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.text.order import order_of

UInt32Array = npt.NDArray[np.uint32]
UInt64Array = npt.NDArray[np.uint64]


class Granularity(str, Enum):
    """Unit that is a document of a text index: a row, or an item of a list."""

    ROW = "ROW"
    LIST_ELEMENT = "LIST_ELEMENT"

    @property
    def other(self) -> Granularity:
        """The other granularity."""
        return Granularity.ROW if self is Granularity.LIST_ELEMENT else Granularity.LIST_ELEMENT

    @classmethod
    def of(cls, value: object) -> Granularity:
        """The granularity that a user names, in any case.

        Raises:
            InvalidInputError: there is none of this name.
        """
        name = value.upper() if isinstance(value, str) else value
        for known in cls:
            if name == known.value:
                return known
        raise InvalidInputError(f"document_granularity {value!r} is not ROW or LIST_ELEMENT")


def items_of(lists: pa.Array) -> tuple[pa.Array, npt.NDArray[np.int64], UInt32Array]:
    """(the items of all innermost lists, int64[n]: the value that each is in, uint32[n, levels]: its numbers).

    Raises:
        InvalidInputError: the values are not lists.
    """
    owners, numbers = np.arange(len(lists)), np.empty((len(lists), 0), np.uint32)
    for _ in range(levels_of(lists.type)):
        counts = lists.value_lengths().fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        places = np.repeat(np.arange(len(lists)), counts)
        own = np.arange(len(places)) - np.repeat(np.cumsum(counts) - counts, counts)
        owners, numbers = owners[places], np.column_stack([numbers[places], own.astype(np.uint32)])
        lists = lists.flatten()
    return lists, owners, numbers


def levels_of(dtype: pa.DataType) -> int:
    """Number of positions that identify an item of values of a type: one for each level of lists.

    Raises:
        InvalidInputError: the values are not lists.
    """
    levels = 0
    inner = dtype
    while pa.types.is_list(inner) or pa.types.is_large_list(inner):
        levels, inner = levels + 1, inner.value_type
    if not levels:
        raise InvalidInputError(f"document_granularity LIST_ELEMENT needs lists of strings, not {dtype}")
    return levels


def keys_of(rows: UInt64Array, items: UInt32Array | None) -> npt.NDArray[np.generic]:
    """Numbers or bytes that are ordered, and equal, as rows (uint64[n]) and items in them (uint32[n, levels]) are."""
    if items is None:
        return rows
    size = 8 + 4 * items.shape[1]
    parts = np.empty((len(rows), size), np.uint8)
    parts[:, :8] = rows.astype(">u8").view(np.uint8).reshape(-1, 8)
    parts[:, 8:] = items.astype(">u4").view(np.uint8).reshape(-1, size - 8)
    return parts.view(f"S{size}").ravel()


def of_keys(keys: npt.NDArray[np.generic]) -> tuple[UInt64Array, UInt32Array | None]:
    """The rows and items of `keys_of`."""
    if keys.dtype == np.uint64:
        return keys.astype(np.uint64, copy=False), None
    parts = np.ascontiguousarray(keys).view(np.uint8).reshape(len(keys), keys.dtype.itemsize)
    rows = np.ascontiguousarray(parts[:, :8]).view(">u8").ravel()
    return rows.astype(np.uint64), np.ascontiguousarray(parts[:, 8:]).view(">u4").astype(np.uint32)


def ascend(rows: UInt64Array, items: UInt32Array | None) -> bool:
    """Whether documents ascend, without equal ones."""
    if items is None:
        return int(order_of(address_of(rows), 0, 0, len(rows))) == 1
    return int(order_of(address_of(rows), address_of(items), items.shape[1], len(rows))) == 1


def ranks_of(rows: UInt64Array, items: UInt32Array | None) -> UInt64Array:
    """uint64[n]: numbers in the order of documents."""
    if items is None:
        return rows
    ranks = np.empty(len(rows), np.uint64)
    ranks[np.lexsort((*items.T[::-1], rows))] = np.arange(len(rows), dtype=np.uint64)
    return ranks
