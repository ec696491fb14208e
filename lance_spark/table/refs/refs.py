"""Tags and branches (Lance table format specification, "Branches and tags").

Both are small JSON files below the root of the main branch. A tag references a version of a branch; a branch is a
separate table below ``tree/``, which begins as a shallow clone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TypeVar
from urllib.parse import unquote

from lance_spark.errors import CorruptFileError, NotFoundError
from lance_spark.storage.base import ObjectStore
from lance_spark.table.paths import BRANCHES, TAGS, branch_path, tag_path

MAIN = "main"
_SUFFIX = ".json"
_YEAR_10000 = 253_402_300_800
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)", re.ASCII)

RefT = TypeVar("RefT")


@dataclass(frozen=True, slots=True)
class Tag:
    """A name for a version.

    Attributes:
        branch: the branch that has the version; None is the main branch.
        created_at, updated_at: when it was created and last updated; None if not recorded.
        manifest_size: bytes of the version's manifest; None if not recorded.
    """

    name: str
    version: int
    branch: str | None = None
    created_at: datetime | None = field(default=None, compare=False)
    updated_at: datetime | None = field(default=None, compare=False)
    manifest_size: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Branch:
    """A separate line of versions.

    Attributes:
        parent: the branch it started from; None is the main branch.
        parent_version: the version it started from.
        lineage: the start of each branch from the main one down to this one, as (version, unique id); empty if an old
            release created the branch.
        created_at: when it was created, to the second; None if unknown.
        manifest_size: bytes of the manifest of the version it started from; None if not recorded.
    """

    name: str
    parent: str | None
    parent_version: int
    lineage: tuple[tuple[int, str], ...] = ()
    created_at: datetime | None = None
    manifest_size: int | None = None


class Refs:
    """The tags and branches of a table, read from the root of its main branch."""

    def __init__(self, main_root: ObjectStore) -> None:
        self._store = main_root

    @property
    def store(self) -> ObjectStore:
        """The root of the main branch, which has the files of all tags and branches."""
        return self._store

    def tag(self, name: str) -> Tag:
        """The tag of this name.

        Raises:
            NotFoundError: there is no such tag.
            InvalidInputError: the name is not valid for a tag.
        """
        return self._read(tag_path(name), name, "tag", _tag)

    def tags(self) -> dict[str, Tag]:
        """All tags by name."""
        return self._all(self._names(TAGS), self.tag)

    def branch(self, name: str) -> Branch:
        """The branch of this name.

        Raises:
            NotFoundError: there is no such branch.
            InvalidInputError: the name is not valid for a branch.
        """
        return self._read(branch_path(name), name, "branch", _branch)

    def branches(self) -> dict[str, Branch]:
        """All branches but the main one, by name."""
        return self._all(map(unquote, self._names(BRANCHES)), self.branch)

    def _all(self, names: Iterable[str], read: Callable[[str], RefT]) -> dict[str, RefT]:
        refs = {}
        for name in names:
            try:
                refs[name] = read(name)
            except NotFoundError:
                continue  # Removed since the listing.
        return refs

    def _names(self, folder: str) -> list[str]:
        names = (entry.path.rpartition("/")[2] for entry in self._store.list(folder))
        return [name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX)]

    def tag_content(self, name: str) -> dict[str, object]:
        """All entries of a tag's file, including those that `Tag` omits; errors as `tag`."""
        return self._content(tag_path(name), name, "tag")

    def _read(self, path: str, name: str, what: str, build: Callable[[str, Mapping[str, object]], RefT]) -> RefT:
        content = self._content(path, name, what)
        try:
            return build(name, content)
        except CorruptFileError as error:
            raise error.at(path=path) from None

    def _content(self, path: str, name: str, what: str) -> dict[str, object]:
        try:
            data = self._store.read(path)
        except NotFoundError:
            raise NotFoundError(f"{self._store.uri} has no {what} {name!r}") from None
        try:
            content = json.loads(bytes(data))
        except (ValueError, RecursionError) as error:
            raise CorruptFileError(f"not the description of a {what}: {error}", path=path) from error
        if not isinstance(content, dict):
            raise CorruptFileError(f"not the description of a {what}", path=path)
        return content


def _tag(name: str, content: Mapping[str, object]) -> Tag:
    return Tag(
        name,
        _version(content, "version"),
        _branch_name(content, "branch"),
        _moment(content, "createdAt"),
        _moment(content, "updatedAt"),
        _size(content),
    )


def _branch(name: str, content: Mapping[str, object]) -> Branch:
    return Branch(
        name,
        _branch_name(content, "parentBranch"),
        _version(content, "parentVersion"),
        _lineage(content.get("identifier")),
        _second(content.get("createAt")),
        _size(content),
    )


def _lineage(identifier: object) -> tuple[tuple[int, str], ...]:
    if identifier is None:
        return ()
    mapping = identifier.get("version_mapping") if isinstance(identifier, dict) else None
    if not isinstance(mapping, list):
        raise CorruptFileError("'identifier' has no version mapping")
    for entry in mapping:
        if not (isinstance(entry, list) and [type(member) for member in entry] == [int, str]):
            raise CorruptFileError(f"{entry!r} is no step from branch to branch")
    return tuple((version, unique_id) for version, unique_id in mapping)


def _second(value: object) -> datetime | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _YEAR_10000:
        raise CorruptFileError(f"'createAt' is {value!r}, which is not a time")
    return datetime.fromtimestamp(value, timezone.utc)


def _moment(content: Mapping[str, object], key: str) -> datetime | None:
    """An RFC 3339 timestamp, to the microsecond."""
    value = content.get(key)
    if value is None:
        return None
    match = _MOMENT.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise CorruptFileError(f"{key!r} is {value!r}, which is not a time")
    second, fraction, zone = match.groups()
    try:
        moment = datetime.fromisoformat(f"{second}.{(fraction or '0')[:6]:0<6}{'+00:00' if zone == 'Z' else zone}")
        return moment.astimezone(timezone.utc)
    except (ValueError, OverflowError) as error:
        raise CorruptFileError(f"{key!r} is {value!r}, which is not a time") from error


def _size(content: Mapping[str, object]) -> int | None:
    value = content.get("manifestSize")
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
        raise CorruptFileError(f"'manifestSize' is {value!r}, which is not a size")
    return value


def _version(content: Mapping[str, object], key: str) -> int:
    value = content.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise CorruptFileError(f"{key!r} is {value!r}, which is no version")
    return value


def _branch_name(content: Mapping[str, object], key: str) -> str | None:
    value = content.get(key)
    if value is not None and not isinstance(value, str):
        raise CorruptFileError(f"{key!r} is {value!r}, which is no branch")
    return None if value in (None, MAIN) else value
