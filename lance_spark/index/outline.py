"""Index selection for each term of a filter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
import pyarrow.types as pt
import pyroaring

from lance_spark.cached import cached_property
from lance_spark.errors import LanceError
from lance_spark.expr.columns import resolve_names
from lance_spark.expr.evaluate import can_fail
from lance_spark.expr.json_path.jsonb import Step
from lance_spark.expr.json_path.nodes import JsonValue
from lance_spark.expr.nodes import And, Comparison, ComparisonOp, Expr, In, IsNull, Not, Or, referenced_columns
from lance_spark.index.base import Predicate, ScalarIndex
from lance_spark.index.fragment_reuse import FragmentReuse
from lance_spark.index.json_index import on_value
from lance_spark.index.registry import INDEX_TYPES
from lance_spark.index.segments import BoundSegment, FragmentRows, Segment
from lance_spark.schema.arrow import to_arrow_schema, to_arrow_type
from lance_spark.schema.field import LanceSchema
from lance_spark.schema.projection import find

FEW, _MANY, _NEARLY_ALL = range(3)
"""How many rows conditions mostly hold for."""

_MAX_REMEMBERED = 1024
"""Spellings of columns that are remembered: upper and lower case make many of one."""

Paths = frozenset[tuple[str, ...]]


class TableColumns:
    """The columns of a table by the names that filters use, resolved once each."""

    def __init__(self, schema: LanceSchema) -> None:
        self.schema = schema
        self._arrow_schema = to_arrow_schema(schema)
        self._found: dict[tuple[str, ...], NamedColumn | None] = {}

    def find(self, path: tuple[str, ...]) -> NamedColumn | None:
        """The column that a filter names; None for a system column, and where there is none."""
        if path not in self._found:
            if len(self._found) >= _MAX_REMEMBERED:
                self._found.clear()
            self._found[path] = self._named(path)
        return self._found[path]

    def only(self, paths: Paths) -> NamedColumn | None:
        """The one column that some paths name; None if they name several."""
        if not paths:
            return None
        first, *others = [self.find(path) for path in paths]
        if first is None or any(other is None or other.field_id != first.field_id for other in others):
            return None
        return first

    def _named(self, path: tuple[str, ...]) -> NamedColumn | None:
        try:
            names = resolve_names(self._arrow_schema, path)
        except LanceError:
            return None
        field = find(self.schema, names)[-1]
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


@dataclass(frozen=True, slots=True)
class Target:
    """The indexes that conditions on a column, or on a path in a JSON column, are sent to.

    Attributes:
        names: the column, level by level.
        paths: the column as the conditions spell it.
        dtype: the type of its values.
        segments: those of each kind, in the order in which kinds are asked.
        is_json: whether the values are at a path.
    """

    names: tuple[str, ...]
    paths: Paths
    dtype: pa.DataType
    segments: tuple[tuple[type[ScalarIndex], Sequence[BoundSegment]], ...]
    is_json: bool

    @classmethod
    def of(cls, expr: Expr, column: NamedColumn, paths: Paths, table: TableRows) -> Target | None:
        """That of a condition on a column that cannot fail; None if no index is on it."""
        names, dtype, steps = column.names, column.dtype, None
        is_json = not pt.is_primitive(dtype) and any(isinstance(node, JsonValue) for node in expr.walk())
        if is_json:
            found = on_value(expr)
            if found is None:
                return None
            value, condition = found
            dtype, steps, names = value.kind.dtype, value.steps, (value.to_sql(),)
            paths = referenced_columns(condition)
        by_kind = table.segments(column.field_id, steps)
        asked = tuple([(kind, by_kind[kind]) for kind in INDEX_TYPES if kind in by_kind])
        return cls(names, paths, dtype, asked, is_json) if asked else None

    def predicate(self, expr: Expr, time_zone: str, *, negated: bool) -> Predicate:
        """The predicate of index searches for a condition, or its negation."""
        found = on_value(expr) if self.is_json else None
        condition = expr if found is None else found[1]
        return Predicate(Not(condition) if negated else condition, self.names, self.paths, self.dtype, time_zone)


class Part(NamedTuple):
    """Terms of AND or OR that are asked about together.

    Attributes:
        places: of the terms.
        outline: of these terms.
        breadth: how many rows the terms of AND, or the negated terms of OR, mostly hold for.
    """

    places: tuple[int, ...]
    outline: Outline
    breadth: int

    def terms(self, expr: And | Or) -> Expr:
        """The terms as one condition."""
        terms = tuple([expr.terms[place] for place in self.places])
        return terms[0] if len(terms) == 1 else type(expr)(terms)


class Outline:
    """The indexes of a version that answer a condition.

    Attributes:
        column: the one column that the condition reads, if no value of it makes it fail.
        target: the indexes that it is sent to as a whole; None if there are none.
    """

    def __init__(self, expr: Expr, table: TableRows, columns: TableColumns) -> None:
        paths = referenced_columns(expr)
        column = columns.only(paths)
        self.column = None if column is None or can_fail(expr) else column
        self.target = None if self.column is None else Target.of(expr, self.column, paths, table)
        self._table = table
        self._columns = columns
        self._inner: Outline | None = None
        self._parts: tuple[tuple[Part, ...], tuple[Part, ...]] | None = None

    @property
    def fragment_ids(self) -> pyroaring.BitMap:
        """The ids of the version's fragments."""
        return self._table.fragment_ids

    def inner(self, expr: Not) -> Outline:
        """That of the condition that is negated."""
        if self._inner is None:
            self._inner = Outline(expr.value, self._table, self._columns)
        return self._inner

    def parts(self, expr: And | Or, *, ranked: bool) -> Sequence[Part]:
        """The terms, those on one column joined: both ends of a range are one question to its index.

        Args:
            ranked: first those that mostly hold for fewer rows.
        """
        if self._parts is None:
            parts = self._by_column(expr)
            self._parts = parts, tuple(sorted(parts, key=lambda part: part.breadth))
        return self._parts[ranked]

    def _by_column(self, expr: And | Or) -> tuple[Part, ...]:
        outlines = [Outline(term, self._table, self._columns) for term in expr.terms]
        groups: dict[object, list[int]] = {}
        for place, outline in enumerate(outlines):
            groups.setdefault(place if outline.column is None else outline.column.names, []).append(place)
        # All terms of OR have to be FALSE where its negation is asked for.
        negated = isinstance(expr, Or)
        if len(groups) == 1:
            breadths = [_breadth(term, negated=negated) for term in expr.terms]
            return tuple([Part((place,), *of) for place, of in enumerate(zip(outlines, breadths, strict=True))])
        found = []
        for places in groups.values():
            is_one = len(places) == 1
            joined = expr.terms[places[0]] if is_one else type(expr)(tuple([expr.terms[place] for place in places]))
            outline = outlines[places[0]] if is_one else Outline(joined, self._table, self._columns)
            found.append(Part(tuple(places), outline, _breadth(joined, negated=negated)))
        return tuple(found)


def _breadth(term: Expr, *, negated: bool) -> int:
    """Selectivity rank of a condition, or its negation: higher for more rows. Spark adds IS NOT NULL to each
    comparison; both together are ranked as the comparison.
    """
    if isinstance(term, Not):
        return _breadth(term.value, negated=not negated)
    if isinstance(term, (And, Or)):
        pick = min if isinstance(term, And) is not negated else max
        return pick(_breadth(part, negated=negated) for part in term.terms)
    if isinstance(term, IsNull):
        return _NEARLY_ALL if negated else _MANY
    if isinstance(term, Comparison):
        equalities = (ComparisonOp.NE,) if negated else (ComparisonOp.EQ, ComparisonOp.NULL_SAFE_EQ)
        return FEW if term.op in equalities else _MANY
    return FEW if isinstance(term, In) and not negated else _MANY
