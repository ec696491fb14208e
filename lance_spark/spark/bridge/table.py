"""Tables: found, described, made, replaced and emptied."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone

import pyarrow as pa
from pyspark.sql.types import DataType, LongType, StringType, StructField, StructType

from lance_spark.errors import (
    AlreadyExistsError,
    CommitConflictError,
    CommitStateUnknownError,
    InvalidInputError,
    NotFoundError,
    RetryableConflictError,
    UnsupportedFeatureError,
)
from lance_spark.namespace.partition_properties import user_properties
from lance_spark.namespace.partitioned_table import (
    PartitionedTable,
    PlannedTable,
    is_partitioned_table,
    open_partitioned,
)
from lance_spark.schema.arrow import to_arrow_schema
from lance_spark.schema.projection import project
from lance_spark.spark.bridge.expressions import SparkExpression
from lance_spark.spark.bridge.handles import CatalogSettings, Staged, TableHandle
from lance_spark.spark.bridge.partition_by import partition_fields, shown_fields
from lance_spark.spark.bridge.partition_keys import SparkTransform
from lance_spark.spark.bridge.partitioned_tasks import PARTITION_COLUMN
from lance_spark.spark.bridge.partitioned_writes import (
    NewPartitionedTable,
    commit_staged_partitioned,
    give_up_partitioned,
    timestamp_of,
    truncate_partitioned,
)
from lance_spark.spark.bridge.places import Place, TableName, check_free, directory, find, given_place, names_of
from lance_spark.spark.bridge.registry import Call, Done, operation
from lance_spark.spark.bridge.tasks import TaskOutput
from lance_spark.spark.options import ColumnOptions, ReadOptions, StateOptions, TableProperties, WriteOptions
from lance_spark.spark.types import to_spark_schema
from lance_spark.spark.write_job import TRUNCATE, WriteJob
from lance_spark.table.fragment import DataFragment
from lance_spark.table.location import TableLocation
from lance_spark.table.manifest import Manifest
from lance_spark.table.operations.successor import data_format
from lance_spark.table.reading.blob_columns import shown
from lance_spark.table.reading.system_columns import CREATED_AT, LAST_UPDATED_AT, ROW_ADDRESS, ROW_ID, SYSTEM_FIELDS
from lance_spark.table.row_level.row_changes import GoneRows
from lance_spark.table.writing.save import CREATE, OVERWRITE

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_READS = ("BATCH_READ",)
_WRITES = ("BATCH_WRITE", "TRUNCATE", "OVERWRITE_BY_FILTER", "OVERWRITE_DYNAMIC")
_ANY_SCHEMA = ("ACCEPT_ANY_SCHEMA",)
_EVOLVES = ("AUTOMATIC_SCHEMA_EVOLUTION",)
_ALL_COLUMNS = ColumnOptions()
_DEFINITIONS = frozenset({"CURRENT_DEFAULT", "GENERATION_EXPRESSION"})
_COMMENTS = {
    ROW_ID: "identity of the row; stays if the table has stable row ids",
    ROW_ADDRESS: "place of the row: fragment id << 32 | offset",
    "_fragid": "fragment that holds the row",
    CREATED_AT: "version that inserted the row",
    LAST_UPDATED_AT: "version that last changed the row",
}


@dataclass(frozen=True, slots=True)
class TimeTravel:
    """What a query says after AS OF."""

    version: str | None = None
    timestamp_micros: int | None = None


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """A table to load, to read from it or, with `privileges`, to write to it."""

    catalog: CatalogSettings
    namespace: tuple[str, ...]
    name: str
    options: Mapping[str, str] = field(default_factory=dict)
    by_path: bool = False
    time_travel: TimeTravel | None = None
    privileges: tuple[str, ...] = ()

    def table_name(self) -> TableName:
        """The name alone."""
        return TableName(self.catalog, self.namespace, self.name, self.options, self.by_path)


@dataclass(frozen=True, slots=True)
class MetadataColumn:
    """A column that SELECT * leaves out."""

    name: str
    type: DataType
    nullable: bool
    comment: str


@dataclass(frozen=True, slots=True)
class TableDescription:
    """A table as the JVM shows it to Spark."""

    handle: TableHandle
    name: str
    schema: StructType
    version: str | None
    properties: Mapping[str, str]
    capabilities: tuple[str, ...]
    metadata_columns: tuple[MetadataColumn, ...]
    partitioning: tuple[SparkTransform, ...] = ()


@dataclass(frozen=True, slots=True)
class LoadReply:
    """The table, if there is one."""

    found: bool
    table: TableDescription | None = None


@dataclass(frozen=True, slots=True)
class MakeRequest:
    """A table to make: CREATE, or a CREATE or REPLACE whose rows come later.

    Attributes:
        mode: "create", "replace" or "create_or_replace".
        like: the table whose columns these are.
    """

    catalog: CatalogSettings
    namespace: tuple[str, ...]
    name: str
    schema: StructType
    mode: str
    options: Mapping[str, str] = field(default_factory=dict)
    by_path: bool = False
    partitioning: tuple[SparkExpression, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    like: TableHandle | None = None

    def table_name(self) -> TableName:
        """The name alone."""
        return TableName(self.catalog, self.namespace, self.name, self.options, self.by_path)


@dataclass(frozen=True, slots=True)
class MakeReply:
    """The table that was made, or why not: "exists", "no_table" or "no_namespace"."""

    outcome: str
    table: TableDescription | None = None


@dataclass(frozen=True, slots=True)
class SessionTableRequest:
    """A table of Spark's session catalog: its properties tell the path."""

    properties: Mapping[str, str]
    schema: StructType | None = None
    partitioning: tuple[SparkExpression, ...] = ()


@dataclass(frozen=True, slots=True)
class HandleRequest:
    """Something to do with one version of a table."""

    handle: TableHandle


@operation("table.load")
def load(request: LoadRequest, _call: Call) -> LoadReply:
    """The table that a query reads or writes."""
    table = request.table_name()
    place = find(table)
    if place is None:
        return LoadReply(False)
    if request.privileges:
        return _load_to_write(request, place)
    state, options = StateOptions.pick(request.options), ColumnOptions.pick(request.options)
    location = place.location()
    if location.branch is None and location.history.latest_location() is None:
        whole = open_whole(place, state, request.time_travel)
        if whole is not None:
            if options != _ALL_COLUMNS:
                raise InvalidInputError("the columns of a partitioned table are chosen by SELECT, not by options")
            is_newest = request.time_travel is None and _asked_version(state, None) == (None, None, None)
            return LoadReply(True, describe_whole(place, whole, writable=is_newest))
    manifest = _version(location, state, request.time_travel)
    if manifest is None:
        if request.by_path:
            raise NotFoundError(f"there is no Lance table at {location.uri}")
        return LoadReply(False)
    if isinstance(manifest, tuple):
        location, manifest = manifest
    if request.by_path:
        ReadOptions.parse({**request.options, "path": place.uri})  # Refuses what it does not know.
    is_newest = request.time_travel is None and state.version is None and state.tag is None and state.timestamp is None
    return LoadReply(
        True, describe(place, location, manifest, _READS + (_WRITES if is_newest else ()), options=options)
    )


def _load_to_write(request: LoadRequest, place: Place) -> LoadReply:
    options = WriteOptions.parse({**request.options, "path": place.uri})
    location = place.location()
    newest = location.latest()
    if newest is None and location.branch is None:
        whole = open_whole(place, StateOptions())
        if whole is not None:
            found = describe_whole(place, whole, writable=True)
            if options.merge_schema:
                found = replace(found, capabilities=_READS + _WRITES + _ANY_SCHEMA)
            return LoadReply(True, found)
    if newest is None:
        # A path is enough for the first write; a name must have been made by CREATE TABLE.
        return LoadReply(True, _to_be_made(place)) if request.by_path else LoadReply(False)
    if request.by_path and "DELETE" in request.privileges:
        description = describe(place, location, newest, _WRITES + _ANY_SCHEMA)
        return LoadReply(True, replace(description, handle=replace(description.handle, replaces_schema=True)))
    capabilities = _READS + _WRITES + (_ANY_SCHEMA if options.merge_schema else _EVOLVES)
    return LoadReply(True, describe(place, location, newest, capabilities))


def _asked_version(state: StateOptions, travel: TimeTravel | None) -> tuple[int | None, str | None, datetime | None]:
    """Number, tag and moment of the version that is asked for; all None for the newest."""
    version, tag, moment = state.version, state.tag, state.timestamp
    if travel is not None:
        if version is not None or tag is not None or moment is not None:
            raise InvalidInputError("AS OF and the options version, tag and timestamp all choose a version; keep one")
        if travel.version is not None:
            text = travel.version.strip()
            version, tag = (int(text), None) if text.isascii() and text.isdigit() else (None, text)
        elif travel.timestamp_micros is not None:
            moment = _EPOCH + timedelta(microseconds=travel.timestamp_micros)
    return version, tag, moment


def _version(
    location: TableLocation, state: StateOptions, travel: TimeTravel | None
) -> Manifest | tuple[TableLocation, Manifest] | None:
    version, tag, moment = _asked_version(state, travel)
    if tag is not None:
        named = location.refs.tag(tag)
        location = location.on_branch(named.branch)
        return location, location.at(named.version).manifest
    if version is not None:
        return location.at(version).manifest
    if moment is not None:
        return location.as_of(moment).manifest
    return location.latest()


def describe(
    place: Place,
    location: TableLocation,
    manifest: Manifest,
    capabilities: tuple[str, ...],
    options: ColumnOptions = _ALL_COLUMNS,
) -> TableDescription:
    """A version as Spark sees it, in the columns that `options` ask for."""
    schema = shown(manifest.schema, data_format(manifest))
    chosen = schema if options.columns is None else project(schema, options.columns)
    asked = ((ROW_ID, options.with_row_id), (ROW_ADDRESS, options.with_row_address))
    system = [StructField(name, LongType(), False) for name, on in asked if on]
    columns = StructType([*to_spark_schema(to_arrow_schema(chosen)).fields, *system])
    return TableDescription(
        handle=TableHandle(
            uri=place.uri,
            branch=location.branch,
            version=manifest.version,
            timestamp_nanos=manifest.timestamp_nanos,
            storage_options=place.storage_options,
        ),
        name=location.uri if location.branch is None else f"{location.uri} (branch {location.branch})",
        schema=columns,
        version=str(manifest.version),
        properties={**manifest.config, "provider": "lance", "location": location.uri},
        capabilities=capabilities,
        metadata_columns=_metadata_columns(manifest, set(columns.fieldNames()) | set(schema.names())),
    )


def describe_evolving(place: Place, location: TableLocation, manifest: Manifest) -> TableDescription:
    """A version, for a statement whose rows bring those columns of `manifest` that it does not have yet."""
    described = describe(place, location, manifest, _READS + _WRITES + _EVOLVES)
    return _without_version(replace(described, handle=described.handle.with_evolved(manifest.schema)))


def _without_version(described: TableDescription) -> TableDescription:
    """Spark loads a table with a version once more before it runs, and would find one without the columns."""
    return replace(described, version=None)


def open_whole(place: Place, state: StateOptions, travel: TimeTravel | None = None) -> PartitionedTable | None:
    """The version of the partitioned table at a place that has no plain one; None if there is none either."""
    if not is_partitioned_table(place.uri, place.storage_options):
        return None
    version, tag, moment = _asked_version(state, travel)
    return open_partitioned(
        place.uri, version=version, tag=tag, timestamp=moment, storage_options=place.storage_options
    )


def describe_whole(place: Place, whole: PartitionedTable, *, writable: bool) -> TableDescription:
    """A version of a partitioned table as Spark sees it."""
    schema = whole.schema
    system = [name for name in (ROW_ID, ROW_ADDRESS, "_fragid") if name not in schema.names]
    columns = [MetadataColumn(name, LongType(), False, _COMMENTS.get(name, "")) for name in system]
    if PARTITION_COLUMN not in schema.names:
        columns.append(MetadataColumn(PARTITION_COLUMN, StringType(), False, "partition that holds the row"))
    current = whole.specs.current
    return TableDescription(
        handle=TableHandle(
            uri=place.uri,
            version=whole.version,
            timestamp_nanos=timestamp_of(whole),
            storage_options=place.storage_options,
            partitioned=True,
        ),
        name=place.uri,
        schema=to_spark_schema(schema),
        version=str(whole.version),
        properties={**user_properties(whole.properties), "provider": "lance", "location": place.uri},
        capabilities=_READS + (_WRITES + _EVOLVES if writable else ()),
        metadata_columns=tuple(columns),
        partitioning=tuple(shown_fields(current, whole.lance_schema)),
    )


def describe_whole_evolving(place: Place, whole: PlannedTable) -> TableDescription:
    """A version of a partitioned table, for a statement whose rows bring those columns that it does not have yet."""
    described = describe_whole(place, whole, writable=True)
    return _without_version(replace(described, handle=described.handle.with_evolved(whole.lance_schema)))


def _metadata_columns(manifest: Manifest, taken: set[str]) -> tuple[MetadataColumn, ...]:
    known = [name for name in SYSTEM_FIELDS if name not in taken]
    if not manifest.has_stable_row_ids:
        known = [name for name in known if name not in (CREATED_AT, LAST_UPDATED_AT)]
    return tuple(MetadataColumn(name, LongType(), False, _COMMENTS.get(name, "")) for name in known)


def _to_be_made(place: Place) -> TableDescription:
    """A path without a table, which the first write makes."""
    return TableDescription(
        handle=TableHandle(uri=place.uri, storage_options=place.storage_options),
        name=place.uri,
        schema=StructType(),
        version=None,
        properties={},
        capabilities=_WRITES + _ANY_SCHEMA,
        metadata_columns=(),
    )


@operation("table.exists")
def exists(request: LoadRequest, _call: Call) -> Done:
    """Whether there is such a table."""
    place = find(request.table_name())
    if place is None:
        return Done(False)
    try:
        is_plain = place.location().latest() is not None
    except NotFoundError:
        return Done(False)  # The table has no such branch.
    return Done(is_plain or (place.branch is None and is_partitioned_table(place.uri, place.storage_options)))


@operation("table.create")
def create(request: MakeRequest, _call: Call) -> MakeReply:
    """Makes a table without rows; its first version."""
    try:
        return _made(request)
    except (AlreadyExistsError, CommitConflictError):
        # Another writer was as quick. What has this name may also be a namespace.
        if find(request.table_name()) is None:
            raise
        return MakeReply("exists")


def _made(request: MakeRequest) -> MakeReply:
    staged = _stage(request)
    if isinstance(staged, MakeReply):
        return staged
    like = None if request.like is None or request.like.partitioned else to_arrow_schema(request.like.open()[1].schema)
    place = Place(staged.uri, staged.storage_options)
    if staged.partitioned:
        try:
            whole = commit_staged_partitioned(staged, ())
        except CommitStateUnknownError:
            raise  # The table may be there; its name must not go.
        except BaseException:
            give_up_partitioned(staged)
            raise
        return MakeReply("made", describe_whole(place, whole, writable=True))
    try:
        manifest = staged_job(staged, request.schema, {}, like).commit([], repeated=False)
    except CommitStateUnknownError:
        raise  # The table may be there; its name must not go.
    except BaseException:
        _give_up(staged)
        raise
    assert manifest is not None, "a table that is made has a version"
    return MakeReply("made", describe(place, place.location(), manifest, _READS + _WRITES))


@operation("table.stage")
def stage(request: MakeRequest, _call: Call) -> MakeReply:
    """Prepares a table whose rows come later; nothing can be seen of it before its commit.

    Raises:
        RetryableConflictError: another writer has made the table that is to be made or replaced.
    """
    try:
        handle = _stage(request)
    except AlreadyExistsError as error:
        if find(request.table_name()) is None:
            raise
        if request.mode == "create":
            return MakeReply("exists")
        name = ".".join(request.table_name().identifier)
        raise RetryableConflictError(f"another writer has created {name} meanwhile; run the statement again") from error
    if isinstance(handle, MakeReply):
        return handle
    return MakeReply(
        "staged",
        TableDescription(
            handle=handle,
            name=handle.uri,
            schema=request.schema,
            version=None,
            properties=request.properties,
            capabilities=_WRITES,
            metadata_columns=(),
        ),
    )


@operation("table.commit_staged")
def commit_staged(request: HandleRequest, call: Call) -> Done:
    """Commits the rows that the attachments tell of, or none, together with the table."""
    if request.handle.partitioned:
        commit_staged_partitioned(request.handle, call.attachments)
        return Done()
    _commit_staged(request.handle, call.attachments)
    return Done()


@operation("table.abort_staged")
def abort_staged(request: HandleRequest, _call: Call) -> Done:
    """Gives a reserved name back."""
    if request.handle.partitioned:
        give_up_partitioned(request.handle)
        return Done()
    _give_up(request.handle)
    return Done()


@operation("table.truncate")
def truncate(request: HandleRequest, _call: Call) -> Done:
    """Removes all rows of the newest version; no new version if there are none."""
    if request.handle.partitioned:
        return Done(truncate_partitioned(request.handle))
    location = request.handle.location()
    newest = location.latest()
    if newest is None:
        raise NotFoundError(f"there is no Lance table at {location.uri}")
    columns = to_spark_schema(to_arrow_schema(newest.schema))
    job = WriteJob.of(location, newest, columns, TRUNCATE, WriteOptions.parse({"path": location.uri}))
    return Done(job.commit([], repeated=False) is not None)


@operation("table.session")
def of_session_catalog(request: SessionTableRequest, _call: Call) -> LoadReply:
    """A table of the session catalog, made if there is none and the statement tells its columns."""
    properties = dict(request.properties)
    uri = properties.get("path") or properties.get("location")
    if not uri:
        raise InvalidInputError("the table has neither a path nor a location; add LOCATION '...'")
    if request.partitioning:
        raise UnsupportedFeatureError("tables of the session catalog cannot be partitioned", feature="PARTITIONED BY")
    place = Place(uri, StateOptions.pick(properties).storage_options)
    location = place.location()
    manifest = location.latest()
    if manifest is None:
        if not request.schema:
            raise NotFoundError(f"there is no Lance table at {uri}")
        _check_definitions(request.schema)
        parsed = TableProperties.parse(properties, uri, {})
        job = WriteJob.of(location, None, request.schema, CREATE, parsed.options, config=parsed.config)
        manifest = job.commit([], repeated=False)
        assert manifest is not None, "a table that is made has a version"
    description = describe(place, location, manifest, _READS + _WRITES + _EVOLVES)
    return LoadReply(True, replace(description, handle=replace(description.handle, of_session_catalog=True)))


def _check_definitions(columns: StructType) -> None:
    """Refuses columns with values of their own, which Spark's catalog takes and the table would not know.

    Raises:
        UnsupportedFeatureError: there is such a column.
    """
    for column in columns.fields:
        if not _DEFINITIONS.isdisjoint(column.metadata):
            raise UnsupportedFeatureError(
                f"column {column.name!r}: columns have no DEFAULT, nor generated values; name the value in each INSERT",
                feature="DEFAULT of a column",
            )


def _stage(request: MakeRequest) -> TableHandle | MakeReply:
    table = request.table_name()
    place = find(table)
    base = None if place is None else place.location().latest()
    whole = None if place is None or base is not None else open_whole(place, StateOptions())
    is_there = base is not None or whole is not None
    if is_there and request.mode == "create":
        return MakeReply("exists")
    if not is_there and request.mode == "replace":
        return MakeReply("no_table")
    given = given_place(table, request.properties.get("location"))
    if given is not None and place is None:
        check_free(given)
    elif given is not None and place is not None and given.uri != place.uri:
        raise UnsupportedFeatureError(
            f"the table is at {place.uri}, and REPLACE does not move it; leave LOCATION out, or DROP it first",
            feature="REPLACE TABLE at another location",
        )
    if request.partitioning or whole is not None:
        return _stage_partitioned(request, place, base, whole)
    declared = False
    if place is None:
        names = names_of(request.catalog)
        if request.namespace and not names.namespace_exists(request.namespace):
            return MakeReply("no_namespace")
        entry = names.declare_table(table.identifier, location=request.properties.get("location"), properties={})
        place, declared = Place(entry.uri, {**entry.storage_options, **table.storage_options()}), True
    staged = Staged(
        columns=request.schema,
        properties=request.properties,
        catalog=request.catalog,
        identifier=None if table.path is not None else table.identifier,
        declared=declared,
    )
    version = None if base is None else base.version
    nanos = None if base is None else base.timestamp_nanos
    return TableHandle(place.uri, place.branch, version, nanos, place.storage_options, staged)


def _stage_partitioned(
    request: MakeRequest, place: Place | None, base: Manifest | None, whole: PartitionedTable | None
) -> TableHandle | MakeReply:
    if base is not None or not request.partitioning:
        raise UnsupportedFeatureError(
            "REPLACE TABLE does not make a partitioned table of one without partitions, nor back; DROP it first",
            feature="REPLACE TABLE of other partitions",
        )
    table = request.table_name()
    if place is None and request.namespace and not directory(request.catalog).namespace_exists(request.namespace):
        return MakeReply("no_namespace")
    identifier = None if table.path is not None else table.identifier
    staged = Staged(request.schema, request.properties, request.catalog, identifier, partitioning=request.partitioning)
    made = NewPartitionedTable(staged, partition_fields(request.partitioning), table.storage_options())
    return made.stage(place) if place is None or whole is None else made.stage_over(place, whole)


def staged_job(
    handle: TableHandle, columns: StructType, options: Mapping[str, str], like: pa.Schema | None = None
) -> WriteJob:
    """The job that makes a staged table with rows in `columns`; they get the types that they have in `like`."""
    staged = handle.staged
    assert staged is not None, "the table is staged"
    parsed = TableProperties.parse(staged.properties, handle.uri, options)
    WriteOptions.parse({**options, "path": handle.uri}).check_makes_table(handle.branch)
    base = None if handle.version is None else handle.open()[1]
    mode = CREATE if base is None else OVERWRITE
    return WriteJob.of(handle.location(), base, columns, mode, parsed.options, config=parsed.config, like=like)


def _commit_staged(handle: TableHandle, attachments: tuple[bytes, ...]) -> Manifest | None:
    assert handle.staged is not None, "the table is staged"
    if not attachments:
        return staged_job(handle, handle.staged.columns, {}).commit([], repeated=False)
    return commit_job(attachments)


def commit_job(attachments: tuple[bytes, ...], gone: GoneRows | None = None) -> Manifest | None:
    """Commits a pickled job with what its tasks told, all made by this package on this driver and its executors.

    Args:
        gone: as `WriteJob.commit` takes it.
    """
    job: WriteJob = pickle.loads(attachments[0])
    outputs: list[TaskOutput] = [pickle.loads(message) for message in attachments[1:] if message]
    fragments = [DataFragment.from_bytes(fragment) for output in outputs for fragment in output.fragments]
    return job.commit(fragments, repeated=any(output.attempt for output in outputs), gone=gone)


def _give_up(handle: TableHandle) -> None:
    staged = handle.staged
    if staged is None or not staged.declared or staged.catalog is None or staged.identifier is None:
        return
    if handle.location().latest() is None:
        # The job has removed its files. A directory that the statement has named may hold others.
        names_of(staged.catalog).drop_table(staged.identifier, purge="location" not in staged.properties)
