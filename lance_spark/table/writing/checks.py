"""Enforces CHECK constraints on rows that are written: a condition may be TRUE or NULL, as in SQL.

A table can come from anywhere, and Spark evaluates the conditions too. So a condition must be one that our own
expressions know, without quotes or comments that the two could read differently.
"""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.errors import InvalidInputError, LanceError, UnsupportedFeatureError
from lance_spark.expr.evaluate import check_filter, evaluate
from lance_spark.expr.nodes import Column, Expr
from lance_spark.expr.sql import parse
from lance_spark.expr.values import as_boolean
from lance_spark.schema.arrow import to_arrow_schema
from lance_spark.schema.check import checks_of, without_checks
from lance_spark.schema.field import LanceSchema

_UNSAFE = re.compile(r"[\"\\]|--|/\*")


def parsed_check(name: str, condition: str) -> Expr:
    """The condition of a constraint.

    Raises:
        UnsupportedFeatureError: it is not one that all writers can evaluate alike.
    """
    refused = f"the CHECK constraint {name!r} ({condition}) cannot be enforced"
    if _UNSAFE.search(condition) is not None:
        raise UnsupportedFeatureError(
            f"{refused}: write it without double quotes, backslashes and comments", feature="CHECK constraint"
        )
    try:
        return parse(condition)
    except InvalidInputError as error:
        raise UnsupportedFeatureError(
            f"{refused}: {error}. Drop the constraint, or use comparisons, arithmetic, LIKE, IN and BETWEEN",
            feature="CHECK constraint",
        ) from error


def require_columns_of_checks(schema: LanceSchema) -> None:
    """Passes if all columns that constraints name are there, in types that their conditions accept.

    Raises:
        InvalidInputError: one is not; the message names the constraint.
        UnsupportedFeatureError: a condition is not supported.
    """
    checks = checks_of(schema)
    if not checks:
        return
    columns = to_arrow_schema(without_checks(schema))
    for name, condition in checks.items():
        expression = parsed_check(name, condition)
        try:
            check_filter(expression, columns)
        except LanceError as error:
            raise InvalidInputError(
                f"the CHECK constraint {name!r} ({condition}) does not fit the columns: {error}. Drop it first "
                f"(ALTER TABLE ... DROP CONSTRAINT {name})"
            ) from error


class RowChecks:
    """The constraints of a table, for rows to write.

    Args:
        schema: all columns of the table.

    Raises:
        UnsupportedFeatureError: a condition is not supported.
    """

    def __init__(self, schema: LanceSchema) -> None:
        self._checks = {name: parsed_check(name, condition) for name, condition in checks_of(schema).items()}
        used = self.columns()
        arrow = to_arrow_schema(schema) if used else ()
        self._columns = [field for field in arrow if field.name.lower() in used]

    def columns(self) -> set[str]:
        """The names of the columns in conditions, in lower case."""
        nodes = (node for check in self._checks.values() for node in check.walk())
        return {node.path[0].lower() for node in nodes if isinstance(node, Column)}

    def __call__(self, batch: pa.RecordBatch) -> None:
        """Passes if no row makes a condition FALSE; columns that the batch lacks are NULL.

        Raises:
            InvalidInputError: a row does, or a condition fails on it; the message has the constraint.
        """
        if not self._checks or not batch.num_rows:
            return
        present = set(batch.schema.names)
        arrays = [
            batch.column(field.name) if field.name in present else pa.nulls(batch.num_rows, field.type)
            for field in self._columns
        ]
        fields = [
            field.with_type(array.type).with_nullable(True) for field, array in zip(self._columns, arrays, strict=True)
        ]
        rows = pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields)) if fields else batch
        for name, check in self._checks.items():
            truth = as_boolean(evaluate(check, rows), f"CHECK constraint {name}")
            violated = pc.index(truth, pa.scalar(False)).as_py()
            if violated >= 0:
                values = {
                    column: str(array[violated]) for column, array in zip((f.name for f in fields), arrays, strict=True)
                }
                shown = ", ".join(f"{column} = {value}" for column, value in values.items())
                raise InvalidInputError(
                    f"a row violates the CHECK constraint {name!r} ({check}): {shown[:200]}. Correct the row, or drop "
                    "the constraint"
                )
