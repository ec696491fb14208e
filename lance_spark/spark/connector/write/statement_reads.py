"""Rows that a statement has read of the table that it changes; its commit compares them with others' changes."""

from __future__ import annotations

from collections.abc import Sequence

from lance_spark.expr.nodes import Expr
from lance_spark.spark.connector.channel.handles import TableHandle
from lance_spark.spark.connector.scan.requests import ScanRequest
from lance_spark.spark.options.options import StateOptions
from lance_spark.table.row_level.isolation import IsolationLevel
from lance_spark.table.row_level.read_conflicts import ReadRows
from lance_spark.table.search.text_filters import has_text_search


def reads_of(target: TableHandle, scans: Sequence[ScanRequest], time_zone: str) -> tuple[ReadRows, ...]:
    """The rows of `target` that `scans` look at; none if the table asks for no more than a snapshot, and got one.

    Scans of other tables and branches do not count, and neither do those that choose an older version.
    """
    own = [scan for scan in scans if _is_of(scan, target)]
    reads = tuple(
        ReadRows(scan.handle.version, _rows(scan), time_zone) for scan in own if scan.handle.version is not None
    )
    is_one_snapshot = all(read.version == target.version for read in reads)
    return () if is_one_snapshot and isolation_of(target) is IsolationLevel.SNAPSHOT else reads


def _rows(scan: ScanRequest) -> Expr | None:
    """The filter of the rows that `scan` looks at; None for all, also where a text search chooses them, which has no
    answer for rows of other versions.
    """
    condition = scan.condition()
    return None if condition is None or has_text_search(condition) else condition


def isolation_of(handle: TableHandle) -> IsolationLevel:
    """The isolation level that the table's properties set."""
    return IsolationLevel.of(handle.source().properties)


def _is_of(scan: ScanRequest, target: TableHandle) -> bool:
    if (scan.handle.uri, scan.handle.branch) != (target.uri, target.branch):
        return False
    state = StateOptions.pick(scan.options)
    return state.version is None and state.tag is None and state.timestamp is None
