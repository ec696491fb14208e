"""Procedures for the streaming queries that write to a table."""

from __future__ import annotations

from pyspark.sql.types import LongType, StringType, TimestampType

from lance_spark.errors import NotFoundError
from lance_spark.spark.connector.procedures.procedure_types import TABLE, TEXT, Invocation, Parameter, Procedure
from lance_spark.spark.connector.scan.local_rows import LocalRows, row_type
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.epoch_mark import PREFIX, committed_epochs
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.refs.tagging import release_versions
from lance_spark.table.versions.changes import update_config

_STREAMS = row_type(query=StringType(), epoch=LongType(), committed_at=TimestampType())
_VERSION = row_type(version=LongType())
_QUERY = Parameter("query", TEXT, "id of the query, or its txnAppId", required=True)


def _newest(call: Invocation) -> tuple[TableLocation, Manifest]:
    location = call.table().versions_location
    return location, location.newest()


def _streams(call: Invocation) -> LocalRows:
    _, manifest = _newest(call)
    return LocalRows.of(_STREAMS, [(item.app, item.epoch, item.at) for item in committed_epochs(manifest.config)])


def _release(call: Invocation) -> LocalRows:
    location, manifest = _newest(call)
    query = call.arguments.required("query")
    released = release_versions(location, query)
    if PREFIX + query not in manifest.config:
        if released:
            return LocalRows.of(_VERSION, [(manifest.version,)])
        raise NotFoundError(f"no streaming query {query} has written to {call.arguments.required('table')}")
    return LocalRows.of(_VERSION, [(update_config(location, manifest, {PREFIX + query: None}).version,)])


PROCEDURES = (
    Procedure(
        "streams", "The streaming queries that have written to a table, with their last epoch.", (TABLE,), _streams
    ),
    Procedure(
        "release_stream",
        "Forgets a streaming query: epochs that it offers again are written again, and versions that it holds by "
        "holdVersions can be cleaned up.",
        (TABLE, _QUERY),
        _release,
    ),
)
