"""Procedures on the names of a catalog."""

from __future__ import annotations

from pyspark.sql.types import BooleanType, LongType, StringType

from lance_spark.errors import InvalidInputError, NotFoundError
from lance_spark.namespace.locations import given_location, location_uri
from lance_spark.namespace.partitioned_table import is_partitioned_table, open_partitioned
from lance_spark.spark.bridge.local_rows import LocalRows, row_type
from lance_spark.spark.bridge.places import directory, new_identifier, shown_name
from lance_spark.spark.bridge.procedure_types import TEXT, Invocation, Parameter, Procedure
from lance_spark.table.location import TableLocation

_REGISTERED = row_type(location=StringType(), version=LongType(), partitioned=BooleanType())


def _register(call: Invocation) -> LocalRows:
    table = call.table_name(call.arguments.required("table"))
    if table.path is not None:
        raise InvalidInputError(f"{table.path!r} is a path; give the name that the table at the location is to get")
    names, storage = directory(call.catalog), table.storage_options()
    location = given_location(names.root, call.arguments.required("location"))
    uri = location_uri(names.root, location)
    newest = TableLocation(uri, storage).latest()
    identifier = new_identifier(call.catalog, table.identifier)
    if identifier is None:
        raise NotFoundError(f"there is no namespace {shown_name(call.catalog, table.namespace)}")
    if newest is not None:
        names.register_table(identifier, location)
        return LocalRows.of(_REGISTERED, [(uri, newest.version, False)])
    if not is_partitioned_table(uri, storage):
        raise NotFoundError(f"there is no Lance table at {uri}")
    version = open_partitioned(uri, storage_options=storage).version
    names.declare_table(identifier, location=location)
    return LocalRows.of(_REGISTERED, [(uri, version, True)])


PROCEDURES = (
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
