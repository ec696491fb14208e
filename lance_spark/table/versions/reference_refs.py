"""`Dataset.tags` and `Dataset.branches`: called, what there is; their methods are those of the reference library."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from lance_spark.errors import InvalidInputError, NotFoundError
from lance_spark.table.refs.refs import Tag

_Ref = TypeVar("_Ref")


class NamedRefs(Generic[_Ref]):
    """The tags or the branches of a table.

    Args:
        read: those that there are, by name.
        remove: removes one.
    """

    def __init__(self, read: Callable[[], dict[str, _Ref]], remove: Callable[[str], None]) -> None:
        self._read = read
        self._remove = remove

    def __call__(self) -> dict[str, _Ref]:
        """Tags or branches by name."""
        return self._read()

    def list(self) -> dict[str, _Ref]:
        """Tags or branches by name."""
        return self._read()

    def delete(self, name: str) -> None:
        """Removes one. Raises as `Dataset.delete_tag` or `Dataset.delete_branch`."""
        self._remove(name)


class Tags(NamedRefs[Tag]):
    """The tags of a table.

    Args:
        verbs: "create" and "update", which take a name and a version.
    """

    def __init__(
        self,
        read: Callable[[], dict[str, Tag]],
        remove: Callable[[str], None],
        verbs: Mapping[str, Callable[[str, int | None], Any]],
    ) -> None:
        super().__init__(read, remove)
        self._verbs = verbs

    def get_version(self, tag: str) -> int:
        """The number of the version that a tag names.

        Raises:
            NotFoundError: there is no such tag.
        """
        found = self._read().get(tag)
        if found is None:
            raise NotFoundError(f"there is no tag {tag!r}")
        return found.version

    def create(self, tag: str, reference: int | None = None) -> None:
        """Creates a tag for a version of this branch, None for this dataset's. Raises as `Dataset.create_tag`."""
        self._verbs["create"](tag, _number(reference))

    def update(self, tag: str, reference: int | None = None) -> None:
        """Updates a tag to a version, chosen as in `create`. Raises as `Dataset.update_tag`."""
        self._verbs["update"](tag, _number(reference))


def _number(reference: Any) -> int | None:
    if reference is not None and not isinstance(reference, int):
        raise InvalidInputError(
            f"the reference {reference!r} is no number of a version; open the tag or branch, and tag its version"
        )
    return reference
