"""Files of a branch that versions of other branches name, and the tags that keep them.

After a fast-forward or a cherrypick a branch names files of another one by a base path. A tag keeps the version that
has these files: every library passes over it when it cleans up, and removes no branch with a tag.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta, timezone

from lance_spark.errors import CommitStateUnknownError, InvalidInputError, LanceError, NotFoundError
from lance_spark.table.base_places import base_path_of, resolved
from lance_spark.table.cleanup.references import SHARED_PREFIX, listed_versions, other_branches
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.index_section import parse_indices
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.refs.refs import MAIN, Tag
from lance_spark.table.refs.tagging import create_tag, delete_tag

BRANCH_KEY = "branch"
"""The entry of the tag's metadata with the branch that names the files."""

_MAX_COMMIT = timedelta(hours=1)
"""A tag that is younger may be of a commit that is still running."""

_UNUSABLE = re.compile(r"[^A-Za-z0-9_-]+")


@contextmanager
def kept_for_branch(source: TableLocation, version: int, target: TableLocation) -> Iterator[None]:
    """Keeps `version` of the branch `source`, whose files a commit to the branch `target` is about to name.

    The tag goes again if the commit fails.

    Raises:
        NotFoundError: the version, or the branch, was removed meanwhile.
        StorageError: the store failed.
    """
    description = None if source.branch is None else source.refs.branch(source.branch)
    part = _UNUSABLE.sub("-", target.branch or MAIN)[:64].strip("-")
    name = f"{SHARED_PREFIX}{part}-{secrets.token_hex(4)}"
    create_tag(source, name, version, metadata={BRANCH_KEY: target.branch or MAIN})
    try:
        # Whoever removes a branch looks for tags afterwards; one of the two sees the other.
        if description is not None and source.refs.branch(description.name) != description:
            raise NotFoundError(f"the branch {description.name!r} of {source.uri} was created again")
        yield
    except CommitStateUnknownError:
        raise  # The version may be there.
    except LanceError:
        with suppress(LanceError):
            delete_tag(source, name)
        raise


def shared_tags(table: TableLocation, name: str) -> list[Tag]:
    """The tags that keep files of the branch `name` for other branches."""
    return [tag for tag in table.refs.tags().values() if tag.branch == name and tag.name.startswith(SHARED_PREFIX)]


def check_not_shared(table: TableLocation, name: str, *, force: bool) -> None:
    """Checks that no version of another branch names files of the branch `name`.

    Args:
        force: whether nobody can be about to commit such a version.

    Raises:
        InvalidInputError: one does, or somebody may be about to commit one.
    """
    tags = shared_tags(table, name)
    if not tags:
        return
    branch = table.on_branch(name, must_exist=False)
    root = base_path_of(branch.store.uri)
    for other in other_branches(branch):
        for manifest in listed_versions(other.history):
            if names_files_below(other, manifest, root):
                raise InvalidInputError(
                    f"version {manifest.version} of branch {other.branch or MAIN} has files of the branch {name!r}: "
                    "keep the branch, or write these rows again (compact, or overwrite them), remove the versions that "
                    "have the files with VACUUM (`cleanup` in Python), and delete the branch then"
                )
    oldest_known = datetime.now(timezone.utc) - _MAX_COMMIT
    if not force and any(tag.created_at is None or tag.created_at > oldest_known for tag in tags):
        raise InvalidInputError(
            f"another branch may be about to name files of the branch {name!r}, because the tag {tags[0].name!r} is "
            "less than an hour old; try later, or delete with force if nobody is"
        )


def names_files_below(table: TableLocation, manifest: Manifest, root: str) -> bool:
    """Whether a version names files by a base path that is `root`."""
    ids = {base.id for base in manifest.base_paths if base_path_of(resolved(base.path, table.uri)) == root}
    return bool(ids) and any(base_id in ids for base_id in _used_bases(manifest))


def has_files_elsewhere(manifest: Manifest) -> bool:
    """Whether a version names files by any base path."""
    return next(_used_bases(manifest), None) is not None


def _used_bases(manifest: Manifest) -> Iterator[int]:
    for message in manifest.fragments.messages:
        yield from (file.base_id for file in message.files if file.HasField("base_id"))
        if message.HasField("deletion_file") and message.deletion_file.HasField("base_id"):
            yield message.deletion_file.base_id
    yield from (index.base_id for index in parse_indices(manifest.index_section) if index.base_id is not None)
