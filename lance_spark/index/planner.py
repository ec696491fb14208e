"""Answers a filter from the indexes of a table, fragment by fragment.

A condition on one column is sent to the indexes on that column. NOT moves down to such conditions (De Morgan's laws
hold in three-valued logic), so only rows for which a condition is TRUE ever matter: AND intersects them, OR unites
them. A fragment for which a condition has no answer is unknown. AND of a known and an unknown side is the known side,
as a superset; OR of them is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa
import pyarrow.types as pt
import pyroaring

from lance_spark.errors import LanceError
from lance_spark.expr.columns import resolve_names
from lance_spark.expr.evaluate import can_fail
from lance_spark.expr.json_path.jsonb import Step
from lance_spark.expr.json_path.nodes import JsonValue
from lance_spark.expr.nodes import And, Comparison, ComparisonOp, Expr, In, Not, Or, referenced_columns
from lance_spark.index.answers import Answer, any_of
from lance_spark.index.base import Fit, Predicate, ScalarIndex
from lance_spark.index.fragment_reuse import FragmentReuse
from lance_spark.index.json_index import on_value
from lance_spark.index.registry import INDEX_TYPES
from lance_spark.index.segments import BoundSegment, FragmentRows, Segment, warn_unused
from lance_spark.schema.arrow import to_arrow_schema, to_arrow_type
from lance_spark.schema.field import LanceSchema
from lance_spark.schema.projection import find

_FEW_ROWS = 1024
"""So few candidates are read and checked rather than narrowed by another index."""

_MAX_REMEMBERED = 1024
"""Spellings of columns that are remembered: upper and lower case make many of one."""


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
    fragment_ids: pyroaring.BitMap
    is_exact: bool


class TableColumns:
    """The columns of a table as filters name them; what was found once is remembered."""

    def __init__(self, schema: LanceSchema) -> None:
        self._schema = schema
        self._arrow_schema = to_arrow_schema(schema)
        self._found: dict[tuple[str, ...], NamedColumn | None] = {}

    def find(self, path: tuple[str, ...]) -> NamedColumn | None:
        """The column that a filter names; None for a system column, and where there is none."""
        if path not in self._found:
            if len(self._found) >= _MAX_REMEMBERED:
                self._found.clear()
            self._found[path] = self._named(path)
        return self._found[path]

    def _named(self, path: tuple[str, ...]) -> NamedColumn | None:
        try:
            names = resolve_names(self._arrow_schema, path)
        except LanceError:
            return None
        field = find(self._schema, names)[-1]
        return NamedColumn(names, field.id, to_arrow_type(field))


@dataclass(frozen=True, slots=True)
class NamedColumn:
    """A column of a table.

    Attributes:
        names: spelled as in the schema, level by level.
        field_id: its field.
        dtype: its type.
    """

    names: tuple[str, ...]
    field_id: int
    dtype: pa.DataType


class TableRows:
    """A version of a table as the planner sees it; used for every filter of the version.

    Args:
        fragments: its fragments by id; those whose number of rows is not known are left out.
        segments: the segments of the indexes of a field.
        stable_row_ids: whether it has stable row ids.
        reuse: the moves of rows that index files may not show yet.
    """

    def __init__(
        self,
        fragments: Mapping[int, FragmentRows],
        segments: Callable[[int], Sequence[Segment]],
        *,
        stable_row_ids: bool,
        reuse: FragmentReuse | None = None,
    ) -> None:
        self._fragments = fragments
        self._segments = segments
        self._stable_row_ids = stable_row_ids
        self._reuse = reuse
        self._of_fields: dict[int, dict[tuple[Step, ...] | None, dict[type[ScalarIndex], list[BoundSegment]]]] = {}

    @cached_property
    def fragment_ids(self) -> pyroaring.BitMap:
        """The ids of the fragments."""
        return pyroaring.BitMap(self._fragments)

    def segments(
        self, field_id: int, json_steps: tuple[Step, ...] | None
    ) -> Mapping[type[ScalarIndex], Sequence[BoundSegment]]:
        """The segments on a column, or on a path in a JSON column, by their kind."""
        of_field = self._of_fields.get(field_id)
        if of_field is None:
            of_field = {}
            for segment in self._segments(field_id):
                bound = BoundSegment(segment, self._fragments, stable_row_ids=self._stable_row_ids, reuse=self._reuse)
                of_field.setdefault(segment.json_steps, {}).setdefault(segment.index_type, []).append(bound)
            self._of_fields[field_id] = of_field
        return of_field.get(json_steps, {})


@dataclass
class Plan:
    """The answer to a filter.

    Attributes:
        matches: by fragment id; every other fragment has to be scanned.
        queries: what the indexes were asked.
    """

    matches: Answer = field(default_factory=Answer)
    queries: list[IndexQuery] = field(default_factory=list)


def candidates(condition: Expr, table: TableRows, columns: TableColumns, time_zone: str) -> Plan:
    """The rows of each fragment that can satisfy a filter, as far as the table's indexes know them.

    Args:
        columns: those of the table.
        time_zone: the session's zone.
    """
    planner = _Planner(table, columns, time_zone)
    return Plan(planner.answer(condition, table.fragment_ids, negated=False), planner.queries)


class _Planner:
    def __init__(self, table: TableRows, columns: TableColumns, time_zone: str) -> None:
        self._table = table
        self._columns = columns
        self._time_zone = time_zone
        self._unusable: set[str] = set()
        self.queries: list[IndexQuery] = []

    def answer(self, expr: Expr, fragments: pyroaring.BitMap, *, negated: bool) -> Answer:
        """The rows of some fragments, by their ids, for which `expr`, or its negation, is TRUE."""
        if isinstance(expr, Not):
            return self.answer(expr.value, fragments, negated=not negated)
        direct = self._ask_indexes(expr, fragments, negated=negated)
        if not isinstance(expr, (And, Or)):
            return direct
        left = fragments - direct.known
        if not left:
            return direct
        combine = self._all_terms if isinstance(expr, And) is not negated else self._any_term
        return direct.over(combine(self._by_column(expr), left, negated=negated))

    def _by_column(self, expr: And | Or) -> Sequence[Expr]:
        """The terms, those on one column joined: both ends of a range are one question to its index."""
        groups: dict[object, list[Expr]] = {}
        for place, term in enumerate(expr.terms):
            target = self._column_of(term)
            groups.setdefault(place if target is None else target.names, []).append(term)
        if len(groups) == 1:
            return expr.terms
        return [group[0] if len(group) == 1 else type(expr)(tuple(group)) for group in groups.values()]

    def _all_terms(self, terms: Sequence[Expr], fragments: pyroaring.BitMap, *, negated: bool) -> Answer:
        known: Answer | None = None
        num_answered = 0
        for term in sorted(terms, key=_is_range):
            if known is not None and len(known) == len(fragments) and known.num_rows <= _FEW_ROWS:
                break
            answer = self.answer(term, fragments, negated=negated)
            known = answer if known is None else known.and_also(answer)
            num_answered += 1
        assert known is not None  # AND and OR have terms
        return known if num_answered == len(terms) else known.as_superset()

    def _any_term(self, terms: Sequence[Expr], fragments: pyroaring.BitMap, *, negated: bool) -> Answer:
        answers = []
        for term in terms:
            answers.append(self.answer(term, fragments, negated=negated))
            fragments = fragments & answers[-1].known
            if not fragments:
                return Answer()
        return any_of(answers)

    def _ask_indexes(self, expr: Expr, fragments: pyroaring.BitMap, *, negated: bool) -> Answer:
        """What the indexes on the column of a condition say; nothing if it reads several columns or can fail."""
        paths = referenced_columns(expr)
        column = self._column_at(paths)
        asked = None if column is None or can_fail(expr) else self._question(expr, column, paths, negated=negated)
        if asked is None:
            return Answer()
        predicate, by_kind = asked
        exact = Answer()
        supersets = Answer()
        for index_type in INDEX_TYPES:
            segments = by_kind.get(index_type)
            if segments is None:
                continue
            left = fragments - exact.known
            if not left:
                break
            fit = index_type.fit(predicate)
            if fit is Fit.EXACT:
                exact = exact.over(self._search(segments, predicate, left))
            elif fit is Fit.SUPERSET:
                supersets = supersets.refined(self._search(segments, predicate, left))
        return exact.over(supersets)

    def _question(
        self, expr: Expr, column: NamedColumn, paths: frozenset[tuple[str, ...]], *, negated: bool
    ) -> tuple[Predicate, Mapping[type[ScalarIndex], Sequence[BoundSegment]]] | None:
        """(the predicate on a column that a condition, or its negation, is; the segments that it is sent to); None if
        there are none.
        """
        names, dtype, steps, condition = column.names, column.dtype, None, expr
        if not pt.is_primitive(dtype) and any(isinstance(node, JsonValue) for node in expr.walk()):
            found = on_value(expr)
            if found is None:
                return None
            value, condition = found
            dtype, steps, names = value.kind.dtype, value.steps, (value.to_sql(),)
            paths = referenced_columns(condition)
        segments = self._table.segments(column.field_id, steps)
        if not segments:
            return None
        condition = Not(condition) if negated else condition
        return Predicate(condition, names, paths, dtype, self._time_zone), segments

    def _search(self, segments: Sequence[BoundSegment], predicate: Predicate, fragments: pyroaring.BitMap) -> Answer:
        """What segments say of some fragments."""
        found = Answer()
        by_name: dict[str, list[Answer]] = {}
        for bound in segments:
            answer = self._search_segment(bound, predicate, fragments - found.known)
            if answer:
                by_name.setdefault(bound.segment.name, []).append(answer)
                found = found.over(answer)
        type_name = segments[0].segment.index_type.type_name
        for name, answers in by_name.items():
            ids = pyroaring.BitMap.union(*(answer.known for answer in answers))
            is_exact = all(answer.is_exact for answer in answers)
            self.queries.append(IndexQuery(name, type_name, predicate.expr, len(answers), ids, is_exact))
        return found

    def _search_segment(self, bound: BoundSegment, predicate: Predicate, fragments: pyroaring.BitMap) -> Answer:
        """What a segment says of some fragments: nothing, after one warning, if it cannot be read."""
        segment = bound.segment
        if segment.uuid in self._unusable:
            return Answer()
        try:
            return bound.search(predicate, fragments)
        except LanceError as error:
            self._unusable.add(segment.uuid)
            warn_unused(segment.name, segment.uuid, error)
            return Answer()

    def _column_of(self, expr: Expr) -> NamedColumn | None:
        """The one column that a condition reads, if no value of it makes the condition fail."""
        return None if can_fail(expr) else self._column_at(referenced_columns(expr))

    def _column_at(self, paths: frozenset[tuple[str, ...]]) -> NamedColumn | None:
        """The one column that some paths name."""
        if not paths:
            return None
        first, *others = (self._columns.find(path) for path in paths)
        is_single = first is not None and all(
            other is not None and other.field_id == first.field_id for other in others
        )
        return first if is_single else None


def _is_range(term: Expr) -> bool:
    """Whether a condition mostly holds for more rows than an equality does."""
    is_equality = isinstance(term, Comparison) and term.op in (ComparisonOp.EQ, ComparisonOp.NULL_SAFE_EQ)
    return not (is_equality or isinstance(term, In))
