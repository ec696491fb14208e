"""Upgrades of partitioned tables to a newer file version: the files of all partitions, in one version of the table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lance_spark.errors import InvalidInputError
from lance_spark.file_version import FileVersion
from lance_spark.partitioned.change import Step
from lance_spark.partitioned.commit import commit_specs, with_operation_name
from lance_spark.partitioned.maintenance.compaction import PartitionResult, PartitionTask
from lance_spark.partitioned.table import FILE_VERSION, PartitionedTable, PartitionVersion
from lance_spark.schema.blob import in_file_version
from lance_spark.table.commits.retry import retry_on_conflict
from lance_spark.table.location import TableLocation
from lance_spark.table.maintenance.compaction import RewriteResult
from lance_spark.table.maintenance.upgrade import Progress, commit_upgrade, plan_upgrade
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.writing.save import CommitOptions

_Written = tuple[Manifest, list[RewriteResult]]
"""The version of a partition's table, and what tasks have written from it."""


def plan_partition_upgrade(table: PartitionedTable, version: FileVersion) -> list[PartitionTask]:
    """The tasks that rewrite all older files of the partitions. Raises as `plan_upgrade`."""
    return [
        PartitionTask(opened.partition.object_id, task)
        for opened in _partitions(table)
        for task in plan_upgrade(opened.table, opened.manifest, version).tasks
    ]


def commit_partition_upgrade(
    table: PartitionedTable,
    version: FileVersion,
    results: Sequence[PartitionResult] = (),
    options: CommitOptions | None = None,
    progress: Progress | None = None,
) -> PartitionedTable:
    """The version of the table whose files are all of `version` or newer, also those of future partitions.

    Args:
        results: what tasks of `plan_partition_upgrade` have written from `table`; the rest is rewritten here.

    Raises: as `commit_upgrade`.
    """
    _require_newer(table, version)
    by_uri = _by_uri(table, results)

    def attempt(current: PartitionedTable) -> PartitionedTable:
        properties = {FILE_VERSION: version.value}
        step = _step(version, by_uri, options, progress)
        named = with_operation_name(options, "rewrite")
        specs = replace(current.specs, schema=in_file_version(current.specs.schema, version))
        return commit_specs(current, specs, named, step=step, properties=properties)

    if table.file_version == version and not results and not plan_partition_upgrade(table, version):
        return table
    return retry_on_conflict(attempt, table, table.newest, options.policy if options else None)


def _require_newer(table: PartitionedTable, version: FileVersion) -> None:
    if table.file_version > version:
        raise InvalidInputError(
            f"{table.root} is of file version {table.file_version.value}, which is newer than {version.value}"
        )


def _by_uri(table: PartitionedTable, results: Sequence[PartitionResult]) -> dict[str, _Written]:
    partitions = {opened.partition.object_id: opened for opened in _partitions(table)} if results else {}
    by_uri: dict[str, _Written] = {}
    for item in results:
        opened = partitions[item.object_id]
        by_uri.setdefault(opened.table.uri, (opened.manifest, []))[1].append(item.result)
    return by_uri


def _partitions(table: PartitionedTable) -> list[PartitionVersion]:
    return list(table.open_all(table.partitions()))


def _step(
    version: FileVersion,
    by_uri: dict[str, _Written],
    options: CommitOptions | None,
    progress: Progress | None,
) -> Step:
    def step(table: TableLocation, manifest: Manifest) -> Manifest:
        base, results = by_uri.get(table.uri, (manifest, []))
        return commit_upgrade(table, base, version, results, options, progress, newest=manifest)

    return step
