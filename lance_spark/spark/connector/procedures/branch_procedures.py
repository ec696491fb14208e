"""Procedures between branches: comparisons, fast-forwards, picked versions."""

from __future__ import annotations

from pyspark.sql.types import LongType, StringType

from lance_spark.spark.connector.procedures.procedure_types import TABLE, TEXT, Invocation, Parameter, Procedure
from lance_spark.spark.connector.scan.local_rows import LocalRows, row_type

_CHANGE = row_type(change=StringType(), rows=LongType())


def _compare(call: Invocation) -> LocalRows:
    left, right = call.arguments.required("left"), call.arguments.required("right")
    changes = call.table().compare_branches(left, right)
    return LocalRows.of(_CHANGE, [(item.change, item.rows) for item in changes])


PROCEDURES = (
    Procedure(
        "compare_branches",
        "The numbers of rows that one branch has added, deleted and updated beside another.",
        (
            TABLE,
            Parameter("left", TEXT, "the branch to compare with; main is the main branch", required=True),
            Parameter("right", TEXT, "the branch with the changes; main is the main branch", required=True),
        ),
        _compare,
    ),
)
