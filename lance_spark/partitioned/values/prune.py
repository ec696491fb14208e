"""Partition pruning: projects a filter on source columns to the partition columns of `__manifest`.

The projection is inclusive: a pruned partition has no matching row; a selected partition may have none either. The
filter is split into conditions on single columns (`filter_values`), their intersection for each column is projected
through each transform, and the fields of one time hierarchy are projected together. Conditions that only read partition
values (`upper(country) = 'US'`, `month(ts) = 3`) are evaluated on partitions as on rows.

Appendix D of the partitioning specification, `event_date = '2025-12-10' AND country = 'US'` with two spec versions:

    object_type = 'table' AND (
        (startswith(object_id, 'v1$') AND partition_field_event_date = DATE '2025-12-10')
        OR (startswith(object_id, 'v2$') AND partition_field_event_year = 2025 AND partition_field_country = 'US'))
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from enum import Enum
from typing import Any

import pyarrow as pa

from lance_spark.errors import InvalidInputError, NotFoundError, UnsupportedFeatureError
from lance_spark.expr.columns import resolve_names
from lance_spark.expr.evaluate import can_fail, check_filter
from lance_spark.expr.literals import FALSE, TRUE, Literal, literal
from lance_spark.expr.nodes import And, Column, Comparison, ComparisonOp, Expr, Not, Or, StringMatch, StringMatchOp
from lance_spark.partitioned.field import PartitionField
from lance_spark.partitioned.spec import PartitionSpec, PartitionSpecs
from lance_spark.partitioned.transforms.base import SourceColumn
from lance_spark.partitioned.transforms.bucket import point_rows
from lance_spark.partitioned.transforms.calendar import Level
from lance_spark.partitioned.transforms.date_part import DatePart, project_fields
from lance_spark.partitioned.values.conditions import all_of, any_of, is_in_array
from lance_spark.partitioned.values.filter_values import Path, PredicateDomain, truth_of
from lance_spark.partitioned.values.value_set import EVERYTHING, ValueSet, complement, intersection, union
from lance_spark.schema.arrow import to_arrow_schema
from lance_spark.schema.field import LanceSchema

_OBJECT_ID = Column(("object_id",))
_IS_TABLE = Comparison(ComparisonOp.EQ, Column(("object_type",)), literal("table"))


def manifest_filter(specs: PartitionSpecs, expr: Expr | None, *, time_zone: str = "UTC") -> Expr:
    """The filter on `__manifest` for the partition tables that may have matching rows.

    Args:
        specs: all versions of the partition spec; tables of other versions are excluded.
        expr: the filter on columns of the namespace's schema; None for all rows.
        time_zone: the session's zone.
    """
    versions = []
    for spec in specs.specs:
        below = StringMatch(StringMatchOp.STARTS_WITH, _OBJECT_ID, f"{spec.namespace}$")
        versions.append(all_of([below, partition_filter(spec, specs.schema, expr, time_zone=time_zone)]))
    return all_of([_IS_TABLE, any_of(versions)]) or _IS_TABLE


def partition_filter(
    spec: PartitionSpec, schema: LanceSchema, expr: Expr | None, *, time_zone: str = "UTC"
) -> Expr | None:
    """Inclusive projection: the filter on the partition columns of one spec version; None for all partitions.

    Arguments as `manifest_filter`. Columns that are not in the schema restrict nothing.
    """
    if expr is None:
        return None
    projection = _Projection(spec, schema, time_zone)
    return projection.project(projection.resolved(expr), _Wanted.TRUE)


def full_partition_filter(
    spec: PartitionSpec, schema: LanceSchema, expr: Expr | None, *, time_zone: str = "UTC"
) -> Expr:
    """Strict projection: the filter on the partition columns for partitions all of whose rows match.

    Such partitions can be deleted or read without reading rows. Arguments as `manifest_filter`; a condition on a column
    that is not in the schema is never certain to match.
    """
    if expr is None:
        return TRUE
    projection = _Projection(spec, schema, time_zone)
    others = projection.project(projection.resolved(expr), _Wanted.NOT_TRUE)
    return FALSE if others is None else TRUE if others == FALSE else Not(_is(others, TRUE))


class _Wanted(Enum):
    """The required truth value of a condition for some row; NULL is neither TRUE nor FALSE."""

    TRUE = "true"
    FALSE = "false"
    NOT_TRUE = "not true"
    NOT_FALSE = "not false"

    @property
    def negated(self) -> _Wanted:
        """The truth value that a condition needs for its negation to have this one."""
        return _NEGATED[self]

    def needs_all(self, connective: And | Or) -> bool:
        """Whether all terms must have this truth value for the connective to have it, rather than any."""
        return isinstance(connective, And) == (self in (_Wanted.TRUE, _Wanted.NOT_FALSE))

    def holds(self, value: bool | None) -> bool:
        """Whether a truth value satisfies the requirement."""
        return (value is (self in (_Wanted.TRUE, _Wanted.NOT_FALSE))) or (
            value is None and self in (_Wanted.NOT_TRUE, _Wanted.NOT_FALSE)
        )

    def values(self, truth: PredicateDomain) -> ValueSet:
        """The values for which a condition may satisfy the requirement."""
        if self is _Wanted.TRUE or self is _Wanted.FALSE:
            return truth.true if self is _Wanted.TRUE else truth.false
        if not truth.is_exact:
            return EVERYTHING
        return complement(truth.true if self is _Wanted.NOT_TRUE else truth.false)

    def condition(self, expr: Expr) -> Expr:
        """The condition that `expr` has this truth value."""
        if self is _Wanted.TRUE or self is _Wanted.FALSE:
            return expr if self is _Wanted.TRUE else Not(expr)
        return Not(_is(expr, TRUE if self is _Wanted.NOT_TRUE else literal(False)))


_NEGATED = {
    _Wanted.TRUE: _Wanted.FALSE,
    _Wanted.FALSE: _Wanted.TRUE,
    _Wanted.NOT_TRUE: _Wanted.NOT_FALSE,
    _Wanted.NOT_FALSE: _Wanted.NOT_TRUE,
}


def _is(expr: Expr, value: Literal) -> Expr:
    return Comparison(ComparisonOp.NULL_SAFE_EQ, expr, value)


@dataclass(frozen=True, slots=True)
class _FieldSources:
    """A partition field and its source columns; the path is None for a dropped one."""

    field: PartitionField
    paths: tuple[Path | None, ...]
    types: tuple[pa.DataType, ...]

    def sources(self, box: dict[Path, ValueSet]) -> list[SourceColumn]:
        return [
            SourceColumn(type_, EVERYTHING if path is None else box.get(path, EVERYTHING))
            for path, type_ in zip(self.paths, self.types, strict=True)
        ]


class _Projection:
    """Projects a filter to the partition columns of one spec."""

    def __init__(self, spec: PartitionSpec, schema: LanceSchema, time_zone: str) -> None:
        self._time_zone = time_zone
        self._schema = to_arrow_schema(schema)
        self._fields = [
            _FieldSources(field, tuple(field.source_columns(schema)), tuple(field.source_types(schema)))
            for field in spec.fields
        ]
        self._types = {
            path: type_
            for projected in self._fields
            for path, type_ in zip(projected.paths, projected.types, strict=True)
            if path is not None
        }
        self._partition_schema = pa.schema([projected.field.arrow_field for projected in self._fields])
        self._same_values = self._find_same_values()

    def _find_same_values(self) -> dict[Expr, Column]:
        """Expressions in filters that equal a partition field."""
        same: dict[Expr, Column] = {}
        for field in self._fields:
            columns = [Column(path) for path in field.paths if path is not None]
            if field.field.transform is not None and len(columns) == len(field.paths):
                value = field.field.transform.filter_expression(columns, field.types, self._time_zone)
                if value is not None:
                    same.setdefault(value, field.field.column)
        return same

    def resolved(self, expr: Expr) -> Expr:
        """The filter with columns spelled as in the schema."""
        if isinstance(expr, Column):
            try:
                return Column(resolve_names(self._schema, expr.path))
            except (NotFoundError, InvalidInputError):
                # Not reported here: the filter on the rows raises the error.
                return expr
        return _rebuilt(expr, [self.resolved(child) for child in expr.children()])

    def project(self, expr: Expr, wanted: _Wanted) -> Expr | None:
        """The condition on partitions in which `expr` may have the wanted truth value for some row."""
        if isinstance(expr, Not):
            return self.project(expr.value, wanted.negated)
        if isinstance(expr, (And, Or)) and not wanted.needs_all(expr):
            return self._any(expr.terms, wanted)
        if isinstance(expr, Literal) and (expr.value is None or isinstance(expr.value, bool)):
            return None if wanted.holds(expr.value) else FALSE
        return self._all([(expr, wanted)])

    def _all(self, terms: Sequence[tuple[Expr, _Wanted]]) -> Expr | None:
        """The condition on partitions for a row that satisfies all terms; terms on the same column are intersected."""
        box: dict[Path, ValueSet] = {}
        others: list[Expr | None] = []
        for expr, wanted in _conjuncts(terms):
            truth = self._truth(expr)
            if truth is not None:
                box[truth.path] = intersection([box.get(truth.path, EVERYTHING), wanted.values(truth)])
            if isinstance(expr, (And, Or, Literal)):
                others.append(None if truth is not None else self.project(expr, wanted))
            elif truth is None or not truth.is_exact:
                others.append(self._substituted(expr, wanted))
        return all_of([*self._boxed(box), *others])

    def _any(self, terms: Sequence[Expr], wanted: _Wanted) -> Expr | None:
        sets: dict[Path, list[ValueSet]] = {}
        others: list[Expr | None] = []
        for expr in terms:
            truth = self._truth(expr)
            if truth is not None and truth.is_exact:
                sets.setdefault(truth.path, []).append(wanted.values(truth))
            else:
                others.append(self.project(expr, wanted))
        return any_of([*(all_of(self._boxed({path: union(values)})) for path, values in sets.items()), *others])

    def _truth(self, expr: Expr) -> PredicateDomain | None:
        """The values of one column that satisfy `expr`: a superset for a single condition, exact only for several."""
        if isinstance(expr, Not):
            inner = self._truth(expr.value)
            return None if inner is None else PredicateDomain(inner.path, inner.false, inner.true, inner.is_exact)
        if not isinstance(expr, (And, Or)):
            return truth_of(expr, self._types, self._time_zone)
        truths: list[PredicateDomain] = []
        for term in expr.terms:
            truth = self._truth(term)
            if truth is None or not truth.is_exact or (truths and truth.path != truths[0].path):
                return None
            truths.append(truth)
        true, false = [truth.true for truth in truths], [truth.false for truth in truths]
        if isinstance(expr, And):
            return PredicateDomain(truths[0].path, intersection(true), union(false), True)
        return PredicateDomain(truths[0].path, union(true), intersection(false), True)

    def _substituted(self, expr: Expr, wanted: _Wanted) -> Expr | None:
        """The condition itself on partition values, if it reads nothing else."""
        if can_fail(expr):
            return None
        on_values = self._on_values(expr)
        if on_values is None:
            return None
        try:
            check_filter(on_values, self._partition_schema, time_zone=self._time_zone)
        except InvalidInputError:
            return None
        return wanted.condition(on_values)

    def _on_values(self, expr: Expr) -> Expr | None:
        column = self._same_values.get(expr)
        if column is not None or isinstance(expr, Column):
            return column
        children = [self._on_values(child) for child in expr.children()]
        table = [child for child in children if child is not None]
        return _rebuilt(expr, table) if len(table) == len(children) else None

    def _boxed(self, box: dict[Path, ValueSet]) -> list[Expr | None]:
        """Conditions for partitions that may have a row with such values in each column."""
        if any(values.is_empty for values in box.values()):
            return [FALSE]
        conditions: list[Expr | None] = []
        parts: dict[Path, dict[Level, Column]] = {}
        for field in self._fields:
            if not any(path in box for path in field.paths):
                continue
            transform, path = field.field.transform, field.paths[0]
            if isinstance(transform, DatePart) and path is not None:
                parts.setdefault(path, {})[transform.level] = field.field.column
            elif transform is not None:
                conditions.append(transform.project(field.sources(box), field.field.column))
            else:
                conditions.append(_expression_values(field.field, field.sources(box)))
        for path, columns in parts.items():
            conditions.append(project_fields(columns, SourceColumn(self._types[path], box[path])))
        return conditions


def _conjuncts(terms: Iterable[tuple[Expr, _Wanted]]) -> list[tuple[Expr, _Wanted]]:
    """The terms with NOT and the connectives that need all of their terms flattened."""
    result: list[tuple[Expr, _Wanted]] = []
    pending = list(terms)[::-1]
    while pending:
        expr, wanted = pending.pop()
        if isinstance(expr, Not):
            pending.append((expr.value, wanted.negated))
        elif isinstance(expr, (And, Or)) and wanted.needs_all(expr):
            pending += [(term, wanted) for term in reversed(expr.terms)]
        else:
            result.append((expr, wanted))
    return result


def _expression_values(field: PartitionField, sources: Sequence[SourceColumn]) -> Expr | None:
    """The values of an expression for all combinations of source values, if there are few."""
    rows = point_rows(sources)
    if rows is None:
        return None
    try:
        return is_in_array(field.column, field.values_of(rows))
    except (InvalidInputError, UnsupportedFeatureError):
        # It fails on a value that no row may have, or cannot be evaluated here; reading does not depend on it.
        return None


def _rebuilt(expr: Expr, children: Sequence[Expr]) -> Expr:
    """The same node with other children; expressions in it that are not its children, such as constants, stay."""
    if not children:
        return expr
    new = {id(old): child for old, child in zip(expr.children(), children, strict=True)}
    changes: dict[str, Any] = {}
    for member in fields(expr):  # type: ignore[arg-type]  # every node is a dataclass
        value = getattr(expr, member.name)
        if isinstance(value, Expr):
            changes[member.name] = new.get(id(value), value)
        elif isinstance(value, tuple) and value and isinstance(value[0], Expr):
            changes[member.name] = tuple(new.get(id(item), item) for item in value)
    return replace(expr, **changes)  # type: ignore[type-var]
