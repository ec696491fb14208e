"""A partition field: how one partition value follows from source columns (partitioning specification).

In JSON: `{"field_id", "source_ids", "transform" or "expression", "result_type"}`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lance_spark.errors import InvalidInputError, UnsupportedFeatureError
from lance_spark.expr.columns import column_values
from lance_spark.expr.nodes import Column
from lance_spark.namespace.json_arrow_schema import type_from_json, type_to_json
from lance_spark.partitioned.expression import check_expression, evaluate_expression, type_of_expression
from lance_spark.partitioned.names import partition_column
from lance_spark.partitioned.transforms.base import Transform
from lance_spark.partitioned.transforms.registry import transform_from_json
from lance_spark.schema.arrow import to_arrow_type
from lance_spark.schema.field import Field, LanceSchema
from lance_spark.schema.generated import IDENTITY
from lance_spark.schema.projection import dotted
from lance_spark.schema.text_type import has_collation


@dataclass(frozen=True, slots=True)
class PartitionField:
    """One level of the partition hierarchy.

    Args:
        field_id: the name of the field for ever, in all spec versions.
        source_ids: ids of the source columns in the namespace's schema.
        result_type: the type of the partition values.
        transform: a well-known transform; or
        expression: an expression in DataFusion's SQL on `col0`, `col1`... in the order of `source_ids`.
    """

    field_id: str
    source_ids: tuple[int, ...]
    result_type: pa.DataType
    transform: Transform | None = None
    expression: str | None = None

    def __post_init__(self) -> None:
        if not self.field_id or "." in self.field_id:
            # Lance tables have no columns of such a name.
            raise InvalidInputError(f"partition field id {self.field_id!r} must be text without a dot")
        if (self.transform is None) == (self.expression is None):
            raise InvalidInputError(f"partition field {self.field_id!r} needs either a transform or an expression")
        if not self.source_ids or any(isinstance(x, bool) or not isinstance(x, int) or x < 0 for x in self.source_ids):
            raise InvalidInputError(
                f"partition field {self.field_id!r} needs ids of source fields, got {list(self.source_ids)}"
            )

    @property
    def column(self) -> Column:
        """The column of `__manifest` that holds the values."""
        return Column((self.column_name,))

    @property
    def column_name(self) -> str:
        """The name of `column`."""
        return partition_column(self.field_id)

    @property
    def arrow_field(self) -> pa.Field:
        """`column` as `__manifest` declares it."""
        return pa.field(self.column_name, self.result_type, nullable=True)

    @property
    def definition(self) -> tuple[object, ...]:
        """The identity of the field: its source columns and how the value follows from them."""
        return self.source_ids, self.transform, self.expression

    def source_types(self, schema: LanceSchema) -> list[pa.DataType]:
        """The types of the source columns, null for columns that the schema no longer has."""
        paths = source_paths(schema)
        return [to_arrow_type(paths[at][-1]) if at in paths else pa.null() for at in self.source_ids]

    def source_columns(self, schema: LanceSchema) -> list[tuple[str, ...] | None]:
        """The names of the source columns level by level, None for columns that the schema no longer has."""
        paths = source_paths(schema)
        return [tuple(node.name for node in paths[at]) if at in paths else None for at in self.source_ids]

    def check(self, schema: LanceSchema) -> None:
        """Nothing, if the field fits the namespace's schema.

        Raises:
            InvalidInputError: source columns of types that the transform or expression does not take, or another
                `result_type` than follows from them.
        """
        types = self.source_types(schema)
        if self.expression is not None:
            check_expression(self.expression, types, self.result_type)
            return
        assert self.transform is not None
        derived = self.transform.result_type(types)
        if not pa.types.is_null(derived) and derived != self.result_type:
            raise InvalidInputError(
                f"partition field {self.field_id!r}: {self.transform.name} of {', '.join(map(str, types))} gives "
                f"{derived}, but result_type is {self.result_type}"
            )

    def values(self, batch: pa.RecordBatch, schema: LanceSchema) -> pa.Array:
        """The partition value of each row, in `result_type`.

        Args:
            batch: rows with the columns of `schema`; source columns that the schema does not have are null.
            schema: the namespace's schema.

        Raises:
            NotFoundError: the batch lacks a source column.
            InvalidInputError: the transform does not take the column's type, or the expression fails.
        """
        columns = [
            pa.nulls(batch.num_rows) if names is None else column_values(batch, names)
            for names in self.source_columns(schema)
        ]
        return self.values_of(columns)

    def values_of(self, columns: Sequence[pa.Array]) -> pa.Array:
        """The partition value of each row, from the source columns themselves."""
        if self.expression is not None:
            return evaluate_expression(self.expression, columns, self.result_type)
        assert self.transform is not None
        values = self.transform.apply(*columns)
        try:
            return values if values.type == self.result_type else values.cast(self.result_type)
        except pa.ArrowException as error:
            raise InvalidInputError(
                f"partition field {self.field_id!r} has a value that its type {self.result_type} does not hold: {error}"
            ) from error

    def to_json(self) -> dict[str, Any]:
        """The JSON object."""
        rule: dict[str, Any] = {"expression": self.expression}
        if self.transform is not None:
            rule = {"transform": self.transform.to_json()}
        return {
            "field_id": self.field_id,
            "source_ids": list(self.source_ids),
            **rule,
            "result_type": type_to_json(self.result_type),
        }


def partition_field(
    field_id: str,
    schema: LanceSchema,
    sources: Sequence[str | tuple[str, ...]],
    transform: Transform | None = None,
    expression: str | None = None,
) -> PartitionField:
    """A new field by names of source columns; `result_type` follows from their types.

    Raises:
        InvalidInputError: no such column, or types that the transform or the expression does not take.
        UnsupportedFeatureError: a column has a collation or an identity, or it is an expression, and the package
            `datafusion` is not installed.
    """
    ids = {tuple(node.name for node in path): path[-1] for path in source_paths(schema).values()}
    names = [(source,) if isinstance(source, str) else source for source in sources]
    missing = [dotted(name) for name in names if name not in ids]
    if missing:
        raise InvalidInputError(f"partition field {field_id!r}: the schema has no column {', '.join(missing)}")
    if any(has_collation(ids[name]) for name in names):
        raise UnsupportedFeatureError(
            f"partition field {field_id!r}: its column has a collation, and partitions compare bytes",
            feature="partitions by a collation",
        )
    if any(IDENTITY in ids[name].metadata for name in names):
        raise UnsupportedFeatureError(
            f"partition field {field_id!r}: its column is an identity column, whose values are not known when rows are "
            "distributed",
            feature="partitions by an identity column",
        )
    types = [to_arrow_type(ids[name]) for name in names]
    source_ids = tuple(ids[name].id for name in names)
    if expression is not None:
        return PartitionField(field_id, source_ids, type_of_expression(expression, types), None, expression)
    if transform is None:
        raise InvalidInputError(f"partition field {field_id!r} needs either a transform or an expression")
    return PartitionField(field_id, source_ids, transform.result_type(types), transform)


def partition_field_from_json(members: object) -> PartitionField:
    """The field of a JSON object; members it does not know are ignored.

    Raises:
        InvalidInputError: a member is missing or invalid.
        CorruptFileError: `result_type` is no type.
        UnsupportedFeatureError: an unknown transform or type.
    """
    if not isinstance(members, Mapping):
        raise InvalidInputError(f"a partition field is a JSON object, got {members!r}")
    field_id, sources = members.get("field_id"), members.get("source_ids")
    transform, expression = members.get("transform"), members.get("expression")
    if not isinstance(field_id, str) or not isinstance(sources, list):
        raise InvalidInputError(f"a partition field needs field_id and the list source_ids, got {members!r}")
    if expression is not None and not isinstance(expression, str):
        raise InvalidInputError(f"the expression of partition field {field_id!r} is not a text: {expression!r}")
    return PartitionField(
        field_id,
        tuple(sources),
        type_from_json(members.get("result_type")),
        None if transform is None else transform_from_json(transform),
        expression,
    )


def source_paths(schema: LanceSchema) -> dict[int, tuple[Field, ...]]:
    """Fields that can be partitioned by, by id: top-level ones and those below structs, with the fields above them."""
    paths: dict[int, tuple[Field, ...]] = {}
    pending: list[tuple[Field, ...]] = [(field,) for field in schema.fields]
    while pending:
        path = pending.pop()
        paths[path[-1].id] = path
        if path[-1].logical_type == "struct":
            pending += [(*path, child) for child in path[-1].children]
    return paths
