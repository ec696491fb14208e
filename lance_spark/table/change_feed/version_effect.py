"""Effect of one version of a table on a stream of its rows: new rows only, deletions, changes, or nothing.

Manifests are compared, not messages: a merge without matches is an Update that only adds rows. Nothing but metadata is
read.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from lance_spark.schema.field import FieldId
from lance_spark.table.change_feed.version_diff import NEW_MEANING, same_field_ids
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.manifests.transaction import Transaction
from lance_spark.table.operations.append import Append
from lance_spark.table.operations.base import OperationKind
from lance_spark.table.rows.fragment import DataFragment


class Effect(Enum):
    """Effect of a version on the rows of a table."""

    NOTHING = "changes no rows"
    NEW_ROWS = "adds rows"
    DELETES = "deletes rows"
    CHANGES = "changes rows"
    RESTORES = "restores an older version"
    UNKNOWN = "does what is not known"


@dataclass(frozen=True, slots=True)
class VersionEffect:
    """One version.

    Attributes:
        operation: its name in messages.
        new: fragments whose rows are new; empty unless `effect` is NEW_ROWS.
    """

    effect: Effect
    operation: str
    new: tuple[DataFragment, ...] = ()


_NO_ROWS = frozenset(
    {
        OperationKind.REWRITE,
        OperationKind.CREATE_INDEX,
        OperationKind.UPDATE_CONFIG,
        OperationKind.RESERVE_FRAGMENTS,
        OperationKind.UPDATE_BASES,
        OperationKind.UPDATE_MEM_WAL_STATE,
        OperationKind.CLONE,
    }
)
_UNKNOWN = frozenset({OperationKind.UNKNOWN, OperationKind.DATA_OVERLAY})


def needs_predecessor(transaction: Transaction | None) -> bool:
    """Whether `version_effect` has to compare the version with the one before it."""
    if transaction is None:
        return True
    operation = transaction.operation
    return not isinstance(operation, Append) and operation.kind not in _NO_ROWS | _UNKNOWN | {OperationKind.RESTORE}


def version_effect(before: Manifest | None, after: Manifest, transaction: Transaction | None) -> VersionEffect:
    """Effect of the version `after` on the rows of the table.

    Args:
        before: the version before it; None for the first one, and where `needs_predecessor` is false.
        transaction: the one that made `after`; None if it is unknown.
    """
    if transaction is None or transaction.operation.kind in _UNKNOWN:
        name = "an operation that is not known" if transaction is None else transaction.operation.kind.value
        return VersionEffect(Effect.UNKNOWN, name)
    operation = transaction.operation
    name = operation.kind.value
    if operation.kind is OperationKind.RESTORE:
        return VersionEffect(Effect.RESTORES, name)
    if operation.kind in _NO_ROWS:
        return VersionEffect(Effect.NOTHING, name)
    if isinstance(operation, Append):
        count = len(operation.fragments)
        return _of_rows(name, tuple(after.fragments[-count:]) if count else ())
    if before is None:
        return _of_rows(name, tuple(after.fragments))
    if operation.kind in NEW_MEANING and not same_field_ids(before, after):
        return _replaced(name, before, after)
    return _compared(name, before, after)


def _of_rows(name: str, new: tuple[DataFragment, ...]) -> VersionEffect:
    return VersionEffect(Effect.NEW_ROWS, name, new) if new else VersionEffect(Effect.NOTHING, name)


def _replaced(name: str, before: Manifest, after: Manifest) -> VersionEffect:
    """An overwrite, which has none of the old fragments."""
    if not len(before.fragments):
        return _of_rows(name, tuple(after.fragments))
    return VersionEffect(Effect.CHANGES if len(after.fragments) else Effect.DELETES, name)


def _compared(name: str, before: Manifest, after: Manifest) -> VersionEffect:
    places = {message.id: place for place, message in enumerate(before.fragments.messages)}
    columns = {field.id for field in before.schema.walk()} & {field.id for field in after.schema.walk()}
    new, deletes, changes = [], False, False
    for place, message in enumerate(after.fragments.messages):
        old = places.pop(message.id, None)
        if old is None:
            new.append(after.fragments[place])
        elif before.fragments.messages[old] != message:
            one, other = before.fragments[old], after.fragments[place]
            deletes = deletes or one.deletion_file != other.deletion_file
            changes = changes or _holders(one, columns) != _holders(other, columns)
    deletes = deletes or bool(places)
    if not deletes and not changes:
        return _of_rows(name, tuple(new))
    return VersionEffect(Effect.CHANGES if changes or new else Effect.DELETES, name)


def _holders(fragment: DataFragment, columns: set[FieldId]) -> dict[FieldId, tuple[object, ...]]:
    """Location of the values of each of `columns`: path and base of the file, and the column in it."""
    return {
        field_id: (file.path, file.base_id, index)
        for file in fragment.files
        for field_id, index in file.columns().items()
        if field_id in columns
    }
