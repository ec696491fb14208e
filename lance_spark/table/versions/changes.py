"""Commits without new data files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from lance_spark.errors import InvalidInputError
from lance_spark.file_version import FileVersion
from lance_spark.schema.evolution import field_at
from lance_spark.schema.field import FieldId
from lance_spark.table.bases import BasePath
from lance_spark.table.commits.commit import Commit, NewTable, RetryPolicy
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.manifests.marks import IdentityMark
from lance_spark.table.manifests.transaction import Transaction
from lance_spark.table.operations.base import CommittableOperation
from lance_spark.table.operations.manifest_builder import data_format
from lance_spark.table.operations.restore import Restore
from lance_spark.table.operations.update_bases import UpdateBases
from lance_spark.table.operations.update_config import UpdateConfig
from lance_spark.table.operations.update_map import UpdateMap
from lance_spark.table.paths import is_detached
from lance_spark.table.refs.tagging import kept_while_restored
from lance_spark.table.writing.base_selection import checked_bases


def restore(table: TableLocation, version: int, policy: RetryPolicy | None = None) -> Manifest:
    """Creates a new version of the branch `table` with the content of `version`.

    Raises:
        NotFoundError: there is no such version.
        CommitConflictError: it conflicts with a concurrent transaction. Nothing was changed.
        CommitStateUnknownError: it is unknown whether the version was committed.
        UnsupportedFeatureError: one of the two versions needs a feature that this release does not write.
    """
    _check_in_history(table.at(version).manifest)
    with kept_while_restored(table, version):
        restored = table.at(version).manifest
        newest = table.history.load_latest().manifest
        return _commit(table, newest, Restore(version, restored), policy)


def add_bases(
    table: TableLocation, base: Manifest, bases: Sequence[BasePath], policy: RetryPolicy | None = None
) -> Manifest:
    """Creates a new version of the branch `table` with additional base paths.

    Args:
        base: the version that the caller has read.

    Raises:
        InvalidInputError: two base paths have the same id, name or path, or a path is not absolute.
        CommitConflictError: a concurrent transaction has added such a base path. Nothing was changed.
        CommitStateUnknownError: it is unknown whether the version was committed.
        UnsupportedFeatureError: the table needs a feature that this release does not write.
    """
    if not bases:
        raise InvalidInputError("there is no base to add")
    checked_bases(bases)
    return _commit(table, base, UpdateBases(tuple(bases)), policy)


def update_config(
    table: TableLocation, base: Manifest, entries: Mapping[str, str | None], policy: RetryPolicy | None = None
) -> Manifest:
    """Creates a new version of the branch `table` with changed config `entries`; None removes one.

    Args:
        base: the version that the caller has read.

    Raises:
        InvalidInputError: an entry is not a string.
        CommitConflictError: a concurrent transaction has changed one of the entries. Nothing was changed.
        CommitStateUnknownError: it is unknown whether the version was committed.
        UnsupportedFeatureError: the table needs a feature that this release does not write.
    """
    return _commit(table, base, UpdateConfig(config=_update_of(entries)), policy)


def set_identity_counts(table: TableLocation, base: Manifest, mark: IdentityMark) -> Manifest:
    """The version in which the config says how many values of identity columns are used. Errors as `update_config`, and
    `RetryableConflictError` if another writer has used some since `base`.
    """
    _check_in_history(base)
    transaction = Transaction.new(base.version, UpdateConfig(config=_update_of(mark.entries())))
    new_table = NewTable(data_format(base) or FileVersion.V2_2)
    return Commit(table.history, base, transaction, new_table, marks=(mark,)).run()


def update_properties(
    table: TableLocation,
    base: Manifest,
    config: Mapping[str, str | None],
    fields: Mapping[FieldId, Mapping[str, str | None]],
    policy: RetryPolicy | None = None,
) -> Manifest:
    """Creates a new version with changed config entries and changed metadata of fields, by id. Raises as
    `update_config`.
    """
    updates = {number: _update_of(entries) for number, entries in fields.items()}
    update = UpdateConfig(config=_update_of(config) if config else None, field_metadata=MappingProxyType(updates))
    return _commit(table, base, update, policy)


def update_metadata(
    table: TableLocation, base: Manifest, entries: Mapping[str, str | None], policy: RetryPolicy | None = None
) -> Manifest:
    """Creates a new version with changed `entries` of the table's metadata. Raises as `update_config`."""
    return _commit(table, base, UpdateConfig(table_metadata=_update_of(entries)), policy)


def update_schema_metadata(
    table: TableLocation,
    base: Manifest,
    entries: Mapping[str, str | None],
    policy: RetryPolicy | None = None,
    *,
    replace: bool = False,
) -> Manifest:
    """Creates a new version with changed `entries` of the schema's metadata. Raises as `update_config`.

    Args:
        replace: removes all other entries.
    """
    return _commit(table, base, UpdateConfig(schema_metadata=_update_of(entries, replace)), policy)


def update_field_metadata(
    table: TableLocation,
    base: Manifest,
    entries: Mapping[str, Mapping[str, str | None]],
    policy: RetryPolicy | None = None,
    *,
    replace: bool = False,
) -> Manifest:
    """Creates a new version with changed metadata of fields, by path. Raises as `update_config`.

    Args:
        replace: removes all other entries of these fields.

    Raises:
        NotFoundError: there is no such field.
        InvalidInputError: the primary key would change, or be invalid.
    """
    updates: dict[FieldId, UpdateMap] = {}
    for path, update in entries.items():
        field = field_at(base.schema, path)
        updates[field.id] = _update_of(update, replace)
    return _commit(table, base, UpdateConfig(field_metadata=MappingProxyType(updates)), policy)


def _update_of(entries: Mapping[str, str | None], replace: bool = False) -> UpdateMap:
    for key, value in entries.items():
        if not isinstance(key, str) or not isinstance(value, (str, type(None))):
            raise InvalidInputError(f"{key!r}: {value!r} is no entry; keys and values are text, None removes a key")
    return UpdateMap(MappingProxyType(dict(entries)), replace)


def _check_in_history(manifest: Manifest) -> None:
    if is_detached(manifest.version):
        raise InvalidInputError(f"version {manifest.version} is a detached one, which has no place in the history")


def _commit(
    table: TableLocation, base: Manifest, operation: CommittableOperation, policy: RetryPolicy | None
) -> Manifest:
    _check_in_history(base)
    # Only old tables without files have no version; then the newest version of the format is fine.
    new_table = NewTable(data_format(base) or FileVersion.V2_2)
    return Commit(table.history, base, Transaction.new(base.version, operation), new_table, policy).run()
