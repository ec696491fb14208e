"""Table constraints of Spark: CHECK is kept and enforced, all others are refused."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from lance_spark.errors import UnsupportedFeatureError
from lance_spark.schema.arrow import from_arrow_schema
from lance_spark.schema.constraints import CHECK_PREFIX, checks_of
from lance_spark.schema.field import LanceSchema
from lance_spark.table.columns.check_constraints import schema_with_check
from lance_spark.table.writing.checks import parsed_check

_log = logging.getLogger(__name__)

_ADVICE = {
    "PRIMARYKEY": "Lance has a primary key that is not enforced: ALTER TABLE ... SET UNENFORCED PRIMARY KEY",
    "UNIQUE": "MERGE INTO keeps rows unique by their keys",
    "FOREIGNKEY": "check it by a join",
}


@dataclass(frozen=True, slots=True)
class TableConstraint:
    """A constraint as Spark describes it.

    Attributes:
        kind: CHECK, PRIMARYKEY, UNIQUE or FOREIGNKEY.
        condition: SQL, of a CHECK.
    """

    name: str
    kind: str = "CHECK"
    condition: str | None = None
    enforced: bool = True

    def required_condition(self) -> str:
        """The condition of a CHECK that is enforced.

        Raises:
            UnsupportedFeatureError: it is another constraint.
        """
        if self.condition is None:
            advice = _ADVICE.get(self.kind, "use CHECK")
            raise UnsupportedFeatureError(
                f"constraint {self.name!r}: tables have CHECK constraints only; {advice}",
                feature=f"constraint {self.kind}",
            )
        if not self.enforced:
            raise UnsupportedFeatureError(
                f"constraint {self.name!r}: a CHECK is always enforced; leave NOT ENFORCED out",
                feature="CHECK NOT ENFORCED",
            )
        return self.condition


def with_constraints(columns: pa.Schema, constraints: Sequence[TableConstraint]) -> pa.Schema:
    """The columns of a new table with its constraints in the metadata.

    Raises:
        InvalidInputError: two have one name, or one does not fit the columns.
        UnsupportedFeatureError: one is not a CHECK that can be enforced.
    """
    if not constraints:
        return columns
    schema = from_arrow_schema(columns.remove_metadata())
    for constraint in constraints:
        schema = schema_with_check(schema, constraint.name, constraint.required_condition())
    entries = {CHECK_PREFIX + name: condition for name, condition in checks_of(schema).items()}
    kept = {key.decode(): value.decode() for key, value in (columns.metadata or {}).items()}
    return columns.with_metadata({**kept, **entries})


def constraints_of(schema: LanceSchema) -> tuple[TableConstraint, ...]:
    """The constraints that Spark may evaluate; others stop writes, when the rows are checked."""
    found = []
    for name, condition in checks_of(schema).items():
        try:
            parsed_check(name, condition)
        except UnsupportedFeatureError as error:
            _log.warning("%s", error)
        else:
            found.append(TableConstraint(name, condition=condition))
    return tuple(found)
