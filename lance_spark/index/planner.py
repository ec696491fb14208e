"""Answers a filter from the indexes of a table, fragment by fragment.

A condition on one column is sent to the indexes on that column. NOT moves down to such conditions (De Morgan's laws
hold in three-valued logic), so only rows for which a condition is TRUE ever matter: AND intersects them, OR unites
them. A fragment for which a condition has no answer is unknown. AND of a known and an unknown side is the known side,
as a superset; OR of them is unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyroaring

from lance_spark.cached import cached_property
from lance_spark.errors import LanceError
from lance_spark.expr.nodes import And, Expr, IsNull, Not, Or, conjunction
from lance_spark.index.answers import Answer, any_of
from lance_spark.index.base import Fit, Predicate
from lance_spark.index.outline import FEW, Outline, Target
from lance_spark.index.segments import BoundSegment, Segment, warn_unused

_FEW_ROWS = 1024
"""So few candidates are read and checked rather than narrowed by another index."""


@dataclass(frozen=True)
class IndexQuery:
    """Query of one index, and the extent of its answer.

    Attributes:
        index: its name.
        type_name: its kind, such as BTREE.
        condition: the predicate.
        num_segments: how many segments answered.
        fragment_ids: the fragments that it answered for.
        is_exact: whether the rows it found need no check.
    """

    index: str
    type_name: str
    condition: Expr
    num_segments: int
    fragment_ids: pyroaring.BitMap
    is_exact: bool


@dataclass(frozen=True, slots=True)
class Asked:
    """One question to the segments of a kind.

    Attributes:
        condition: the predicate.
        answers: what each segment has said that knew something, at least one.
    """

    condition: Expr
    answers: list[tuple[Segment, Answer]]

    def queries(self) -> list[IndexQuery]:
        """The question, index by index."""
        by_name: dict[str, list[Answer]] = {}
        for segment, answer in self.answers:
            by_name.setdefault(segment.name, []).append(answer)
        type_name = self.answers[0][0].index_type.type_name
        found = []
        for name, answers in by_name.items():
            ids = pyroaring.BitMap.union(*(answer.known for answer in answers))
            is_exact = all(answer.is_exact for answer in answers)
            found.append(IndexQuery(name, type_name, self.condition, len(answers), ids, is_exact))
        return found


@dataclass
class Plan:
    """The answer to a filter.

    Attributes:
        matches: by fragment id; every other fragment has to be scanned.
        asked: what the indexes were asked.
        unanswered: what the rows of supersets are compared with; None for the whole filter.
    """

    matches: Answer = field(default_factory=Answer)
    asked: Sequence[Asked] = ()
    unanswered: Expr | None = None

    @cached_property
    def queries(self) -> list[IndexQuery]:
        """Queries of the indexes, index by index; computed on demand."""
        return [query for asked in self.asked for query in asked.queries()]


def candidates(condition: Expr, outline: Outline, time_zone: str) -> Plan:
    """The rows of each fragment that can satisfy a filter, as far as the table's indexes know them.

    Args:
        outline: of the filter, or of another one of its shape.
        time_zone: the session's zone.
    """
    planner = _Planner(time_zone)
    found = planner.answer(condition, outline, outline.fragment_ids, negated=False)
    return Plan(found, planner.asked, planner.unanswered(condition, outline.fragment_ids))


class _Planner:
    def __init__(self, time_zone: str) -> None:
        self._time_zone = time_zone
        self._unusable: set[str] = set()
        self._exact: tuple[Expr, int, list[int]] | None = None
        self.asked: list[Asked] = []

    def answer(self, expr: Expr, outline: Outline, fragments: pyroaring.BitMap, *, negated: bool) -> Answer:
        """The rows of some fragments, by their ids, for which `expr`, or its negation, is TRUE.

        Args:
            outline: of the condition.
        """
        if isinstance(expr, Not):
            return self.answer(expr.value, outline.inner(expr), fragments, negated=not negated)
        target = outline.target
        direct = Answer() if target is None else self._ask_indexes(expr, target, fragments, negated=negated)
        if not isinstance(expr, (And, Or)):
            return direct
        left = fragments - direct.known
        if not left:
            return direct
        combine = self._all_terms if isinstance(expr, And) is not negated else self._any_term
        return direct.over(combine(expr, outline, left, negated=negated))

    def unanswered(self, condition: Expr, fragments: pyroaring.BitMap) -> Expr | None:
        """The terms of a condition that rows of its answer are yet to be compared with; None for all of it.

        Args:
            fragments: all that were asked about.
        """
        if self._exact is None:
            return None
        answered, num_fragments, places = self._exact
        if answered is not condition or not isinstance(condition, And) or num_fragments < len(fragments):
            return None
        return conjunction(tuple([term for place, term in enumerate(condition.terms) if place not in places]))

    def _all_terms(self, expr: And | Or, outline: Outline, fragments: pyroaring.BitMap, *, negated: bool) -> Answer:
        known: Answer | None = None
        num_answered = 0
        exact: list[int] = []
        parts = outline.parts(expr, ranked=True)
        for part in parts:
            are_few = known is not None and len(known) == len(fragments) and known.num_rows <= _FEW_ROWS
            # Each fragment costs a file and a task, so it is worth a further lookup, but not a range.
            if known is not None and are_few and (len(known.rows) <= 1 or part.breadth > FEW):
                break
            answer = self.answer(part.terms(expr), part.outline, fragments, negated=negated)
            known = answer if known is None else known.and_also(answer)
            num_answered += 1
            if answer.is_exact and len(answer.known) == len(fragments):
                exact += part.places
        assert known is not None  # AND and OR have terms
        if exact:
            # The outermost condition is the last one that gets here.
            self._exact = expr, len(fragments), exact
        return known if num_answered == len(parts) else known.as_superset()

    def _any_term(self, expr: And | Or, outline: Outline, fragments: pyroaring.BitMap, *, negated: bool) -> Answer:
        answers = []
        for part in outline.parts(expr, ranked=False):
            answers.append(self.answer(part.terms(expr), part.outline, fragments, negated=negated))
            fragments = fragments & answers[-1].known
            if not fragments:
                return Answer()
        return any_of(answers)

    def _ask_indexes(self, expr: Expr, target: Target, fragments: pyroaring.BitMap, *, negated: bool) -> Answer:
        """Answer of the indexes on the column of a condition."""
        predicate = target.predicate(expr, self._time_zone, negated=negated)
        exact = supersets = Answer()
        for index_type, segments in target.segments:
            left = fragments - exact.known if exact.known else fragments
            if not left:
                break
            fit = index_type.fit(predicate)
            if fit is Fit.EXACT:
                exact = exact.over(self._search(segments, predicate, left))
            elif fit is Fit.SUPERSET:
                supersets = supersets.refined(self._search(segments, predicate, left))
        return exact.over(supersets)

    def _search(self, segments: Sequence[BoundSegment], predicate: Predicate, fragments: pyroaring.BitMap) -> Answer:
        """Joint answer of segments for some fragments."""
        found = Answer()
        answers = []
        # Spark adds IS NOT NULL to most conditions, which leaves out nothing of most columns.
        narrows = not _is_not_null(predicate.expr)
        for bound in segments:
            answer = self._search_segment(bound, predicate, fragments - found.known if found.known else fragments)
            if answer.known:
                answers.append((bound.segment, answer))
                found = found.over(answer)
                narrows = narrows or bound.narrows(answer)
        if answers and narrows:
            self.asked.append(Asked(predicate.expr, answers))
        return found

    def _search_segment(self, bound: BoundSegment, predicate: Predicate, fragments: pyroaring.BitMap) -> Answer:
        """Answer of a segment for some fragments; empty, after one warning, if it cannot be read."""
        segment = bound.segment
        if segment.uuid in self._unusable:
            return Answer()
        try:
            return bound.search(predicate, fragments)
        except LanceError as error:
            self._unusable.add(segment.uuid)
            warn_unused(segment.name, segment.uuid, error)
            return Answer()


def _is_not_null(expr: Expr) -> bool:
    return isinstance(expr, Not) and isinstance(expr.value, IsNull)
