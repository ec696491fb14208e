"""Answers of indexes: the rows of a table that satisfy a condition, fragment by fragment.

An answer is sparse: fragments without a matching row take one bit each, so that a lookup of a few rows costs as much in
a table of many fragments as in one of few.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyroaring


@dataclass(frozen=True, slots=True)
class Matches:
    """The rows of a fragment that an index has found.

    Attributes:
        offsets: rows of the fragment, deleted ones possibly among them.
        is_exact: whether each of them that is not deleted satisfies the predicate.
    """

    offsets: pyroaring.BitMap
    is_exact: bool


class Answer(Mapping[int, Matches]):
    """`Matches` by fragment id; a fragment that is missing is unknown. Immutable.

    Attributes:
        known: the ids of the fragments; must not be changed.
        inexact: those of them whose rows are a superset; must not be changed.
        rows: the matching rows by fragment id, for the fragments that have some.

    >>> answer = Answer(pyroaring.BitMap([1, 2]), pyroaring.BitMap(), {2: pyroaring.BitMap([7])})
    >>> list(answer), answer[1].offsets, answer[2].is_exact, answer.get(3), answer.num_rows
    ([1, 2], BitMap([]), True, None, 1)
    """

    __slots__ = ("inexact", "known", "rows")

    def __init__(
        self,
        known: pyroaring.BitMap | None = None,
        inexact: pyroaring.BitMap | None = None,
        rows: Mapping[int, pyroaring.BitMap] | None = None,
    ) -> None:
        self.known = _NONE if known is None else known
        self.inexact = _NONE if inexact is None else inexact
        self.rows: Mapping[int, pyroaring.BitMap] = rows or {}

    def __getitem__(self, fragment_id: int) -> Matches:
        if fragment_id not in self.known:
            raise KeyError(fragment_id)
        return Matches(self.rows.get(fragment_id, _NONE), fragment_id not in self.inexact)

    def __contains__(self, fragment_id: object) -> bool:
        return isinstance(fragment_id, int) and fragment_id in self.known

    def __iter__(self) -> Iterator[int]:
        return iter(self.known)

    def __len__(self) -> int:
        return len(self.known)

    @property
    def num_rows(self) -> int:
        """The rows in all fragments."""
        return sum(map(len, self.rows.values()))

    @property
    def is_exact(self) -> bool:
        """Whether the rows of every fragment are exactly those that match."""
        return not self.inexact

    def as_superset(self) -> Answer:
        """The same rows, each of which has to be checked."""
        return Answer(self.known, self.known, self.rows)

    def over(self, other: Answer) -> Answer:
        """This answer, and the other one for the fragments that this one does not know."""
        if not self.known or not other.known:
            return self if self.known else other
        left = {id_: rows for id_, rows in other.rows.items() if id_ not in self.known}
        return Answer(self.known | other.known, self.inexact | (other.inexact - self.known), {**left, **self.rows})

    def refined(self, other: Answer) -> Answer:
        """This answer and another one to the same question: rows in both where both are supersets; otherwise an exact
        one stands for itself.
        """
        if not self.known or not other.known:
            return self if self.known else other
        checked = self.inexact & other.inexact
        common = _common(self.rows, other.rows, checked)
        doubted = self.inexact & (other.known - other.inexact)
        better = {id_: rows for id_, rows in other.rows.items() if id_ not in self.known or id_ in doubted}
        own = {id_: rows for id_, rows in self.rows.items() if id_ not in checked and id_ not in doubted}
        inexact = checked | (self.inexact - other.known) | (other.inexact - self.known)
        return Answer(self.known | other.known, inexact, {**own, **better, **common})

    def and_also(self, other: Answer) -> Answer:
        """The rows for which two conditions hold, of which this is the answer to one and `other` that to the other. A
        fragment that one of them does not know has the rows of the other, as a superset.
        """
        shared = self.known & other.known
        rows = _common(self.rows, other.rows, shared)
        for one in (self, other):
            rows.update((id_, found) for id_, found in one.rows.items() if id_ not in shared)
        known = self.known | other.known
        return Answer(known, self.inexact | other.inexact | (known - shared), rows)


def any_of(answers: Sequence[Answer]) -> Answer:
    """The rows for which one of several conditions holds, in the fragments that all answers know."""
    known = pyroaring.BitMap.intersection(*(answer.known for answer in answers))
    inexact = pyroaring.BitMap.union(*(answer.inexact for answer in answers)) & known
    found: dict[int, list[pyroaring.BitMap]] = {}
    for answer in answers:
        for id_, rows in answer.rows.items():
            if id_ in known:
                found.setdefault(id_, []).append(rows)
    return Answer(known, inexact, {id_: pyroaring.BitMap.union(*rows) for id_, rows in found.items()})


def _common(
    one: Mapping[int, pyroaring.BitMap], other: Mapping[int, pyroaring.BitMap], ids: pyroaring.BitMap
) -> dict[int, pyroaring.BitMap]:
    """The rows that both have in some fragments."""
    shared: Iterable[int] = (id_ for id_ in one.keys() & other.keys() if id_ in ids)
    found = {id_: one[id_] & other[id_] for id_ in shared}
    return {id_: rows for id_, rows in found.items() if rows}


_NONE = pyroaring.BitMap()
