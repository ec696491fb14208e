"""A partitioned table that its first commit makes, with or without rows: until then nothing of it is there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NoReturn

import pyarrow as pa

from lance_spark.cached import cached_property
from lance_spark.errors import AlreadyExistsError
from lance_spark.namespace.directory.catalog_table import CATALOG_SCHEMA, CatalogTable, CatalogVersion
from lance_spark.partitioned.change import PartitionChange
from lance_spark.partitioned.commit import commit_first, with_operation_name
from lance_spark.partitioned.maintenance.compaction import compact_after
from lance_spark.partitioned.manifest_index import READ_FIELDS
from lance_spark.partitioned.row_delta import RowDelta, changes_from_delta
from lance_spark.partitioned.spec import PartitionSpecs, is_partitioned
from lance_spark.partitioned.table import PartitionedTable
from lance_spark.table.location import TableLocation
from lance_spark.table.writing.save import CommitOptions


class NewPartitionedTable(PartitionedTable):
    """A table that a commit is to make: it has columns, a spec and properties, and no version.

    Args:
        properties: of the namespace, without the definitions of columns and specs.
        current: what is at the root: nothing, or an empty `__manifest`.
    """

    def __init__(
        self,
        root: str,
        storage_options: Mapping[str, str] | None,
        specs: PartitionSpecs,
        properties: Mapping[str, str],
        current: CatalogVersion | None = None,
    ) -> None:
        catalog = CatalogTable(root, storage_options)
        super().__init__(root, storage_options, catalog, current or CatalogVersion(), specs)
        self.own_properties = dict(properties)

    @property
    def properties(self) -> Mapping[str, str]:
        return {**self.own_properties, **self.specs.to_metadata()}

    @cached_property
    def rows(self) -> pa.Table:
        """No rows, with the columns that `__manifest` gets."""
        there = CATALOG_SCHEMA if self.catalog_version.dataset is None else self.catalog_version.rows().schema
        wanted = (*READ_FIELDS, *self.specs.partition_columns())
        return pa.schema([*there, *(column for column in wanted if column.name not in there.names)]).empty_table()

    def newest(self) -> NoReturn:
        """Raises AlreadyExistsError: only the commit of another writer makes one ask."""
        raise AlreadyExistsError(f"another writer has created a table at {self.root}")

    def at_free_root(self) -> NewPartitionedTable:
        """The same table on what is at its root now.

        Raises:
            AlreadyExistsError: there is a table, or a catalog with tables.
        """
        if TableLocation(self.root, self.storage_options).latest() is not None:
            raise AlreadyExistsError(f"there is a table at {self.root} already")
        current = self.catalog.load()
        if current.dataset is not None:
            if is_partitioned(current.properties) or current.dataset.count_rows():
                raise AlreadyExistsError(f"there is a table or a catalog of tables at {self.root} already")
            if not {field.name for field in self.specs.partition_columns()} <= set(current.dataset.stored_schema.names):
                raise AlreadyExistsError(f"there is a catalog at {self.root} already")
        return NewPartitionedTable(self.root, self.storage_options, self.specs, self.own_properties, current)


def commit_new(
    table: NewPartitionedTable, delta: RowDelta | None = None, options: CommitOptions | None = None
) -> PartitionedTable:
    """The first version of `table`, with the added rows of `delta`.

    After an error the files of the rows stay.

    Raises:
        AlreadyExistsError: there is a table, or another writer was first. Nothing was changed.
        CommitStateUnknownError: the store never said whether the version was committed.
        StorageError: the store failed. Nothing was changed.
    """
    base = table.at_free_root()
    changes: Sequence[PartitionChange] = ()
    if delta is not None:
        changes, options = changes_from_delta(base, delta), with_operation_name(options, delta.operation)
    committed = commit_first(base, changes, options)
    compact_after(committed, [change.partition.key for change in changes])
    return committed
