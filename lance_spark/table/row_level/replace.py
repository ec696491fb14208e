"""Appending rows to a plain table and replacing rows of it, given one of its versions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lance_spark.errors import IncompatibleConflictError
from lance_spark.expr.nodes import Expr
from lance_spark.schema.arrow import to_arrow_schema
from lance_spark.schema.field import LanceSchema
from lance_spark.table.commits.retry import cleanup_on_failure, retry_on_conflict
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.row_level.delete import Search, matching_rows
from lance_spark.table.row_level.rewritten_rows import NewFragment
from lance_spark.table.row_level.row_changes import commit_row_changes
from lance_spark.table.row_level.written_rows import require_same_table
from lance_spark.table.rows.fragment import DataFragment
from lance_spark.table.writing.identity import IdentityColumns
from lance_spark.table.writing.save import (
    APPEND,
    CommitOptions,
    WritePlan,
    commit_append,
    commit_overwrite,
    plan_write,
)
from lance_spark.table.writing.write import remove_fragments, write_fragments
from lance_spark.table.writing.write_verbs import RowsToWrite


def append_to(table: TableLocation, base: Manifest, rows: RowsToWrite) -> Manifest:
    """The version with `rows` added to `base` or what follows it. Raises as `WriteVerbs.append`."""
    _, fragments, options = _write(table, base, rows)
    with cleanup_on_failure(lambda: remove_fragments(table.store, fragments)):
        return commit_append(table, base, fragments, options)


def replace_all_rows(table: TableLocation, base: Manifest, rows: RowsToWrite) -> Manifest:
    """The version with the columns of `base` and no other rows than `rows`. Raises as `WriteVerbs.overwrite`."""
    plan, fragments, options = _write(table, base, rows)
    with cleanup_on_failure(lambda: remove_fragments(table.store, fragments)):
        return commit_overwrite(table, base, fragments, base.schema, plan.file_version, options)


def replace_where(table: TableLocation, base: Manifest, rows: RowsToWrite, condition: Expr) -> Manifest:
    """The version with `rows` instead of those for which `condition` is true. Raises as `WriteVerbs.replace_where`."""
    known = Search(base, matching_rows(table, base, condition))
    _, fragments, options = _write(table, base, rows.where(condition, to_arrow_schema(base.schema)))
    with cleanup_on_failure(lambda: remove_fragments(table.store, fragments)):
        return replace_matching_rows(
            table, base, condition, [NewFragment(item) for item in fragments], options, known=known
        )


def replace_matching_rows(
    table: TableLocation,
    base: Manifest,
    condition: Expr,
    new: Sequence[NewFragment],
    options: CommitOptions,
    *,
    known: Search | None = None,
    evolved: LanceSchema | None = None,
) -> Manifest:
    """The version with the fragments `new` instead of the rows for which `condition` is true.

    After a conflict the rows are searched again, in the newest version. After an error the files of `new` are kept.

    Args:
        known: the rows of `base` for which it is true, if they have been searched.
        evolved: all columns from then on, if the new rows bring columns.

    Raises: as `commit_row_changes`, and `IncompatibleConflictError` if another writer has changed columns as well.
    """

    def attempt(version: Manifest) -> Manifest:
        require_same_table(version, base, table.uri)
        if evolved is not None and version.schema.fields != base.schema.fields:
            raise IncompatibleConflictError(
                f"another writer has changed metadata of columns of {table.uri}, and this one adds columns. Run the "
                "operation again",
                own="replace_where",
                table_version=version.version,
            )
        searched = version if evolved is None else replace(version, schema=evolved)
        deleted = matching_rows(table, searched, condition, known)
        return commit_row_changes(table, version, deleted, new, options, predicate=str(condition), evolved=evolved)

    if options.identity is not None:
        return attempt(base)  # After a conflict the new rows would need other values.
    return retry_on_conflict(attempt, base, table.newest, options.policy)


def _write(
    table: TableLocation, base: Manifest, rows: RowsToWrite
) -> tuple[WritePlan, list[DataFragment], CommitOptions]:
    identity = IdentityColumns.of_version(base).values()
    rows = rows.with_values(identity)
    plan = plan_write(base, rows.source, mode=APPEND)
    table.history.check_commits()
    fragments = write_fragments(
        rows.source.batches,
        table.store,
        plan.schema,
        file_version=plan.file_version,
        limits=rows.limits,
        convert=plan.pipeline,
    )
    return plan, fragments, replace(rows.options, identity=identity.mark())
