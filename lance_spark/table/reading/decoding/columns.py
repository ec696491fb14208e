"""Which columns a scan decodes, and when: those of the filter first, in steps, then the others."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from math import inf

import pyarrow as pa
import pyarrow.types as pt

from lance_spark.cached import cached_property
from lance_spark.expr.columns import compared_columns, resolve_names
from lance_spark.expr.nodes import And, Column, Expr, conjunction, referenced_columns
from lance_spark.expr.text.members import to_list
from lance_spark.schema.arrow import to_arrow_field, to_arrow_schema
from lance_spark.schema.field import Field, FieldId, LanceSchema
from lance_spark.schema.projection import FieldFinder, project, prune
from lance_spark.schema.remembered import Remembered
from lance_spark.table.reading.system_columns import SYSTEM_FIELDS, filterable
from lance_spark.table.reading.window import fixed_width, window_bytes_of
from lance_spark.table.rows.fragment import DataFragment


@dataclass(frozen=True, slots=True)
class Stage:
    """A step of the filter: `fields` are those that no step before has read."""

    condition: Expr
    fields: tuple[Field, ...]


@dataclass(frozen=True)
class ReadColumns:
    """The columns of a scan, whose attributes have the same names."""

    schema: LanceSchema
    projection: LanceSchema
    output: tuple[str, ...]
    filter: Expr | None

    @cached_property
    def arrow_schema(self) -> pa.Schema:
        """The schema of the batches: one object for all filters."""
        return _arrow_schemas((self.schema, self.projection), self.output, self._arrow_schema)

    def _arrow_schema(self) -> pa.Schema:
        fields = {field.name: to_arrow_field(field) for field in self.projection.fields}
        metadata = to_arrow_schema(LanceSchema((), self.schema.metadata)).metadata
        return pa.schema([fields.get(name, SYSTEM_FIELDS.get(name)) for name in self.output], metadata=metadata)

    @cached_property
    def decoded(self) -> LanceSchema:
        """The data columns that are read: those of the output and of the filter."""
        first, later = self.filter_fields, self.later_fields
        return _schemas((first, later), None, lambda: LanceSchema((*first, *later)))

    @cached_property
    def fixed_widths(self) -> list[float | None]:
        """Bytes per row of each of `decoded`; None if they vary."""
        return [fixed_width(field) for field in self.decoded.fields]

    @cached_property
    def row_bytes(self) -> float:
        """Bytes per row of `decoded`, at least 1; infinite if they vary."""
        widths = [inf if width is None else width for width in self.fixed_widths]
        return max(1.0, sum(widths))

    def decoded_bytes(self, fragment: DataFragment, num_rows: int | None = None) -> float:
        """About the most bytes that `decoded` of some rows of a fragment takes; infinite if that is not known.

        Args:
            num_rows: how many rows; None for all.
        """
        if num_rows == 0:
            return 0.0
        if num_rows is None:
            return self._bytes_of_all(fragment)
        if self.row_bytes < inf:
            return num_rows * self.row_bytes
        in_all = fragment.physical_rows or 1
        return num_rows * _bytes_per_row((self.decoded, fragment), None, lambda: self._bytes_of_all(fragment) / in_all)

    def _bytes_of_all(self, fragment: DataFragment) -> float:
        num_rows, size = fragment.physical_rows, fragment.size_bytes
        return inf if num_rows is None or size is None else window_bytes_of(self.fixed_widths, num_rows, size)

    @cached_property
    def filter_fields(self) -> tuple[Field, ...]:
        """Fields that the filter reads."""
        return () if self.filter is None else self._fields_of(self.filter)

    @cached_property
    def later_fields(self) -> tuple[Field, ...]:
        """Fields that are read only for the rows that the filter keeps."""
        if self.filter is None:
            # The same object in every plan of the projection, by which files know what they have prepared.
            return self.projection.fields
        return _without(self.projection.fields, self.filter_fields)

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        """The filter in steps, each of which reads columns only for the rows that those before have kept.

        What compares numbers with constants comes first: it is cheap, and cannot fail. All other terms stay together,
        so that one of them still keeps errors of the next one away.
        """
        if self.filter is None:
            return ()
        if len(self._steps) == 1:
            return (Stage(self.filter, self._steps[0][1]),)
        terms = _terms(self.filter)
        steps = [(conjunction(tuple([terms[place] for place in places])), read) for places, read in self._steps]
        return tuple([Stage(condition, read) for condition, read in steps if condition is not None])

    @cached_property
    def _steps(self) -> tuple[tuple[tuple[int, ...], tuple[Field, ...]], ...]:
        """The places of the terms of each of `stages`, and its fields."""
        terms = () if self.filter is None else _terms(self.filter)
        is_quick = [self._is_quick(term) for term in terms]
        steps, read = [], tuple[Field, ...]()
        for is_first in (True, False):
            places = tuple([place for place, quick in enumerate(is_quick) if quick is is_first])
            condition = conjunction(tuple([terms[place] for place in places]))
            if condition is not None:
                fields = self._fields_of(condition)
                steps.append((places, _without(fields, read) if read else fields))
                read = fields
        return tuple(steps)

    @cached_property
    def plain_names(self) -> dict[str, int] | None:
        """The place of each of `decoded` by its name; None if the filter or the output names anything else."""
        named = set() if self.filter is None else {path[0].lower() for path in referenced_columns(self.filter)}
        if not self.output or self.has_system_output or len(named) != len(self.filter_fields):
            return None
        return {name: place for place, name in enumerate(self.decoded.names())}

    @cached_property
    def used_later(self) -> tuple[frozenset[str], ...]:
        """For each stage the columns that the output or a stage after it needs."""
        found: list[frozenset[str]] = []
        needed = frozenset(self.output)
        for stage in reversed(self.stages):
            found.append(needed)
            needed = needed.union(
                resolve_names(self.filterable, path[:1])[0] for path in referenced_columns(stage.condition)
            )
        return tuple(reversed(found))

    @cached_property
    def has_system_output(self) -> bool:
        """Whether a system column is returned."""
        return any(map(self.is_system, self.output))

    @cached_property
    def wider(self) -> list[int]:
        """The places of output columns of which the filter reads more than is returned."""
        filtered = {field.name for field in self.filter_fields}
        return [place for place, name in enumerate(self.output) if name in filtered]

    @cached_property
    def filterable(self) -> pa.Schema:
        """Schema of the columns that the filter may name."""
        return filterable(to_arrow_schema(self.schema))

    def is_system(self, name: str) -> bool:
        """Whether a name is that of a system column, and of no column of the table."""
        return name in SYSTEM_FIELDS and name not in self._names

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(self.schema.names())

    def _is_quick(self, term: Expr) -> bool:
        columns = compared_columns(term)
        return bool(columns) and all(self._is_number(column) for column in columns)

    def _is_number(self, column: Column) -> bool:
        known = self.filterable
        path = resolve_names(known, column.path)
        return len(path) == 1 and not self.is_system(path[0]) and pt.is_primitive(known.field(path[0]).type)

    def _fields_of(self, condition: Expr) -> tuple[Field, ...]:
        """The fields that a condition needs, each with what the output wants of it too."""
        known = self.filterable
        # A text search may name a member of structs in a list; its plan is asked for sizes before it is answered.
        paths = (resolve_names(known, to_list(known, path)) for path in referenced_columns(condition))
        wanted = tuple(path for path in paths if not self.is_system(path[0]))
        return _fields((self.schema, self.projection), wanted, lambda: self._fields_at(wanted))

    def _fields_at(self, paths: Sequence[tuple[str, ...]]) -> tuple[Field, ...]:
        filtered = project(self.schema, paths).fields
        names = {field.name for field in filtered}
        ids = _ids(filtered) | _ids(field for field in self.projection.fields if field.name in names)
        return prune([field for field in self.schema.fields if field.name in names], ids)


_bytes_per_row: Remembered[float] = Remembered()
_arrow_schemas: Remembered[pa.Schema] = Remembered()
_fields: Remembered[tuple[Field, ...]] = Remembered()
_schemas: Remembered[LanceSchema] = Remembered()
"""The same objects for filters of the same columns, by which files know what they have prepared."""


def output_names(schema: LanceSchema, asked: Sequence[str], system: Collection[str]) -> list[str]:
    """Names of the top-level output columns, each where it is first asked for."""
    tops = set(schema.names()) | set(system)
    finder = FieldFinder(schema)
    return [name if name in tops else finder.find(finder.names(name))[0].name for name in asked]


def _terms(filter: Expr) -> tuple[Expr, ...]:
    return filter.terms if isinstance(filter, And) else (filter,)


def _without(fields: tuple[Field, ...], others: tuple[Field, ...]) -> tuple[Field, ...]:
    names = frozenset(field.name for field in others)
    return _fields((fields,), names, lambda: tuple(field for field in fields if field.name not in names))


def _ids(fields: Iterable[Field]) -> set[FieldId]:
    return {node.id for field in fields for node in field.walk()}
