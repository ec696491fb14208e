"""Deleting the rows for which a filter is true.

The rows are found once, in the version that is read. If other writers have touched some of them before the commit, the
filter is asked again, on the newest version.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from lance_spark.encodings.blocks import Int64Array
from lance_spark.errors import InvalidInputError
from lance_spark.expr.literals import Literal
from lance_spark.expr.nodes import Expr
from lance_spark.expr.sql.parse import condition_of
from lance_spark.schema.field import LanceSchema
from lance_spark.table.commits.retry import retry_on_conflict
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.operations.manifest_builder import data_format
from lance_spark.table.reading.blobs.blob_columns import with_blob_descriptors
from lance_spark.table.reading.index_candidates import Candidates
from lance_spark.table.reading.scan import Scan
from lance_spark.table.reading.system_columns import ROW_ADDRESS
from lance_spark.table.row_level.row_changes import DeletedRows, NewerVersionCheck, commit_row_changes
from lance_spark.table.rows.fragment import DataFragment, FragmentId
from lance_spark.table.rows.fragment_runs import by_fragment
from lance_spark.table.source import Split
from lance_spark.table.writing.save import CommitOptions

# What bounds a batch is the window of the scan, in bytes: each batch costs, and nobody wants small ones here.
_BATCH_ROWS = 1 << 20


def delete_rows(
    table: TableLocation,
    base: Manifest,
    filter: Expr | str,
    options: CommitOptions | None = None,
    *,
    check: Callable[[Manifest], NewerVersionCheck | None] | None = None,
) -> Manifest:
    """The version without the rows of `base` for which `filter` is true; `base` itself if there are none.

    Args:
        check: the check of a run of the deletion on a version, asked for each newer version that it has to follow.

    Raises:
        InvalidInputError: the filter is invalid, or fails on a value.
        NotFoundError: the filter names a column that the table does not have.
        CommitConflictError: it conflicts with what other writers have committed. Nothing was changed.
        CommitStateUnknownError: the store never said whether the version was committed.
        StorageError: the store failed. Nothing was changed.
        UnsupportedFeatureError: this release cannot write to the table.
    """
    options = options or CommitOptions()
    condition = condition_of(filter, to_match_all="give 'true'")
    table.history.check_commits()

    def attempt(version: Manifest) -> Manifest:
        deleted = matching_rows(table, version, condition)
        asked = None if check is None else check(version)
        return commit_row_changes(table, version, deleted, options=options, predicate=str(filter), check=asked)

    return retry_on_conflict(attempt, base, table.newest, options.policy)


@dataclass(frozen=True, slots=True)
class Search:
    """The rows that a filter keeps in one version, which somebody has found.

    Attributes:
        deleted: of each fragment that has any.
    """

    version: Manifest
    deleted: DeletedRows

    def comparable(self, other: Manifest) -> dict[FragmentId, DataFragment]:
        """The fragments of which the filter keeps the same rows in the version `other`, if they are equal there."""
        if other.schema != self.version.schema or other.base_paths != self.version.base_paths:
            return {}
        return {fragment.id: fragment for fragment in self.version.fragments}


def matching_rows(table: TableLocation, base: Manifest, filter: Expr, known: Search | None = None) -> DeletedRows:
    """Ascending offsets of the rows that the filter keeps, for each fragment that has any.

    A filter that is always true selects complete fragments, and no file is read.

    Args:
        known: what the filter keeps in an older version; only fragments that are not the same since are read.
    """
    if isinstance(filter, Literal) and filter.value is True:
        return dict.fromkeys(FragmentId(message.id) for message in base.fragments.messages)
    if known is not None and known.version.version == base.version:
        return known.deleted
    searched = {} if known is None else known.comparable(base)
    scan = Candidates.of(address_scan(table, base, filter), base, checks_exact=True)
    found: dict[FragmentId, Int64Array | None] = {}
    changed = []
    for fragment in base.fragments:
        if known is None or searched.get(fragment.id) != fragment:
            changed.append(fragment)
        elif fragment.id in known.deleted:
            found[fragment.id] = known.deleted[fragment.id]
    parts = [batch.column(0).to_numpy() for batch in scan.read(changed)]
    return found | dict(by_fragment(np.concatenate(parts))) if parts else found


def address_scan(
    table: TableLocation,
    base: Manifest,
    filter: Expr | str | None,
    columns: Sequence[str] = (),
    *,
    time_zone: str = "UTC",
) -> Scan:
    """A scan of `base` for `columns` and then, as the last column, the address of each row. Raises as below."""
    return split_scan(base.schema, Split(table, base), filter, columns, time_zone=time_zone)


def split_scan(
    table: LanceSchema,
    split: Split,
    filter: Expr | str | None,
    columns: Sequence[str] = (),
    *,
    time_zone: str = "UTC",
) -> Scan:
    """A scan of a split for `columns` and then, as the last column, the address of each row.

    Descriptions of blobs name their data file.

    Args:
        table: the columns of the table.

    Raises:
        InvalidInputError: a column of the table has the name of that column, or the filter is invalid.
        NotFoundError: there is no such column.
    """
    schema = with_blob_descriptors(table, data_format(split.manifest), with_source=True)
    if ROW_ADDRESS in schema.names():
        raise InvalidInputError(
            f"rows of a table with a column {ROW_ADDRESS!r} cannot be identified; rename the column"
        )
    return Scan.of(
        schema,
        split.bases,
        columns=columns,
        filter=filter,
        with_row_address=True,
        stable_row_ids=split.manifest.has_stable_row_ids,
        batch_rows=_BATCH_ROWS,
        time_zone=time_zone,
    )
