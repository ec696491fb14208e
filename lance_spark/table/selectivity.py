"""How many rows a filter keeps, from a sample: what a planner has to know before anything is read.

An estimate that is too low can make Spark send a table to every executor that does not fit there, one that is too high
only costs time. So the estimate leans to the high side, and takes rows that lie next to each other for one observation:
where a table is sorted by a column of the filter, its matches are in few places, which a sample can miss.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt

from lance_spark.encodings.blocks import Int64Array
from lance_spark.storage.local import LocalStore
from lance_spark.table.fragment import DataFragment
from lance_spark.table.scan import Scan

_FRAGMENTS = 16
_BLOCKS = 128
_BLOCK_ROWS = 64

_DEVIATIONS = 3.0
"""So many standard errors are added to the mean of a sample, and where nothing was seen in n places, 3 / n may be there
(the rule of three, for 95 %)."""


def estimated_share(scan: Scan, fragments: Sequence[DataFragment]) -> float:
    """The share, in [0, 1], of the rows of `fragments` that the filter of `scan` keeps; 1 without a filter, or where no
    row can be told.

    Reads the filter's columns in up to 128 places of up to 16 fragments.

    Raises:
        CorruptFileError: a file contradicts the format.
        InvalidInputError: the filter fails on a value.
    """
    chosen = [fragments[place] for place in _spread(len(fragments), _FRAGMENTS)]
    rows = [fragment.physical_rows or 0 for fragment in chosen]
    if scan.filter is None or not sum(rows):
        return 1.0
    counts = [max(1, round(_BLOCKS * count / sum(rows))) if count else 0 for count in rows]
    store, _ = scan.bases.data_file(chosen[0].files[0])
    # Threads are for waiting: beside each other they are slower than one that reads local files.
    with ThreadPoolExecutor(1 if isinstance(store, LocalStore) else len(chosen)) as pool:
        found = list(pool.map(lambda item: _shares(scan, *item), zip(chosen, rows, counts, strict=True)))
    # Of many fragments few are looked at, and what lies in one of them is told by one number.
    whole = len(chosen) == len(fragments)
    shares = np.concatenate(found) if whole else np.array([share.mean() for share in found if len(share)])
    mean, error = float(shares.mean()), float(shares.std()) / float(np.sqrt(len(shares)))
    return min(1.0, max(mean + _DEVIATIONS * error, _DEVIATIONS / len(shares)))


def _shares(scan: Scan, fragment: DataFragment, num_rows: int, num_blocks: int) -> npt.NDArray[np.float64]:
    """For each of some blocks of rows the share that the filter keeps."""
    if not num_blocks:
        return np.zeros(0)
    size = min(_BLOCK_ROWS, num_rows)
    starts = _spread(num_rows - size + 1, num_blocks)
    starts = starts[np.diff(starts, prepend=-size) >= size]
    offsets: Int64Array = (starts[:, None] + np.arange(size)).ravel()
    shares: npt.NDArray[np.float64] = scan.matches(fragment, offsets).reshape(len(starts), size).mean(axis=1)
    return shares


def _spread(length: int, count: int) -> Int64Array:
    """Up to `count` of the numbers below `length`, evenly."""
    if length <= count:
        return np.arange(length, dtype=np.int64)
    return (np.arange(count, dtype=np.int64) * 2 + 1) * length // (2 * count)
