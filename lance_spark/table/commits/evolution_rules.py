"""Conflict rules of operations on columns: Project, Merge, and files that replace others."""

from __future__ import annotations

from lance_spark._proto import table_pb2
from lance_spark.schema.field import FieldId
from lance_spark.table.commits.conflict_rules import (
    ConflictContext,
    fields_by_id,
    incompatible,
    meaning,
    retryable,
    same_columns_and_files,
    same_data_files,
)
from lance_spark.table.operations.data_replacement import DataReplacement
from lance_spark.table.operations.merge import Merge, Recomputed
from lance_spark.table.operations.project import Project
from lance_spark.table.operations.update import Update, UpdateMode
from lance_spark.table.operations.update_config import UpdateConfig
from lance_spark.table.rows.fragment import FragmentList


def same_fields(context: ConflictContext) -> None:
    """Ours may follow if theirs left the columns as they were: ours says what all of them are from then on."""
    assert isinstance(context.own, (Merge, Project))
    if context.before.fields != context.after.fields:
        retryable(context)


def same_fields_and_nulls(context: ConflictContext) -> None:
    """Same rule as `same_fields`; and if a column of ours forbids nulls now, theirs must not have brought any values.

    The reference library lets a Project that forbids nulls follow a Delete or Rewrite, and so does this.
    """
    same_fields(context)
    assert isinstance(context.own, Project)
    if context.own.preserves_nullability:
        return
    before = {message.id: message for message in context.fragments_before.messages}
    for message in context.fragments_after.messages:
        old = before.get(message.id)
        if old is None or not all(file in old.files for file in message.files):
            retryable(context)


def recomputed(context: ConflictContext) -> None:
    """The operation may follow if computed again on the newer version: its message lists all fragments as they were.

    The reference library never does that. Deleted rows and new fragments leave the offsets of other rows unchanged, so
    what was written for a fragment stays valid as long as its data files are the same. Rewritten rows are copies of
    what was read: their source files must be unchanged.
    """
    same_fields(context)
    same_data_files(context)
    assert isinstance(context.own, Merge)
    if context.own.recomputed is Recomputed.NEVER:
        retryable(context)


def recomputed_from_rows(context: ConflictContext) -> None:
    """Same rule as `recomputed`, after an operation that rewrites rows: values assigned by place cannot be rebased."""
    recomputed(context)
    assert isinstance(context.own, Merge)
    if context.own.recomputed is Recomputed.BY_PLACE:
        retryable(context)


def rewritten_rows_stay(context: ConflictContext) -> None:
    """Ours may follow if the data files that it touches are as they were.

    If it rewrites columns, no row may have left either: moved, it would keep the value that ours replaces.
    """
    same_data_files(context)
    assert isinstance(context.own, Update)
    if context.own.mode is UpdateMode.REWRITE_COLUMNS:
        _check_same_deletions(context)


def rewritten_columns_stay(context: ConflictContext) -> None:
    """Ours may follow if its files, and those that it has read, mean what they meant."""
    assert isinstance(context.own, Update)
    same_columns_and_files(context)
    before, after = dict(fields_by_id(context.before)), dict(fields_by_id(context.after))
    for field_id in context.own.fields_modified:
        new, old = after.get(field_id), before.get(field_id)
        if new is None or old is None or meaning(old) != meaning(new):
            retryable(context)
        if old is not None and new is not None and old[1].nullable > new[1].nullable:
            retryable(context)


def fields_stay(context: ConflictContext) -> None:
    """Ours may follow if the fields whose metadata it changes are still there."""
    assert isinstance(context.own, UpdateConfig)
    after = dict(fields_by_id(context.after))
    if any(field_id not in after for field_id in context.own.field_metadata):
        incompatible(context)


def unless_of_schema(context: ConflictContext) -> None:
    """Ours may follow a return to another content, unless it changes metadata of the old schema."""
    assert isinstance(context.own, UpdateConfig)
    if context.own.changes_schema:
        incompatible(context)


def replaced_values_stay(context: ConflictContext) -> None:
    """Ours may follow if the fragments are there, and the fields that ours replaces mean and hold what they did."""
    assert isinstance(context.own, DataReplacement)
    before, after = dict(fields_by_id(context.before)), dict(fields_by_id(context.after))
    for field_id in context.own.field_ids:
        field_after, field_before = after.get(FieldId(field_id)), before.get(FieldId(field_id))
        if field_after is None:
            incompatible(context)
        elif field_before is not None and (
            meaning(field_before) != meaning(field_after) or field_before[1].nullable > field_after[1].nullable
        ):
            retryable(context)
    old, new = _by_id(context.fragments_before), _by_id(context.fragments_after)
    for fragment_id in context.own.touched_fragment_ids & old.keys():
        left = new.get(fragment_id)
        if left is None or _holders(old[fragment_id], context.own.field_ids) != _holders(left, context.own.field_ids):
            retryable(context)


def replaced_rows_stay(context: ConflictContext) -> None:
    """Same rule as `replaced_values_stay`, and no row may have been deleted: a rewritten copy of it would keep the
    value that ours replaces.
    """
    replaced_values_stay(context)
    _check_same_deletions(context)


def replaced_fragments_stay(context: ConflictContext) -> None:
    """Ours may follow if theirs left a row in each fragment that gets a file of ours."""
    left = _by_id(context.fragments_after)
    if any(
        fragment_id not in left
        for fragment_id in context.own.touched_fragment_ids & _by_id(context.fragments_before).keys()
    ):
        incompatible(context)
    replaced_values_stay(context)


def _check_same_deletions(context: ConflictContext) -> None:
    old, new = _by_id(context.fragments_before), _by_id(context.fragments_after)
    for fragment_id in context.own.touched_fragment_ids & old.keys():
        if fragment_id not in new or old[fragment_id].deletion_file != new[fragment_id].deletion_file:
            retryable(context)


def _by_id(fragments: FragmentList) -> dict[int, table_pb2.DataFragment]:
    return {message.id: message for message in fragments.messages}


def _holders(message: table_pb2.DataFragment, field_ids: frozenset[int]) -> set[tuple[str, int]]:
    """Which file holds which of the fields."""
    return {(file.path, field_id) for file in message.files for field_id in file.fields if field_id in field_ids}
