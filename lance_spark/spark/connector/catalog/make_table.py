"""Creates, replaces and truncates tables: CREATE, CTAS and RTAS, TRUNCATE, and tables of the session catalog."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyspark.sql.types import StructType

from lance_spark.errors import (
    AlreadyExistsError,
    CommitConflictError,
    CommitStateUnknownError,
    EpochCommittedError,
    InvalidInputError,
    NotFoundError,
    RetryableConflictError,
    UnsupportedFeatureError,
)
from lance_spark.namespace.base import Namespace
from lance_spark.partitioned.dataset import find_partitioned_table
from lance_spark.partitioned.new_name import NewName
from lance_spark.partitioned.table import PartitionedTable
from lance_spark.schema.arrow import to_arrow_schema
from lance_spark.spark.column_names import quoted_name
from lance_spark.spark.connector.catalog.audited import audited_handle
from lance_spark.spark.connector.catalog.partition_by import clustering_of_statement
from lance_spark.spark.connector.catalog.resolve import (
    ResolvedTable,
    TableName,
    actual_table,
    check_free,
    directory,
    display_name,
    find,
    new_identifier,
    open_namespace,
    requested_place,
)
from lance_spark.spark.connector.catalog.staged import StagedTable, stage_partitioned
from lance_spark.spark.connector.catalog.table import (
    EVOLVES,
    READS,
    WRITES,
    LoadReply,
    TableDescription,
    describe,
)
from lance_spark.spark.connector.channel.handles import CatalogSettings, Staged, TableHandle, check_storage_options
from lance_spark.spark.connector.channel.registry import Call, Done, operation
from lance_spark.spark.connector.write.tables import table_of
from lance_spark.spark.constraints import TableConstraint
from lance_spark.spark.jobs.write_plans import TableDefinition, plan_write
from lance_spark.spark.options.options import StateOptions, WriteOptions
from lance_spark.spark.options.table_properties import TableProperties
from lance_spark.spark.predicates import SparkExpression
from lance_spark.spark.types.defaults import CURRENT_DEFAULT, checked_default
from lance_spark.spark.types.generated import check_generated, expressions_of, with_expressions
from lance_spark.storage.paths import with_absolute_path
from lance_spark.table.dataset import Dataset
from lance_spark.table.maintenance.clustering.layout import CLUSTERING_COLUMNS
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.row_level.plain_target import PlainTarget
from lance_spark.table.row_level.write_target import WriteMode

_log = logging.getLogger(__name__)

_PROVIDERS = ("lance", "io.lancespark.lancesource")


@dataclass(frozen=True, slots=True)
class MakeRequest:
    """A table to create: CREATE, or a CREATE or REPLACE whose rows are written later.

    Attributes:
        mode: "create", "replace" or "create_or_replace".
        like: the table that the columns are copied from.
        default_source: Spark's provider if the user names none, `spark.sql.sources.default`.
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
    default_source: str = "lance"
    constraints: tuple[TableConstraint, ...] = ()

    def like_schema(self) -> pa.Schema | None:
        """The columns of `like`."""
        return None if self.like is None else to_arrow_schema(self.like.source().lance_schema)

    def table_name(self) -> TableName:
        """The name only."""
        return TableName(self.catalog, self.namespace, self.name, self.options, self.by_path)


@dataclass(frozen=True, slots=True)
class MakeReply:
    """The created table, or the reason why there is none: "exists", "no_table" or "no_namespace"."""

    outcome: str
    table: TableDescription | None = None


@dataclass(frozen=True, slots=True)
class SessionTableRequest:
    """A table of Spark's session catalog, with its path in the properties."""

    properties: Mapping[str, str]
    schema: StructType | None = None
    partitioning: tuple[SparkExpression, ...] = ()


@dataclass(frozen=True, slots=True)
class HandleRequest:
    """A request for one version of a table."""

    handle: TableHandle


@operation("table.create")
def create(request: MakeRequest, _call: Call) -> MakeReply:
    """Creates an empty table; returns its first version."""
    if request.like is not None:
        generated = expressions_of(request.like.source().lance_schema)
        request = replace(request, schema=with_expressions(request.schema, generated))
    try:
        return _made(request)
    except (AlreadyExistsError, CommitConflictError):
        # A concurrent writer won. The object with this name may also be a namespace.
        if find(request.table_name()) is None:
            raise
        return MakeReply("exists")


def _made(request: MakeRequest) -> MakeReply:
    staged = _stage(request)
    if isinstance(staged, MakeReply):
        return staged
    place = ResolvedTable(staged.uri, staged.storage_options, name=staged.name)
    table = staged_table(staged)
    try:
        made = table.commit(like=request.like_schema())
    except CommitStateUnknownError:
        raise  # The table may exist; its name must be kept.
    except BaseException:
        table.give_up()
        raise
    return MakeReply("made", table.describe(place, made))


@operation("table.stage")
def stage(request: MakeRequest, _call: Call) -> MakeReply:
    """Prepares a staged table; nothing is visible before its commit.

    Raises:
        RetryableConflictError: a concurrent writer has created the table to create or replace.
    """
    try:
        handle = _stage(request)
    except AlreadyExistsError as error:
        if find(request.table_name()) is None:
            raise
        if request.mode == "create":
            return MakeReply("exists")
        name = quoted_name(request.table_name().identifier)
        raise RetryableConflictError(f"another writer has created {name} meanwhile; run the statement again") from error
    if isinstance(handle, MakeReply):
        return handle
    return MakeReply(
        "staged",
        TableDescription(
            handle=handle,
            name=handle.display_name,
            schema=request.schema,
            version=None,
            properties=request.properties,
            capabilities=WRITES,
            metadata_columns=(),
        ),
    )


@operation("table.commit_staged")
def commit_staged(request: HandleRequest, call: Call) -> Done:
    """Commits the rows that the attachments describe, or none, together with the table.

    A table that has the named write of this statement already stays as it is.
    """
    try:
        staged_table(request.handle).commit(call.attachments)
    except EpochCommittedError as error:
        _log.info("a table is not replaced again: %s", error)
    return Done()


@operation("table.abort_staged")
def abort_staged(request: HandleRequest, _call: Call) -> Done:
    """Gives a reserved name back."""
    if request.handle.staged is not None:
        staged_table(request.handle).give_up()
    return Done()


@operation("table.truncate")
def truncate(request: HandleRequest, call: Call) -> Done:
    """Removes all rows of the newest version; no new version if there are none."""
    return Done(table_of(audited_handle(request.handle, call.session)).truncate())


@operation("table.session")
def of_session_catalog(request: SessionTableRequest, _call: Call) -> LoadReply:
    """A table of the session catalog, created if it does not exist and the statement has its columns."""
    properties = dict(request.properties)
    uri = properties.get("path") or properties.get("location")
    if not uri:
        raise InvalidInputError("the table has neither a path nor a location; add LOCATION '...'")
    if request.partitioning:
        raise UnsupportedFeatureError("tables of the session catalog cannot be partitioned", feature="PARTITIONED BY")
    place = ResolvedTable(uri, StateOptions.pick(properties).storage_options)
    location = place.location()
    manifest = location.latest()
    if manifest is None:
        if not request.schema:
            raise NotFoundError(f"there is no Lance table at {with_absolute_path(uri)}")
        _check_definitions(request.schema)
        parsed = TableProperties.parse(properties, uri, {})
        target, definition = PlainTarget.of(location, None), TableDefinition(parsed.config)
        made = plan_write(target, request.schema, WriteMode.CREATE, parsed.options, definition=definition).commit([])
        assert isinstance(made, Manifest), "a table that is made has a version"
        manifest = made
    description = describe(place, Dataset(location, manifest), READS + WRITES + EVOLVES)
    return LoadReply(True, replace(description, handle=replace(description.handle, of_session_catalog=True)))


def _check_definitions(columns: StructType) -> None:
    """Rejects a DEFAULT or generated values that cannot be kept.

    Raises:
        InvalidInputError: a DEFAULT is no literal.
        UnsupportedFeatureError: an expression cannot be enforced.
    """
    check_generated(columns)
    for column in columns.fields:
        if CURRENT_DEFAULT in column.metadata:
            checked_default(column.name, column.metadata[CURRENT_DEFAULT])


def _check_provider(request: MakeRequest) -> None:
    provider = request.properties.get("provider")
    # Spark also sends its default source for `saveAsTable` and `toTable`, just as for an explicit USING.
    known = (*_PROVIDERS, request.default_source.lower())
    if provider is not None and provider.lower() not in known:
        raise InvalidInputError(
            f"USING {provider}: tables of catalog {request.catalog.name} are Lance tables; write USING lance, or leave "
            "it out"
        )


def _with_clustering(request: MakeRequest) -> MakeRequest:
    """The request with CLUSTER BY as a property.

    Raises:
        InvalidInputError: the statement sets another value of the property.
    """
    fields, columns = clustering_of_statement(request.partitioning)
    if columns is None:
        return request
    if request.properties.get(CLUSTERING_COLUMNS, columns) != columns:
        raise InvalidInputError(f"CLUSTER BY and the property {CLUSTERING_COLUMNS} name other columns; leave one out")
    properties = {**request.properties, CLUSTERING_COLUMNS: columns}
    return replace(request, partitioning=tuple(fields), properties=properties)


def _stage(request: MakeRequest) -> TableHandle | MakeReply:
    request = _with_clustering(request)
    _check_provider(request)
    check_generated(request.schema)
    table = request.table_name()
    if request.by_path:
        WriteOptions.parse({**request.options, "path": request.name}).check_makes_table(None)
    check_storage_options(request.properties, table.storage_options(), quoted_name(table.identifier))
    place = find(table)
    base = None if place is None else place.location().latest()
    whole = None
    if place is not None and base is None:
        whole = find_partitioned_table(place.uri, storage_options=place.storage_options)
    is_there = base is not None or whole is not None
    if is_there and request.mode == "create":
        return MakeReply("exists")
    if not is_there and request.mode == "replace":
        return MakeReply("no_table")
    given = requested_place(table, request.properties.get("location"))
    if given is not None and place is None:
        check_free(given)
    elif given is not None and place is not None and given.uri != place.uri:
        raise UnsupportedFeatureError(
            f"the table is at {place.uri}, and REPLACE does not move it; leave LOCATION out, or DROP it first",
            feature="REPLACE TABLE at another location",
        )
    if request.partitioning or whole is not None:
        return _stage_partitioned(request, place, base, whole)
    declared, identifier = False, table.identifier
    if place is None:
        new = new_identifier(request.catalog, identifier)
        if new is None:
            return MakeReply("no_namespace")
        identifier = new
        place, reserved = _reserved(request, open_namespace(request.catalog), identifier)
        declared = reserved.is_ours
    staged = Staged(
        columns=request.schema,
        properties=request.properties,
        catalog=request.catalog,
        identifier=None if table.path is not None else identifier,
        declared=declared,
        constraints=request.constraints,
    )
    version = None if base is None else base.version
    nanos = None if base is None else base.timestamp_nanos
    name = place.shown(place.branch) if place.name else ""
    return TableHandle(place.uri, place.branch, version, nanos, place.storage_options, staged, name=name)


def _stage_partitioned(
    request: MakeRequest, place: ResolvedTable | None, base: Manifest | None, whole: PartitionedTable | None
) -> TableHandle | MakeReply:
    table = request.table_name()
    changes_kind = base is not None or not request.partitioning
    has_place = table.path is not None or "location" in request.properties
    if changes_kind and (place is None or place.branch is not None or has_place):
        raise UnsupportedFeatureError(
            "of a path, a branch, or with LOCATION, REPLACE TABLE does not make a partitioned table of one without "
            "partitions, nor back; delete it first",
            feature="REPLACE TABLE of other partitions",
        )
    identifier: tuple[str, ...] | None = None if table.path is not None else table.identifier
    if place is None:
        identifier = new_identifier(request.catalog, table.identifier)
        if identifier is None:
            return MakeReply("no_namespace")
    elif changes_kind:
        identifier = actual_table(request.catalog, table.identifier)
    staged = Staged(
        request.schema,
        request.properties,
        request.catalog,
        identifier,
        replaces=place.uri if changes_kind and place is not None else None,
        partitioning=request.partitioning,
        constraints=request.constraints,
    )
    if place is None or changes_kind:
        assert identifier is not None, "a path has its place"
        names = directory(request.catalog) if changes_kind and place is not None else open_namespace(request.catalog)
        place, reserved = _reserved(request, names, identifier, partitioned=True)
        declared = reserved.location is None and reserved.is_ours
        staged = replace(staged, location=reserved.location, declared=declared)
        whole = None
    if request.partitioning:
        return stage_partitioned(staged, place, whole, request.options, request.like_schema())
    # A plain table in a new directory, which gets the name of a partitioned one at commit.
    return TableHandle(uri=place.uri, storage_options=place.storage_options, staged=staged)


def _reserved(
    request: MakeRequest, names: Namespace, identifier: tuple[str, ...], *, partitioned: bool = False
) -> tuple[ResolvedTable, NewName]:
    """The place of a new table, and its name. Raises as `NewName.reserve`."""
    new = NewName.reserve(
        names,
        identifier,
        request.table_name().storage_options(),
        partitioned=partitioned,
        location=request.properties.get("location"),
    )
    return ResolvedTable(new.uri, new.storage_options, name=display_name(request.catalog, identifier)), new


def staged_table(handle: TableHandle) -> StagedTable:
    """The table of `handle`, which a statement is about to make or replace."""
    return StagedTable(handle)
