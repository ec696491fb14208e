"""Relations whose table does not exist, where Spark's own error would mislead."""

from __future__ import annotations

from collections.abc import Mapping

from lance_spark.errors import NotFoundError
from lance_spark.partitioned.access import find_table
from lance_spark.spark.connector.catalog.resolve import TableName, display_name, find
from lance_spark.spark.connector.catalog.table import LoadRequest
from lance_spark.spark.connector.catalog.views import refuse_view
from lance_spark.spark.connector.channel.registry import Call, Done, operation
from lance_spark.storage.paths import with_absolute_path

_METADATA_OF_OTHERS: Mapping[str, str] = {
    **dict.fromkeys(("snapshots", "history", "metadata_log_entries", "manifests", "all_manifests"), "versions"),
    **dict.fromkeys(("entries", "all_entries", "data_files", "all_data_files", "all_files"), "files"),
    **dict.fromkeys(("delete_files", "all_delete_files", "position_deletes"), "fragments"),
}
"""Metadata tables of Iceberg, and the nearest ones here."""

_VERSIONS = ("version", "tag", "branch", "timestamp")


@operation("table.check_missing")
def check_missing(request: LoadRequest, _call: Call) -> Done:
    """Passes if Spark's own error fits a relation whose table does not exist.

    Raises:
        NotFoundError: it is named by its path, or it is a metadata table of another format.
        InvalidInputError: it is a view, where only a table fits.
        UnsupportedFeatureError: it is a view, which this Spark does not read.
    """
    table = request.table_name()
    is_of_version = request.time_travel is not None or any(name.lower() in _VERSIONS for name in request.options)
    refuse_view(table, writes=" or ".join(request.privileges) or None, is_of_version=is_of_version)
    path = table.path or next((part for part in table.namespace if "/" in part), None)
    if path is not None and (table.path is not None or not _exists(TableName(table.catalog, (), path))):
        raise NotFoundError(f"there is no Lance table at {with_absolute_path(path)}")
    instead = _METADATA_OF_OTHERS.get(table.name.lower())
    if instead is not None and table.namespace:
        of = TableName(table.catalog, table.namespace[:-1], table.namespace[-1])
        if _exists(of):
            name = display_name(table.catalog, of.identifier)
            raise NotFoundError(f"{name} has no metadata table {table.name}; {name}.{instead} is nearest to it")
    return Done()


def _exists(table: TableName) -> bool:
    place = find(table)
    return place is not None and find_table(place.location()) is not None
