"""The size of a scan as reported to Spark's planner."""

from __future__ import annotations

from collections.abc import Sequence

from lance_spark.errors import InvalidInputError
from lance_spark.spark.connector.scan.selection import ScannedFragments, SelectedFragments, SplitScan
from lance_spark.spark.connector.scan.task_packing import SplitPart
from lance_spark.table.reading.selectivity import estimated_selectivity


def most_rows(selected: Sequence[SelectedFragments]) -> int | None:
    """Upper bound of the rows that the selected fragments have for the answer; None if one count is not known."""
    known = [rows for item in selected if (rows := item.num_rows) is not None]
    return sum(known) if len(known) == len(selected) else None


def sampled_selectivity(selected: Sequence[SelectedFragments], splits: Sequence[SplitScan]) -> float:
    """About which share, in [0, 1], of the rows of the selected fragments the filter of the scans keeps: of those that
    indexes have found all.

    Raises:
        CorruptFileError: a file contradicts the format.
    """
    sampled = [item for item in selected if item.candidates is None]
    num_rows, num_sampled = most_rows(selected), most_rows(sampled)
    if len(sampled) < len(selected) and not (num_rows and num_sampled):
        return 1.0
    try:
        share = estimated_selectivity(ScannedFragments(sampled, splits))
        return share if not (num_rows and num_sampled) else (num_rows - num_sampled + share * num_sampled) / num_rows
    except InvalidInputError:
        # The sample has deleted rows too. If a row that is not deleted fails, a task reports it.
        return 1.0


def planned_bytes(pieces: Sequence[SplitPart]) -> int | None:
    """The bytes of the files that a read of `pieces` touches; None if a manifest lacks the size of a file."""
    is_known = all(item.rows.is_size_known for item in pieces)
    return sum(item.size_bytes for item in pieces) if is_known else None
