"""OFFSET and LIMIT of a scan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from lance_spark.errors import InvalidInputError
from lance_spark.table.reading.fragment_reader import FragmentReader
from lance_spark.table.reading.index_candidates import Candidates
from lance_spark.table.reading.scan import Scan
from lance_spark.table.reading.selection import FragmentRows
from lance_spark.table.rows.fragment import DataFragment, FragmentList


def limited(
    scan: Scan,
    fragments: FragmentList,
    *,
    limit: int | None = None,
    offset: int | None = None,
    candidates: Candidates | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of `scan` over `fragments` from row number `offset` on, at most `limit`.

    Without a filter, fragments outside this range are not opened if the manifest has their row counts.

    Args:
        candidates: reads the fragments instead of `scan`, which has a filter, and gives the same rows.

    Raises:
        InvalidInputError: a negative number, or one of more than 63 bits.
    """
    _check_range(limit, offset)
    if limit is None and not offset:
        return (candidates or scan).read(fragments)
    if scan.filter is None:
        return _by_position(scan, fragments, offset or 0, limit)
    return _by_counting(candidates or scan, fragments, offset or 0, limit)


def limited_splits(
    parts: Iterable[tuple[Candidates, FragmentList]], *, limit: int | None = None, offset: int | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of several tables after each other, with the limits of `limited`; each with the reader of its rows."""
    _check_range(limit, offset)
    return _of_splits(parts, offset or 0, limit)


def _of_splits(
    parts: Iterable[tuple[Candidates, FragmentList]], skip: int, remaining: int | None
) -> Iterator[pa.RecordBatch]:
    if remaining == 0:
        return
    for candidates, fragments in parts:
        scan = candidates.scan
        counts_rows = scan.filter is None and skip > 0
        rows = sum(scan.counts(fragments)) if counts_rows else 0
        if counts_rows and skip >= rows:
            skip -= rows
            continue
        start, skip = (skip, 0) if counts_rows else (0, skip)
        # With a filter or an offset that is left, more rows may be needed than are returned.
        most = remaining if scan.filter is None and not skip else None
        for batch in limited(scan, fragments, offset=start, limit=most, candidates=candidates):
            passed = min(skip, batch.num_rows)
            skip -= passed
            piece = batch.slice(passed) if remaining is None else batch.slice(passed, remaining)
            remaining = None if remaining is None else remaining - piece.num_rows
            if piece.num_rows:
                yield piece
            if remaining == 0:
                return


_MOST_ROWS = (1 << 63) - 1


def _check_range(limit: int | None, offset: int | None) -> None:
    if min(limit or 0, offset or 0) < 0:
        raise InvalidInputError("limit and offset cannot be negative")
    if max(limit or 0, offset or 0) > _MOST_ROWS:
        raise InvalidInputError(f"limit and offset cannot be above {_MOST_ROWS}")


def _by_position(scan: Scan, fragments: FragmentList, skip: int, limit: int | None) -> Iterator[pa.RecordBatch]:
    remaining = limit
    for place, known in enumerate(fragments.row_counts()):
        if remaining == 0:
            return
        live = scan.count(fragments[place]) if known is None else known
        if skip >= live:
            skip -= live
            continue
        fragment = fragments[place]
        rows = live - skip if remaining is None else min(live - skip, remaining)
        start, stop = _physical(scan, fragment, skip, rows)
        yield from scan.read([FragmentRows(fragment, start=start, stop=stop)])
        skip = 0
        remaining = None if remaining is None else remaining - rows


def physical_offset(scan: Scan, fragment: DataFragment, skip: int) -> int:
    """The offset in a fragment of its live row with index `skip`, which must exist."""
    return _physical(scan, fragment, skip, 1)[0]


def _physical(scan: Scan, fragment: DataFragment, skip: int, rows: int) -> tuple[int, int]:
    """The offset range of the live rows with indexes `skip` to `skip + rows` of a fragment, `rows` > 0."""
    if fragment.deletion_file is None:
        return skip, skip + rows
    deletions = FragmentReader(fragment, scan.bases).deletions
    first, last = deletions.offsets_of_live(np.array([skip, skip + rows - 1], np.int64)).tolist()
    return first, last + 1


def _by_counting(
    scan: Scan | Candidates, fragments: Sequence[DataFragment], skip: int, limit: int | None
) -> Iterator[pa.RecordBatch]:
    remaining = limit
    if remaining == 0:
        return
    for batch in scan.read(fragments):
        passed = min(skip, batch.num_rows)
        skip -= passed
        piece = batch.slice(passed) if remaining is None else batch.slice(passed, remaining)
        if piece.num_rows:
            yield piece
        remaining = None if remaining is None else remaining - piece.num_rows
        if remaining == 0:
            return
