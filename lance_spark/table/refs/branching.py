"""Creates and removes branches (Lance table format specification, "Branches and tags").

A branch is created in the order of the reference library: first its clone below ``tree/``, then its description in
``_refs/branches/``, which makes it exist. Until then nobody opens or lists it. A crash in between leaves files that
block another branch of that name until `delete_branch` with `force` removes them: they cannot be distinguished from a
branch that another writer is about to create.

The description of the branch and that of its parent are two objects, so each side checks the other's after changing
its own: the creator of a branch checks that the parent and its version still exist, the remover of one checks that no
branch or tag needs it. At least one of the two sees the other and undoes its change.
"""

from __future__ import annotations

import json
import time
import uuid

from lance_spark.errors import CommitConflictError, InvalidInputError, NotFoundError, StorageError
from lance_spark.storage.base import PutResult
from lance_spark.table.commits.commit import RetryPolicy
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.manifests.manifest_store import ManifestLocation
from lance_spark.table.operations.base import OperationKind
from lance_spark.table.paths import (
    DATA,
    DELETIONS,
    INDICES,
    TRANSACTIONS,
    VERSIONS,
    ManifestNaming,
    branch_path,
    branch_root,
    checked_ref_name,
    tag_path,
)
from lance_spark.table.refs.branch_files import check_not_shared, shared_tags
from lance_spark.table.refs.clone import shallow_clone
from lance_spark.table.refs.refs import MAIN, Branch, Refs

# The folders of a branch's root; other branches may be nested below it, as `a/b` below `a`.
_FOLDERS = (VERSIONS, TRANSACTIONS, DATA, DELETIONS, INDICES)


def create_branch(
    table: TableLocation, name: str, version: int, policy: RetryPolicy | None = None
) -> tuple[TableLocation, Manifest]:
    """The new branch `name` and its first version, which is `version` of the branch `table`.

    Raises:
        NotFoundError: there is no such version, or its branch was removed concurrently.
        InvalidInputError: the branch exists or is partially created, or the name is not valid.
        StorageError: the store failed, or it is unknown whether the branch was created.
        UnsupportedFeatureError: the version needs a feature that this release does not write.
    """
    _check_new_name(name)
    if _exists(table.refs, name):
        raise _already(table, name)
    target = table.on_branch(name, must_exist=False)
    if target.history.latest_location() is not None:
        raise _half_made(table, name)
    parent = None if table.branch is None else table.refs.branch(table.branch)
    payload = _description(table, parent, version)
    try:
        clone = shallow_clone(table, version, target, policy)
    except CommitConflictError:
        raise _half_made(table, name) from None
    try:
        _check_only_clone(target, version)
        _publish(table, name, payload, policy or RetryPolicy())
        try:
            _check_only_clone(target, version)
            _check_parent(table, parent, version)
        except (InvalidInputError, NotFoundError):
            table.refs.store.delete(branch_path(name))
            raise
    except (InvalidInputError, NotFoundError):
        # The clone is ours; the description, if there is one, is another writer's.
        target.history.manifests.withdraw(ManifestLocation(version, ManifestNaming.V2))
        target.store.delete(f"{TRANSACTIONS}/{clone.transaction_file}")
        raise
    return target, clone


def delete_branch(table: TableLocation, name: str, *, force: bool = False) -> None:
    """Removes the branch `name` with its versions and files.

    Args:
        force: also removes a partially created or removed branch. Nobody may be creating a branch of this name
            concurrently, or fast-forward another one to it.

    Raises:
        NotFoundError: there is no such branch.
        InvalidInputError: another branch or a tag needs it, or versions of another branch have files of it; or the
            name is not valid for a branch.
        StorageError: the store failed.
    """
    path = branch_path(name)
    if name == MAIN:
        raise InvalidInputError("the main branch is the table itself; remove the table instead")
    store = table.refs.store
    try:
        content = bytes(store.read(path))
    except NotFoundError:
        if not force:
            raise NotFoundError(f"{table.uri} has no branch {name!r}") from None
        _check_unused(table, name, force=force)
    else:
        _check_unused(table, name, force=force)
        store.delete(path)
        try:
            _check_unused(table, name, force=force)
        except InvalidInputError:
            store.put_if_absent(path, content)
            raise
    for tag in shared_tags(table, name):
        store.delete(tag_path(tag.name))
    _remove_files(table.refs, name)
    table.on_branch(name, must_exist=False).history.manifests.forget()


def _check_new_name(name: str) -> None:
    """Checks that every release reads the name; stricter than the reference library."""
    if name == MAIN:
        raise InvalidInputError("the main branch is there already")
    for segment in name.split("/"):
        checked_ref_name(segment)
    branch_root(name)
    within = set(name.split("/")[1:]) & {*_FOLDERS, "_refs", "tree"}
    if within:
        raise InvalidInputError(f"a part of {name!r} is called as the folder {sorted(within)[0]!r} of the branch above")


def _exists(refs: Refs, name: str) -> bool:
    try:
        refs.store.size(branch_path(name))
    except NotFoundError:
        return False
    return True


def _already(table: TableLocation, name: str) -> InvalidInputError:
    return InvalidInputError(f"{table.uri} has a branch {name!r} already")


def _half_made(table: TableLocation, name: str) -> InvalidInputError:
    return InvalidInputError(
        f"{table.uri} has versions of a branch {name!r} that is not complete: another writer is making it, or was "
        "stopped while it did. If nobody is, delete_branch(force=True) removes what is left"
    )


def _description(table: TableLocation, parent: Branch | None, version: int) -> bytes:
    lineage = () if parent is None else parent.lineage
    content = {
        "parentBranch": table.branch,
        "identifier": {"version_mapping": [*map(list, lineage), [version, uuid.uuid4().hex]]},
        "parentVersion": version,
        "createAt": int(time.time()),
        "manifestSize": table.history.manifest_size(version),
        "metadata": {},
    }
    return json.dumps(content, indent=2).encode()


def _publish(table: TableLocation, name: str, payload: bytes, policy: RetryPolicy) -> None:
    """Writes the description, which creates the branch; its unique id distinguishes ours from another's."""
    store, path = table.refs.store, branch_path(name)
    for attempt in range(policy.max_requests):
        if store.put_if_absent(path, payload) is PutResult.CREATED:
            return
        try:
            if bytes(store.read(path)) == payload:
                return
        except NotFoundError:
            policy.wait(attempt)
            continue
        raise _already(table, name)
    raise StorageError(f"the store did not say whether the branch {name!r} of {table.uri} was made; look for it")


def _check_only_clone(target: TableLocation, version: int) -> None:
    """Checks that nobody else began a branch of this name at another version; another writer may not see ours.

    Raises:
        InvalidInputError: somebody has.
    """
    for number in {location.version for location in target.history.locations()} - {version}:
        try:
            transaction = target.history.transaction(target.history.load(number))
        except NotFoundError:
            continue
        if transaction is None or transaction.operation.kind is OperationKind.CLONE:
            raise _half_made(target, str(target.branch))


def _check_parent(table: TableLocation, parent: Branch | None, version: int) -> None:
    """Checks that the source of the new branch still exists.

    Raises:
        NotFoundError: it does not.
    """
    table.history.manifest_size(version)
    if parent is not None and table.refs.branch(parent.name) != parent:
        raise NotFoundError(f"the branch {parent.name!r} of {table.uri} was created again")


def _check_unused(table: TableLocation, name: str, *, force: bool) -> None:
    """Checks that no branch and no tag needs the branch `name`, nor a version of another branch its files.

    Raises:
        InvalidInputError: one does.
    """
    branches = table.refs.branches()
    own = branches.get(name)
    below = [other.name for other in branches.values() if other.parent == name or _descends(other, own)]
    if below:
        raise InvalidInputError(f"the branch {name!r} has files of the branches made from it: {', '.join(below)}")
    kept = {tag.name for tag in shared_tags(table, name)}
    tags = [tag.name for tag in table.refs.tags().values() if tag.branch == name and tag.name not in kept]
    if tags:
        raise InvalidInputError(f"tags name versions of the branch {name!r}: {', '.join(tags)}")
    check_not_shared(table, name, force=force)


def _descends(other: Branch, own: Branch | None) -> bool:
    if own is None or not own.lineage or len(other.lineage) <= len(own.lineage):
        return False
    return other.lineage[: len(own.lineage)] == own.lineage


def _remove_files(refs: Refs, name: str) -> None:
    """Removes the files of a branch, its versions first: without them readers ignore everything else."""
    store, root = refs.store, branch_root(name)
    others = tuple(f"{branch_root(other)}/" for other in refs.branches() if other.startswith(f"{name}/"))
    for folder in _FOLDERS:
        for entry in list(store.list(f"{root}/{folder}", recursive=True)):
            if not entry.path.startswith(others):
                store.delete(entry.path)
