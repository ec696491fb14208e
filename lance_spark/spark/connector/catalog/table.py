"""Finds and describes tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone

from pyspark.sql.types import DataType, LongType, StringType, StructField, StructType

from lance_spark.errors import (
    InvalidInputError,
    NotFoundError,
)
from lance_spark.file_version import FileVersion
from lance_spark.partitioned.access import find_table
from lance_spark.partitioned.table import PartitionedTable
from lance_spark.schema.arrow import to_arrow_schema
from lance_spark.schema.blob import has_blobs
from lance_spark.schema.field import LanceSchema
from lance_spark.schema.projection import project
from lance_spark.spark.blobs.columns import BINARY, DESCRIPTIONS, metadata_columns
from lance_spark.spark.column_statistics import without_statistics
from lance_spark.spark.compat import SPARK
from lance_spark.spark.connector.catalog.audited import audited_place
from lance_spark.spark.connector.catalog.partition_by import shown_fields
from lance_spark.spark.connector.catalog.resolve import ResolvedTable, TableName, find
from lance_spark.spark.connector.channel.handles import CatalogSettings, TableHandle
from lance_spark.spark.connector.channel.registry import Call, Done, operation
from lance_spark.spark.connector.channel.tasks import PARTITION_COLUMN
from lance_spark.spark.connector.scan.partition_keys import SparkTransform
from lance_spark.spark.connector.scan.settings import check_settings
from lance_spark.spark.constraints import TableConstraint, constraints_of
from lance_spark.spark.options.options import ColumnOptions, ReadOptions, StateOptions, WriteOptions
from lance_spark.spark.table_view import spark_view
from lance_spark.spark.types.generated import expressions_of
from lance_spark.spark.types.identities import (
    SparkIdentity,
    fixed_columns,
    spark_identities,
    with_nullable,
)
from lance_spark.spark.types.schemas import to_spark_schema
from lance_spark.storage.paths import with_absolute_path
from lance_spark.table.dataset import Dataset
from lance_spark.table.maintenance.clustering.mark import CLUSTERED
from lance_spark.table.manifests.marks import without_marks
from lance_spark.table.reading.system_columns import CREATED_AT, LAST_UPDATED_AT, ROW_ADDRESS, ROW_ID, SYSTEM_FIELDS

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
READS = ("BATCH_READ", "MICRO_BATCH_READ")
WRITES = ("BATCH_WRITE", "STREAMING_WRITE", "TRUNCATE", "OVERWRITE_BY_FILTER", "OVERWRITE_DYNAMIC")
_ANY_SCHEMA = ("ACCEPT_ANY_SCHEMA",)
EVOLVES: tuple[str, ...] = ("AUTOMATIC_SCHEMA_EVOLUTION",) if SPARK >= (4, 1) else ()
_COMPUTES: tuple[str, ...] = ("GENERATE_COLUMN_VALUES_ON_WRITE",) if SPARK >= (4, 3) else ()
_FILLS_COLUMNS = SPARK < (4, 1)
# Spark 4.1 loads the target of a MERGE WITH SCHEMA EVOLUTION again, without write privileges, after it has altered it.
_LOADS_EVOLVED_TO_READ = SPARK < (4, 2)
_ALL_COLUMNS = ColumnOptions()
_DESCRIBED, _BINARY = ColumnOptions(blob_handling=DESCRIPTIONS), ColumnOptions(blob_handling=BINARY)
_COMMENTS = {
    ROW_ID: "identity of the row; stays if the table has stable row ids",
    ROW_ADDRESS: "address of the row: fragment id and row offset in 64 bits",
    "_fragid": "fragment that holds the row",
    CREATED_AT: "version that inserted the row; 1 if the table has no stable row ids",
    LAST_UPDATED_AT: "version that last changed the row; 1 if the table has no stable row ids",
}
_COMMENTS_OF_PARTITIONED = {
    CREATED_AT: "version of the partition that inserted the row; 1 if the table has no stable row ids",
    LAST_UPDATED_AT: "version of the partition that last changed the row; 1 if the table has no stable row ids",
}


@dataclass(frozen=True, slots=True)
class TimeTravel:
    """The AS OF clause of a query."""

    version: str | None = None
    timestamp_micros: int | None = None


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """A table to load for reading or, with `privileges`, for writing."""

    catalog: CatalogSettings
    namespace: tuple[str, ...]
    name: str
    options: Mapping[str, str] = field(default_factory=dict)
    by_path: bool = False
    time_travel: TimeTravel | None = None
    privileges: tuple[str, ...] = ()

    def table_name(self) -> TableName:
        """The name only."""
        return TableName(self.catalog, self.namespace, self.name, self.options, self.by_path)


@dataclass(frozen=True, slots=True)
class MetadataColumn:
    """A column that is not part of SELECT *."""

    name: str
    type: DataType
    nullable: bool
    comment: str


@dataclass(frozen=True, slots=True)
class TableDescription:
    """The description of a table that the JVM passes to Spark."""

    handle: TableHandle
    name: str
    schema: StructType
    version: str | None
    properties: Mapping[str, str]
    capabilities: tuple[str, ...]
    metadata_columns: tuple[MetadataColumn, ...]
    partitioning: tuple[SparkTransform, ...] = ()
    constraints: tuple[TableConstraint, ...] = ()
    generated: Mapping[str, str] = field(default_factory=dict)
    """The expressions of generated columns, for SHOW CREATE TABLE."""
    declares_generated: bool = False
    """Whether Spark knows them, and computes their values."""
    computed: Mapping[str, str] = field(default_factory=dict)
    """Expressions that the connector's own rule evaluates, because Spark must not know them."""
    identities: Mapping[str, SparkIdentity] = field(default_factory=dict)
    fixed_columns: tuple[str, ...] = ()
    """Identity columns whose values no statement chooses."""
    described: StructType | None = None
    """The columns with descriptions in place of the bytes of blobs, if an INSERT takes either."""
    fills_columns: bool = False
    """Whether a rule of the connector gives rows of an INSERT the columns that they lack, as Spark does from 4.1 on."""
    pinned: bool = False
    """Whether the query has chosen the version."""


@dataclass(frozen=True, slots=True)
class LoadReply:
    """The table, if there is one."""

    found: bool
    table: TableDescription | None = None


@operation("table.load")
def load(request: LoadRequest, call: Call) -> LoadReply:
    """The table of a query or write.

    Raises:
        InvalidInputError: an option or a setting of the session is unknown or invalid.
    """
    check_settings(call.session)
    table = request.table_name()
    place = find(table)
    if place is None:
        return LoadReply(False)
    if request.privileges:
        return _load_to_write(request, audited_place(place, call.session, writes=True).place)
    state, options = StateOptions.pick(request.options), ColumnOptions.pick(request.options)
    version, tag, moment = _asked_version(state, request.time_travel)
    is_newest = (version, tag, moment) == (None, None, None)
    audited = audited_place(place, call.session, writes=False, is_newest=is_newest)
    place = audited.place
    location = place.location()
    opened = find_table(location, version=version, tag=tag, timestamp=moment)
    if opened is None:
        if request.by_path:
            raise NotFoundError(f"there is no Lance table at {with_absolute_path(location.uri)}")
        return LoadReply(False)
    if request.by_path:
        ReadOptions.parse({**request.options, "path": place.uri})  # Rejects unknown options.
    described = describe(place, opened, READS + (WRITES if is_newest and audited.is_writable else ()), options)
    evolved = described.generated if is_newest and _LOADS_EVOLVED_TO_READ else {}
    described = replace(described, pinned=not is_newest, computed=evolved)
    described.handle.keep(opened)
    return LoadReply(True, described)


def _load_to_write(request: LoadRequest, place: ResolvedTable) -> LoadReply:
    options = WriteOptions.parse({**request.options, "path": place.uri})
    newest = find_table(place.location())
    if newest is None:
        # A path is enough for the first write; a name must have been created by CREATE TABLE.
        return LoadReply(True, to_be_made(place)) if request.by_path else LoadReply(False)
    inserts = set(request.privileges) <= {"INSERT", "DELETE"} and "INSERT" in request.privileges
    # Rows that are only inserted may come with bytes; those that are changed keep their descriptions. Spark reads the
    # target of a MERGE too.
    blobs = BINARY if inserts else None
    columns = ColumnOptions(blob_handling=blobs)
    overwrites = request.by_path and "DELETE" in request.privileges
    capabilities = READS + WRITES + (_ANY_SCHEMA if options.merge_schema else EVOLVES)
    described = describe(place, newest, capabilities, columns)
    if overwrites and not described.handle.partitioned:
        described = replace(described, capabilities=WRITES + _ANY_SCHEMA)
        return LoadReply(True, replace(described, handle=replace(described.handle, replaces_schema=True)))
    if blobs is not None and not options.merge_schema and any(map(has_blobs, newest.lance_schema.fields)):
        described = _of_either(describe(place, newest, capabilities, _DESCRIBED), described)
    described.handle.keep(newest)
    fills = _FILLS_COLUMNS and inserts and not options.merge_schema
    described = replace(described, fills_columns=fills, handle=replace(described.handle, by_path=overwrites))
    computes = inserts and not options.merge_schema
    return LoadReply(True, _computed(described, request, by_spark=computes))


def _computed(described: TableDescription, request: LoadRequest, *, by_spark: bool) -> TableDescription:
    """Selects who computes generated columns: Spark 4.3 for INSERT. Of tables with such columns it refuses UPDATE,
    MERGE and streams, and it does not look at columns that are merged into the schema, or replace it.

    UPDATE and MERGE, and INSERT before Spark 4.3, get the values that they do not set from a rule of the connector;
    tasks complete and check all other rows.

    Args:
        by_spark: whether the statement is such an INSERT.
    """
    if not described.generated:
        return described
    if by_spark and _COMPUTES:
        return replace(described, declares_generated=True, capabilities=described.capabilities + _COMPUTES)
    if by_spark:
        columns = with_nullable(described.schema, described.generated)
        return replace(described, schema=columns, computed=described.generated)
    return replace(described, computed=described.generated if "UPDATE" in request.privileges else {})


def _asked_version(state: StateOptions, travel: TimeTravel | None) -> tuple[int | None, str | None, datetime | None]:
    """Number, tag and time of the requested version; all None for the newest."""
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


def describe(
    place: ResolvedTable,
    table: Dataset | PartitionedTable,
    capabilities: tuple[str, ...],
    options: ColumnOptions = _ALL_COLUMNS,
) -> TableDescription:
    """A version as Spark sees it, in the columns that `options` choose.

    Raises:
        InvalidInputError: the options choose columns of a partitioned table.
    """
    specs = table.specs if isinstance(table, PartitionedTable) else None
    if specs is not None and replace(options, blob_handling=None, json_as=None, uuid_as=None) != _ALL_COLUMNS:
        raise InvalidInputError("the columns of a partitioned table are chosen by SELECT, not by options")
    shown = options.shown_as(table.properties)
    stored, file_version = table.lance_schema, table.file_version
    schema = spark_view(stored, file_version, shown)
    chosen = schema if options.columns is None else project(schema, options.columns)
    system = ((ROW_ID, options.with_row_id), (ROW_ADDRESS, options.with_row_address))
    added = [StructField(name, LongType(), False) for name, is_chosen in system if is_chosen]
    columns = StructType([*to_spark_schema(to_arrow_schema(chosen)).fields, *added])
    identities = spark_identities(stored)
    properties = without_statistics(without_marks(table.config))
    return TableDescription(
        handle=TableHandle(
            uri=place.uri,
            branch=table.branch,
            version=table.version,
            timestamp_nanos=table.versions_manifest.timestamp_nanos,
            storage_options=place.storage_options,
            partitioned=specs is not None,
            name=place.shown(table.branch) if place.name else "",
        ),
        name=place.shown(table.branch),
        schema=with_nullable(columns, identities),
        version=str(table.version),
        properties={
            **{key: text for key, text in properties.items() if key != CLUSTERED},
            "provider": "lance",
            "location": table.uri,
        },
        capabilities=capabilities,
        metadata_columns=(
            *_metadata_columns({*columns.fieldNames(), *schema.names()}, of_partitions=specs is not None),
            *_of_blobs(stored, file_version, shown.blobs),
        ),
        partitioning=() if specs is None else tuple(shown_fields(specs.current, stored)),
        constraints=constraints_of(stored),
        generated=expressions_of(stored),
        identities=identities,
        fixed_columns=fixed_columns(identities),
    )


def describe_evolving(
    place: ResolvedTable, table: Dataset | PartitionedTable, *, inserts_blobs: bool
) -> TableDescription:
    """A version with the columns that the rows of a statement bring.

    Args:
        inserts_blobs: whether rows may have the bytes of blobs or descriptions.
    """
    capabilities = READS + WRITES + EVOLVES
    described = describe(place, table, capabilities, _DESCRIBED if inserts_blobs else _ALL_COLUMNS)
    if inserts_blobs:
        described = _of_either(described, describe(place, table, capabilities, _BINARY))
    # Without the version: Spark reloads a table with a version before it runs, and would find one without the columns.
    # Nor does it compute the generated columns of such a table.
    handle = described.handle.with_evolved(table.lance_schema)
    return replace(described, handle=handle, version=None, computed=described.generated)


def _of_either(described: TableDescription, of_bytes: TableDescription) -> TableDescription:
    """A table whose blob columns take descriptions, as in `described`, or bytes."""
    return replace(of_bytes, described=described.schema)


def _metadata_columns(taken: set[str], *, of_partitions: bool) -> Iterator[MetadataColumn]:
    comments = {**_COMMENTS, **_COMMENTS_OF_PARTITIONED} if of_partitions else _COMMENTS
    for name in SYSTEM_FIELDS:
        if name not in taken:
            yield MetadataColumn(name, LongType(), False, comments[name])
    if of_partitions and PARTITION_COLUMN not in taken:
        yield MetadataColumn(PARTITION_COLUMN, StringType(), False, "partition that holds the row")


def _of_blobs(schema: LanceSchema, file_version: FileVersion | None, handling: str) -> Iterator[MetadataColumn]:
    for name, dtype, comment in metadata_columns(schema, file_version, handling):
        yield MetadataColumn(name, dtype, True, comment)


def to_be_made(place: ResolvedTable) -> TableDescription:
    """A path without a table, which the first write makes."""
    return TableDescription(
        handle=TableHandle(uri=place.uri, storage_options=place.storage_options),
        name=place.shown(),
        schema=StructType(),
        version=None,
        properties={},
        capabilities=WRITES + _ANY_SCHEMA,
        metadata_columns=(),
    )


@operation("table.exists")
def exists(request: LoadRequest, _call: Call) -> Done:
    """Whether there is such a table."""
    place = find(request.table_name())
    if place is None:
        return Done(False)
    if request.by_path:
        # What is asked is whether `save` makes the table; an option chooses the branch.
        place = replace(place, branch=None)
    try:
        return Done(find_table(place.location()) is not None)
    except NotFoundError:
        return Done(False)  # The table has no such branch.
