"""Staged changes: writes to a branch of their own, named by an id, that are published at once or never seen."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from lance_spark.errors import InvalidInputError, NotFoundError
from lance_spark.table.commits.commit import RetryPolicy
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.publishing.cherrypick import cherrypick
from lance_spark.table.publishing.fast_forward import fast_forward
from lance_spark.table.publishing.lineage import Lineage, Point
from lance_spark.table.refs.branching import create_branch, delete_branch

WAP_ID = "lance.wap_id"
"""The property of a transaction with the id of the changes that it has published."""


@dataclass(frozen=True, slots=True)
class Publication:
    """Published changes.

    Attributes:
        version: the newest version of the main branch, which has them.
        is_branch_removed: whether their branch was removed; it stays while the table has files of it.
    """

    version: Manifest
    is_branch_removed: bool


def staging_branch(wap_id: str) -> str:
    """The name of the branch with the changes of an id.

    >>> staging_branch("2026-05-01")
    'wap-2026-05-01'
    """
    return f"wap-{wap_id}"


def branch_for_writes(table: TableLocation, name: str) -> None:
    """Creates the branch `name` at the newest version of the main branch, unless it is there.

    Raises: as `create_branch`, but for a branch that is there.
    """
    if name in table.refs.branches():
        return
    main = table.on_branch(None)
    try:
        create_branch(main, name, main.newest().version)
    except InvalidInputError:
        if name not in table.refs.branches():  # Another writer may have been faster.
            raise


def publish_changes(table: TableLocation, wap_id: str, policy: RetryPolicy | None = None) -> Publication:
    """Publishes the changes that were staged with an id, as one version of the main branch.

    Raises:
        NotFoundError: nothing was staged with this id.
        InvalidInputError: the changes were published already; or they cannot be made on the newest version, because
            rows that they delete or update are not there as they were.
        CommitConflictError: other writers were always first. Nothing was changed.
        CommitStateUnknownError: it is unknown whether the version was committed.
        UnsupportedFeatureError: one of the two needs a feature that this release does not write.
    """
    name, main = staging_branch(wap_id), table.on_branch(None)
    try:
        begun = table.refs.branch(name).parent_version
    except NotFoundError:
        raise NotFoundError(f"no changes of {table.uri} are staged with the id {wap_id!r}") from None
    source = table.on_branch(name)
    newest = source.newest().version
    if newest == begun:
        raise InvalidInputError(f"the branch {name!r} of {table.uri} has no changes to publish")
    lineage, here, there = Lineage(main), Point(None, main.newest().version), Point(name, newest)
    if lineage.containing(here, there) is not None:
        raise InvalidInputError(f"the changes with the id {wap_id!r} were published already")
    properties = {WAP_ID: wap_id}
    made = None
    if lineage.containing(there, here) is not None:
        with suppress(InvalidInputError):  # Another writer was faster; then they are made on its version.
            made = fast_forward(main, source, policy, properties)
    if made is None:
        made = cherrypick(source, newest, main, policy, properties, first=begun + 1)
    return Publication(made, _is_removed(main, name))


def _is_removed(main: TableLocation, name: str) -> bool:
    """Removes the branch, if the table has no files of it."""
    try:
        delete_branch(main, name)
    except InvalidInputError:
        return False
    return True
