"""The columns that a read returns, and the fields that are decoded for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from lance_spark.cached import cached_property
from lance_spark.schema.arrow import to_arrow_field, to_arrow_schema
from lance_spark.schema.field import Field, FieldId, LanceSchema
from lance_spark.schema.projection import project, prune
from lance_spark.table.reading.fragment_columns import SelectedFields
from lance_spark.table.reading.shown_types import shown_schema
from lance_spark.table.reading.system_columns import SYSTEM_FIELDS, filterable

_MAX_KEPT = 64
"""Sets of filter columns whose fields an object keeps."""

Path = tuple[str, ...]


class DecodedFields(NamedTuple):
    """The data columns that a scan decodes.

    Attributes:
        first: the columns of the filter, with the members that the output needs.
        later: the other columns of the output.
        all: both.
        schema: of both.
    """

    first: SelectedFields
    later: SelectedFields
    all: SelectedFields
    schema: LanceSchema


@dataclass(frozen=True)
class OutputColumns:
    """The columns that a read returns. Scans that differ in their filters share one object, and all that it keeps.

    Attributes:
        schema: the table's schema.
        projection: the data columns to return, nested fields that are not asked for left out.
        names: the columns of a batch, in order: top-level fields of `projection` and system columns.
    """

    schema: LanceSchema
    projection: LanceSchema
    names: tuple[str, ...]

    def __getstate__(self) -> dict[str, Any]:
        # Without what can be computed again.
        return {"schema": self.schema, "projection": self.projection, "names": self.names}

    @cached_property
    def arrow_schema(self) -> pa.Schema:
        """The schema of the batches."""
        fields = {field.name: to_arrow_field(field) for field in self.projection.fields}
        metadata = to_arrow_schema(LanceSchema((), self.schema.metadata)).metadata
        return pa.schema([fields.get(name, SYSTEM_FIELDS.get(name)) for name in self.names], metadata=metadata)

    @cached_property
    def shows_other_types(self) -> bool:
        """Whether users see other values than the stored ones."""
        return shown_schema(self.arrow_schema) is not self.arrow_schema

    @cached_property
    def filterable(self) -> pa.Schema:
        """The columns that a filter may name."""
        return filterable(to_arrow_schema(self.schema))

    @cached_property
    def table_names(self) -> frozenset[str]:
        """Names of the top-level columns of the table."""
        return frozenset(self.schema.names())

    def fields_at(self, paths: tuple[Path, ...], read: tuple[Path, ...] = ()) -> SelectedFields:
        """The fields at some paths of the table, each with the members that the output needs; the same object for the
        same paths.

        Args:
            read: paths whose columns are left out.
        """
        selected = self._selected.get((paths, read))
        if selected is None:
            fields = self._fields_at(paths)
            fields = without(fields, self.fields_at(read).fields) if read else fields
            selected = _put(self._selected, (paths, read), SelectedFields(fields, self.schema.fields))
        return selected

    def decoded_with(self, paths: tuple[Path, ...] | None) -> DecodedFields:
        """The fields that a scan decodes whose filter reads the columns at `paths`; None without a filter."""
        decoded = self._decoded.get(paths)
        if decoded is None:
            first = self.fields_at(paths or ())
            is_first = bool(first.fields)
            fields = without(self.projection.fields, first.fields) if is_first else self.projection.fields
            later = SelectedFields(fields, self.schema.fields)
            both = SelectedFields((*first.fields, *fields), self.schema.fields) if is_first else later
            decoded = _put(self._decoded, paths, DecodedFields(first, later, both, LanceSchema(both.fields)))
        return decoded

    @cached_property
    def _selected(self) -> dict[tuple[tuple[Path, ...], tuple[Path, ...]], SelectedFields]:
        return {}

    @cached_property
    def _decoded(self) -> dict[tuple[Path, ...] | None, DecodedFields]:
        return {}

    def _fields_at(self, paths: Sequence[Path]) -> tuple[Field, ...]:
        filtered = project(self.schema, paths).fields
        names = {field.name for field in filtered}
        ids = _ids(filtered) | _ids(field for field in self.projection.fields if field.name in names)
        return prune([field for field in self.schema.fields if field.name in names], ids)


def without(fields: tuple[Field, ...], others: tuple[Field, ...]) -> tuple[Field, ...]:
    """The `fields` whose names are not among `others`."""
    names = frozenset(field.name for field in others)
    return tuple(field for field in fields if field.name not in names)


def _ids(fields: Iterable[Field]) -> set[FieldId]:
    return {node.id for field in fields for node in field.walk()}


def _put(kept: dict[Any, Any], key: Any, value: Any) -> Any:
    # No lock: each operation on the dictionary is atomic, and two threads make equal values.
    if len(kept) >= _MAX_KEPT:
        kept.clear()
    return kept.setdefault(key, value)
