"""Which columns a scan decodes, and when: those of the filter first, in steps, then the others."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import inf

import pyarrow.types as pt

from lance_spark.cached import cached_property
from lance_spark.expr.columns import compared_columns, resolve_names
from lance_spark.expr.nodes import And, Column, Expr, conjunction, referenced_columns
from lance_spark.schema.field import Field, LanceSchema
from lance_spark.schema.projection import FieldFinder
from lance_spark.table.reading.decoding.output_columns import DecodedFields, OutputColumns, Path
from lance_spark.table.reading.fragment_columns import SelectedFields
from lance_spark.table.reading.system_columns import SYSTEM_FIELDS
from lance_spark.table.reading.window import fixed_width, window_bytes_of
from lance_spark.table.rows.fragment import DataFragment


@dataclass(frozen=True, slots=True)
class Stage:
    """A step of the filter: `selected` are the fields that no step before has read."""

    condition: Expr
    selected: SelectedFields


@dataclass(frozen=True)
class ReadColumns:
    """The columns that a scan decodes: those that it returns, and those of its filter."""

    returned: OutputColumns
    filter: Expr | None

    @cached_property
    def _fields(self) -> DecodedFields:
        return self.returned.decoded_with(None if self.filter is None else self._paths_of(self.filter))

    @property
    def decoded(self) -> LanceSchema:
        """The data columns that are read, of the output and of the filter."""
        return self._fields.schema

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
        return num_rows * self._bytes_of_all(fragment) / (fragment.physical_rows or 1)

    def _bytes_of_all(self, fragment: DataFragment) -> float:
        num_rows, size = fragment.physical_rows, fragment.size_bytes
        return inf if num_rows is None or size is None else window_bytes_of(self.fixed_widths, num_rows, size)

    @property
    def all(self) -> SelectedFields:
        """The fields of `decoded`."""
        return self._fields.all

    @property
    def filtered(self) -> SelectedFields:
        """The fields that the filter reads."""
        return self._fields.first

    @property
    def filter_fields(self) -> tuple[Field, ...]:
        """Fields that the filter reads."""
        return self._fields.first.fields

    @property
    def later(self) -> SelectedFields:
        """The fields that are read only for the rows that the filter keeps."""
        return self._fields.later

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
    def _steps(self) -> tuple[tuple[tuple[int, ...], SelectedFields], ...]:
        """The places of the terms of each of `stages`, and its fields."""
        terms = () if self.filter is None else _terms(self.filter)
        is_quick = [self._is_quick(term) for term in terms]
        steps, read = [], tuple[Path, ...]()
        for is_first in (True, False):
            places = tuple([place for place, quick in enumerate(is_quick) if quick is is_first])
            condition = conjunction(tuple([terms[place] for place in places]))
            if condition is not None:
                paths = self._paths_of(condition)
                steps.append((places, self.returned.fields_at(paths, read)))
                read = paths
        return tuple(steps)

    @cached_property
    def plain_names(self) -> dict[str, int] | None:
        """The place of each of `decoded` by its name; None if the filter or the output names anything else."""
        named = set() if self.filter is None else {path[0].lower() for path in referenced_columns(self.filter)}
        if not self.returned.names or self.has_system_output or len(named) != len(self.filter_fields):
            return None
        return {name: place for place, name in enumerate(self.decoded.names())}

    @cached_property
    def used_later(self) -> tuple[frozenset[str], ...]:
        """For each stage the columns that the output or a stage after it needs."""
        found: list[frozenset[str]] = []
        needed = frozenset(self.returned.names)
        for stage in reversed(self.stages):
            found.append(needed)
            needed = needed.union(
                resolve_names(self.returned.filterable, path[:1])[0] for path in referenced_columns(stage.condition)
            )
        return tuple(reversed(found))

    @cached_property
    def has_system_output(self) -> bool:
        """Whether a system column is returned."""
        return any(map(self.is_system, self.returned.names))

    @cached_property
    def wider(self) -> list[int]:
        """The places of output columns of which the filter reads more than is returned."""
        filtered = {field.name for field in self.filter_fields}
        return [place for place, name in enumerate(self.returned.names) if name in filtered]

    def is_system(self, name: str) -> bool:
        """Whether a name is that of a system column, and of no column of the table."""
        return name in SYSTEM_FIELDS and name not in self.returned.table_names

    def _is_quick(self, term: Expr) -> bool:
        columns = compared_columns(term)
        return bool(columns) and all(self._is_number(column) for column in columns)

    def _is_number(self, column: Column) -> bool:
        known = self.returned.filterable
        path = resolve_names(known, column.path)
        return len(path) == 1 and not self.is_system(path[0]) and pt.is_primitive(known.field(path[0]).type)

    def _paths_of(self, condition: Expr) -> tuple[Path, ...]:
        """The data columns that a condition reads, in the order of their names."""
        from lance_spark.expr.text.members import to_list

        known = self.returned.filterable
        # A text search may name a member of structs in a list; its plan is asked for sizes before it is answered.
        paths = {resolve_names(known, to_list(known, path)) for path in referenced_columns(condition)}
        return tuple(sorted(path for path in paths if not self.is_system(path[0])))


def output_names(schema: LanceSchema, asked: Sequence[str], system: Collection[str]) -> list[str]:
    """Names of the top-level output columns, each where it is first asked for."""
    tops = set(schema.names()) | set(system)
    finder = FieldFinder(schema)
    return [name if name in tops else finder.find(finder.names(name))[0].name for name in asked]


def _terms(filter: Expr) -> tuple[Expr, ...]:
    return filter.terms if isinstance(filter, And) else (filter,)
