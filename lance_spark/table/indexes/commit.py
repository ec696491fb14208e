"""The list of indexes of a table: segments whose files are written are put into it, and taken out.

An index of a name can have several segments, each an entry with files of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from lance_spark.errors import InvalidInputError, NotFoundError
from lance_spark.table.commits.commit import Commit, NewTable
from lance_spark.table.commits.retry import retry_on_conflict
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.index_metadata import IndexMetadata
from lance_spark.table.manifests.index_section import parse_indices
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.manifests.transaction import Transaction
from lance_spark.table.operations.create_index import CreateIndex
from lance_spark.table.operations.manifest_builder import data_format
from lance_spark.table.paths import is_detached
from lance_spark.table.writing.save import DEFAULT_FILE_VERSION, CommitOptions

_MAX_ATTEMPTS = 5


def commit_indices(
    table: TableLocation, base: Manifest, new: Iterable[IndexMetadata], options: CommitOptions | None = None
) -> Manifest:
    """The version in which `new`, whose files are written, stand for the indices of their names.

    Args:
        base: the version that the indices were built from.

    Raises:
        InvalidInputError: none is given, or one is over fields that the table does not have.
        RetryableConflictError: other writers have moved or changed values that an index knows, or have changed an index
            of this name. Nothing was changed.
        CommitConflictError: another writer committed something that this cannot follow. Nothing was changed.
        CommitStateUnknownError: the store never said whether the version was committed.
        UnsupportedFeatureError: the table needs something that this release does not write.
    """
    added = tuple(new)
    if not added or any(index.is_system for index in added):
        raise InvalidInputError("there is no index to commit, or one that holds state of the reference library")
    names = {index.name for index in added}
    replaced = tuple(index for index in parse_indices(base.index_section) if index.name in names)
    return replace_segments(table, base, added, replaced, options)


def replace_segments(
    table: TableLocation,
    base: Manifest,
    new: Collection[IndexMetadata],
    removed: Collection[IndexMetadata],
    options: CommitOptions | None = None,
) -> Manifest:
    """The version in which the segments `new`, whose files are written, stand for those of `removed`.

    Args:
        base: the version that has `removed`, and that `new` were built from.

    Raises: as `commit_indices`.
    """
    # Without the moves that it records, an index that others commit meanwhile could not be read.
    trims = any(index.is_fragment_reuse for index in removed)
    uuids = frozenset(index.uuid for index in parse_indices(base.index_section)) if trims else None
    return _commit(table, base, CreateIndex(tuple(new), tuple(removed), uuids), options)


def drop_index(table: TableLocation, name: str, options: CommitOptions | None = None) -> Manifest:
    """The newest version of `table` without the index `name`. Its files go with the next clean-up.

    Raises:
        NotFoundError: there is no such index.
        CommitConflictError: other writers were always first. Nothing was changed.
        CommitStateUnknownError: the store never said whether the version was committed.
        UnsupportedFeatureError: the table needs something that this release does not write.
    """

    def attempt(base: Manifest) -> Manifest:
        removed = tuple(index for index in parse_indices(base.index_section) if index.name == name)
        if not removed:
            raise NotFoundError(f"{table.uri} has no index {name!r}")
        if removed[0].is_system:
            raise InvalidInputError(f"{name!r} is no index but state of the reference library")
        return _commit(table, base, CreateIndex((), removed), options)

    policy = options.policy if options else None
    return retry_on_conflict(attempt, table.newest(), table.newest, policy, max_attempts=_MAX_ATTEMPTS)


def _commit(table: TableLocation, base: Manifest, operation: CreateIndex, options: CommitOptions | None) -> Manifest:
    if is_detached(base.version):
        raise InvalidInputError(
            "a detached version is not part of the table's history, so no version can be committed after it"
        )
    options = options or CommitOptions()
    transaction = Transaction.new(base.version, operation, options.all_properties())
    new_table = NewTable(data_format(base) or DEFAULT_FILE_VERSION)
    return Commit(table.history, base, transaction, new_table, options.policy).run()
