"""CHECK constraints of a partitioned table: in the schema of the namespace, for the rows of all partitions."""

from __future__ import annotations

from dataclasses import replace

from lance_spark.errors import RetryableConflictError
from lance_spark.partitioned.commit import commit_specs, with_operation_name
from lance_spark.partitioned.table import PartitionedTable
from lance_spark.schema.check import with_check
from lance_spark.table.columns.check_constraints import check_rows, name_of_check, schema_with_check
from lance_spark.table.commits.retry import retry_on_conflict
from lance_spark.table.writing.save import CommitOptions


def add_check(
    table: PartitionedTable, name: str, condition: str, options: CommitOptions | None = None
) -> PartitionedTable:
    """The version with the CHECK constraint `name`. Arguments and errors as `ColumnVerbs.add_check`."""
    options = with_operation_name(options, "columns")

    def attempt(current: PartitionedTable) -> PartitionedTable:
        schema = schema_with_check(current.lance_schema, name, condition)
        check_rows(schema, name, lambda columns: current.stored_rows(columns)[1])

        def unchanged(newer: PartitionedTable) -> None:
            if newer.rows != current.rows:
                raise RetryableConflictError(
                    f"another writer has changed rows of {current.root}, which the CHECK constraint {name!r} was not "
                    "checked for. Run the statement again",
                    table_version=newer.version,
                )

        return commit_specs(current, replace(current.specs, schema=schema), options, check=unchanged)

    return retry_on_conflict(attempt, table, table.newest, options.policy)


def drop_check(table: PartitionedTable, name: str, options: CommitOptions | None = None) -> PartitionedTable:
    """The version without the CHECK constraint `name`. Errors as `ColumnVerbs.drop_check`."""
    options = with_operation_name(options, "columns")

    def attempt(current: PartitionedTable) -> PartitionedTable:
        schema = with_check(current.lance_schema, name_of_check(current.lance_schema, name), None)
        return commit_specs(current, replace(current.specs, schema=schema), options)

    return retry_on_conflict(attempt, table, table.newest, options.policy)
