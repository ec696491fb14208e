"""Giving columns other values, in the rows for which a filter is true.

Changed rows are written with all their columns into new fragments and deleted from their old ones; no file is changed
in place.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from lance_spark.expr.nodes import Expr
from lance_spark.expr.values import no_rows
from lance_spark.table.commits.retry import cleanup_on_failure
from lance_spark.table.reading.index_candidates import Candidates
from lance_spark.table.row_level.assignments import Assignments
from lance_spark.table.row_level.delete import split_scan
from lance_spark.table.row_level.write_target import RowOrigins, Version, WriteTarget, own_blobs
from lance_spark.table.rows.row_address import UInt64Array
from lance_spark.table.writing.save import CommitOptions


def update_once(
    target: WriteTarget[Version], values: Mapping[str, object], filter: Expr | None, options: CommitOptions
) -> Version:
    """The version after `target` in which columns have other `values` where `filter` is true.

    Raises:
        RetryableConflictError: another writer has touched one of the rows.
        Others as `RowVerbs.update`.
    """
    assignments = Assignments(target.lance_schema, values)
    target.identity.check_kept(assignments.columns())
    columns = target.read_schema
    # A value that does not fit its column is an error even if there is no row to change.
    assignments(no_rows(columns))
    target = target.taking(columns)
    deleted: dict[str | None, UInt64Array] = {}
    with target.writer(blobs=own_blobs) as writer:
        for split in target.splits(filter):
            scan = split_scan(target.lance_schema, split, filter, columns.names)
            addresses = [np.empty(0, np.uint64)]
            candidates = Candidates.of(scan, split.manifest, checks_exact=True)
            for batch in candidates.read_fragments(split.manifest.fragments):
                rows = pa.RecordBatch.from_arrays(batch.columns[:-1], schema=columns)
                addresses.append(batch.column(batch.num_columns - 1).to_numpy())
                writer.write(assignments(rows), RowOrigins.of_split(split, addresses[-1]))
            deleted[split.key] = np.concatenate(addresses)
        written = writer.close()
    with cleanup_on_failure(lambda: target.remove_files(written)):
        return target.change_rows(deleted, written, options, changed_fields=assignments.changed_fields())
