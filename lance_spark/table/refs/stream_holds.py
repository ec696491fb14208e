"""Tags by which streaming queries keep the versions that they still have to read (docs/design/036-streaming.md)."""

from __future__ import annotations

from lance_spark.errors import NotFoundError
from lance_spark.table.cleanup.references import HOLD_PREFIX
from lance_spark.table.location import TableLocation
from lance_spark.table.refs.tagging import create_tag, delete_tag, update_tag


def hold_name(query: str, source: str) -> str:
    """The tag of one source of a streaming query.

    >>> hold_name("5e1c", "0")
    'lance-stream-5e1c-0'
    """
    return f"{HOLD_PREFIX}{query}-{source}"


def hold_versions(table: TableLocation, name: str, version: int) -> int:
    """Keeps `version` of a branch and those after it from being cleaned up; the version that the tag `name` names now.

    If `version` was cleaned up, or never existed, it is the oldest one after it that is there.

    Raises:
        NotFoundError: neither the version nor one after it exists.
        StorageError: the store failed; the tag names the version that it named before, or the new one.
    """
    available = [item.version for item in table.history.locations() if item.version >= version]
    if not available:
        raise NotFoundError(f"{table.uri} has no version {version} or later to keep for a stream")
    kept = min(available)
    try:
        tag = table.refs.tag(name)
    except NotFoundError:
        create_tag(table, name, kept)
        return kept
    if (tag.version, tag.branch) != (kept, table.branch):
        update_tag(table, name, kept)
    return kept


def release_versions(table: TableLocation, query: str) -> list[str]:
    """Removes the tags of a streaming query; their names.

    Raises:
        StorageError: the store failed; some of the tags may be removed.
    """
    names = [name for name in sorted(table.refs.tags()) if name.rpartition("-")[0] == f"{HOLD_PREFIX}{query}"]
    for name in names:
        delete_tag(table, name)
    return names
