"""Searches as relations: their columns, and their rows, which the planner finds by itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

import pyarrow as pa
from pyspark.sql.types import LongType, StructField, StructType

from lance_spark.errors import InvalidInputError
from lance_spark.spark.connector.catalog.table import LoadRequest, load
from lance_spark.spark.connector.channel.handles import TableHandle
from lance_spark.spark.connector.channel.registry import Call, Reply, operation
from lance_spark.spark.connector.channel.wire_types import to_wire_batch, wire_schema
from lance_spark.spark.connector.scan.local_scan import stream_of
from lance_spark.spark.connector.scan.requests import ScanPlan
from lance_spark.spark.connector.search import text_search, vector_search
from lance_spark.spark.connector.search.arguments import VERSION_ARGUMENTS, SearchCall
from lance_spark.spark.jobs.compaction_job import AnyDataset
from lance_spark.spark.types import to_spark_schema
from lance_spark.table.reading.system_columns import ROW_ID


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """A search in a table that is named."""

    table: LoadRequest
    search: SearchCall


@dataclass(frozen=True, slots=True)
class SearchReply:
    """The table that is searched, and the columns of the result."""

    found: bool
    handle: TableHandle | None = None
    name: str = ""
    schema: StructType | None = None


@dataclass(frozen=True, slots=True)
class SearchPlanRequest:
    """A search in a version of a table, of whose result some columns are needed."""

    handle: TableHandle
    search: SearchCall
    columns: StructType


class PlannedSearch(Protocol):
    """A call of a search function in a version of a table, checked."""

    def schema(self) -> pa.Schema:
        """The columns of the result."""

    def rows(self, columns: Sequence[str]) -> pa.Table:
        """The result, with these of its columns."""


PlanSearch: TypeAlias = Callable[[AnyDataset, SearchCall], PlannedSearch]
_FUNCTIONS: Mapping[str, PlanSearch] = {
    **dict.fromkeys(vector_search.NAMES, vector_search.plan_vector_search),
    **dict.fromkeys(text_search.NAMES, text_search.plan_text_search),
}


@operation("search.load")
def load_search(request: SearchRequest, call: Call) -> SearchReply:
    """The columns of a search."""
    chosen = {name: text for name, text in request.search.named.items() if name in VERSION_ARGUMENTS}
    options = {**request.table.options, **{name: text.strip('"') for name, text in chosen.items()}}
    found = load(replace(request.table, options=options), call)
    if found.table is None:
        return SearchReply(False)
    columns = to_spark_schema(_planned(found.table.handle, request.search).schema())
    # Everywhere in Spark row ids are BIGINT.
    schema = StructType([StructField(ROW_ID, LongType()) if item.name == ROW_ID else item for item in columns.fields])
    return SearchReply(True, found.table.handle, f"{request.search.function} in {found.table.name}", schema)


@operation("search.plan")
def plan(request: SearchPlanRequest, _call: Call) -> Reply:
    """The rows of a search, found here: they are few, and a task costs more than the search."""
    names = request.columns.fieldNames()
    rows = _planned(request.handle, request.search).rows(names)
    target = wire_schema(request.columns)
    batches = [to_wire_batch(batch, target) for batch in rows.combine_chunks().to_batches()]
    described = f"lance {request.search.function} {request.handle.display_name} columns=[{', '.join(names)}]"
    summary = ScanPlan(described, rows.num_rows, rows.nbytes, is_inline=True)
    return Reply(summary, (b"", *([stream_of(batches)] if batches else [])))


def _planned(handle: TableHandle, call: SearchCall) -> PlannedSearch:
    plan_search = _FUNCTIONS.get(call.function)
    if plan_search is None:
        raise InvalidInputError(f"there is no search function {call.function}")
    return plan_search(handle.dataset(), call)
