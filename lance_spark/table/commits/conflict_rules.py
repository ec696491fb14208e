"""Rules of the conflict table: each compares our operation with a committed one; it raises or allows the rebase.

Most rules compare the version that ours has read with the one that theirs has made, rather than the two messages: what
a message leaves out, or what a writer puts into it wrongly, does not count then.

Operations that change no rows (compaction, index metadata) refer to fragments as they were read, so their rules compare
these with the concurrent transaction's fragments.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field

from lance_spark._proto import table_pb2
from lance_spark.errors import IncompatibleConflictError, RetryableConflictError
from lance_spark.schema.constraints import CHECK_PREFIX, has_new_checks
from lance_spark.schema.field import Field, FieldId, LanceSchema
from lance_spark.table.manifests.index_metadata import IndexMetadata
from lance_spark.table.operations.append import Append
from lance_spark.table.operations.base import CommittableOperation, Operation, OperationKind
from lance_spark.table.operations.create_index import CreateIndex
from lance_spark.table.operations.overwrite import Overwrite
from lance_spark.table.operations.rewrite import Rewrite
from lance_spark.table.operations.update import Update
from lance_spark.table.operations.update_bases import UpdateBases, clashing
from lance_spark.table.operations.update_config import UpdateConfig
from lance_spark.table.operations.update_map import UpdateMap
from lance_spark.table.rows.fragment import FragmentList

_TAKES_ROWS = (OperationKind.DELETE, OperationKind.UPDATE)
"""Operations after which a removed fragment has no row left that an index could point to."""


@dataclass(frozen=True, slots=True)
class ConflictContext:
    """An operation that is to be committed, and one that another writer has committed since its version was read.

    Attributes:
        ours: the operation that is to be committed.
        theirs: the operation that was committed in between.
        before: schema of the version that ours has read.
        after: schema of the version that theirs has made.
        version: number of that version.
        fragments_before, fragments_after: fragments of these two versions.
        keeps_places: whether the second has the file version of the first, and all of its bases.
    """

    own: CommittableOperation
    committed: Operation
    before: LanceSchema
    after: LanceSchema
    version: int
    fragments_before: FragmentList = field(default_factory=FragmentList)
    fragments_after: FragmentList = field(default_factory=FragmentList)
    keeps_places: bool = True


Rule = Callable[[ConflictContext], None]
"""Raises a `CommitConflictError`, or returns: ours may follow theirs."""


def compatible(context: ConflictContext) -> None:
    """Passes: the operation means the same after the committed one."""


def incompatible(context: ConflictContext) -> None:
    """Raises: what the operation is based on no longer exists after the committed one."""
    raise IncompatibleConflictError(
        f"{_description(context)}: columns, rows or files that it is based on are no longer there. Read the new "
        "version, and run the operation again if it still applies",
        own=context.own.kind.value,
        committed=context.committed.kind.value,
        table_version=context.version,
    )


def retryable(context: ConflictContext) -> None:
    """Ours must be computed again from the new version."""
    raise RetryableConflictError(
        f"{_description(context)}. Read the new version and run the operation again",
        own=context.own.kind.value,
        committed=context.committed.kind.value,
        table_version=context.version,
    )


def same_columns(context: ConflictContext) -> None:
    """Ours may follow if its data files still mean what they meant when they were written.

    The reference library asks whether theirs promises to keep nullability. Looking at the two schemas is safer: a
    column that theirs dropped or gave another type must not take our values along under an id that can be used again.
    """
    assert isinstance(context.own, (Append, Update))
    fragments = context.own.fragments if isinstance(context.own, Append) else context.own.new_fragments
    written = {field_id for fragment in fragments for file in fragment.files for field_id in file.fields}
    before, after = dict(fields_by_id(context.before)), dict(fields_by_id(context.after))
    for field_id, (parents, old) in before.items():
        field = after.get(field_id)
        written_here = field_id in written or any(child.id in written for child in old.walk())
        if field is None:
            if written_here:
                retryable(context)
            continue
        if meaning(field) != meaning((parents, old)) or (old.nullable and not field[1].nullable):
            retryable(context)
    for field_id, (_, new) in after.items():
        if field_id not in before and not new.nullable:
            retryable(context)


def same_table(context: ConflictContext) -> None:
    """Rows of ours may be added to what theirs has put in place of all rows, if they are rows of the same table: with
    the same columns, in files of the same version, in places that it knows.

    The reference library refuses them in any case. They have read nothing of the table, so nothing that they are based
    on is missing, and a moment later they would have been added too.
    """
    if context.before.fields != context.after.fields or not context.keeps_places:
        incompatible(context)


def computed_again(context: ConflictContext) -> None:
    """Ours has read rows that theirs has replaced. It may be computed again from those that are there now, if they are
    rows of the same table (`same_table`).

    The reference library refuses that. A moment later ours would have read them in the first place.
    """
    same_table(context)
    retryable(context)


def same_data_files(context: ConflictContext) -> None:
    """Ours may follow if theirs left the fragments that ours touches, and no data file of them changed.

    Files that no longer hold a column of the table may have been removed. Which rows theirs deleted is checked
    when the deletion files are merged.
    """
    touched = context.own.touched_fragment_ids
    after = {message.id: message for message in context.fragments_after.messages if message.id in touched}
    for message in context.fragments_before.messages:
        if message.id not in touched:
            continue
        current = after.get(message.id)
        if current is None or not all(file in message.files for file in current.files):
            retryable(context)


def same_columns_and_files(context: ConflictContext) -> None:
    """Ours may follow if the files that it has written and those that it has read both mean what they meant."""
    same_columns(context)
    same_data_files(context)


_KEEPS_VALUES = frozenset(
    {
        OperationKind.DELETE,
        OperationKind.CREATE_INDEX,
        OperationKind.REWRITE,
        OperationKind.RESERVE_FRAGMENTS,
        OperationKind.UPDATE_CONFIG,
        OperationKind.UPDATE_BASES,
        OperationKind.CLONE,
    }
)
"""Operations after which no row has a value that it did not have before, and no column another name."""


def checked_rows_stay(context: ConflictContext) -> None:
    """Ours may follow unless one of the two adds a CHECK constraint for rows that the other has not checked by it."""
    kinds = context.own.kind, context.committed.kind
    if isinstance(context.own, UpdateConfig) and context.own.schema_metadata is not None:
        entries = context.own.schema_metadata.entries
        adds = any(key.startswith(CHECK_PREFIX) and value is not None for key, value in entries.items())
        if adds and kinds[1] not in _KEEPS_VALUES:
            retryable(context)
    elif kinds[0] not in _KEEPS_VALUES and has_new_checks(context.before, context.after):
        retryable(context)


def other_config_keys(context: ConflictContext) -> None:
    """Ours may follow unless it sets config too: which keys theirs has set is not looked at."""
    assert isinstance(context.own, Overwrite)
    if context.own.config_upserts:
        retryable(context)


def unless_schema_metadata(context: ConflictContext) -> None:
    """Ours may follow a change of the table's config and metadata, but not one of metadata of schema or fields."""
    if not isinstance(context.committed, UpdateConfig):
        retryable(context)
    elif context.committed.changes_schema:
        incompatible(context)


def other_keys(context: ConflictContext) -> None:
    """Ours may follow if theirs has changed other keys.

    A replacement of all entries changes every key; the reference library looks only at those that it sets.
    """
    assert isinstance(context.own, UpdateConfig)
    if not isinstance(context.committed, UpdateConfig):
        retryable(context)
    elif context.own.collides(context.committed):
        incompatible(context)


def other_keys_than_overwrite(context: ConflictContext) -> None:
    """Ours may follow an overwrite that did not set a key of ours; metadata of the schema went with the schema."""
    assert isinstance(context.own, UpdateConfig)
    config = context.own.config
    if context.own.changes_schema:
        incompatible(context)
    if not isinstance(context.committed, Overwrite):
        retryable(context)
    elif config is not None and config.collides(UpdateMap(context.committed.config_upserts)):
        incompatible(context)


def other_bases(context: ConflictContext) -> None:
    """Ours may follow if theirs has added other bases."""
    assert isinstance(context.own, UpdateBases)
    if not isinstance(context.committed, UpdateBases):
        retryable(context)
    elif any(clashing(one, other) for one in context.own.new_bases for other in context.committed.new_bases):
        incompatible(context)


def _description(context: ConflictContext) -> str:
    return (
        f"an operation of kind {context.own.kind.value!r} cannot follow {context.committed.kind.value!r}, "
        f"which another writer committed as version {context.version}"
    )


def fields_by_id(schema: LanceSchema) -> Iterator[tuple[FieldId, tuple[tuple[FieldId, ...], Field]]]:
    """(id, (ids of the fields around it, field)) of every field."""

    def visit(node: Field, parents: tuple[FieldId, ...]) -> Iterator[tuple[FieldId, tuple[tuple[FieldId, ...], Field]]]:
        yield node.id, (parents, node)
        for child in node.children:
            yield from visit(child, (*parents, node.id))

    for top in schema.fields:
        yield from visit(top, ())


def meaning(place: tuple[tuple[FieldId, ...], Field]) -> tuple[tuple[FieldId, ...], str]:
    parents, node = place
    return parents, node.logical_type


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
            current = after.get(fragment_id)
            if current is None:
                if context.committed.kind not in _TAKES_ROWS:
                    retryable(context)
            elif _holders(before[fragment_id], index) != _holders(current, index):
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
