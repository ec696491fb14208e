"""Procedures on versions, tags and branches."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.types import LongType, MapType, StringType, TimestampType

from lance_spark.errors import InvalidInputError
from lance_spark.namespace.partition_history import create_tag, delete_tag, history, restore, tags, update_tag
from lance_spark.namespace.partitioned_table import PartitionedTable
from lance_spark.spark.bridge.local_rows import LocalRows, row_type
from lance_spark.spark.bridge.partitioned_procedures import MAIN, at, without_branches
from lance_spark.spark.bridge.partitioned_procedures import tag_rows as whole_tag_rows
from lance_spark.spark.bridge.procedure_types import FLAG, TABLE, TEXT, WHOLE, Invocation, Parameter, Procedure
from lance_spark.table.dataset import Dataset
from lance_spark.table.refs import Tag
from lance_spark.table.versions.version_summary import Content, Difference, TableVersion

_VERSION = row_type(version=LongType())
_TAG = row_type(tag=StringType(), branch=StringType(), version=LongType())
_BRANCH = row_type(
    branch=StringType(), parent=StringType(), parent_version=LongType(), version=LongType(), created_at=TimestampType()
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
    Parameter("from_tag", TEXT, "a tag instead of a version"),
)
_TAG_NAME = Parameter("tag", TEXT, "name of the tag", required=True)
_BRANCH_NAME = Parameter("branch", TEXT, "name of the branch", required=True)
_IF_NOT_EXISTS = Parameter("if_not_exists", FLAG, "do nothing if there is one")
_IF_EXISTS = Parameter("if_exists", FLAG, "do nothing if there is none")


def history_rows(table: Dataset | PartitionedTable, limit: int | None = None) -> list[tuple[object, ...]]:
    """The versions of a branch or of a partitioned table, newest first, in the columns `HISTORY`."""
    if isinstance(table, PartitionedTable):
        found = history(table, limit)
        return [_row(item.entry, item.operation, item.properties, item.content, item.difference) for item in found]
    return [
        _row(item, item.operation, item.properties, item.content, item.difference)
        for item in reversed(table.versions(limit))
    ]


def _row(
    item: TableVersion,
    operation: str,
    properties: Mapping[str, str],
    content: Content | None,
    difference: Difference | None,
) -> tuple[object, ...]:
    return (
        item.version,
        item.timestamp,
        operation,
        item.read_version,
        item.message,
        None if content is None else content.num_rows,
        None if content is None else content.num_fragments,
        None if difference is None else difference.added_rows,
        None if difference is None else difference.removed_rows,
        None if content is None else content.num_bytes,
        None if item.writer is None else f"{item.writer.library} {item.writer.version}".strip(),
        item.transaction,
        dict(properties),
    )


def tag_rows(table: Dataset | PartitionedTable) -> list[tuple[object, ...]]:
    """The tags, in the columns of `list_tags`."""
    if isinstance(table, PartitionedTable):
        return whole_tag_rows(table)
    return [(name, tag.branch or MAIN, tag.version) for name, tag in sorted(table.tags().items())]


def branch_rows(table: Dataset | PartitionedTable) -> list[tuple[object, ...]]:
    """The branches, the main one first, in the columns of `list_branches`."""
    if isinstance(table, PartitionedTable):
        return [(MAIN, None, None, table.version, None)]
    rows: list[tuple[object, ...]] = []
    for name, branch in [(None, None), *sorted(table.branches().items())]:
        newest = table.location.on_branch(name).latest()
        version = None if newest is None else newest.version
        if branch is None:
            rows.append((MAIN, None, None, version, None))
        else:
            rows.append((name, branch.parent or MAIN, branch.parent_version, version, branch.created_at))
    return rows


def _history(call: Invocation) -> LocalRows:
    limit = call.arguments.whole("limit")
    if limit is not None and limit < 0:
        raise InvalidInputError(f"there are no {limit} versions to show; give a limit of 0 or more")
    return LocalRows.of(HISTORY, history_rows(call.table(), limit))


def _restore(call: Invocation) -> LocalRows:
    table = call.table()
    version, tag = call.arguments.whole("version"), call.arguments.text("tag")
    if (version is None) == (tag is None):
        raise InvalidInputError("give the version to restore, or a tag")
    if isinstance(table, PartitionedTable):
        wanted = table.catalog.table.refs.tag(tag).version if version is None and tag is not None else version
        assert wanted is not None, "one of the two is given"
        return LocalRows.of(_VERSION, [(restore(table, wanted).version,)])
    if tag is not None:
        named = table.location.refs.tag(tag)
        if named.branch != table.branch:
            raise InvalidInputError(f"tag {tag!r} is of branch {named.branch or 'main'}, not of this one")
        version = named.version
    return LocalRows.of(_VERSION, [(table.restore(version).version,)])


def _at(call: Invocation, table: Dataset) -> Dataset:
    """The version that the parameters `version`, `from_branch` and `from_tag` choose."""
    version, branch = call.arguments.whole("version"), call.arguments.text("from_branch")
    tag = call.arguments.text("from_tag")
    location = table.location
    if tag is not None:
        if version is not None or branch is not None:
            raise InvalidInputError("from_tag chooses a version by itself; leave version and from_branch out")
        named = location.refs.tag(tag)
        location, version = location.on_branch(named.branch), named.version
    elif branch is not None:
        location = location.on_branch(None if branch == MAIN else branch)
    elif version is None:
        return table
    return Dataset(
        location, location.history.load_latest().manifest if version is None else location.at(version).manifest
    )


def _create_tag(call: Invocation) -> LocalRows:
    table, name = call.table(), call.arguments.required("tag")
    if not (call.arguments.flag("if_not_exists") and name in _tags(table)):
        if isinstance(table, PartitionedTable):
            create_tag(table, name, at(table, call.arguments))
        else:
            _at(call, table).create_tag(name)
    return _the_tag(table, name)


def _update_tag(call: Invocation) -> LocalRows:
    table, name = call.table(), call.arguments.required("tag")
    if isinstance(table, PartitionedTable):
        update_tag(table, name, at(table, call.arguments))
    else:
        _at(call, table).update_tag(name)
    return _the_tag(table, name)


def _the_tag(table: Dataset | PartitionedTable, name: str) -> LocalRows:
    tag = _tags(table)[name]
    return LocalRows.of(_TAG, [(name, tag.branch or MAIN, tag.version)])


def _drop_tag(call: Invocation) -> LocalRows:
    table, name = call.table(), call.arguments.required("tag")
    if not call.arguments.flag("if_exists") or name in _tags(table):
        if isinstance(table, PartitionedTable):
            delete_tag(table, name)
        else:
            table.delete_tag(name)
    return LocalRows.of(_TAG, tag_rows(table))


def _tags(table: Dataset | PartitionedTable) -> dict[str, Tag]:
    return tags(table) if isinstance(table, PartitionedTable) else table.tags()


def _branching(call: Invocation) -> Dataset:
    """The table, if it can have branches."""
    table = call.table()
    if isinstance(table, PartitionedTable):
        raise without_branches(table)
    return table


def _create_branch(call: Invocation) -> LocalRows:
    table, name = _branching(call), call.arguments.required("branch")
    if not (call.arguments.flag("if_not_exists") and name in table.branches()):
        _at(call, table).create_branch(name)
    return LocalRows.of(_BRANCH, [row for row in branch_rows(table) if row[0] == name])


def _drop_branch(call: Invocation) -> LocalRows:
    table, name = _branching(call), call.arguments.required("branch")
    if not call.arguments.flag("if_exists") or name in table.branches():
        table.delete_branch(name, force=bool(call.arguments.flag("force")))
    return LocalRows.of(_BRANCH, branch_rows(table))


PROCEDURES = (
    Procedure(
        "history",
        "The versions of a branch, newest first.",
        (TABLE, Parameter("limit", WHOLE, "so many versions at most")),
        _history,
    ),
    Procedure(
        "restore",
        "Makes a new version with the content of an old one.",
        (
            TABLE,
            Parameter("version", WHOLE, "the version to restore"),
            Parameter("tag", TEXT, "the tag of the version to restore"),
        ),
        _restore,
        changes_rows=True,
    ),
    Procedure("create_tag", "Names a version.", (TABLE, _TAG_NAME, *_AT, _IF_NOT_EXISTS), _create_tag),
    Procedure("update_tag", "Gives a tag to another version.", (TABLE, _TAG_NAME, *_AT), _update_tag),
    Procedure("drop_tag", "Removes a tag, not its version.", (TABLE, _TAG_NAME, _IF_EXISTS), _drop_tag),
    Procedure(
        "list_tags",
        "The tags of a table.",
        (TABLE,),
        lambda call: LocalRows.of(_TAG, tag_rows(call.table())),
    ),
    Procedure(
        "create_branch", "Begins a branch at a version.", (TABLE, _BRANCH_NAME, *_AT, _IF_NOT_EXISTS), _create_branch
    ),
    Procedure(
        "drop_branch",
        "Removes a branch with its versions.",
        (TABLE, _BRANCH_NAME, _IF_EXISTS, Parameter("force", FLAG, "remove one that was half made, too")),
        _drop_branch,
    ),
    Procedure(
        "list_branches",
        "The branches of a table.",
        (TABLE,),
        lambda call: LocalRows.of(_BRANCH, branch_rows(call.table())),
    ),
)
