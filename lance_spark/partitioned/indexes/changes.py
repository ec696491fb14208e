"""Indexes of a partitioned table: each partition's table has its own segments; a verb changes all in one version.

An index of the table is an index of the same name, column and kind in its partitions. A partition that came after the
index was built does not have it before `optimize_indices`; its rows are scanned. The table's properties keep what the
index is over, for when no partition has it any more.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lance_spark.errors import AlreadyExistsError, InvalidInputError, LanceError, NotFoundError
from lance_spark.index.builders.kinds import builder_named
from lance_spark.index.members import is_member
from lance_spark.partitioned.change import ChangeTable, Step
from lance_spark.partitioned.commit import commit_changes, commit_specs, with_operation_name
from lance_spark.partitioned.names import INDEX_PREFIX
from lance_spark.partitioned.table import PartitionedTable, PartitionVersion
from lance_spark.schema.projection import dotted, quoted
from lance_spark.table.commits.retry import retry_on_conflict
from lance_spark.table.indexes.commit import commit_indices, drop_index
from lance_spark.table.indexes.coverage import Coverage
from lance_spark.table.indexes.create import create_index, split_parameters
from lance_spark.table.indexes.definition import IndexDefinition, KnownIndex, define_beside, field_path, known_indexes
from lance_spark.table.indexes.describe import index_statistics, kind_name, list_indices
from lance_spark.table.indexes.optimize import (
    OptimizeOptions,
    commit_optimized,
    definition_of,
    definition_over,
    optimize_indices,
)
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.index_metadata import IndexMetadata
from lance_spark.table.manifests.index_section import parse_indices
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.writing.save import CommitOptions

_MAX_ATTEMPTS = 5
_SUMS = ("num_segments", "num_indexed_fragments", "num_indexed_rows", "num_unindexed_fragments", "num_unindexed_rows")

_log = logging.getLogger(__name__)


def create_partition_indexes(
    table: PartitionedTable,
    column: str,
    kind: str,
    name: str | None,
    *,
    replace: bool,
    parameters: Mapping[str, object],
    options: CommitOptions | None = None,
) -> PartitionedTable:
    """The newest version of the table with an index in each partition. Arguments and errors as `create_index`.

    Raises:
        InvalidInputError: the table has no partition yet and a parameter cannot be kept for later ones, such as an
            array; and as `create_index`.
    """
    table.catalog.table.history.check_commits()
    _, _, own = split_parameters(parameters)

    def attempt(current: PartitionedTable) -> PartitionedTable:
        opened = _opened(current)
        recorded = recorded_definitions(current)
        existing = [
            *known_definitions(recorded.values()),
            *(definition for item in opened for definition in known_indexes(item.manifest)),
        ]
        defined = define_beside(existing, current.lance_schema, column, kind, name, own)
        if not replace and any(definition.name == defined.name for definition in existing):
            raise AlreadyExistsError(f"{current.root} has an index {defined.name!r}; replace it or choose another name")
        properties = properties_of([defined])
        if not opened:
            return _record(current, properties, options)

        def step(location: TableLocation, base: Manifest) -> Manifest:
            inner = _inner(options)
            return create_index(
                location, column, kind, defined.name, replace=True, parameters=parameters, options=inner
            )

        return _commit(current, opened, step, options, "create_index", properties)

    return _retried(table, attempt, options)


def _record(
    table: PartitionedTable, properties: Mapping[str, str | None], options: CommitOptions | None
) -> PartitionedTable:
    """The version that says what an index is over, for partitions that come later."""
    if None in properties.values():
        raise InvalidInputError(
            f"{table.root} has no partition to index, and keeps no arrays for later ones; write rows first"
        )
    named = with_operation_name(options, "create_index")
    return commit_specs(table, table.specs, named, properties=properties)


def optimize_partition_indexes(
    table: PartitionedTable, optimize: OptimizeOptions, options: CommitOptions | None = None
) -> PartitionedTable:
    """The newest version of the table with optimized indexes; it itself if there is nothing to do.

    Partitions that lack an index that others have get it. Arguments and errors as `optimize_indices`.
    """
    table.catalog.table.history.check_commits()

    def attempt(current: PartitionedTable) -> PartitionedTable:
        opened = _opened(current)
        in_use = _definitions(opened)
        definitions = {**recorded_definitions(current), **in_use}
        missing = sorted(
            set(optimize.names or ()) - {index.name for index in _all_indexes(opened)} - definitions.keys()
        )
        if missing:
            raise NotFoundError(
                f"{current.root} has no index {missing[0]!r}; known: {', '.join(sorted(definitions)) or 'none'}"
            )
        chosen = {
            name: definition
            for name, definition in definitions.items()
            if optimize.names is None or name in optimize.names
        }

        def step(location: TableLocation, base: Manifest) -> Manifest:
            return _optimized(location, optimize, chosen, _inner(options))

        changing = [item for item in opened if _needs(item, optimize, chosen)]
        if not changing:
            return current
        new = properties_of(item for name, item in in_use.items() if index_key(name) not in current.properties)
        return _commit(current, changing, step, options, "optimize_indices", new)

    return _retried(table, attempt, options)


def drop_partition_indexes(
    table: PartitionedTable, name: str, options: CommitOptions | None = None
) -> PartitionedTable:
    """The newest version of the table without the index `name`. Errors as `drop_index`."""

    def attempt(current: PartitionedTable) -> PartitionedTable:
        having = [item for item in _opened(current) if any(index.name == name for index in _indexes(item))]
        recorded = {key: None for key in current.properties if key == index_key(name)}
        if not having and recorded:
            named = with_operation_name(options, "drop_index")
            return commit_specs(current, current.specs, named, properties=recorded)
        if not having:
            raise NotFoundError(f"{current.root} has no index {name!r}")

        def step(location: TableLocation, base: Manifest) -> Manifest:
            return drop_index(location, name, _inner(options))

        return _commit(current, having, step, options, "drop_index", recorded)

    return _retried(table, attempt, options)


def commit_partition_segments(
    table: PartitionedTable,
    segments: Mapping[str, Sequence[IndexMetadata]],
    options: CommitOptions | None = None,
) -> PartitionedTable:
    """The version in which segments that were built apart replace the indexes of their names.

    Args:
        table: the version that they were built from.
        segments: by the object id of their partition.

    Raises: as `commit_indices`.
    """
    changes: list[ChangeTable] = []
    defined: dict[str, IndexDefinition] = {}
    for object_id, new in segments.items():
        partition = table.index.by_id.get(object_id)
        if partition is None:
            raise InvalidInputError(f"{table.root} has no partition {object_id!r}")
        opened = table.open(partition)
        changes.append(ChangeTable(partition, opened.manifest, _segments_step(tuple(new), _inner(options))))
        if not defined:
            defined = _definitions_of(opened, new)
    named = with_operation_name(options, "create_index")
    return commit_changes(table, changes, named, properties=properties_of(defined.values()))


def commit_optimized_partitions(
    table: PartitionedTable,
    optimized: Mapping[str, tuple[Sequence[IndexMetadata], Collection[str]]],
    options: CommitOptions | None = None,
) -> PartitionedTable:
    """The version with new segments in partitions: `commit_optimized` of each of them, in one version of the table.

    Args:
        table: the version that the segments were written from.
        optimized: (the new segments, the ids of those that they replace) by the object id of the partition.

    Raises: as `commit_optimized`.
    """
    changes = []
    for object_id, (segments, replaced) in optimized.items():
        opened = table.open(table.index.by_id[object_id])
        changes.append(
            ChangeTable(opened.partition, opened.manifest, _optimized_step(segments, replaced, _inner(options)))
        )
    return commit_changes(table, changes, with_operation_name(options, "optimize_indices"))


def list_partition_indexes(table: PartitionedTable) -> list[dict[str, Any]]:
    """The segments of all partitions as `list_indices` gives them, each with the object id as `partition`."""
    entries = [
        {**index, "partition": item.partition.object_id}
        for item in _opened(table)
        for index in list_indices(item.manifest, item.table.bases(item.manifest))
    ]
    return sorted(entries, key=lambda index: (str(index["name"]), str(index["partition"])))


def partition_index_columns(table: PartitionedTable) -> dict[str, list[str]]:
    """The columns of each index by its name, also of those that no partition has yet."""
    columns = {}
    for name, definition in recorded_definitions(table).items():
        along = field_path(table.lance_schema, definition.field.id)
        columns[name] = [dotted([field.name for field in along])]
    return {**columns, **{str(index["name"]): index["fields"] for index in list_partition_indexes(table)}}


def partition_index_statistics(table: PartitionedTable, name: str) -> dict[str, Any]:
    """The sums of `index_statistics` over all partitions; rows of partitions without the index are unindexed.

    Raises:
        NotFoundError: there is no such index, neither in a partition nor for later ones.
    """
    parts = []
    unindexed_rows = unindexed_fragments = 0
    for item in _opened(table):
        if any(index.name == name for index in parse_indices(item.manifest.index_section)):
            parts.append(index_statistics(item.manifest, item.table.bases(item.manifest), name))
        else:
            unindexed_fragments += len(item.manifest.fragments)
            unindexed_rows += sum(count or 0 for count in item.manifest.fragments.row_counts())
    recorded = None if parts else recorded_definitions(table).get(name)
    if not parts and recorded is None:
        raise NotFoundError(f"{table.root} has no index {name!r}")
    sizes = [part["size_bytes"] for part in parts]
    times = [part["updated_at_timestamp_ms"] for part in parts if part["updated_at_timestamp_ms"] is not None]
    sums = {key: sum(part[key] for part in parts) for key in _SUMS}
    sums["num_unindexed_fragments"] += unindexed_fragments
    sums["num_unindexed_rows"] += unindexed_rows
    return {
        "index_type": parts[0]["index_type"] if recorded is None else _kind_name(recorded),
        "name": name,
        **sums,
        "num_indexed_rows_per_segment": [count for part in parts for count in part["num_indexed_rows_per_segment"]],
        "size_bytes": None if None in sizes else sum(sizes),
        "updated_at_timestamp_ms": max(times, default=None),
        "segments": [segment for part in parts for segment in part["segments"]],
    }


def _kind_name(definition: IndexDefinition) -> str:
    return kind_name(definition.type_url, definition.builder.untrained().details())


def _segments_step(new: Sequence[IndexMetadata], options: CommitOptions) -> Step:
    return lambda location, base: commit_indices(location, base, new, options)


def _optimized_step(made: Sequence[IndexMetadata], replaced: Collection[str], options: CommitOptions) -> Step:
    return lambda location, base: commit_optimized(location, base, made, replaced, options)


def _optimized(
    location: TableLocation,
    optimize: OptimizeOptions,
    wanted: Mapping[str, IndexDefinition],
    options: CommitOptions,
) -> Manifest:
    """Optimizes the indexes of one partition and adds those that it lacks."""
    newest = location.newest()
    present = {index.name for index in parse_indices(newest.index_section)}
    for name, definition in wanted.items():
        if name not in present:
            column = quoted(definition.column)
            kind = definition.builder.index_type.type_name
            parameters = definition.builder.parameters
            with optimize.passing_unfit(name):
                create_index(location, column, kind, name, replace=True, parameters=parameters, options=options)
    if optimize.names is not None:
        optimize = replace(optimize, names=tuple(name for name in wanted if name in present))
    return location.newest() if optimize.names == () else optimize_indices(location, optimize, options)


def _needs(item: PartitionVersion, optimize: OptimizeOptions, wanted: Mapping[str, IndexDefinition]) -> bool:
    """Whether something of a partition's indexes may change."""
    manifest = item.manifest
    live = {message.id for message in manifest.fragments.messages}
    coverage = Coverage(manifest, item.table.bases(manifest))
    for name in wanted:
        segments = [index for index in parse_indices(manifest.index_section) if index.name == name]
        covered = {number for index in segments for number in coverage.fragment_ids(index)}
        if any(coverage.is_moved(index) for index in segments):
            return True
        if optimize.retrain or live - covered or min(len(segments), optimize.num_indices_to_merge) > 1 or not segments:
            return True
    return False


def _definitions(opened: Sequence[PartitionVersion]) -> dict[str, IndexDefinition]:
    """Definitions of the indexes that this release can build, by name, from the first partition that has each."""
    definitions: dict[str, IndexDefinition] = {}
    for item in opened:
        definitions |= _definitions_of(item, [index for index in _indexes(item) if index.name not in definitions])
    return definitions


def _definitions_of(item: PartitionVersion, segments: Sequence[IndexMetadata]) -> dict[str, IndexDefinition]:
    """Definitions of the indexes that segments of a partition's table belong to, by name."""
    by_name: dict[str, list[IndexMetadata]] = {}
    for index in segments:
        by_name.setdefault(index.name, []).append(index)
    bases = item.table.bases(item.manifest)
    definitions = {name: definition_of(item.manifest.schema, own, bases) for name, own in by_name.items()}
    return {name: definition for name, definition in definitions.items() if definition is not None}


def _opened(table: PartitionedTable) -> list[PartitionVersion]:
    return table.open_all(table.index.partitions)


def _indexes(item: PartitionVersion) -> list[IndexMetadata]:
    return [index for index in parse_indices(item.manifest.index_section) if not index.is_system]


def _all_indexes(opened: Sequence[PartitionVersion]) -> list[IndexMetadata]:
    return [index for item in opened for index in _indexes(item)]


def _commit(
    table: PartitionedTable,
    opened: Sequence[PartitionVersion],
    step: Step,
    options: CommitOptions | None,
    operation: str,
    properties: Mapping[str, str | None],
) -> PartitionedTable:
    changes = [ChangeTable(item.partition, item.manifest, step) for item in opened]
    return commit_changes(table, changes, with_operation_name(options, operation), properties=properties)


def _inner(options: CommitOptions | None) -> CommitOptions:
    return options or CommitOptions()


def _retried(table: PartitionedTable, attempt: Any, options: CommitOptions | None) -> PartitionedTable:
    policy = options.policy if options else None
    committed: PartitionedTable = retry_on_conflict(
        attempt, table.newest(), table.newest, policy, max_attempts=_MAX_ATTEMPTS
    )
    return committed


def index_key(name: str) -> str:
    """The key of the definition of an index."""
    return INDEX_PREFIX + name


def known_definitions(definitions: Iterable[IndexDefinition]) -> list[KnownIndex]:
    """Indexes with these definitions, for the choice of a name for another one."""
    return [KnownIndex(item.name, item.type_url, (item.field.id,)) for item in definitions]


def properties_of(definitions: Iterable[IndexDefinition]) -> dict[str, str | None]:
    """The metadata with these definitions. Those whose parameters cannot be written, such as arrays, are not kept."""
    return {index_key(definition.name): _encoded(definition) for definition in definitions}


def recorded_definitions(table: PartitionedTable) -> dict[str, IndexDefinition]:
    """The definitions that a table has, by the name of the index, of columns that it still has."""
    definitions = {}
    for key, text in table.properties.items():
        if key.startswith(INDEX_PREFIX):
            definition = _decoded(table, key[len(INDEX_PREFIX) :], text)
            if definition is not None:
                definitions[definition.name] = definition
    return definitions


def _encoded(definition: IndexDefinition) -> str | None:
    builder = definition.builder.untrained()
    content = {
        "field": definition.field.id,
        "kind": builder.index_type.type_name,
        "parameters": dict(builder.parameters),
    }
    try:
        return json.dumps(content)
    except TypeError:
        return None


def _decoded(table: PartitionedTable, name: str, text: str) -> IndexDefinition | None:
    try:
        content = json.loads(text)
        field_id, kind, parameters = content["field"], content["kind"], content["parameters"]
        builder_type = builder_named(str(kind))
        checked = builder_type.checked(parameters)
    except (ValueError, LookupError, TypeError, AttributeError, LanceError) as error:
        _log.warning("the definition of index %s of %s cannot be read: %s", name, table.root, error)
        return None
    path = field_path(table.lance_schema, field_id)
    if not path or not is_member(path, in_lists=builder_type.reaches_into_lists):
        return None
    return definition_over(name, path, builder_type, checked)
