"""Conflict rules of operations on columns: Project, Merge, and files that replace others."""

from __future__ import annotations

from lance_spark._proto import table_pb2
from lance_spark.schema.field import FieldId
from lance_spark.table.commits.conflict_rules import (
    Rivals,
    fields_by_id,
    incompatible,
    meaning,
    retryable,
    same_columns_and_files,
    same_data_files,
)
from lance_spark.table.operations import DataReplacement, Merge, Project, Recomputed, Update, UpdateConfig, UpdateMode
from lance_spark.table.rows.fragment import FragmentList


def same_fields(rivals: Rivals) -> None:
    """Ours may follow if theirs left the columns as they were: ours says what all of them are from then on."""
    assert isinstance(rivals.ours, (Merge, Project))
    if rivals.before.fields != rivals.after.fields:
        retryable(rivals)


def same_fields_and_nulls(rivals: Rivals) -> None:
    """As `same_fields`; and if a column of ours forbids nulls now, theirs must not have brought any values.

    The reference library lets a Project that forbids nulls follow a Delete or Rewrite, and so does this.
    """
    same_fields(rivals)
    assert isinstance(rivals.ours, Project)
    if rivals.ours.preserves_nullability:
        return
    before = {message.id: message for message in rivals.fragments_before.messages}
    for message in rivals.fragments_after.messages:
        known = before.get(message.id)
        if known is None or not all(file in known.files for file in message.files):
            retryable(rivals)


def recomputed(rivals: Rivals) -> None:
    """Ours may follow if it is computed anew on the newer version: as a message it lists all fragments as they were.

    The reference library never does that. A deleted row leaves the places of the others as they are, and so does a new
    fragment, so what was written for a fragment holds as long as its data files are the same. Rows that move are copies
    of what was read: the files that they were in have to be as they were.
    """
    same_fields(rivals)
    same_data_files(rivals)
    assert isinstance(rivals.ours, Merge)
    if rivals.ours.recomputed is Recomputed.NEVER:
        retryable(rivals)


def recomputed_from_rows(rivals: Rivals) -> None:
    """As `recomputed`, after an operation that moves rows: values that are known by place cannot follow."""
    recomputed(rivals)
    assert isinstance(rivals.ours, Merge)
    if rivals.ours.recomputed is Recomputed.BY_PLACE:
        retryable(rivals)


def rewritten_rows_stay(rivals: Rivals) -> None:
    """Ours may follow if the data files that it touches are as they were.

    If it rewrites columns, no row may have left either: moved, it would keep the value that ours replaces.
    """
    same_data_files(rivals)
    assert isinstance(rivals.ours, Update)
    if rivals.ours.mode is UpdateMode.REWRITE_COLUMNS:
        _check_same_deletions(rivals)


def rewritten_columns_stay(rivals: Rivals) -> None:
    """Ours may follow if its files, and those that it has read, mean what they meant."""
    assert isinstance(rivals.ours, Update)
    if rivals.ours.mode is UpdateMode.REWRITE_ROWS:
        same_columns_and_files(rivals)
        return
    same_data_files(rivals)
    before, after = dict(fields_by_id(rivals.before)), dict(fields_by_id(rivals.after))
    for field_id in rivals.ours.fields_modified:
        found, known = after.get(field_id), before.get(field_id)
        if found is None or known is None or meaning(known) != meaning(found):
            retryable(rivals)
        if known is not None and found is not None and known[1].nullable > found[1].nullable:
            retryable(rivals)


def fields_stay(rivals: Rivals) -> None:
    """Ours may follow if the fields whose metadata it changes are still there."""
    assert isinstance(rivals.ours, UpdateConfig)
    after = dict(fields_by_id(rivals.after))
    if any(field_id not in after for field_id in rivals.ours.field_metadata):
        incompatible(rivals)


def unless_of_schema(rivals: Rivals) -> None:
    """Ours may follow a return to another content, unless it changes metadata of the schema that is gone."""
    assert isinstance(rivals.ours, UpdateConfig)
    if rivals.ours.changes_schema:
        incompatible(rivals)


def replaced_values_stay(rivals: Rivals) -> None:
    """Ours may follow if the fragments are there, and the fields that ours replaces mean and hold what they did."""
    assert isinstance(rivals.ours, DataReplacement)
    before, after = dict(fields_by_id(rivals.before)), dict(fields_by_id(rivals.after))
    for field_id in rivals.ours.field_ids:
        found, known = after.get(FieldId(field_id)), before.get(FieldId(field_id))
        if found is None:
            incompatible(rivals)
        elif known is not None and (meaning(known) != meaning(found) or known[1].nullable > found[1].nullable):
            retryable(rivals)
    old, new = _by_id(rivals.fragments_before), _by_id(rivals.fragments_after)
    for fragment_id in rivals.ours.touched_fragment_ids & old.keys():
        left = new.get(fragment_id)
        if left is None or _holders(old[fragment_id], rivals.ours.field_ids) != _holders(left, rivals.ours.field_ids):
            retryable(rivals)


def replaced_rows_stay(rivals: Rivals) -> None:
    """As `replaced_values_stay`, and no row may have left: moved, it would keep the value that ours replaces."""
    replaced_values_stay(rivals)
    _check_same_deletions(rivals)


def replaced_fragments_stay(rivals: Rivals) -> None:
    """Ours may follow if theirs left a row in each fragment that gets a file of ours."""
    left = _by_id(rivals.fragments_after)
    if any(
        fragment_id not in left
        for fragment_id in rivals.ours.touched_fragment_ids & _by_id(rivals.fragments_before).keys()
    ):
        incompatible(rivals)
    replaced_values_stay(rivals)


def _check_same_deletions(rivals: Rivals) -> None:
    old, new = _by_id(rivals.fragments_before), _by_id(rivals.fragments_after)
    for fragment_id in rivals.ours.touched_fragment_ids & old.keys():
        if fragment_id not in new or old[fragment_id].deletion_file != new[fragment_id].deletion_file:
            retryable(rivals)


def _by_id(fragments: FragmentList) -> dict[int, table_pb2.DataFragment]:
    return {message.id: message for message in fragments.messages}


def _holders(message: table_pb2.DataFragment, field_ids: frozenset[int]) -> set[tuple[str, int]]:
    """Which file holds which of the fields."""
    return {(file.path, field_id) for file in message.files for field_id in file.fields if field_id in field_ids}
