"""Giving columns other values, in the rows for which a filter is true.

Changed rows are written into new fragments, whole, and go from where they were; no file is changed in place.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from lance_spark.expr.nodes import Expr
from lance_spark.expr.sql import condition_of
from lance_spark.file.writable import require_writable
from lance_spark.file_version import FileVersion
from lance_spark.table.commits.retry import cleanup_on_failure, retry_on_conflict
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.features import check_writable
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.operations.manifest_builder import data_format
from lance_spark.table.reading.index_candidates import Candidates
from lance_spark.table.row_level.assignments import Assignments
from lance_spark.table.row_level.delete import address_scan
from lance_spark.table.row_level.rewritten_row_writer import MovedRowWriter, remove_new, source_addresses_of
from lance_spark.table.row_level.row_changes import commit_row_changes, rows_by_fragment
from lance_spark.table.writing.save import DEFAULT_FILE_VERSION, CommitOptions


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
        return _update_once(table, version, values, condition, options)

    return retry_on_conflict(attempt, base, table.newest, options.policy)


def _update_once(
    table: TableLocation,
    base: Manifest,
    values: Mapping[str, object],
    filter: Expr | str | None,
    options: CommitOptions,
) -> Manifest:
    file_version = version_to_write(base)
    assignments = Assignments(base.schema, values)
    scan = address_scan(table, base, filter, base.schema.names())
    columns = pa.schema(list(scan.arrow_schema)[:-1])
    # A value that does not fit its column is an error even if there is no row to change.
    assignments(pa.RecordBatch.from_pylist([], schema=columns))
    found = Candidates.of(scan, base)
    with MovedRowWriter(table.store, base.schema, file_version=file_version) as writer:
        for batch in found.read_fragments(base.fragments):
            rows = pa.RecordBatch.from_arrays(batch.columns[:-1], schema=columns)
            writer.write(assignments(rows), batch.column(batch.num_columns - 1).to_numpy())
        new = writer.close()
    with cleanup_on_failure(lambda: remove_new(table.store, new)):
        deleted = rows_by_fragment(source_addresses_of(new))
        return commit_row_changes(table, base, deleted, new, options, changed_fields=assignments.changed_fields())


def version_to_write(base: Manifest) -> FileVersion:
    """The version of data files whose rows come from other files of the table.

    Raises:
        UnsupportedFeatureError: this release does not write to the table, or not files of its version or columns.
    """
    check_writable(base.writer_flags, f"version {base.version} of the table")
    version = data_format(base) or DEFAULT_FILE_VERSION
    require_writable(base.schema, version)
    return version
