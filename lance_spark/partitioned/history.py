"""Versions of a partitioned table, from its `__manifest`: their history, and restoring one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

from lance_spark.errors import NotFoundError
from lance_spark.partitioned.columns import next_field_id
from lance_spark.partitioned.commit import commit_rows, with_operation_name
from lance_spark.partitioned.manifest_index import NamedVersion, Partition
from lance_spark.partitioned.names import MAX_FIELD_ID
from lance_spark.partitioned.spec import PartitionSpecs, is_partitioned
from lance_spark.partitioned.table import PartitionedTable, open_partitioned
from lance_spark.storage.overlap import overlapped
from lance_spark.table.commits.retry import retry_on_conflict
from lance_spark.table.operations.base import OperationKind
from lance_spark.table.publishing.lineage import RESTORED
from lance_spark.table.refs.tagging import kept_while_restored
from lance_spark.table.versions.version_summary import (
    Content,
    Difference,
    Measured,
    TableVersion,
    version_summaries,
    without_rewritten_rows,
)
from lance_spark.table.writing.save import CommitOptions

MAX_MANIFESTS = 10_000
"""The most manifests of partitions that are read to report the content of versions."""

_AT_ONCE = 16


def history(table: PartitionedTable, limit: int | None = None, *, contents: bool = True) -> list[TableVersion]:
    """The versions of the table, newest first, with the operation, content and difference of all its partitions.

    `content` and `difference` are None for older versions that need more than `MAX_MANIFESTS` manifests to be read.

    Args:
        limit: at most this many versions; no more is read than they need.
        contents: False leaves them out of all versions.

    Raises:
        CorruptFileError: a manifest contradicts the format.
    """
    entries = version_summaries(table.versions_location.history, limit)[::-1]
    numbers = [entry.version for entry in entries]
    if numbers and numbers[-1] > 1:
        numbers.append(numbers[-1] - 1)
    parts = _measured(table, numbers) if contents else {}
    parts[0] = {}
    return [_version(entry, parts.get(entry.version), parts.get(entry.version - 1)) for entry in entries]


def _version(entry: TableVersion, now: _Parts | None, before: _Parts | None) -> TableVersion:
    """An entry of the history of `__manifest` with what its version means for the table."""
    operation = entry.operation
    difference = None if now is None or before is None else _difference(before, now)
    if operation == OperationKind.REWRITE.value:
        difference = without_rewritten_rows(difference)
    content = None if now is None else _content(now)
    return replace(entry, content=content, difference=difference)


_Parts = dict[str, Measured]
"""The fragments of each partition, by its location."""


def _measured(table: PartitionedTable, numbers: Sequence[int]) -> dict[int, _Parts]:
    """Measured fragments of partitions by version of the table, newest first; each manifest is read once.

    Versions that a clean-up has taken are left out, and those that need more than `MAX_MANIFESTS` manifests with the
    newer ones.
    """
    by_version: dict[int, _Parts] = {}
    measured: dict[NamedVersion, Measured | None] = {}
    for start in range(0, len(numbers), _AT_ONCE):
        batch = numbers[start : start + _AT_ONCE]
        loaded = dict(zip(batch, overlapped(lambda number: _partitions(table, number), batch, _AT_ONCE), strict=True))
        opened = {number: items for number, items in loaded.items() if items is not None}
        chosen = _within_limit(opened, measured)
        new = {key: item for items in chosen.values() for key, item in items.items() if key not in measured}
        measured.update(_measured_partitions(table, new, measured))
        for number, items in chosen.items():
            parts = {item.location: measured[key] for key, item in items.items()}
            complete = {location: part for location, part in parts.items() if part is not None}
            if len(complete) == len(parts):
                by_version[number] = complete
        if len(chosen) < len(opened):
            break
    return by_version


def _within_limit(
    opened: Mapping[int, Mapping[NamedVersion, Partition]], known: Mapping[NamedVersion, object]
) -> dict[int, Mapping[NamedVersion, Partition]]:
    """The newest of some versions, for which no more than `MAX_MANIFESTS` manifests are read in all."""
    chosen: dict[int, Mapping[NamedVersion, Partition]] = {}
    needed = set(known)
    for number, items in opened.items():
        needed.update(items)
        if len(needed) > MAX_MANIFESTS:
            break
        chosen[number] = items
    return chosen


def _partitions(table: PartitionedTable, number: int) -> dict[NamedVersion, Partition] | None:
    """The partitions that a version of the table names; None if a clean-up has taken it."""
    try:
        version = table.catalog.at(table.catalog.table.at(number).manifest)
        if not is_partitioned(version.properties):
            return {}
        current = PartitionedTable(table.root, table.storage_options, table.catalog, version)
        return {item.named_version: item for item in current.index.partitions}
    except NotFoundError:
        return None


def _measured_partitions(
    table: PartitionedTable, wanted: Mapping[NamedVersion, Partition], known: Mapping[NamedVersion, Measured | None]
) -> dict[NamedVersion, Measured | None]:
    """Measured fragments of versions of partitions; None for a version that a clean-up has removed."""

    def fragments(item: Partition) -> tuple[bytes, ...] | None:
        try:
            return table.summary(item).fragments
        except NotFoundError:
            return None

    read = overlapped(fragments, list(wanted.values()), _AT_ONCE)
    # Two versions of one partition have most fragments in common, which are looked at once.
    newest = {key[0]: part for key, part in known.items() if part is not None}
    result: dict[NamedVersion, Measured | None] = {}
    for key, messages in zip(wanted, read, strict=True):
        result[key] = part = None if messages is None else Measured.of(messages, newest.get(key[0]))
        if part is not None:
            newest[key[0]] = part
    return result


def _content(parts: _Parts) -> Content:
    return _sum(Content, [part.content() for part in parts.values()])


def _difference(before: _Parts, after: _Parts) -> Difference:
    nothing = Measured()
    differing = [
        after.get(location, nothing).difference_from(before.get(location, nothing))
        for location in before.keys() | after.keys()
        if before.get(location) is not after.get(location)
    ]
    return _sum(Difference, differing)


_Counts = TypeVar("_Counts", Content, Difference)


def _sum(kind: type[_Counts], parts: Sequence[_Counts]) -> _Counts:
    totals: dict[str, Any] = {item.name: _total([getattr(part, item.name) for part in parts]) for item in fields(kind)}
    return kind(**totals)


def _total(counts: Sequence[int | None]) -> int | None:
    recorded = [count for count in counts if count is not None]
    return sum(recorded) if len(recorded) == len(counts) else None


def restore(table: PartitionedTable, version: int, options: CommitOptions | None = None) -> PartitionedTable:
    """The new version that has the rows and columns of `version`; specs that were added since stay, for future rows.

    Raises:
        NotFoundError: there is no such version.
        RetryableConflictError: other writers were always first. Nothing was changed.
        CommitStateUnknownError: the store never said whether the version was committed.
        StorageError: the store failed. Nothing was changed.
    """
    location = table.catalog.table
    # A clean-up at the same time spares what has a tag, and with it all versions of partitions that it names.
    with kept_while_restored(location, version):
        old = open_partitioned(table.root, version=version, storage_options=table.storage_options)

        def attempt(current: PartitionedTable) -> PartitionedTable:
            specs = PartitionSpecs(old.lance_schema, current.specs.specs)
            used = max(next_field_id(current), next_field_id(old)) - 1
            named = with_operation_name(options, "restore")
            named = replace(named, properties={**(named.properties or {}), RESTORED: str(version)})
            return commit_rows(current, old.rows, specs, named, properties={MAX_FIELD_ID: str(used)})

        return retry_on_conflict(attempt, table.newest(), table.newest, options.policy if options else None)
