"""Procedures between branches: comparisons, fast-forwards, picked versions."""

from __future__ import annotations

from pyspark.sql.types import LongType, StringType

from lance_spark.spark.connector.procedures.procedure_types import TABLE, TEXT, Invocation, Parameter, Procedure
from lance_spark.spark.connector.scan.local_rows import LocalRows, row_type

_FORWARDED = row_type(branch=StringType(), previous_version=LongType(), version=LongType())
_CHANGE = row_type(change=StringType(), rows=LongType())


def _fast_forward(call: Invocation) -> LocalRows:
    branch, to = call.arguments.required("branch"), call.arguments.required("to")
    table = call.table()
    before = table.on_branch(branch).version
    return LocalRows.of(_FORWARDED, [(branch, before, table.fast_forward(branch, to).version)])


def _compare(call: Invocation) -> LocalRows:
    left, right = call.arguments.required("left"), call.arguments.required("right")
    changes = call.table().compare_branches(left, right)
    return LocalRows.of(_CHANGE, [(item.change, item.rows) for item in changes])


PROCEDURES = (
    Procedure(
        "fast_forward",
        "Gives a branch the content of another one that contains its newest version; main is published by it.",
        (
            TABLE,
            Parameter("branch", TEXT, "the branch that gets a version; main is the main branch", required=True),
            Parameter("to", TEXT, "the branch with the content", required=True),
        ),
        _fast_forward,
        changes_table=True,
    ),
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
