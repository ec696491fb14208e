"""Searches of a plain table for the rows for which a filter is true, and scans for the addresses of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lance_spark.encodings.blocks import Int64Array
from lance_spark.errors import InvalidInputError
from lance_spark.expr.literals import Literal
from lance_spark.expr.nodes import Expr
from lance_spark.schema.field import LanceSchema
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.operations.manifest_builder import data_format
from lance_spark.table.reading.blobs.blob_columns import with_blob_descriptors
from lance_spark.table.reading.index_candidates import Candidates
from lance_spark.table.reading.scan import Scan
from lance_spark.table.reading.system_columns import ROW_ADDRESS
from lance_spark.table.row_level.row_changes import DeletedRows
from lance_spark.table.rows.fragment import DataFragment, FragmentId
from lance_spark.table.rows.fragment_runs import by_fragment
from lance_spark.table.source import Split

# What bounds a batch is the window of the scan, in bytes: each batch costs, and nobody wants small ones here.
_BATCH_ROWS = 1 << 20


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


def matching_rows(table: TableLocation, base: Manifest, filter: Expr, before: Search | None = None) -> DeletedRows:
    """Ascending offsets of the rows that the filter keeps, for each fragment that has any.

    A filter that is always true selects complete fragments, and no file is read.

    Args:
        before: what the filter keeps in an older version; only fragments that are not the same since are read.
    """
    if isinstance(filter, Literal) and filter.value is True:
        return dict.fromkeys(FragmentId(message.id) for message in base.fragments.messages)
    if before is not None and before.version.version == base.version:
        return before.deleted
    searched = {} if before is None else before.comparable(base)
    scan = Candidates.of(address_scan(table, base, filter), base, checks_exact=True)
    offsets: dict[FragmentId, Int64Array | None] = {}
    changed = []
    for fragment in base.fragments:
        if before is None or searched.get(fragment.id) != fragment:
            changed.append(fragment)
        elif fragment.id in before.deleted:
            offsets[fragment.id] = before.deleted[fragment.id]
    parts = [batch.column(0).to_numpy() for batch in scan.read(changed)]
    return offsets | dict(by_fragment(np.concatenate(parts))) if parts else offsets


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
