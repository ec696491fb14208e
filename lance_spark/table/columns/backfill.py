"""Columns for rows identified by address, in three steps, so that tasks on many machines can do the work.

1. The driver plans: `plan_new_columns` for new columns, `plan_new_values` for existing ones.
2. For each affected fragment a task writes a file with `write_backfill`: in all other rows new columns are null and
   existing columns keep their values.
3. The driver commits all files as one version with `commit_backfill`, or removes them with `remove_backfill`.

Other writers may append and delete rows concurrently. If they rewrite rows, as updates and compaction do, the
addresses are invalid and the commit raises an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import pyarrow as pa

from lance_spark.errors import InvalidInputError, UnsupportedFeatureError
from lance_spark.file.writable import require_writable
from lance_spark.schema.evolution import with_added
from lance_spark.schema.field import LanceSchema
from lance_spark.schema.projection import FieldFinder
from lance_spark.table.columns.column_commit import options_of
from lance_spark.table.columns.schema_changes import check_followable
from lance_spark.table.commits.commit import Commit, NewTable
from lance_spark.table.commits.field_ids import next_field_id
from lance_spark.table.commits.retry import cleanup_on_failure
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.features import check_writable
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.manifests.transaction import Transaction
from lance_spark.table.operations.manifest_builder import data_format
from lance_spark.table.operations.merge import Merge, Recomputed
from lance_spark.table.operations.update import Update, UpdateMode
from lance_spark.table.rows.fragment import FragmentList
from lance_spark.table.writing.filled_columns import (
    BackfilledFragment,
    BackfillPlan,
    column_file_version,
    obstacle_to_filling,
    remove_backfill,
)
from lance_spark.table.writing.save import DEFAULT_FILE_VERSION, CommitOptions


@dataclass(frozen=True, slots=True)
class ColumnsToFill:
    """Top-level columns that get values, in tables of both kinds.

    Attributes:
        schema: all columns of the table afterwards.
        written: the columns that get values.
        replaces: whether the table already has them.
    """

    schema: LanceSchema
    written: LanceSchema
    replaces: bool

    @classmethod
    def new(cls, schema: LanceSchema, fields: pa.Schema, first_id: int) -> ColumnsToFill:
        """The columns `fields`, which `schema` lacks; they become nullable and get field ids from `first_id` on.

        Raises:
            InvalidInputError: a column already exists, or Lance does not support its type.
        """
        for name in fields.names:
            if name in schema.names():
                raise InvalidInputError(f"the table has a column {name!r}; drop or rename it, or choose another name")
        addition = with_added(schema, pa.schema([field.with_nullable(True) for field in fields]), first_id)
        return cls(addition.schema, addition.added, False)

    @classmethod
    def existing(cls, schema: LanceSchema, columns: Sequence[str]) -> ColumnsToFill:
        """The columns of `schema` with these names.

        Raises:
            NotFoundError: there is no such column.
            InvalidInputError: no column is named, or one is named twice.
        """
        if not columns or len(set(columns)) != len(columns):
            raise InvalidInputError(f"name at least one column to fill, and each only once, not {list(columns)}")
        finder = FieldFinder(schema)
        fields = tuple(finder.find((name,))[0] for name in columns)
        obstacle = obstacle_to_filling(schema, fields)
        if obstacle is not None:
            raise UnsupportedFeatureError(f"{obstacle}; use UPDATE", feature="filling in values of such a column")
        return cls(schema, LanceSchema(fields, {}), True)


def plan_new_columns(
    table: TableLocation, base: Manifest, fields: pa.Schema, *, job: str | None = None
) -> BackfillPlan:
    """A plan for top-level columns that `base` lacks; they are nullable.

    Raises:
        InvalidInputError: a column already exists, or Lance does not support its type.
        UnsupportedFeatureError: this release cannot write to the table, or does not support these columns.
        StorageError: commits are not safe in this store.
    """
    _check_fillable(table, base)
    return _plan(base, ColumnsToFill.new(base.schema, fields, next_field_id(table.history, base)), job)


def plan_new_values(
    table: TableLocation, base: Manifest, columns: Sequence[str], *, job: str | None = None
) -> BackfillPlan:
    """A plan for new values of top-level columns of `base`.

    Raises:
        NotFoundError: there is no such column.
        InvalidInputError: no column is named, or one is named twice.
        UnsupportedFeatureError: this release cannot write to the table, or does not support these columns.
        StorageError: commits are not safe in this store.
    """
    _check_fillable(table, base)
    return _plan(base, ColumnsToFill.existing(base.schema, columns), job)


def _check_fillable(table: TableLocation, base: Manifest) -> None:
    check_followable(base)
    check_writable(base.writer_flags, table.uri)
    table.history.check_commits()


def _plan(base: Manifest, columns: ColumnsToFill, job: str | None) -> BackfillPlan:
    file_version = column_file_version(base, columns.written)
    require_writable(columns.written, file_version)
    return BackfillPlan(base.version, columns.schema, columns.written, columns.replaces, file_version, job)


def commit_backfill(
    table: TableLocation,
    base: Manifest,
    plan: BackfillPlan,
    written: Sequence[BackfilledFragment],
    options: CommitOptions | None = None,
    *,
    keeps_files: bool = False,
) -> Manifest:
    """The version of `table` with the columns of all files. After an error the files are removed.

    Args:
        base: the version of the plan.
        keeps_files: leaves uncommitted files to the caller, who may commit again.

    Raises:
        RetryableConflictError: others have rewritten rows or changed columns; start again with the newest version.
        CommitConflictError: it conflicts with a concurrent transaction. Nothing was changed.
        CommitStateUnknownError: it is unknown whether the version was committed; the files are kept.
        StorageError: the store failed. Nothing was changed.
    """
    with nullcontext() if keeps_files else cleanup_on_failure(lambda: remove_backfill(table.store, written)):
        if base.version != plan.base_version:
            raise InvalidInputError(f"the plan is for version {plan.base_version}, not for {base.version}")
        if plan.replaces and not written:
            return base
        change = _Backfill(plan, written)
        transaction = Transaction.new(base.version, change.on_version(base), options_of(options).all_properties())
        new_table = NewTable(data_format(base) or DEFAULT_FILE_VERSION)
        policy = options_of(options).policy
        committed = Commit(table.history, base, transaction, new_table, policy, change.on_version).run()
    if not keeps_files:
        fragment_ids = {message.id for message in committed.fragments.messages}
        remove_backfill(table.store, [item for item in written if item.fragment_id not in fragment_ids])
    return committed


class _Backfill:
    """The operation that adds the files to a version."""

    def __init__(self, plan: BackfillPlan, written: Sequence[BackfilledFragment]) -> None:
        self._plan = plan
        self._written = {int(item.fragment_id): item for item in written}
        if len(self._written) != len(written):
            raise InvalidInputError("a fragment was written twice; hand over what one task wrote")
        self._field_ids = tuple(node.id for node in plan.written.walk() if node.id >= 0)

    def on_version(self, manifest: Manifest) -> Merge | Update:
        """For the version of the plan, or a newer one in which the row addresses are unchanged."""
        return self._update(manifest) if self._plan.replaces else self._merge(manifest)

    def _merge(self, manifest: Manifest) -> Merge:
        messages = []
        for message in manifest.fragments.messages:
            item = self._written.get(message.id)
            if item is not None:
                changed = type(message)()
                changed.CopyFrom(message)
                changed.files.append(item.file.to_proto())
                message = changed
            messages.append(message)
        return Merge(
            FragmentList(messages),
            LanceSchema(self._plan.schema.fields, manifest.schema.metadata),
            preserves_nullability=True,
            recomputed=Recomputed.BY_PLACE,
            new_files=frozenset(item.file.path for item in self._written.values()),
        )

    def _update(self, manifest: Manifest) -> Update:
        updated = []
        for place, message in enumerate(manifest.fragments.messages):
            if message.id in self._written:
                fragment = manifest.fragments[place]
                updated.append(fragment.with_columns_of(self._written[fragment.id].file))
        return Update(
            removed_fragment_ids=(),
            updated_fragments=tuple(updated),
            new_fragments=(),
            fields_modified=self._field_ids,
            mode=UpdateMode.REWRITE_COLUMNS,
            updated_offsets={fragment.id: self._written[fragment.id].rows for fragment in updated},
        )
