"""Versions on other branches, and detached versions, that may reference files of a branch."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from lance_spark.errors import NotFoundError
from lance_spark.storage.base import ObjectStore
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.history import History
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.paths import (
    DATA,
    DELETIONS,
    INDICES,
    TAGS,
    TRANSACTIONS,
    TREE,
    VERSIONS,
    is_detached,
)
from lance_spark.table.refs.refs import Refs

HOLD_PREFIX = "lance-stream-"
"""Prefix of tags that keep their version and all later ones, which a streaming query has yet to read."""

GUARD_PREFIX = "lance-restore-"
"""Prefix of tags that keep a version while it is restored."""

CLONE_PREFIX = "lance-clone-"
"""Prefix of tags that keep a version whose files a shallow clone elsewhere shares."""

SHARED_PREFIX = "lance-shared-"
"""Prefix of tags that keep a version whose files another branch names."""

_NO_BRANCHES = frozenset({DATA, DELETIONS, INDICES, TRANSACTIONS, VERSIONS})


def other_branches(table: TableLocation) -> Iterator[TableLocation]:
    """All branches of the table but `table` itself, also those that are just being made or removed."""
    names: set[str | None] = {*table.refs.branches(), *_with_versions(table.refs.store, TREE), None}
    for name in names - {table.branch}:
        yield table.on_branch(name, must_exist=False)


def protected_versions(refs: Refs, branch: str | None) -> frozenset[int]:
    """The versions of a branch that tags name, or that other branches began at."""
    tagged = {tag.version for tag in refs.tags().values() if tag.branch == branch}
    begun = {other.parent_version for other in refs.branches().values() if other.parent == branch}
    return frozenset(tagged | begun)


def remove_old_guards(refs: Refs, before: datetime | None) -> None:
    """Removes the tags of restores that were killed: those from before a moment; None: all of them."""
    for entry in list(refs.store.list(TAGS)):
        is_old = before is None or (entry.modified is not None and entry.modified < before)
        if is_old and entry.path.startswith(f"{TAGS}/{GUARD_PREFIX}"):
            refs.store.delete(entry.path)


def held_from(refs: Refs, branch: str | None) -> int | None:
    """The first version of a branch that a streaming query still needs, with all that come after it; None: none."""
    tags = refs.tags().values()
    return min((tag.version for tag in tags if tag.branch == branch and tag.name.startswith(HOLD_PREFIX)), default=None)


def listed_versions(history: History) -> Iterator[Manifest]:
    """Every version of a branch that a listing shows, detached ones too; those removed meanwhile are left out."""
    for number in [location.version for location in history.locations()] + detached_versions(history.store):
        try:
            yield history.load(number).manifest
        except NotFoundError:
            continue


def detached_versions(store: ObjectStore) -> list[int]:
    """The numbers of the detached versions below a root."""
    names = [entry.path.rpartition("/")[2].removesuffix(".manifest") for entry in store.list(VERSIONS)]
    numbers = [int(name[1:]) for name in names if name[:1] == "d" and name[1:].isascii() and name[1:].isdigit()]
    return [number for number in numbers if is_detached(number)]


def _with_versions(store: ObjectStore, folder: str) -> Iterator[str]:
    """The names of the branches below a folder of `tree/`, by the folders that are there."""
    for path in store.list_folders(folder):
        name = path.rpartition("/")[2]
        if name == VERSIONS and folder != TREE:
            yield folder.removeprefix(f"{TREE}/")
        elif name not in _NO_BRANCHES:
            yield from _with_versions(store, path)
