"""Fast-forwards: a branch gets the content of another one that has all of its versions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lance_spark.errors import InvalidInputError, RetryableConflictError
from lance_spark.file_version import FileVersion
from lance_spark.storage.copying import copy_whole
from lance_spark.table.commits.commit import Commit, NewTable, RetryPolicy
from lance_spark.table.commits.retry import retry_on_conflict
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.index_section import parse_indices
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.manifests.transaction import OPERATION, Transaction
from lance_spark.table.operations.base import CommittableOperation
from lance_spark.table.operations.base_ids import BaseIds, indices_with_base_ids
from lance_spark.table.operations.fast_forward import FastForward
from lance_spark.table.operations.manifest_builder import data_format
from lance_spark.table.paths import INDICES
from lance_spark.table.publishing.lineage import (
    FAST_FORWARD,
    SOURCE_BRANCH,
    SOURCE_ID,
    SOURCE_VERSION,
    Lineage,
    Point,
)
from lance_spark.table.publishing.row_versions import with_own_row_versions
from lance_spark.table.publishing.seen_from import seen_from
from lance_spark.table.refs.branch_files import has_files_elsewhere, kept_for_branch
from lance_spark.table.refs.refs import MAIN
from lance_spark.table.rows.fragment import BaseId


def fast_forward(
    target: TableLocation,
    source: TableLocation,
    policy: RetryPolicy | None = None,
    properties: Mapping[str, str] | None = None,
) -> Manifest:
    """The new newest version of the branch `target`, with the content of the newest one of `source`.

    No file is copied but those of indexes. If the branch has that content already, it is its newest version.

    Args:
        properties: further properties of the transaction.

    Raises:
        InvalidInputError: the newest version of `target` is no ancestor of that of `source`; or the branches have
            different base paths with one id.
        NotFoundError: one of the branches does not exist.
        CommitConflictError: other writers were always first. Nothing was changed.
        CommitStateUnknownError: it is unknown whether the version was committed.
        UnsupportedFeatureError: one of the two needs a feature that this release does not write.
    """
    if target.branch == source.branch:
        raise InvalidInputError(f"{target.branch or MAIN} is one branch; name another one to fast-forward it to")
    return retry_on_conflict(lambda _: _attempt(target, source, policy, properties or {}), None, lambda: None, policy)


def _attempt(
    target: TableLocation, source: TableLocation, policy: RetryPolicy | None, further: Mapping[str, str]
) -> Manifest:
    newest, wanted = target.newest(), source.newest()
    here, there = Point(target.branch, newest.version), Point(source.branch, wanted.version)
    lineage = Lineage(target)
    if there in lineage.equals(here) or here in lineage.equals(there):
        return newest
    shared = lineage.containing(there, here)
    if shared is None:
        raise InvalidInputError(
            f"branch {target.branch or MAIN} of {target.uri} cannot be fast-forwarded to {source.branch or MAIN}, "
            f"which does not contain version {newest.version} of {target.branch or MAIN}; cherrypick versions instead"
        )
    seen = _with_own_indexes(target, seen_from(target, newest, source, wanted))
    state = _state(target, newest, seen, shared)
    properties = {
        OPERATION: FAST_FORWARD,
        SOURCE_BRANCH: source.branch or MAIN,
        SOURCE_VERSION: str(wanted.version),
        SOURCE_ID: lineage.identity(source.branch),
        **further,
    }
    transaction = Transaction.new(newest.version, FastForward.to(state, newest), properties)
    new_table = NewTable(data_format(state) or FileVersion.V2_2)

    def strictly(newer: Manifest) -> CommittableOperation:
        raise RetryableConflictError(
            f"another writer has committed version {newer.version} of branch {target.branch or MAIN} meanwhile",
            own=FAST_FORWARD,
            table_version=newer.version,
        )

    commit = Commit(target.history, newest, transaction, new_table, policy, strictly)
    if not has_files_elsewhere(state):
        return commit.run()
    with kept_for_branch(source, wanted.version, target):
        return commit.run()


def _with_own_indexes(target: TableLocation, seen: Manifest) -> Manifest:
    """The version with copies of the indexes that have files elsewhere.

    The reference library rewrites an index when it compacts, and then looks for the new files at the base path of the
    old ones: searches of the table would fail.
    """
    bases = target.bases(seen)
    indexes = parse_indices(seen.index_section)
    elsewhere = [(index.uuid, BaseId(index.base_id)) for index in indexes if index.base_id is not None]
    for uuid, base_id in elsewhere:
        store, folder = bases.index_folder(uuid, base_id)
        for entry in store.list(folder, recursive=True):
            name = entry.path.removeprefix(f"{folder}/")
            copy_whole(store, entry.path, target.store, f"{INDICES}/{uuid}/{name}", entry.size)
    own: BaseIds = {base_id: None for _, base_id in elsewhere}
    return replace(seen, index_section=indices_with_base_ids(seen.index_section, own))


def _state(target: TableLocation, newest: Manifest, seen: Manifest, shared: int) -> Manifest:
    """The content of the new version, with row versions and versions of indexes that it has on its branch."""
    number = target.history.next_version(newest.version)
    section = indices_with_base_ids(seen.index_section, {}, number)
    return with_own_row_versions(replace(seen, index_section=section), newest, shared, number)
