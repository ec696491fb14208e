"""Tables that streaming queries find by path, without a catalog."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from lance_spark.errors import NotFoundError
from lance_spark.spark.connector.catalog.resolve import find
from lance_spark.spark.connector.catalog.table import LoadReply, LoadRequest, load, to_be_made
from lance_spark.spark.connector.channel.handles import CatalogSettings
from lance_spark.spark.connector.channel.registry import Call, operation
from lance_spark.spark.connector.streaming.change_columns import with_change_columns
from lance_spark.spark.options.options import StateOptions
from lance_spark.spark.streaming.options import SourceOptions

_CATALOG = "lance_path"
_KEPT = frozenset({"branch", "columns", "with_row_id", "with_row_address", "blob_handling", "json_as", "uuid_as"})
"""Options that choose what a query reads, and how its columns are shown."""


@dataclass(frozen=True, slots=True)
class PathRequest:
    """The table at a path.

    Attributes:
        options: the query's options, `path` among them.
        is_read: whether rows are read; otherwise they are written, and a table that is missing will be made.
    """

    options: Mapping[str, str] = field(default_factory=dict)
    is_read: bool = True


@operation("stream.table")
def table_at_path(request: PathRequest, call: Call) -> LoadReply:
    """The table of a streaming query that names a path.

    Raises:
        NotFoundError: there is no table to read, or no such branch.
    """
    options = {name.lower(): value for name, value in request.options.items()}
    kept = {
        name: value
        for name, value in request.options.items()
        if name.lower().startswith("storage.") or (name.lower() in _KEPT and (request.is_read or name == "branch"))
    }
    path = options.get("path", "")
    asked = LoadRequest(CatalogSettings(_CATALOG), (), path, kept, by_path=True)
    place = find(asked.table_name())
    assert place is not None, "a path leads somewhere"
    source = SourceOptions.parse(request.options, path) if request.is_read else SourceOptions()
    try:
        found = load(asked, call)
    except NotFoundError:
        if request.is_read or StateOptions.pick(request.options).branch is not None:
            raise
        return LoadReply(True, to_be_made(place))
    if found.table is None or not source.read_change_feed:
        return found
    return replace(found, table=with_change_columns(found.table))
