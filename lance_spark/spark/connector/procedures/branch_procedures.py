"""Procedures between branches: comparisons, fast-forwards, picked versions."""

from __future__ import annotations

from pyspark.sql.types import LongType, StringType

from lance_spark.errors import InvalidInputError
from lance_spark.spark.connector.procedures.procedure_types import TABLE, TEXT, WHOLE, Invocation, Parameter, Procedure
from lance_spark.spark.connector.scan.local_rows import LocalRows, row_type
from lance_spark.table.refs.refs import MAIN

_FORWARDED = row_type(branch=StringType(), previous_version=LongType(), version=LongType())
_PICKED = row_type(picked_version=LongType(), branch=StringType(), version=LongType())
_PUBLISHED = row_type(wap_id=StringType(), version=LongType())
_CHANGE = row_type(change=StringType(), rows=LongType())


def _fast_forward(call: Invocation) -> LocalRows:
    branch, to = call.arguments.required("branch"), call.arguments.required("to")
    table = call.table()
    before = table.on_branch(branch).version
    return LocalRows.of(_FORWARDED, [(branch, before, table.fast_forward(branch, to).version)])


def _cherrypick(call: Invocation) -> LocalRows:
    version = call.arguments.integer("version")
    if version is None:
        raise InvalidInputError("parameter version is null; give the version to pick")
    table, onto = call.table(), call.arguments.text("onto")
    made = table.cherrypick(version, call.arguments.text("branch"), onto)
    return LocalRows.of(_PICKED, [(version, made.branch or MAIN, made.version)])


def _publish(call: Invocation) -> LocalRows:
    wap_id = call.arguments.required("wap_id")
    return LocalRows.of(_PUBLISHED, [(wap_id, call.table().publish_changes(wap_id).version)])


def _compare(call: Invocation) -> LocalRows:
    left, right = call.arguments.required("left"), call.arguments.required("right")
    changes = call.table().compare_branches(left, right)
    return LocalRows.of(_CHANGE, [(item.change, item.rows) for item in changes])


PROCEDURES = (
    Procedure(
        "publish_changes",
        "Publishes what was staged by writes of sessions with the setting spark.wap.id.",
        (TABLE, Parameter("wap_id", TEXT, "the id", required=True)),
        _publish,
        changes_table=True,
    ),
    Procedure(
        "cherrypick",
        "Makes the change of one version, which added, deleted, updated or merged rows, on a branch.",
        (
            TABLE,
            Parameter("version", WHOLE, "the version to pick", required=True),
            Parameter("branch", TEXT, "the branch that has it; that of the table if it is left out"),
            Parameter("onto", TEXT, "the branch that gets the change; that of the table if it is left out"),
        ),
        _cherrypick,
        changes_table=True,
    ),
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
