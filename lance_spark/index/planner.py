"""Answers a filter from the indexes of a table, fragment by fragment.

A condition on one column is sent to the indexes on that column. NOT moves down to such conditions (De Morgan's laws
hold in three-valued logic), so only rows for which a condition is TRUE ever matter: AND intersects them, OR unites
them. A fragment for which a condition has no answer is unknown. AND of a known and an unknown side is the known side,
as a superset; OR of them is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from lance_spark.errors import LanceError
from lance_spark.expr.columns import resolve_names
from lance_spark.expr.evaluate import can_fail
from lance_spark.expr.json_path.nodes import JsonValue
from lance_spark.expr.nodes import And, Comparison, ComparisonOp, Expr, In, Not, Or, referenced_columns
from lance_spark.index.base import Fit, Predicate
from lance_spark.index.fragment_reuse import FragmentReuse
from lance_spark.index.json_index import on_value
from lance_spark.index.registry import INDEX_TYPES
from lance_spark.index.segments import FragmentRows, Matches, Segment, warn_unused
from lance_spark.schema.arrow import to_arrow_schema, to_arrow_type
from lance_spark.schema.field import Field, LanceSchema
from lance_spark.schema.projection import find

Answer = dict[int, Matches]
"""Matches by fragment id; a fragment that is missing is unknown."""

Fragments = Mapping[int, FragmentRows]
"""Fragments by id."""

_FEW_ROWS = 1024
"""So few candidates are read and checked rather than narrowed by another index."""


@dataclass(frozen=True)
class IndexQuery:
    """What an index was asked.

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
    fragment_ids: tuple[int, ...]
    is_exact: bool


@dataclass(frozen=True)
class TableRows:
    """A version of a table as the planner sees it.

    Attributes:
        schema: its columns.
        fragments: its fragments by id; those whose number of rows is not known are left out.
        segments: the segments of its indexes.
        stable_row_ids: whether it has stable row ids.
        time_zone: the session's zone.
        reuse: the moves of rows that index files may not show yet.
    """

    schema: LanceSchema
    fragments: Fragments
    segments: Sequence[Segment]
    stable_row_ids: bool
    time_zone: str
    reuse: FragmentReuse | None = None


@dataclass
class Plan:
    """The answer to a filter.

    Attributes:
        matches: by fragment id; every other fragment has to be scanned.
        queries: what the indexes were asked.
    """

    matches: Answer
    queries: list[IndexQuery] = field(default_factory=list)


def candidates(condition: Expr, table: TableRows) -> Plan:
    """The rows of each fragment that can satisfy a filter, as far as the table's indexes know them."""
    planner = _Planner(table)
    return Plan(planner.answer(condition, table.fragments, negated=False), planner.queries)


def filtered_fields(condition: Expr, schema: LanceSchema) -> set[int]:
    """The ids of the fields that a filter reads; system columns have none."""
    arrow_schema = to_arrow_schema(schema)
    targets = (_named_field(path, schema, arrow_schema) for path in referenced_columns(condition))
    return {target[1].id for target in targets if target is not None}


class _Planner:
    def __init__(self, table: TableRows) -> None:
        self._table = table
        self._arrow_schema = to_arrow_schema(table.schema)
        self._unusable: set[str] = set()
        self.queries: list[IndexQuery] = []

    def answer(self, expr: Expr, fragments: Fragments, *, negated: bool) -> Answer:
        """The rows of some fragments for which `expr`, or its negation, is TRUE."""
        if isinstance(expr, Not):
            return self.answer(expr.value, fragments, negated=not negated)
        direct = self._ask_indexes(expr, fragments, negated=negated)
        left = _without(fragments, direct)
        if not left or not isinstance(expr, (And, Or)):
            return direct
        combine = self._all_terms if isinstance(expr, And) is not negated else self._any_term
        return _refined(direct, combine(self._by_column(expr), left, negated=negated))

    def _by_column(self, expr: And | Or) -> Sequence[Expr]:
        """The terms, those on one column joined: both ends of a range are one question to its index."""
        groups: dict[object, list[Expr]] = {}
        for place, term in enumerate(expr.terms):
            target = self._column_of(term)
            groups.setdefault(place if target is None else target[0], []).append(term)
        if len(groups) == 1:
            return expr.terms
        return [group[0] if len(group) == 1 else type(expr)(tuple(group)) for group in groups.values()]

    def _all_terms(self, terms: Sequence[Expr], fragments: Fragments, *, negated: bool) -> Answer:
        known: Answer | None = None
        num_answered = 0
        for term in sorted(terms, key=_is_range):
            if known is not None and _is_small(known, fragments):
                break
            answer = self.answer(term, fragments, negated=negated)
            known = answer if known is None else _refined(known, answer, both=True)
            num_answered += 1
        assert known is not None  # AND and OR have terms
        is_partial = num_answered < len(terms)
        return {id_: Matches(found.offsets, found.is_exact and not is_partial) for id_, found in known.items()}

    def _any_term(self, terms: Sequence[Expr], fragments: Fragments, *, negated: bool) -> Answer:
        answers = []
        for term in terms:
            answers.append(self.answer(term, fragments, negated=negated))
            fragments = {id_: rows for id_, rows in fragments.items() if id_ in answers[-1]}
            if not fragments:
                return {}
        shared = set(answers[0]).intersection(*answers[1:])
        return {
            id_: Matches(
                answers[0][id_].offsets.union(*(answer[id_].offsets for answer in answers)),
                all(answer[id_].is_exact for answer in answers),
            )
            for id_ in shared
        }

    def _ask_indexes(self, expr: Expr, fragments: Fragments, *, negated: bool) -> Answer:
        """What the indexes on the column of a condition say; nothing if it reads several columns or can fail."""
        target = self._column_of(expr)
        if target is None:
            return {}
        names, column = target
        dtype, steps, condition = to_arrow_type(column), None, expr
        if any(isinstance(node, JsonValue) for node in expr.walk()):
            found = on_value(expr)
            if found is None:
                return {}
            value, condition = found
            dtype, steps, names = value.kind.dtype, value.steps, (value.to_sql(),)
        condition = Not(condition) if negated else condition
        predicate = Predicate(condition, names, referenced_columns(condition), dtype, self._table.time_zone)
        exact: Answer = {}
        supersets: Answer = {}
        for index_type in INDEX_TYPES:
            fit = index_type.fit(predicate)
            segments = [
                segment
                for segment in self._table.segments
                if segment.index_type is index_type and segment.field_id == column.id and segment.json_steps == steps
            ]
            if fit is Fit.EXACT:
                exact |= self._search(segments, predicate, _without(fragments, exact))
            elif fit is Fit.SUPERSET:
                supersets = _refined(supersets, self._search(segments, predicate, _without(fragments, exact)))
        return supersets | exact

    def _search(self, segments: Sequence[Segment], predicate: Predicate, fragments: Fragments) -> Answer:
        """What segments say of some fragments."""
        found: Answer = {}
        by_name: dict[str, list[Answer]] = {}
        for segment in segments:
            answer = self._search_segment(segment, predicate, _without(fragments, found))
            if answer:
                by_name.setdefault(segment.name, []).append(answer)
            found |= answer
        for name, answers in by_name.items():
            ids = tuple(sorted(id_ for answer in answers for id_ in answer))
            is_exact = all(matches.is_exact for answer in answers for matches in answer.values())
            type_name = segments[0].index_type.type_name
            self.queries.append(IndexQuery(name, type_name, predicate.expr, len(answers), ids, is_exact))
        return found

    def _search_segment(self, segment: Segment, predicate: Predicate, fragments: Fragments) -> Answer:
        """What a segment says of some fragments: nothing, after one warning, if it cannot be read."""
        if segment.uuid in self._unusable:
            return {}
        try:
            return segment.search(
                predicate, fragments, stable_row_ids=self._table.stable_row_ids, reuse=self._table.reuse
            )
        except LanceError as error:
            self._unusable.add(segment.uuid)
            warn_unused(segment.name, segment.uuid, error)
            return {}

    def _column_of(self, expr: Expr) -> tuple[tuple[str, ...], Field] | None:
        """The one column that a condition reads, if no value of it makes the condition fail."""
        paths = referenced_columns(expr)
        if not paths or can_fail(expr):
            return None
        targets = [_named_field(path, self._table.schema, self._arrow_schema) for path in paths]
        is_single = len({None if target is None else target[1].id for target in targets}) == 1
        return targets[0] if is_single else None


def _named_field(
    path: tuple[str, ...], schema: LanceSchema, arrow_schema: pa.Schema
) -> tuple[tuple[str, ...], Field] | None:
    """The column that a filter names, spelled as in the schema; None for a system column."""
    try:
        names = resolve_names(arrow_schema, path)
    except LanceError:
        return None
    return names, find(schema, names)[-1]


def _refined(first: Answer, second: Answer, *, both: bool = False) -> Answer:
    """Rows in both answers, where both know a fragment; elsewhere the answer that knows it.

    Args:
        both: the result is exact only where both answers are (they answer two terms of an AND); otherwise the answers
            are for one condition, and the exact one stands for itself.
    """
    merged: Answer = {}
    for id_ in first.keys() | second.keys():
        one, other = first.get(id_), second.get(id_)
        if one is None or other is None:
            known = one or other
            assert known is not None
            merged[id_] = Matches(known.offsets, known.is_exact and not both)
        elif both or not (one.is_exact or other.is_exact):
            merged[id_] = Matches(one.offsets & other.offsets, both and one.is_exact and other.is_exact)
        else:
            merged[id_] = one if one.is_exact else other
    return merged


def _without(fragments: Fragments, known: Answer) -> Fragments:
    return {id_: rows for id_, rows in fragments.items() if id_ not in known}


def _is_small(answer: Answer, fragments: Fragments) -> bool:
    """Whether an answer knows all of some fragments and has few rows in them."""
    return len(answer) == len(fragments) and sum(len(found.offsets) for found in answer.values()) <= _FEW_ROWS


def _is_range(term: Expr) -> bool:
    """Whether a condition mostly holds for more rows than an equality does."""
    is_equality = isinstance(term, Comparison) and term.op in (ComparisonOp.EQ, ComparisonOp.NULL_SAFE_EQ)
    return not (is_equality or isinstance(term, In))
