"""Versions of a partitioned table: those of its `__manifest`. What made them, restoring one, and tags on them."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from lance_spark.errors import LanceError, NotFoundError
from lance_spark.namespace.partition_columns import MAX_FIELD_ID, next_field_id
from lance_spark.namespace.partition_commit import OPERATION, commit_rows, named
from lance_spark.namespace.partition_index import Partition
from lance_spark.namespace.partition_save import run_on_newest
from lance_spark.namespace.partition_spec import PartitionSpecs, is_partitioned
from lance_spark.namespace.partitioned_table import PartitionedTable, open_partitioned
from lance_spark.table.fragment import FragmentList
from lance_spark.table.refs import Tag
from lance_spark.table.versions.tagging import create_tag as tag_version
from lance_spark.table.versions.tagging import delete_tag as delete_version_tag
from lance_spark.table.versions.tagging import update_tag as update_version_tag
from lance_spark.table.versions.version_summary import (
    Content,
    Difference,
    TableVersion,
    content_of,
    difference_of,
    version_summaries,
)
from lance_spark.table.writing.save import CommitOptions

MAX_MANIFESTS = 10_000
"""So many manifests of partitions are read at most to tell what versions hold."""

RESTORE_GUARD = "lance-restore-"
"""How the names of tags begin that a restore makes for as long as it works."""


@dataclass(frozen=True, slots=True)
class WholeVersion:
    """A version of the whole.

    Attributes:
        entry: the version of `__manifest`; what that tells of rows is about the rows of `__manifest`.
        operation: what made it: "append", "overwrite", "update", "delete", "rewrite", "columns", "partitioning",
            "restore", or what made the version of `__manifest`.
        properties: of the transaction, without that.
        content: how much all partitions hold; None if that is not known.
        difference: what the version has changed in them; None if that is not known.
    """

    entry: TableVersion
    operation: str
    properties: Mapping[str, str]
    content: Content | None
    difference: Difference | None


def versions(table: PartitionedTable) -> list[TableVersion]:
    """All versions of `__manifest`, oldest first. What they tell of rows is about the rows of `__manifest`.

    Raises:
        CorruptFileError: a manifest contradicts the format.
    """
    return version_summaries(table.catalog.table.history)


def history(table: PartitionedTable, limit: int | None = None, *, contents: bool = True) -> list[WholeVersion]:
    """The versions of the whole, newest first.

    What they hold is told of the newest ones, for which no more than `MAX_MANIFESTS` manifests have to be read.

    Args:
        limit: so many versions at most.
        contents: whether to look at what they hold at all.

    Raises:
        CorruptFileError: a manifest contradicts the format.
    """
    parts = _Fragments(table)
    told: list[WholeVersion] = []
    for entry in versions(table)[::-1][:limit]:
        now = parts.at(entry.version) if contents else None
        before = None if now is None or entry.version == 1 else parts.at(entry.version - 1)
        properties = dict(entry.properties)
        told.append(
            WholeVersion(
                entry,
                properties.pop(OPERATION, entry.operation),
                properties,
                None if now is None else _content(now),
                None if now is None or before is None else _difference(before, now),
            )
        )
    return told


_Parts = dict[str, FragmentList]
"""The fragments of each partition, by what `__manifest` names."""


class _Fragments:
    """What is in the partitions that versions of the whole name; each manifest is read once."""

    def __init__(self, table: PartitionedTable) -> None:
        self._table = table
        self._versions: dict[int, _Parts | None] = {}
        self._known: dict[tuple[object, ...], FragmentList] = {}

    def at(self, number: int) -> _Parts | None:
        """By location; None if the version is not there, or too many manifests would have to be read."""
        if number not in self._versions:
            self._versions[number] = self._load(number)
        return self._versions[number]

    def _load(self, number: int) -> _Parts | None:
        table = self._table
        try:
            found = table.catalog.at(table.catalog.table.at(number).manifest)
            if not is_partitioned(found.properties):
                return {}
            whole = PartitionedTable(table.root, table.storage_options, table.catalog, found)
            named = {_named(item): item for item in whole.index.partitions}
            new = [item for key, item in named.items() if key not in self._known]
            if len(self._known) + len(new) > MAX_MANIFESTS:
                return None
            for opened in whole.open_all(new):
                self._known[_named(opened.partition)] = opened.manifest.fragments
        except NotFoundError:
            return None  # A clean-up has taken the version, or what it named.
        return {item.location: self._known[key] for key, item in named.items()}


def _named(item: Partition) -> tuple[object, ...]:
    return item.location, item.version, item.branch, item.tag


def _content(parts: _Parts) -> Content:
    found = [content_of(fragments) for fragments in parts.values()]
    return Content(
        num_fragments=sum(part.num_fragments for part in found),
        num_data_files=sum(part.num_data_files for part in found),
        num_rows=_total([part.num_rows for part in found]),
        num_deleted_rows=sum(part.num_deleted_rows for part in found),
        num_bytes=sum(part.num_bytes for part in found),
    )


def _difference(before: _Parts, after: _Parts) -> Difference:
    nothing = FragmentList(())
    found = [
        difference_of(before.get(location, nothing), after.get(location, nothing))
        for location in before.keys() | after.keys()
        if before.get(location) is not after.get(location)
    ]
    return Difference(
        added_fragments=sum(part.added_fragments for part in found),
        removed_fragments=sum(part.removed_fragments for part in found),
        added_data_files=sum(part.added_data_files for part in found),
        removed_data_files=sum(part.removed_data_files for part in found),
        added_rows=_total([part.added_rows for part in found]),
        removed_rows=_total([part.removed_rows for part in found]),
    )


def _total(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def restore(table: PartitionedTable, version: int, options: CommitOptions | None = None) -> PartitionedTable:
    """The new version that has the rows and columns of `version`; specs that came since stay for rows to come.

    Raises:
        NotFoundError: there is no such version.
        RetryableConflictError: other writers were always first. Nothing was changed.
        CommitStateUnknownError: the store never said whether the version was committed.
        StorageError: the store failed. Nothing was changed.
    """
    location = table.catalog.table
    # A clean-up at the same time spares what has a tag, and with it all versions of partitions that it names.
    guard = f"{RESTORE_GUARD}{secrets.token_hex(8)}"
    tag_version(location, guard, version)
    try:
        old = open_partitioned(table.root, version=version, storage_options=table.storage_options)

        def once(whole: PartitionedTable) -> PartitionedTable:
            specs = PartitionSpecs(old.lance_schema, whole.specs.specs)
            used = max(next_field_id(whole), next_field_id(old)) - 1
            return commit_rows(whole, old.rows, specs, named(options, "restore"), properties={MAX_FIELD_ID: str(used)})

        return run_on_newest(table.newest(), options, once)
    finally:
        _quietly(lambda: delete_version_tag(location, guard))


def tags(table: PartitionedTable) -> dict[str, Tag]:
    """The tags of the whole by name."""
    return table.catalog.table.refs.tags()


def create_tag(table: PartitionedTable, name: str, version: int | None = None) -> None:
    """Names a version of the whole, that of `table` if None; the clean-up spares it with all of its partitions.

    Raises:
        NotFoundError: there is no such version.
        InvalidInputError: the tag exists, or no tag can have this name.
        StorageError: the store failed; the tag may exist.
    """
    tag_version(table.catalog.table, name, table.version if version is None else version)


def update_tag(table: PartitionedTable, name: str, version: int | None = None) -> None:
    """Gives a tag another version. Raises as `create_tag`."""
    update_version_tag(table.catalog.table, name, table.version if version is None else version)


def delete_tag(table: PartitionedTable, name: str) -> None:
    """Removes a tag; the version stays.

    Raises:
        NotFoundError: there is no such tag.
        StorageError: the store failed.
    """
    delete_version_tag(table.catalog.table, name)


def _quietly(act: Callable[[], None]) -> None:
    try:
        act()
    except LanceError:
        return  # A tag that is left spares a version; it must not hide what has happened.
