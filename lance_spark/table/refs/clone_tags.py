"""Tags that keep the versions whose files a shallow clone shares, so that clean-ups of their tables spare these.

The format records a clone in the clone alone. A tag in the table that was cloned is what every library heeds: a
clean-up keeps its version, or refuses. Its metadata has the root of the clone, as a text for people: nobody opens what
it names. It goes when this library deletes the files of the clone, or when somebody removes it: whether a clone
elsewhere still needs the files cannot be known.
"""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from lance_spark.errors import CommitStateUnknownError, LanceError, StorageError
from lance_spark.table.base_places import base_path_of, followed, options_at, resolved
from lance_spark.table.cleanup.references import CLONE_PREFIX
from lance_spark.table.commits.commit import RetryPolicy
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.paths import TAGS, branch_root
from lance_spark.table.refs.clone import shallow_clone
from lance_spark.table.refs.refs import Refs
from lance_spark.table.refs.tagging import create_tag, delete_tag

_log = logging.getLogger(__name__)

CLONE_KEY = "clone"
"""The entry of the tag's metadata with the root of the clone."""

_UNUSABLE = re.compile(r"[^A-Za-z0-9_-]+")
_MAX_NAME = 64
_Kept = tuple[TableLocation, int]


def tagged_clone(
    table: TableLocation, version: int, target: TableLocation, policy: RetryPolicy | None = None
) -> Manifest:
    """Creates a shallow clone elsewhere, whose files are protected by tags of the source.

    Raises: as `shallow_clone`.
    """
    with _kept_for_clone(table, table.at(version).manifest, target):
        return shallow_clone(table, version, target, policy)


@contextmanager
def _kept_for_clone(table: TableLocation, source: Manifest, clone: TableLocation) -> Iterator[None]:
    """Tags the versions whose files a new table `clone` of the version `source` shares.

    The tags go again if the clone was not made. A table that cannot be written to gets none, which is logged.

    Raises: as `create_tag`, except `StorageError`.
    """
    root = base_path_of(clone.uri)
    name = f"{CLONE_PREFIX}{_last_part(root)}{secrets.token_hex(4)}"
    tagged: list[TableLocation] = []
    try:
        for location, version in _shared(table, source):
            if _tag(location, name, version, root):
                tagged.append(location)
        yield
    except CommitStateUnknownError:
        raise  # The clone may be there.
    except LanceError:
        for location in tagged:
            with suppress(LanceError):
                delete_tag(location, name)
        raise


@dataclass(frozen=True, slots=True)
class CloneTag:
    """A tag that keeps a version for a clone, which may no longer exist.

    Attributes:
        clone: the root of the clone, as whoever made the tag has written it; None if it does not say. It is shown and
            compared, never opened.
    """

    name: str
    clone: str | None


def clone_tags(refs: Refs) -> list[CloneTag]:
    """The tags of a table for its clones."""
    return [CloneTag(name, _clone_of(refs, name)) for name in sorted(refs.tags()) if name.startswith(CLONE_PREFIX)]


def root_of_clone_tag(path: str) -> str | None:
    """The root of the table of which a file is a tag for a clone; None for other files.

    >>> root_of_clone_tag("a/_refs/tags/lance-clone-b-1f.json"), root_of_clone_tag("_refs/tags/lance-clone-2e.json")
    ('a', '')
    >>> root_of_clone_tag("a/_refs/tags/kept.json") is None
    True
    """
    root, separator, _ = f"/{path}".rpartition(f"/{TAGS}/{CLONE_PREFIX}")
    return root.removeprefix("/") if separator else None


def tags_for_clone(clone: TableLocation) -> list[tuple[TableLocation, str]]:
    """The tags that other tables have for a table; none that cannot be read, and none if it is no clone."""
    tags: list[tuple[TableLocation, str]] = []
    with suppress(LanceError):
        newest, root = clone.latest(), base_path_of(clone.uri)
        for base in () if newest is None else newest.base_paths:
            with suppress(LanceError):
                uri = followed(base.path, base.id, clone.uri)
                table = TableLocation(uri, options_at(uri, clone.uri, clone.storage_options, base.id))
                tags += [(table, name) for name in table.refs.tags() if _clone_of(table.refs, name) == root]
    return tags


def _tag(table: TableLocation, name: str, version: int, clone: str) -> bool:
    """Whether the version could be tagged."""
    try:
        create_tag(table, name, version, metadata={CLONE_KEY: clone})
    except StorageError as error:
        _log.warning(
            "version %d of %s got no tag for its clone at %s, so that a clean-up of the table can remove files of the "
            "clone: %s",
            version,
            table.uri,
            clone,
            error,
        )
        return False
    return True


def _shared(table: TableLocation, source: Manifest) -> Iterator[_Kept]:
    """The version itself, and those of further tables whose files it shares as a clone."""
    own = _of_main_root(table, source)
    yield own, source.version
    clone = base_path_of(own.uri)
    for base in source.base_paths:
        uri = resolved(base.path, own.uri)
        if not base.is_dataset_root or base_path_of(uri) == clone:
            continue
        try:
            options = options_at(uri, own.uri, own.storage_options, base.id)
            location = TableLocation(followed(base.path, base.id, own.uri), options)
            tags = [tag for name, tag in location.refs.tags().items() if _clone_of(location.refs, name) == clone]
        except LanceError as error:
            _log.warning("%s is not asked for the versions that %s shares with it: %s", uri, own.uri, error)
            continue
        for tag in tags:
            yield location.on_branch(tag.branch, must_exist=False), tag.version


def _of_main_root(table: TableLocation, source: Manifest) -> TableLocation:
    """The same branch, where the folder of a branch was opened as a table: tags are in the main root."""
    if table.branch is not None or not source.branch:
        return table
    suffix = f"/{branch_root(source.branch)}"
    if not table.uri.endswith(suffix):
        return table
    return TableLocation(table.uri.removesuffix(suffix), table.storage_options, branch=source.branch, must_exist=False)


def _clone_of(refs: Refs, tag: str) -> str | None:
    if not tag.startswith(CLONE_PREFIX):
        return None
    metadata = refs.tag_content(tag).get("metadata")
    clone = metadata.get(CLONE_KEY) if isinstance(metadata, dict) else None
    return clone if isinstance(clone, str) else None


def _last_part(root: str) -> str:
    """The end of a path, as far as tags may have it, and a dash."""
    name = _UNUSABLE.sub("-", root.rpartition("/")[2])[:_MAX_NAME].strip("-")
    return f"{name}-" if name else ""
