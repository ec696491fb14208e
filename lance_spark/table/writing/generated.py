"""Values of generated columns, in rows that are written without them.

Rows that have values are checked by `RowChecks`: they must be those of the expression.
"""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa

from lance_spark.errors import InvalidInputError
from lance_spark.expr.evaluate import evaluate
from lance_spark.expr.nodes import Column
from lance_spark.schema.arrow import to_arrow_field
from lance_spark.schema.field import LanceSchema
from lance_spark.schema.generated import generated_of
from lance_spark.table.writing.checks import nullable_rows, parsed_generation


class GeneratedValues:
    """Adds the generated columns that rows lack.

    Args:
        schema: all columns of the table.
        present: the columns that the rows have.

    Raises:
        UnsupportedFeatureError: an expression is not supported.
    """

    def __init__(self, schema: LanceSchema, present: Collection[str]) -> None:
        missing = {name: text for name, text in generated_of(schema).items() if name not in present}
        self._expressions = {name: parsed_generation(name, text) for name, text in missing.items()}
        nodes = [node for expression in self._expressions.values() for node in expression.walk()]
        used = {node.path[0].lower() for node in nodes if isinstance(node, Column)}
        fields = {field.name: to_arrow_field(field) for field in schema.fields} if missing else {}
        self._used = [field for name, field in fields.items() if name.lower() in used]
        self._targets = [fields[name] for name in missing]
        self._order = [name for name in fields if name in present or name in missing]

    @property
    def names(self) -> Collection[str]:
        """The columns that are added."""
        return self._expressions.keys()

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows with the columns, in the table's order.

        Raises:
            InvalidInputError: an expression fails on a row, or its value does not fit the column.
        """
        if not self._targets:
            return rows
        read = nullable_rows(rows, self._used)
        for target in self._targets:
            try:
                values = evaluate(self._expressions[target.name], read).cast(target.type)
            except pa.ArrowInvalid as error:
                raise InvalidInputError(
                    f"a value of the generated column {target.name!r} does not fit into {target.type}: {error}"
                ) from error
            rows = rows.append_column(target, values)
        return rows.select(self._order)
