"""Giving columns other values, in the rows for which a filter is true.

Changed rows are written into new fragments, whole, and go from where they were; no file is changed in place.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from lance_spark.expr.nodes import Expr
from lance_spark.expr.sql import condition_of
from lance_spark.table.commits.retry import retry_on_conflict
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.reading.index_candidates import Candidates
from lance_spark.table.row_level.assignments import Assignments
from lance_spark.table.row_level.delete import split_scan
from lance_spark.table.row_level.row_target import PlainRows, RowTarget, Version, Written
from lance_spark.table.rows.row_address import UInt64Array
from lance_spark.table.writing.save import CommitOptions


def update_rows(
    table: TableLocation,
    base: Manifest,
    values: Mapping[str, object],
    filter: Expr | str | None = None,
    options: CommitOptions | None = None,
) -> Manifest:
    """The version in which columns have other `values`, in the rows of `base` for which `filter` is true.

    It is `base` itself if there is no such row. If other writers have changed one of the rows, filter and values are
    computed again, from the newest version, so that no change is lost.

    Args:
        values: as `Assignments` takes them.
        filter: None for all rows.

    Raises:
        InvalidInputError: filter or values make no sense, or fail on a value. Nothing was changed.
        NotFoundError: there is no such column.
        CommitConflictError: what other writers have committed does not go together with it. Nothing was changed.
        CommitStateUnknownError: the store never said whether the version was committed.
        StorageError: the store failed. Nothing was changed.
        UnsupportedFeatureError: this release cannot write to the table.
    """
    condition = None if filter is None else condition_of(filter, to_match_all="leave it out")
    options = options or CommitOptions()

    def attempt(version: Manifest) -> Manifest:
        return update_once(PlainRows(table, version, options), values, condition)

    return retry_on_conflict(attempt, base, table.newest, options.policy)


def update_once(target: RowTarget[Version, Written], values: Mapping[str, object], filter: Expr | None) -> Version:
    """The version after `target` in which columns have other `values` where `filter` is true.

    Raises:
        RetryableConflictError: another writer has touched one of the rows; others as `update_rows`.
    """
    assignments = Assignments(target.lance_schema, values)
    columns = target.schema
    # A value that does not fit its column is an error even if there is no row to change.
    assignments(pa.RecordBatch.from_pylist([], schema=columns))
    deleted: dict[str | None, UInt64Array] = {}
    with target.writer(columns) as writer:
        for split in target.splits(filter):
            scan = split_scan(target.lance_schema, split, filter, columns.names)
            found = [np.empty(0, np.uint64)]
            for batch in Candidates.of(scan, split.manifest).read_fragments(split.manifest.fragments):
                rows = pa.RecordBatch.from_arrays(batch.columns[:-1], schema=columns)
                found.append(batch.column(batch.num_columns - 1).to_numpy())
                writer.write(assignments(rows), split, found[-1])
            deleted[split.key] = np.concatenate(found)
        written = writer.close()
    return target.commit(deleted, written, changed_fields=assignments.changed_fields())
