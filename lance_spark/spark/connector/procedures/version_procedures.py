"""Procedures for versions, tags and branches."""

from __future__ import annotations

from pyspark.sql.types import LongType, MapType, StringType, TimestampType

from lance_spark.errors import InvalidInputError
from lance_spark.spark.connector.procedures.procedure_types import (
    FLAG,
    TABLE,
    TEXT,
    WHOLE,
    Invocation,
    Parameter,
    Procedure,
)
from lance_spark.spark.connector.scan.local_rows import LocalRows, row_type
from lance_spark.spark.jobs.compaction_job import AnyDataset
from lance_spark.table.refs.refs import Branch, Tag
from lance_spark.table.versions.version_summary import TableVersion

MAIN = "main"
"""The name of the main branch in results and arguments."""

_VERSION = row_type(version=LongType())
_ROLLED_BACK = row_type(previous_version=LongType(), version=LongType())
_NAME = row_type(name=StringType())
_TAG = row_type(
    name=StringType(),
    branch=StringType(),
    version=LongType(),
    created_at=TimestampType(),
    updated_at=TimestampType(),
    manifest_size=LongType(),
)
_BRANCH = row_type(
    name=StringType(),
    parent_branch=StringType(),
    parent_version=LongType(),
    created_at=TimestampType(),
    manifest_size=LongType(),
)
HISTORY = row_type(
    version=LongType(),
    timestamp=TimestampType(),
    operation=StringType(),
    read_version=LongType(),
    message=StringType(),
    num_rows=LongType(),
    num_fragments=LongType(),
    added_rows=LongType(),
    removed_rows=LongType(),
    num_bytes=LongType(),
    writer=StringType(),
    transaction=StringType(),
    properties=MapType(StringType(), StringType()),
)

_AT = (
    Parameter("version", WHOLE, "a version; the newest one if it is left out"),
    Parameter("from_branch", TEXT, "the branch that has the version; the table's own one if it is left out"),
    Parameter("from_tag", TEXT, "a tag instead of a version; none if it is left out"),
)
_TAG_NAME = Parameter("tag", TEXT, "name of the tag", required=True)
_BRANCH_NAME = Parameter("branch", TEXT, "name of the branch", required=True)
_IF_NOT_EXISTS = Parameter("if_not_exists", FLAG, "does nothing if there is one; false if it is left out")
_IF_EXISTS = Parameter("if_exists", FLAG, "does nothing if there is none; false if it is left out")


def history_rows(table: AnyDataset, limit: int | None = None) -> list[tuple[object, ...]]:
    """The versions of a branch or of a partitioned table, newest first, in the columns `HISTORY`."""
    return [_row(item) for item in table.versions(limit)[::-1]]


def _row(item: TableVersion) -> tuple[object, ...]:
    content, difference = item.content, item.difference
    return (
        item.version,
        item.timestamp,
        item.operation,
        item.read_version,
        item.message,
        None if content is None else content.num_rows,
        None if content is None else content.num_fragments,
        None if difference is None else difference.added_rows,
        None if difference is None else difference.removed_rows,
        None if content is None else content.num_bytes,
        None if item.writer is None else f"{item.writer.library} {item.writer.version}".strip(),
        item.transaction,
        dict(item.properties),
    )


def _tag_row(tag: Tag) -> tuple[object, ...]:
    return (tag.name, tag.branch or MAIN, tag.version, tag.created_at, tag.updated_at, tag.manifest_size)


def _branch_row(branch: Branch) -> tuple[object, ...]:
    return (branch.name, branch.parent or MAIN, branch.parent_version, branch.created_at, branch.manifest_size)


def _list_tags(call: Invocation) -> LocalRows:
    return LocalRows.of(_TAG, [_tag_row(tag) for _, tag in sorted(call.table().tags().items())])


def _list_branches(call: Invocation) -> LocalRows:
    return LocalRows.of(_BRANCH, [_branch_row(branch) for _, branch in sorted(call.table().branches().items())])


def _history(call: Invocation) -> LocalRows:
    limit = call.arguments.integer("limit")
    if limit is not None and limit < 0:
        raise InvalidInputError(f"there are no {limit} versions to show; give a limit of 0 or more")
    return LocalRows.of(HISTORY, history_rows(call.table(), limit))


def _restore(call: Invocation) -> LocalRows:
    table = call.table()
    version, tag = call.arguments.integer("version"), call.arguments.text("tag")
    if (version is None) == (tag is None):
        raise InvalidInputError("give the version to restore, or a tag")
    if tag is not None:
        named = table.versions_location.refs.tag(tag)
        if named.branch != table.versions_location.branch:
            raise InvalidInputError(f"tag {tag!r} is of branch {named.branch or MAIN}, not of this one")
        version = named.version
    return LocalRows.of(_VERSION, [(table.restore(version).version,)])


def _rollback(call: Invocation) -> LocalRows:
    table, version = call.table(), call.arguments.integer("version")
    if version is None:
        raise InvalidInputError("parameter version is null; give a version that the newest one descends from")
    newest = table.version
    return LocalRows.of(_ROLLED_BACK, [(newest, table.rollback_to_version(version).version)])


def _at(call: Invocation, table: AnyDataset) -> tuple[AnyDataset, int]:
    """The version that the parameters `version`, `from_branch` and `from_tag` choose, and a version of its branch."""
    version, branch = call.arguments.integer("version"), call.arguments.text("from_branch")
    tag = call.arguments.text("from_tag")
    if tag is not None and (version is not None or branch is not None):
        raise InvalidInputError("from_tag chooses a version by itself; leave version and from_branch out")
    if tag is None and branch is None:
        return table, table.version if version is None else version
    if tag is None:
        branch = None if branch == MAIN else branch
    else:
        named = table.versions_location.refs.tag(tag)
        branch, version = named.branch, named.version
    chosen = table.on_branch(branch)
    return chosen, chosen.version if version is None else version


def _create_tag(call: Invocation) -> LocalRows:
    table, name = call.table(), call.arguments.required("tag")
    if not (call.arguments.flag("if_not_exists") and name in table.tags()):
        of_branch, version = _at(call, table)
        of_branch.create_tag(name, version)
    return _the_tag(table, name)


def _update_tag(call: Invocation) -> LocalRows:
    table, name = call.table(), call.arguments.required("tag")
    of_branch, version = _at(call, table)
    of_branch.update_tag(name, version)
    return _the_tag(table, name)


def _the_tag(table: AnyDataset, name: str) -> LocalRows:
    return LocalRows.of(_TAG, [_tag_row(table.tags()[name])])


def _drop_tag(call: Invocation) -> LocalRows:
    table, name = call.table(), call.arguments.required("tag")
    if not call.arguments.flag("if_exists") or name in table.tags():
        table.delete_tag(name)
    return LocalRows.of(_NAME, [(name,)])


def _create_branch(call: Invocation) -> LocalRows:
    table, name = call.table(), call.arguments.required("branch")
    if not (call.arguments.flag("if_not_exists") and name in table.branches()):
        of_branch, version = _at(call, table)
        of_branch.create_branch(name, version)
    return LocalRows.of(_BRANCH, [_branch_row(table.branches()[name])])


def _drop_branch(call: Invocation) -> LocalRows:
    table, name = call.table(), call.arguments.required("branch")
    if not call.arguments.flag("if_exists") or name in table.branches():
        table.delete_branch(name, force=bool(call.arguments.flag("force")))
    return LocalRows.of(_NAME, [(name,)])


PROCEDURES = (
    Procedure(
        "history",
        "The versions of a branch, newest first.",
        (TABLE, Parameter("limit", WHOLE, "at most this many versions; all if it is left out")),
        _history,
    ),
    Procedure(
        "restore",
        "Makes a new version with the content of an old one.",
        (
            TABLE,
            Parameter("version", WHOLE, "the version to restore; that of the tag if it is left out"),
            Parameter("tag", TEXT, "the tag of the version to restore; left out if there is a version"),
        ),
        _restore,
        changes_table=True,
    ),
    Procedure(
        "rollback_to_version",
        "Makes a new version with the content of one that the newest version descends from.",
        (TABLE, Parameter("version", WHOLE, "the version to go back to", required=True)),
        _rollback,
        changes_table=True,
    ),
    Procedure(
        "create_tag", "Names a version.", (TABLE, _TAG_NAME, *_AT, _IF_NOT_EXISTS), _create_tag, changes_table=True
    ),
    Procedure(
        "update_tag", "Gives a tag to another version.", (TABLE, _TAG_NAME, *_AT), _update_tag, changes_table=True
    ),
    Procedure(
        "drop_tag", "Removes a tag, not its version.", (TABLE, _TAG_NAME, _IF_EXISTS), _drop_tag, changes_table=True
    ),
    Procedure("list_tags", "The tags of a table.", (TABLE,), _list_tags),
    Procedure(
        "create_branch",
        "Begins a branch at a version.",
        (TABLE, _BRANCH_NAME, *_AT, _IF_NOT_EXISTS),
        _create_branch,
        changes_table=True,
    ),
    Procedure(
        "drop_branch",
        "Removes a branch with its versions.",
        (
            TABLE,
            _BRANCH_NAME,
            _IF_EXISTS,
            Parameter("force", FLAG, "removes one that was half made, too; false if it is left out"),
        ),
        _drop_branch,
        changes_table=True,
    ),
    Procedure("list_branches", "The branches of a table, without the main one.", (TABLE,), _list_branches),
)
