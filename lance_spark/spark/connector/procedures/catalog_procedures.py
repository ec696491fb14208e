"""Procedures on the names of a catalog."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from pyspark.sql.types import BooleanType, LongType, StringType, TimestampType

from lance_spark.errors import InvalidInputError, NotFoundError
from lance_spark.namespace.directory.dropped_retention import expired, kept_until
from lance_spark.namespace.locations import location_uri, requested_location
from lance_spark.partitioned.new_name import register
from lance_spark.spark.column_names import quoted_name
from lance_spark.spark.connector.catalog.resolve import directory, display_name, new_identifier, open_namespace
from lance_spark.spark.connector.procedures.procedure_types import FLAG, NUMBER, TEXT, Invocation, Parameter, Procedure
from lance_spark.spark.connector.scan.local_rows import LocalRows, row_type
from lance_spark.spark.options.catalog import CatalogOptions

_REGISTERED = row_type(location=StringType(), version=LongType(), partitioned=BooleanType())


def _register(call: Invocation) -> LocalRows:
    table = call.table_name(call.arguments.required("table"))
    if table.path is not None:
        raise InvalidInputError(f"{table.path!r} is a path; give the name that the table at the location is to get")
    names = open_namespace(call.catalog)
    identifier = new_identifier(call.catalog, table.identifier)
    if identifier is None:
        raise NotFoundError(f"there is no namespace {display_name(call.catalog, table.namespace)}")
    found, uri = register(names, identifier, call.arguments.required("location"), table.storage_options())
    return LocalRows.of(_REGISTERED, [(uri, found.version, found.has_split_keys)])


_DROPPED = row_type(
    name=StringType(),
    location=StringType(),
    dropped_at=TimestampType(),
    versions=LongType(),
    files=LongType(),
    bytes=LongType(),
    kept_until=TimestampType(),
)
_PURGED = row_type(name=StringType(), location=StringType(), files=LongType(), bytes=LongType(), dry_run=BooleanType())


def _dropped_tables(call: Invocation) -> LocalRows:
    names = directory(call.catalog)
    text = call.arguments.text("namespace")
    namespace = None if text is None else call.namespace(text)
    found = [item for item in names.dropped.find() if namespace in (None, item.name[:-1])]
    rows = []
    for item in found:
        files = names.dropped.files(item)
        where = location_uri(names.root, item.location)
        figures = (files.versions, files.files, files.num_bytes, kept_until(item, _retention(call)))
        rows.append((quoted_name(item.name), where, item.dropped_at, *figures))
    return LocalRows.of(_DROPPED, rows)


def _retention(call: Invocation) -> timedelta | None:
    return CatalogOptions.parse(call.catalog.settings).dropped_table_retention


def _purge(call: Invocation) -> LocalRows:
    given, names = call.arguments, directory(call.catalog)
    table, location, age = given.text("table"), given.text("location"), given.age("days")
    dry_run, only_expired = bool(given.flag("dry_run")), bool(given.flag("expired"))
    if table is None and location is None and age is None and not only_expired:
        raise InvalidInputError(
            "give the table, its location, days (then all tables that were dropped before go), or expired => true "
            "(then those that are kept no longer)"
        )
    found = names.dropped.find()
    if only_expired:
        found = list(names.dropped.removable(expired(found, _retention(call))))
    if table is not None:
        found = [item for item in found if item.name == call.table_name(table).identifier]
    if location is not None:
        wanted = requested_location(names.root, location)
        found = [item for item in found if item.location == wanted]
    if not found and (table is not None or location is not None):
        raise NotFoundError(
            f"catalog {call.catalog.name} has no dropped table {table or location}; CALL system.dropped_tables() lists "
            "those that there are"
        )
    if age is not None:
        before = datetime.now(timezone.utc) - age
        found = [item for item in found if item.dropped_at is not None and item.dropped_at < before]
    rows = []
    for item in found:
        files = names.dropped.files(item)
        if dry_run:
            names.dropped.check_unused(item)
        else:
            names.dropped.purge(item)
        where = location_uri(names.root, item.location)
        rows.append((quoted_name(item.name), where, files.files, files.num_bytes, dry_run))
    return LocalRows.of(_PURGED, rows)


PROCEDURES = (
    Procedure(
        "dropped_tables",
        "Tables that were dropped without PURGE, whose files are still there.",
        (Parameter("namespace", TEXT, "only tables that were in this namespace; those of all if it is left out"),),
        _dropped_tables,
    ),
    Procedure(
        "purge",
        "Deletes the files of dropped tables.",
        (
            Parameter("table", TEXT, "the name that the table had; any if it is left out"),
            Parameter("location", TEXT, "where its files are, as dropped_tables shows it; anywhere if it is left out"),
            Parameter(
                "days",
                NUMBER,
                "only tables that were dropped this many days ago or earlier; at any time if it is left out",
            ),
            Parameter("dry_run", FLAG, "only shows what would be deleted; false if it is left out"),
            Parameter(
                "expired",
                FLAG,
                "only tables that are kept no longer, as dropped_tables shows by kept_until; false if it is left out",
            ),
        ),
        _purge,
    ),
    Procedure(
        "register_table",
        "Gives a name to a table that exists, partitioned or not; DROP TABLE takes it away again.",
        (
            Parameter("table", TEXT, "the name in this catalog", required=True),
            Parameter("location", TEXT, "where the table is: a path below the catalog's root, or a URI", required=True),
        ),
        _register,
    ),
)
