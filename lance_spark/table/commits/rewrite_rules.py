"""Conflict rules of operations that change no rows: compaction, and index metadata.

Both refer to fragments as they were read, so both compare these with the concurrent transaction's fragments.
"""

from __future__ import annotations

from collections.abc import Collection

from lance_spark._proto import table_pb2
from lance_spark.schema.field import LanceSchema
from lance_spark.table.commits.conflict_rules import ConflictContext, fields_by_id, meaning, retryable
from lance_spark.table.manifests.index_metadata import IndexMetadata
from lance_spark.table.operations import CreateIndex, OperationKind, Rewrite
from lance_spark.table.rows.fragment import FragmentList

_TAKES_ROWS = (OperationKind.DELETE, OperationKind.UPDATE)
"""Operations after which a removed fragment has no row left that an index could point to."""


def same_rows(context: ConflictContext) -> None:
    """Ours may follow if every fragment that it rewrites is just what it was, and its columns mean what they meant.

    The reference library lets a compaction follow every Project. Looking at the schemas is safer: a column that theirs
    dropped must not come back under an id that can be used again.
    """
    assert isinstance(context.own, Rewrite)
    touched = context.own.touched_fragment_ids
    before, after = _by_id(context.fragments_before), _by_id(context.fragments_after)
    if any(fragment_id in before and before[fragment_id] != after.get(fragment_id) for fragment_id in touched):
        retryable(context)
    if not columns_stay(context.before, context.after, context.own.written_fields):
        retryable(context)


def other_index_names(context: ConflictContext) -> None:
    """Ours may follow if theirs has added and removed indices of other names."""
    assert isinstance(context.own, CreateIndex)
    committed = context.committed
    if not isinstance(committed, CreateIndex) or not context.own.names.isdisjoint(committed.names):
        retryable(context)


def indexed_values_stay(context: ConflictContext) -> None:
    """Ours may follow if the values that its new indices know are still where they were.

    Rows may be deleted. The reference library trusts what the messages of Merge, Project and Update say of columns;
    here the files count that hold the indexed fields.
    """
    assert isinstance(context.own, CreateIndex)
    if not context.own.new_indices:
        return
    before, after = _by_id(context.fragments_before), _by_id(context.fragments_after)
    for index in context.own.new_indices:
        if not index.tells_coverage or not columns_stay(context.before, context.after, index.fields):
            retryable(context)
        for fragment_id in index.fragment_ids():
            if fragment_id not in before:
                continue
            found = after.get(fragment_id)
            if found is None:
                if context.committed.kind not in _TAKES_ROWS:
                    retryable(context)
            elif _holders(before[fragment_id], index) != _holders(found, index):
                retryable(context)


def columns_stay(before: LanceSchema, after: LanceSchema, field_ids: Collection[int]) -> bool:
    """True if those of the fields that `before` has are in `after` at the same place and of the same type."""
    old, new = dict(fields_by_id(before)), dict(fields_by_id(after))
    return all(
        field_id in new and meaning(new[field_id]) == meaning(place)
        for field_id, place in old.items()
        if field_id in field_ids
    )


def _by_id(fragments: FragmentList) -> dict[int, table_pb2.DataFragment]:
    return {message.id: message for message in fragments.messages}


def _holders(message: table_pb2.DataFragment, index: IndexMetadata) -> set[tuple[int, str, int]]:
    """(field id, path, base) of the data files that hold the indexed fields."""
    return {
        (field_id, file.path, file.base_id if file.HasField("base_id") else -1)
        for file in message.files
        for field_id in index.fields.intersection(file.fields)
    }
