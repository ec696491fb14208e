"""The versions that a version of a branch descends from.

A version follows the one before it on its branch. The first version of a branch is one of its parent. A fast-forward
has the content of a version of another branch, which its transaction names; a restore has that of an older version.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from lance_spark.errors import InvalidInputError, NotFoundError
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.transaction import OPERATION, Transaction
from lance_spark.table.operations.restore import Restore
from lance_spark.table.refs.refs import MAIN

FAST_FORWARD = "fast_forward"
"""The name of the operation in the transaction of a fast-forward."""

SOURCE_BRANCH, SOURCE_VERSION, SOURCE_ID = "lance.source_branch", "lance.source_version", "lance.source_id"
"""The properties of a transaction with the version that its changes come from, and the identity of its branch."""

RESTORED = "lance.restored_version"
"""The property with the version that a version of a partitioned table has restored."""


@dataclass(frozen=True, slots=True)
class Point:
    """A version of a branch; None is the main branch."""

    branch: str | None
    version: int

    def is_before(self, other: Point) -> bool:
        """Whether it is the other version, or an older one of its branch."""
        return self.branch == other.branch and self.version <= other.version

    def __str__(self) -> str:
        return f"version {self.version} of branch {self.branch or MAIN}"


@dataclass(frozen=True, slots=True)
class Ancestor:
    """A version that another one descends from.

    Attributes:
        number: the number of a version of the first branch that has all that this one has: its own, as long as only
            parents of branches were followed.
        timestamp_nanos: when it was committed.
        transaction: the one that made it; None if it is unknown, or if it is the first version of a branch.
        is_complete: whether the versions before it are there, so that they could be looked at.
    """

    point: Point
    number: int
    timestamp_nanos: int = 0
    transaction: Transaction | None = None
    is_complete: bool = True


@dataclass(frozen=True, slots=True)
class _Step:
    """A version on the way back.

    Attributes:
        number: as of an `Ancestor`.
        below: the number for those before it; None outside of fast-forwards, where the versions count themselves.
    """

    point: Point
    number: int
    below: int | None = None

    def to(self, before: Point | None) -> _Step | None:
        """The version before this one; one that the branch has begun at has the same content."""
        if before is None:
            return None
        if before.branch == self.point.branch and self.below is not None:
            return _Step(before, self.below, self.below)
        return _Step(before, self.number if self.below is not None else before.version, self.below)

    def by_fast_forward(self, source: Point | None) -> _Step | None:
        """The version whose content this one has."""
        below = self.number - 1 if self.below is None else self.below
        return None if source is None else _Step(source, self.number, below)


class Lineage:
    """The ancestors of versions of a table. One object looks at each version once.

    Args:
        table: any branch of it.
        skips_restored: whether versions that a restore has undone are left out.
    """

    def __init__(self, table: TableLocation, *, skips_restored: bool = False) -> None:
        self._table = table
        self._skips_restored = skips_restored
        self._locations: dict[str | None, TableLocation] = {table.branch: table}

    def location(self, branch: str | None) -> TableLocation:
        """A branch.

        Raises:
            NotFoundError: there is no such branch.
        """
        if branch not in self._locations:
            self._locations[branch] = self._table.on_branch(branch)
        return self._locations[branch]

    def identity(self, branch: str | None) -> str:
        """A text that another branch of the same name does not have.

        Raises:
            NotFoundError: there is no such branch.
        """
        if branch is None:
            return MAIN
        description = self._table.refs.branch(branch)
        return description.lineage[-1][1] if description.lineage else f"{description.created_at}"

    def ancestors(
        self, point: Point, until: Point | None = None, others: Collection[Point] = (), since: int = 0
    ) -> Iterator[Ancestor]:
        """The version itself and those that it descends from, each once, the nearest ones of a branch first.

        Args:
            until, others: versions before which no other one is looked for.
            since: nanoseconds since 1970; versions before one that was committed earlier are not looked for.
        """
        waiting, seen = [_Step(point, point.version)], {point}
        while waiting:
            step = waiting.pop()
            ancestor, before, source = self._look_at(step.point, step.number)
            yield ancestor
            is_older = ancestor.is_complete and ancestor.timestamp_nanos < since
            if is_older or step.point in others or (until is not None and step.point.is_before(until)):
                continue
            for following in (step.to(before), step.by_fast_forward(source)):
                if following is not None and following.point not in seen:
                    seen.add(following.point)
                    waiting.append(following)

    def equals(self, point: Point) -> list[Point]:
        """The version itself, and those of other branches that have its content: it began there, or follows them."""
        result = [point]
        for current in result:
            before, source = self._links(current, self._transaction(current))
            same = before if before is not None and before.branch != current.branch else None
            result += [other for other in (same, source) if other is not None and other not in result]
        return result

    def containing(self, newest: Point, wanted: Point) -> int | None:
        """The number of a version of the branch of `newest` that has what `wanted` has, and of which `newest` has all;
        None if `newest` does not descend from `wanted`.
        """
        targets = set(self.equals(wanted))
        for point in self._parents(newest):
            versions = [other.version for other in targets if other.branch == point.branch]
            if any(version <= point.version for version in versions):
                return max(version for version in versions if version <= point.version)
        for ancestor in self.ancestors(newest):
            if ancestor.point in targets:
                return ancestor.number
        return None

    def common(self, one: Point, other: Point) -> list[Point]:
        """The nearest versions that two versions both descend from."""
        bounds = {point.branch: point.version for point in self._parents(one)}
        fork = next(
            Point(point.branch, min(point.version, bounds[point.branch]))
            for point in self._parents(other)
            if point.branch in bounds
        )
        theirs = {ancestor.point for ancestor in self.ancestors(one, fork)}
        return [ancestor.point for ancestor in self.ancestors(other, fork, theirs) if ancestor.point in theirs]

    def _parents(self, newest: Point) -> Iterator[Point]:
        """The version and those of other branches that its branch, and the branches before it, have begun at."""
        point: Point | None = newest
        while point is not None:
            yield point
            point = self._parent(point.branch, point.version)

    def _look_at(self, point: Point, number: int) -> tuple[Ancestor, Point | None, Point | None]:
        history = self.location(point.branch).history
        try:
            summary = history.summary(point.version)
        except NotFoundError:
            # Cleaned up, as are those before it; a version that a branch has begun at is kept.
            return Ancestor(point, number, is_complete=False), self._parent(point.branch, point.version), None
        transaction = history.transaction_of(summary)
        before, source = self._links(point, transaction)
        is_first = before is not None and before.branch != point.branch
        own = None if is_first else transaction
        return Ancestor(point, number, summary.timestamp_nanos, own), before, source

    def _transaction(self, point: Point) -> Transaction | None:
        history = self.location(point.branch).history
        return history.transaction_of(history.summary(point.version))

    def _links(self, point: Point, transaction: Transaction | None) -> tuple[Point | None, Point | None]:
        """(the version before this one, the version of another branch that has its content)."""
        parent = self._parent(point.branch, point.version)
        if parent is not None and parent.version == point.version:
            return parent, None
        before = Point(point.branch, point.version - 1) if point.version > 1 else None
        if transaction is None:
            return before, None
        if self._skips_restored and (restored := _restored_by(transaction)) is not None:
            return Point(point.branch, restored), None
        return before, self._source(transaction.properties)

    def _parent(self, branch: str | None, version: int) -> Point | None:
        """The version of the parent that a branch began at, if it is this one or an older one."""
        if branch is None:
            return None
        description = self._table.refs.branch(branch)
        return Point(description.parent, description.parent_version) if version >= description.parent_version else None

    def _source(self, properties: Mapping[str, str]) -> Point | None:
        """The version that a fast-forward has followed, unless its branch no longer exists."""
        if properties.get(OPERATION) != FAST_FORWARD:
            return None
        point = point_of(properties)
        try:
            is_there = point is not None and self.identity(point.branch) == properties.get(SOURCE_ID)
        except NotFoundError:
            return None
        return point if is_there else None


def point_of(properties: Mapping[str, str]) -> Point | None:
    """The version that the properties of a transaction name as the source of its changes."""
    branch, version = properties.get(SOURCE_BRANCH), properties.get(SOURCE_VERSION, "")
    if branch is None or not (version.isascii() and version.isdigit()):
        return None
    return Point(None if branch == MAIN else branch, int(version))


def check_ancestor(table: TableLocation, version: int) -> None:
    """Checks that the newest version of the branch `table` descends from its version `version`.

    Raises:
        NotFoundError: there is no such version.
        InvalidInputError: it was undone by a restore, so that the newest version does not descend from it.
    """
    table.at(version)
    newest = table.newest().version
    wanted = Point(table.branch, version)
    for ancestor in Lineage(table, skips_restored=True).ancestors(Point(table.branch, newest)):
        if ancestor.point == wanted:
            return
        if not ancestor.is_complete:
            break
    raise InvalidInputError(
        f"{wanted} is no ancestor of version {newest}, because a restore has undone it; restore brings back any version"
    )


def _restored_by(transaction: Transaction) -> int | None:
    if isinstance(transaction.operation, Restore):
        return transaction.operation.version
    version = transaction.properties.get(RESTORED, "")
    return int(version) if version.isascii() and version.isdigit() else None
