"""Files of one branch, as a version of another branch names them: by base paths, as a clone does it.

Files below the root of the other branch are the own ones there. A base path that both branches have is one; others are
added. Those that a user has added keep their ids, which stored references of blobs have too.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from lance_spark.errors import InvalidInputError
from lance_spark.table.base_places import base_path_of, resolved
from lance_spark.table.bases import BasePath
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.operations.base_ids import BaseIds, indices_with_base_ids, with_base_ids
from lance_spark.table.operations.clone import free_base_id
from lance_spark.table.paths import TREE
from lance_spark.table.rows.fragment import BaseId, FragmentList


@dataclass(frozen=True, slots=True)
class SharedBases:
    """The base paths by which versions of one branch name files of another.

    Attributes:
        ids: the id on the first branch by that on the other; None is the root of a branch.
        added: the base paths that the first branch does not have yet.
    """

    ids: BaseIds
    added: tuple[BasePath, ...]


def shared_bases(
    target: TableLocation,
    newest: Manifest,
    source: TableLocation,
    manifest: Manifest,
    used: Collection[BaseId | None] | None = None,
) -> SharedBases:
    """The base paths for files of `manifest`, a version of `source`, in versions of `target` that follow `newest`.

    Args:
        used: the ids that the files have; None: all that the version has.

    Raises:
        InvalidInputError: a base path that a user has added has an id or a name that is another one on `target`.
    """
    main = base_path_of(target.uri)
    own, mine = base_path_of(target.store.uri), {_place(target, base): base.id for base in newest.base_paths}
    bases = list(newest.base_paths)
    ids: dict[BaseId | None, BaseId | None] = {}
    theirs: list[tuple[BaseId | None, BasePath]] = [(base.id, base) for base in manifest.base_paths]
    theirs.append((None, BasePath(BaseId(0), base_path_of(source.store.uri), is_dataset_root=True)))
    for old, base in theirs:
        if used is not None and old not in used:
            continue
        place = _place(target, base)
        if place == (own, True):
            ids[old] = None
        elif place in mine:
            ids[old] = mine[place]
        else:
            is_branch = base.is_dataset_root and (place[0] == main or place[0].startswith(f"{main}/{TREE}/"))
            added = _added(bases, base, is_branch=is_branch)
            ids[old] = mine[place] = added.id
            bases.append(added)
    return SharedBases(ids, tuple(bases[len(newest.base_paths) :]))


def seen_from(target: TableLocation, newest: Manifest, source: TableLocation, manifest: Manifest) -> Manifest:
    """The version `manifest` of `source`, as versions of `target` that follow `newest` name its files.

    Raises:
        InvalidInputError: as `shared_bases`.
        UnsupportedFeatureError: a fragment has files that do not name a base path.
    """
    return with_shared_bases(newest, manifest, shared_bases(target, newest, source, manifest))


def with_shared_bases(newest: Manifest, manifest: Manifest, shared: SharedBases) -> Manifest:
    """The version `manifest` with the ids and base paths of `shared`, as in `seen_from`."""
    return replace(
        manifest,
        fragments=FragmentList(with_base_ids(message, shared.ids) for message in manifest.fragments.messages),
        base_paths=(*newest.base_paths, *shared.added),
        index_section=indices_with_base_ids(manifest.index_section, shared.ids),
    )


def _place(table: TableLocation, base: BasePath) -> tuple[str, bool]:
    return base_path_of(resolved(base.path, table.uri)), base.is_dataset_root


def _added(bases: list[BasePath], base: BasePath, *, is_branch: bool) -> BasePath:
    used = {other.id for other in bases}
    if is_branch:
        return BasePath(free_base_id(used, first=1), base.path, is_dataset_root=True)
    names = {other.name for other in bases if other.name is not None}
    if base.id in used or base.name in names:
        raise InvalidInputError(
            f"the two branches have different base paths with the id {base.id} or the name {base.name!r}, so one "
            "cannot name the files of the other; copy the rows instead"
        )
    return base
