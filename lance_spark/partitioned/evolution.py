"""Another partitioning for future rows (partitioning specification, "Partition Evolution").

A new spec version, its columns in `__manifest` and its namespace ``v<N>`` come with one version of `__manifest`. Rows
that are there stay where they are, and are read by the spec that they were written by. A write that has begun before
may still land in the old spec.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lance_spark.errors import InvalidInputError, NotFoundError
from lance_spark.partitioned.commit import commit_specs, with_operation_name
from lance_spark.partitioned.field import PartitionField
from lance_spark.partitioned.save import PartitionBy
from lance_spark.partitioned.table import PartitionedTable
from lance_spark.table.commits.retry import retry_on_conflict
from lance_spark.table.writing.save import CommitOptions

Edit = Callable[[PartitionedTable], Sequence[PartitionBy | PartitionField]]
"""The fields of the newest spec as they are to be, from a version of the table. Called again after a lost race."""


def set_partitioning(
    table: PartitionedTable, partition_by: Sequence[PartitionBy | PartitionField], options: CommitOptions | None = None
) -> PartitionedTable:
    """The version whose new rows are partitioned by these fields; `table` if they are already.

    A field that some version of the spec has had keeps its id, whatever id is requested.

    Raises:
        InvalidInputError: a field does not fit the columns, or its id is another field's.
        RetryableConflictError: another writer has changed columns or partitioning. Nothing was changed.
        CommitConflictError: other writers were always first. Nothing was changed.
        CommitStateUnknownError: the store never said whether the version was committed.
        StorageError: the store failed. Nothing was changed.
    """
    fields = tuple(_field(table, item) for item in partition_by)
    if fields == table.specs.current.fields:
        return table
    # Not run again after a lost race: the change of the other writer may contradict this one.
    return commit_specs(table, table.specs.with_spec(fields), with_operation_name(options, "partitioning"))


def edit_partitioning(table: PartitionedTable, edit: Edit, options: CommitOptions | None = None) -> PartitionedTable:
    """The version whose new rows are partitioned by the fields that `edit` names. Raises as `set_partitioning`."""
    return retry_on_conflict(
        lambda current: set_partitioning(current, edit(current), options),
        table,
        table.newest,
        options.policy if options else None,
    )


def add_partition_field(
    table: PartitionedTable, field: PartitionBy, options: CommitOptions | None = None
) -> PartitionedTable:
    """The version whose new rows are partitioned by one field more, below the others. Raises as `set_partitioning`."""

    def edit(current: PartitionedTable) -> Sequence[PartitionBy | PartitionField]:
        fields = current.specs.current.fields
        if _field(current, field) in fields:
            raise InvalidInputError(f"{current!r} is partitioned by {field.field_id!r} already")
        return (*fields, field)

    return edit_partitioning(table, edit, options)


def drop_partition_field(
    table: PartitionedTable, field_id: str, options: CommitOptions | None = None
) -> PartitionedTable:
    """The version whose new rows are not partitioned by a field any more.

    Raises: NotFoundError for a field that the newest spec does not have, and as `set_partitioning`.
    """

    def edit(current: PartitionedTable) -> Sequence[PartitionBy | PartitionField]:
        fields = current.specs.current.fields
        place = _place(current, field_id)
        return (*fields[:place], *fields[place + 1 :])

    return edit_partitioning(table, edit, options)


def replace_partition_field(
    table: PartitionedTable, field_id: str, field: PartitionBy, options: CommitOptions | None = None
) -> PartitionedTable:
    """The version whose new rows are partitioned by `field` where they were by another. Raises as the others."""

    def edit(current: PartitionedTable) -> Sequence[PartitionBy | PartitionField]:
        fields = current.specs.current.fields
        place = _place(current, field_id)
        return (*fields[:place], field, *fields[place + 1 :])

    return edit_partitioning(table, edit, options)


def _field(table: PartitionedTable, item: PartitionBy | PartitionField) -> PartitionField:
    if isinstance(item, PartitionField):
        return item
    new = item.field(table.lance_schema)
    return table.specs.existing_field(new) or new


def _place(table: PartitionedTable, field_id: str) -> int:
    for place, field in enumerate(table.specs.current.fields):
        if field.field_id == field_id:
            return place
    raise NotFoundError(f"{table!r} is not partitioned by {field_id!r}")
