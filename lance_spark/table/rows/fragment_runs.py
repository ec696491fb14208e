"""Row addresses, fragment by fragment. Those of a fragment must be next to each other."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from lance_spark.encodings.blocks import Int64Array
from lance_spark.table.rows.fragment import FragmentId
from lance_spark.table.rows.row_address import OFFSET_BITS, UInt64Array, offsets_of


def fragment_runs(addresses: UInt64Array) -> list[tuple[FragmentId, int, int]]:
    """(fragment id, start, stop) of each fragment of `addresses` (uint64[n]), in their order.

    >>> fragment_runs(np.array([1, 7, (2 << 32) + 1], np.uint64))
    [(0, 0, 2), (2, 2, 3)]
    """
    if not len(addresses):
        return []
    ids = addresses >> np.uint64(OFFSET_BITS)
    if ids[0] == ids[-1]:
        return [(FragmentId(int(ids[0])), 0, len(ids))]
    cuts = [0, *((ids[1:] != ids[:-1]).nonzero()[0] + 1).tolist(), len(ids)]
    return [(FragmentId(int(ids[start])), start, stop) for start, stop in pairwise(cuts)]


def by_fragment(addresses: UInt64Array) -> Iterator[tuple[FragmentId, Int64Array]]:
    """The fragments of `addresses` (uint64[n]), with the offsets (int64[k]) in each."""
    for fragment_id, start, stop in fragment_runs(addresses):
        yield fragment_id, offsets_of(addresses[start:stop])
