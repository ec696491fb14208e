"""Procedures on versions, tags and branches."""

from __future__ import annotations

from pyspark.sql.types import LongType, MapType, StringType, TimestampType

from lance_spark.errors import InvalidInputError
from lance_spark.spark.bridge.local_rows import LocalRows, row_type
from lance_spark.spark.bridge.procedure_types import FLAG, TABLE, TEXT, WHOLE, Invocation, Parameter, Procedure
from lance_spark.table.dataset import Dataset

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


def history_rows(table: Dataset) -> list[tuple[object, ...]]:
    """The versions of a branch, newest first, in the columns `HISTORY`."""
    rows: list[tuple[object, ...]] = []
    for item in reversed(table.versions()):
        difference = item.difference
        writer = None if item.writer is None else f"{item.writer.library} {item.writer.version}".strip()
        rows.append(
            (
                item.version,
                item.timestamp,
                item.operation,
                item.read_version,
                item.message,
                item.content.num_rows,
                item.content.num_fragments,
                None if difference is None else difference.added_rows,
                None if difference is None else difference.removed_rows,
                item.content.num_bytes,
                writer,
                item.transaction,
                dict(item.properties),
            )
        )
    return rows


def tag_rows(table: Dataset) -> list[tuple[object, ...]]:
    """The tags, in the columns of `list_tags`."""
    return [(name, tag.branch or "main", tag.version) for name, tag in sorted(table.tags().items())]


def branch_rows(table: Dataset) -> list[tuple[object, ...]]:
    """The branches, the main one first, in the columns of `list_branches`."""
    rows: list[tuple[object, ...]] = []
    for name, branch in [(None, None), *sorted(table.branches().items())]:
        newest = table.location.on_branch(name).latest()
        version = None if newest is None else newest.version
        if branch is None:
            rows.append(("main", None, None, version, None))
        else:
            rows.append((name, branch.parent or "main", branch.parent_version, version, branch.created_at))
    return rows


def _history(call: Invocation) -> LocalRows:
    limit = call.arguments.whole("limit")
    return LocalRows.of(HISTORY, history_rows(call.dataset())[:limit])


def _restore(call: Invocation) -> LocalRows:
    table = call.dataset()
    version, tag = call.arguments.whole("version"), call.arguments.text("tag")
    if (version is None) == (tag is None):
        raise InvalidInputError("give the version to restore, or a tag")
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
        location = location.on_branch(None if branch == "main" else branch)
    elif version is None:
        return table
    return Dataset(
        location, location.history.load_latest().manifest if version is None else location.at(version).manifest
    )


def _create_tag(call: Invocation) -> LocalRows:
    table, name = call.dataset(), call.arguments.required("tag")
    if not (call.arguments.flag("if_not_exists") and name in table.tags()):
        _at(call, table).create_tag(name)
    return _the_tag(table, name)


def _update_tag(call: Invocation) -> LocalRows:
    table, name = call.dataset(), call.arguments.required("tag")
    _at(call, table).update_tag(name)
    return _the_tag(table, name)


def _the_tag(table: Dataset, name: str) -> LocalRows:
    tag = table.location.refs.tag(name)
    return LocalRows.of(_TAG, [(name, tag.branch or "main", tag.version)])


def _drop_tag(call: Invocation) -> LocalRows:
    table, name = call.dataset(), call.arguments.required("tag")
    if not call.arguments.flag("if_exists") or name in table.tags():
        table.delete_tag(name)
    return LocalRows.of(_TAG, tag_rows(table))


def _create_branch(call: Invocation) -> LocalRows:
    table, name = call.dataset(), call.arguments.required("branch")
    if not (call.arguments.flag("if_not_exists") and name in table.branches()):
        _at(call, table).create_branch(name)
    return LocalRows.of(_BRANCH, [row for row in branch_rows(table) if row[0] == name])


def _drop_branch(call: Invocation) -> LocalRows:
    table, name = call.dataset(), call.arguments.required("branch")
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
    ),
    Procedure("create_tag", "Names a version.", (TABLE, _TAG_NAME, *_AT, _IF_NOT_EXISTS), _create_tag),
    Procedure("update_tag", "Gives a tag to another version.", (TABLE, _TAG_NAME, *_AT), _update_tag),
    Procedure("drop_tag", "Removes a tag, not its version.", (TABLE, _TAG_NAME, _IF_EXISTS), _drop_tag),
    Procedure(
        "list_tags",
        "The tags of a table.",
        (TABLE,),
        lambda call: LocalRows.of(_TAG, tag_rows(call.dataset())),
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
        lambda call: LocalRows.of(_BRANCH, branch_rows(call.dataset())),
    ),
)
