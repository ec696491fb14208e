"""Enforces CHECK constraints and generated columns on rows that are written.

The condition of a constraint may be TRUE or NULL, as in SQL.

A table can come from anywhere, and Spark evaluates the conditions too. So a condition must be one that our own
expressions know, without quotes or comments that the two could read differently.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa

from lance_spark.errors import InvalidInputError, LanceError, UnsupportedFeatureError
from lance_spark.expr.nodes import Column, Comparison, ComparisonOp, Expr
from lance_spark.schema.arrow import to_arrow_schema
from lance_spark.schema.constraints import checks_of, without_checks
from lance_spark.schema.field import LanceSchema
from lance_spark.schema.generated import generated_of, identities_of
from lance_spark.schema.text_type import has_collation

_UNSAFE = re.compile(r"[\"\\]|--|/\*")


def parsed_check(name: str, condition: str) -> Expr:
    """The condition of a constraint.

    Raises:
        UnsupportedFeatureError: it is not one that all writers can evaluate alike.
    """
    advice = "Drop the constraint, or use comparisons, arithmetic, LIKE, IN and BETWEEN"
    return _parsed("CHECK constraint", name, condition, advice)


def parsed_generation(column: str, text: str) -> Expr:
    """The expression of a generated column. Raises as `parsed_check`."""
    return _parsed("generated column", column, text, "Use arithmetic, CAST, concat and comparisons of other columns")


def _parsed(kind: str, name: str, text: str, advice: str) -> Expr:
    from lance_spark.expr.sql.parse import parse

    refused = f"the {kind} {name!r} ({text}) cannot be enforced"
    if _UNSAFE.search(text) is not None:
        raise UnsupportedFeatureError(
            f"{refused}: write it without double quotes, backslashes and comments", feature=kind
        )
    try:
        return parse(text)
    except InvalidInputError as error:
        raise UnsupportedFeatureError(f"{refused}: {error}. {advice}", feature=kind) from error


def _generations(schema: LanceSchema) -> dict[str, Expr]:
    """Conditions that generated columns must satisfy, by column."""
    return {
        name: Comparison(ComparisonOp.NULL_SAFE_EQ, Column((name,)), parsed_generation(name, text))
        for name, text in generated_of(schema).items()
    }


def nullable_rows(batch: pa.RecordBatch, fields: Sequence[pa.Field]) -> pa.RecordBatch:
    """The columns `fields` of rows; those that the batch lacks are NULL."""
    if not fields:
        return batch
    present = set(batch.schema.names)
    arrays = [
        batch.column(field.name) if field.name in present else pa.nulls(batch.num_rows, field.type) for field in fields
    ]
    found = [field.with_type(array.type).with_nullable(True) for field, array in zip(fields, arrays, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(found))


def require_columns_of_checks(schema: LanceSchema) -> None:
    """Passes if all columns that constraints name are there, in types that their conditions accept, and identity
    columns have a type that can have such values.

    Raises:
        InvalidInputError: one is not; the message names the constraint or column.
        UnsupportedFeatureError: a condition is not supported.
    """
    checks, generations, identities = checks_of(schema), _generations(schema), identities_of(schema)
    for name, generation in generations.items() if identities else ():
        nodes = [node.path[0] for node in generation.walk() if isinstance(node, Column)]
        if name in identities or any(node in identities for node in nodes):
            raise InvalidInputError(
                f"the generated column {name!r} ({generation}) is an identity column, or made of one, whose values are "
                "not known when generated ones are computed"
            )
    if not checks and not generations:
        return
    from lance_spark.expr.evaluate import check_filter

    _refuse_collations(schema)
    columns = to_arrow_schema(without_checks(schema))
    for name, generation in generations.items():
        try:
            check_filter(generation, columns)
        except LanceError as error:
            raise InvalidInputError(
                f"the generated column {name!r} ({generation}) does not fit the columns: {error}. Drop it first "
                f"(ALTER TABLE ... DROP COLUMN {name})"
            ) from error
    for name, condition in checks.items():
        expression = parsed_check(name, condition)
        try:
            check_filter(expression, columns)
        except LanceError as error:
            raise InvalidInputError(
                f"the CHECK constraint {name!r} ({condition}) does not fit the columns: {error}. Drop it first "
                f"(ALTER TABLE ... DROP CONSTRAINT {name})"
            ) from error


def _refuse_collations(schema: LanceSchema) -> None:
    collated = {field.name.lower() for field in schema.fields if has_collation(field)}
    named = sorted(collated & RowChecks(schema).columns()) if collated else []
    if named:
        raise UnsupportedFeatureError(
            f"a constraint, or the expression of a generated column, compares bytes, and column {named[0]!r} has a "
            "collation; leave the column out",
            feature="constraints on a collation",
        )


class RowChecks:
    """The constraints of a table, for rows to write.

    Args:
        schema: all columns of the table.

    Attributes:
        has_moment: whether a condition names the time at which this object was made.

    Raises:
        UnsupportedFeatureError: a condition is not supported.
    """

    def __init__(self, schema: LanceSchema) -> None:
        self.has_moment = _names_moment((*checks_of(schema).values(), *generated_of(schema).values()))
        self._checks = {name: parsed_check(name, condition) for name, condition in checks_of(schema).items()}
        self._generations = _generations(schema)
        used = self.columns()
        arrow = to_arrow_schema(schema) if used else ()
        self._columns = [field for field in arrow if field.name.lower() in used]

    def columns(self) -> set[str]:
        """The names of the columns in conditions, and of generated ones and what they are made of, in lower case."""
        conditions = (*self._checks.values(), *self._generations.values())
        nodes = (node for check in conditions for node in check.walk())
        return {node.path[0].lower() for node in nodes if isinstance(node, Column)}

    def __call__(self, batch: pa.RecordBatch) -> None:
        """Passes if no row makes a condition FALSE, and all have the values of generated columns. Columns that the
        batch lacks are NULL.

        Raises:
            InvalidInputError: a row does not pass, or a condition fails on it; the message has the constraint.
        """
        if not batch.num_rows or not (self._checks or self._generations):
            return
        rows = nullable_rows(batch, self._columns)
        for name, check in self._checks.items():
            shown = _first_false(check, rows, f"CHECK constraint {name}")
            if shown is not None:
                raise InvalidInputError(
                    f"a row violates the CHECK constraint {name!r} ({check}): {shown}. Correct the row, or drop "
                    "the constraint"
                )
        for name, check in self._generations.items():
            shown = _first_false(check, rows, f"generated column {name}")
            if shown is not None:
                raise InvalidInputError(
                    f"a row has another value in the generated column {name!r} than its expression has ({check}): "
                    f"{shown}. Leave the column out of inserts, or write the value of the expression"
                )


def _names_moment(conditions: Sequence[str]) -> bool:
    if not conditions:
        return False
    from lance_spark.expr.sql.parse import has_moment

    return any(map(has_moment, conditions))


def _first_false(check: Expr, rows: pa.RecordBatch, name: str) -> str | None:
    """The values of the first row for which a condition is FALSE; None if there is no such row."""
    import pyarrow.compute as pc

    from lance_spark.expr.evaluate import evaluate
    from lance_spark.expr.values import as_boolean

    violated = pc.index(as_boolean(evaluate(check, rows), name), pa.scalar(False)).as_py()
    if violated < 0:
        return None
    used = {node.path[0].lower() for node in check.walk() if isinstance(node, Column)}
    values = (f"{field.name} = {rows[field.name][violated]}" for field in rows.schema if field.name.lower() in used)
    return ", ".join(values)[:200]
