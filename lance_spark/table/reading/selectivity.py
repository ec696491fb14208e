"""Estimates the selectivity of a filter, group sizes and blob sizes from a sample: input of a planner before it reads.

Too low an estimate can make Spark broadcast a table that does not fit into the executors, too high an estimate only
costs time. So the estimate is biased upwards, and adjacent rows count as one observation: in a table sorted by a column
of the filter, matches are in few places, which a sample can miss.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark.encodings.blocks import Int64Array
from lance_spark.storage.base import ByteRange
from lance_spark.storage.local.store import LocalStore
from lance_spark.table.reading.blobs.binary_scan import blob_sizes
from lance_spark.table.reading.scan import Scan
from lance_spark.table.rows.fragment import DataFragment

Read = TypeVar("Read")

_FRAGMENTS = 16
_BLOCKS = 128
_BLOCK_ROWS = 64

_DEVIATIONS = 3.0
"""The number of standard errors added to the mean of a sample; if nothing was found in n places, the upper bound is
3 / n (the rule of three, for 95 %)."""


ScannedFragment = tuple[Scan, DataFragment]
"""A fragment, and the scan that reads it: those of several splits differ in where the files are."""


@dataclass(frozen=True, slots=True)
class _Sample:
    """Rows of a fragment: `offsets` (int64[n]) in blocks of `size` neighbours."""

    scan: Scan
    fragment: DataFragment
    offsets: Int64Array
    size: int


def estimated_selectivity(fragments: Sequence[ScannedFragment]) -> float:
    """The share, in [0, 1], of the rows of `fragments` that the filter of their scans keeps; 1 without a filter, or
    where no number of rows is known.

    Reads the filter's columns in up to 128 places of up to 16 fragments.

    Raises:
        CorruptFileError: a file violates the format.
        InvalidInputError: an error of the filter's evaluation.
    """
    samples = _samples(fragments)
    if not samples or samples[0].scan.filter is None:
        return 1.0
    found = _read(samples, lambda item: item.scan.matches(item.fragment, item.offsets).reshape(-1, item.size))
    # Of many fragments few are sampled, and each of those counts as one observation.
    has_all = len(fragments) <= _FRAGMENTS
    shares = np.concatenate([kept.mean(axis=1) if has_all else kept.mean(keepdims=True)[0] for kept in found])
    mean, error = float(shares.mean()), float(shares.std()) / float(np.sqrt(len(shares)))
    return min(1.0, max(mean + _DEVIATIONS * error, _DEVIATIONS / len(shares)))


def rows_of_a_group(fragments: Sequence[ScannedFragment]) -> float:
    """Average number of rows of a sample with the same values in the columns of their scans; 0 where no number of rows
    is known.

    In all of the fragments there are at least this many. Reads as much as `estimated_selectivity`.

    Raises:
        CorruptFileError: a file violates the format.
    """
    samples = _samples(fragments)
    if not samples:
        return 0.0
    rows = pa.concat_tables(_read(samples, _rows))
    if not rows.num_rows:
        return 0.0
    num_groups: int = rows.group_by(rows.column_names, use_threads=False).aggregate([]).num_rows
    return float(rows.num_rows / num_groups)


@dataclass(frozen=True, slots=True)
class BlobBytes:
    """The average size of the blobs of a row.

    Attributes:
        total: bytes of the values that are read, wherever they are stored.
        inline: bytes of all values that are in the data file itself, read or not.
    """

    total: float = 0.0
    inline: float = 0.0


def blob_bytes_per_row(
    fragments: Sequence[ScannedFragment],
    counted: Collection[str],
    ranges: Mapping[str, ByteRange] | None = None,
) -> BlobBytes:
    """The average size of the blobs of a row in the columns of the scans, which return descriptions with a source.

    Exact for small tables; otherwise an estimate from a sample, biased upwards. References to complete objects outside
    of the table count 0. Reads descriptions only, at most as many as `estimated_selectivity` reads rows.

    Args:
        counted: the columns whose values count for `total`; `inline` is of all columns of the scans.
        ranges: the part that counts of the values of some columns, for `total`.

    Raises:
        CorruptFileError: a file violates the format.
    """
    counts = [fragment.physical_rows for _, fragment in fragments if fragment.files]
    is_small = len(counts) <= _FRAGMENTS and sum(count or 0 for count in counts) <= _BLOCKS * _BLOCK_ROWS
    samples = _all_rows(fragments) if is_small else _samples(fragments)
    if not samples:
        return BlobBytes()
    batches = _read(samples, _rows)
    read = [batch.select([name for name in batch.column_names if name in counted]) for batch in batches]
    total = np.concatenate([_sum_of_columns(batch, ranges or {}) for batch in read])
    inline = np.concatenate([_sum_of_columns(batch, {}, inline_only=True) for batch in batches])
    if not len(total):
        return BlobBytes()
    mean = float(total.mean())
    if not is_small:
        blocks = [float(block.mean()) for block in np.array_split(total, max(1, len(total) // _BLOCK_ROWS))]
        mean += _DEVIATIONS * float(np.std(blocks)) / float(np.sqrt(len(blocks)))
    return BlobBytes(mean, float(inline.mean()))


def _sum_of_columns(
    rows: pa.Table, ranges: Mapping[str, ByteRange], *, inline_only: bool = False
) -> npt.NDArray[np.float64]:
    total = np.zeros(rows.num_rows)
    for name in rows.column_names:
        chunks = rows[name].chunks
        sizes = [blob_sizes(chunk, ranges.get(name), inline_only=inline_only) for chunk in chunks]
        total += np.concatenate([np.zeros(0), *sizes])
    return total


def _all_rows(fragments: Sequence[ScannedFragment]) -> list[_Sample]:
    return [
        _Sample(scan, fragment, np.arange(fragment.physical_rows), fragment.physical_rows)
        for scan, fragment in fragments
        if fragment.files and fragment.physical_rows
    ]


def _live(sample: _Sample) -> Int64Array:
    """The offsets as indexes of live rows, without those beyond the last one."""
    known = sample.fragment.num_rows
    return sample.offsets if known is None else sample.offsets[sample.offsets < known]


def _rows(sample: _Sample) -> pa.Table:
    """The live rows of a sample, the filter left aside."""
    scan = sample.scan.without_filter.as_decoded
    return scan.read_table(scan.version.live_rows([(sample.fragment, _live(sample))]))


def _samples(fragments: Sequence[ScannedFragment]) -> list[_Sample]:
    """Some blocks of rows of some fragments, evenly; none where no row or no file is known."""
    chosen = [fragments[place] for place in _spread(len(fragments), _FRAGMENTS)]
    counted = [(scan, fragment, fragment.physical_rows or 0) for scan, fragment in chosen if fragment.files]
    total = sum(rows for _, _, rows in counted)
    samples = []
    for scan, fragment, rows in counted:
        size = min(_BLOCK_ROWS, rows)
        if not size:
            continue
        starts = _spread(rows - size + 1, max(1, round(_BLOCKS * rows / total)))
        starts = starts[np.diff(starts, prepend=-size) >= size]
        samples.append(_Sample(scan, fragment, (starts[:, None] + np.arange(size)).ravel(), size))
    return samples


def _read(samples: list[_Sample], read: Callable[[_Sample], Read]) -> list[Read]:
    store, _ = samples[0].scan.bases.data_file(samples[0].fragment.files[0])
    # Threads are for waiting: beside each other they are slower than one that reads local files.
    with ThreadPoolExecutor(1 if isinstance(store, LocalStore) else len(samples)) as pool:
        return list(pool.map(read, samples))


def _spread(length: int, count: int) -> Int64Array:
    """Up to `count` evenly spaced numbers below `length`."""
    if length <= count:
        return np.arange(length, dtype=np.int64)
    return (np.arange(count, dtype=np.int64) * 2 + 1) * length // (2 * count)
