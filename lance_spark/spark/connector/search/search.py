"""Searches as relations: their columns, and their rows, which the planner finds by itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

import pyarrow as pa
from pyspark.sql.types import LongType, StructField, StructType

from lance_spark.errors import InvalidInputError, NotFoundError
from lance_spark.index.vector.segment import Probed
from lance_spark.schema.projection import parse_path
from lance_spark.spark.connector.catalog.table import LoadRequest, load
from lance_spark.spark.connector.channel.handles import TableHandle
from lance_spark.spark.connector.channel.registry import Call, Reply, Session, operation
from lance_spark.spark.connector.channel.tasks import MESSAGE_TYPE, command
from lance_spark.spark.connector.channel.wire_types import to_wire_batch, wire_schema
from lance_spark.spark.connector.scan.local_scan import stream_of
from lance_spark.spark.connector.scan.requests import ScanPlan
from lance_spark.spark.connector.search import batch_search, hybrid_search, text_search, vector_search
from lance_spark.spark.connector.search.arguments import VERSION_ARGUMENTS, SearchCall
from lance_spark.spark.connector.search.batch_search import QUERIES, BatchSearch, plan_batch_search
from lance_spark.spark.connector.search.divided_search import VectorCall
from lance_spark.spark.connector.search.search_tasks import DividedCall, after, tasks_of
from lance_spark.spark.jobs.compaction_job import AnyDataset
from lance_spark.spark.partitions import BYTES_PER_ROW
from lance_spark.spark.types.schemas import to_spark_schema
from lance_spark.table.reading.system_columns import ROW_ID
from lance_spark.table.vector_search.divided import searched_with


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
    queries: TableHandle | None = None


@dataclass(frozen=True, slots=True)
class SearchPlanRequest:
    """A search in a version of a table, of whose result some columns are needed.

    Attributes:
        queries: the table of queries, if the search has one.
    """

    handle: TableHandle
    search: SearchCall
    columns: StructType
    queries: TableHandle | None = None


@dataclass(frozen=True, slots=True)
class SearchJob:
    """The job that finds rows; what its tasks return is for `search.finish`.

    Attributes:
        job: its name in Spark's UI.
        description: of what it has to search, for plans that are shown before it runs.
        num_rows, size_bytes: of the result, at most.
        ordering: as in `ScanPlan`.
        metrics: as in `ScanPlan`, of what is not read yet.
    """

    job: str
    description: str
    num_rows: int
    size_bytes: int
    ordering: tuple[str, ...]
    metrics: Mapping[str, int]


class PlannedSearch(Protocol):
    """A call of a search function in a version of a table, checked."""

    def schema(self) -> pa.Schema:
        """The columns of the result."""

    def rows(self, columns: Sequence[str]) -> pa.Table:
        """The result, with these of its columns."""

    def explained(self) -> str:
        """Read statistics of `rows`, for plans."""

    def metrics(self) -> Mapping[str, int]:
        """Read statistics of `rows`, by the names of Spark's metrics."""

    def ordering(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Columns of the result by which `rows` are sorted, ascending."""


PlanSearch: TypeAlias = Callable[[AnyDataset, SearchCall], PlannedSearch]
_FUNCTIONS: Mapping[str, PlanSearch] = {
    **dict.fromkeys(vector_search.NAMES, vector_search.plan_vector_search),
    **dict.fromkeys(text_search.NAMES, text_search.plan_text_search),
    **dict.fromkeys(hybrid_search.NAMES, hybrid_search.plan_hybrid_search),
}


@operation("search.load")
def load_search(request: SearchRequest, call: Call) -> SearchReply:
    """The columns of a search."""
    chosen = {name: text for name, text in request.search.named.items() if name in VERSION_ARGUMENTS}
    options = {**request.table.options, **{name: text.strip('"') for name, text in chosen.items()}}
    found = load(replace(request.table, options=options), call)
    if found.table is None:
        return SearchReply(False)
    queries = _queries(request, call) if request.search.function in batch_search.NAMES else None
    columns = to_spark_schema(_planned(found.table.handle, request.search, queries).schema())
    # Everywhere in Spark row ids are BIGINT.
    schema = StructType([StructField(ROW_ID, LongType()) if item.name == ROW_ID else item for item in columns.fields])
    name = f"{request.search.function} in {found.table.name}"
    return SearchReply(True, found.table.handle, name, schema, queries)


@operation("search.plan")
def plan(request: SearchPlanRequest, call: Call) -> Reply:
    """The rows of a search, found here where a task costs more than the search; else the job that finds them,
    or, of many queries, the tasks of the scan."""
    planned = _planned(request.handle, request.search, request.queries)
    if isinstance(planned, BatchSearch):
        return _scan_of_queries(planned, request)
    job = _job(planned, call.session)
    return _rows(planned, request) if job is None else Reply(_described_job(planned, request, len(job) - 1), job)


@operation("search.finish")
def finish(request: SearchPlanRequest, call: Call) -> Reply:
    """The rows of a search whose job has returned the attachments."""
    planned = _planned(request.handle, request.search, None)
    assert isinstance(planned, DividedCall)
    return _rows(after(planned, call.attachments), request, f" tasks={len(call.attachments)}")


def _job(planned: PlannedSearch, session: Session) -> tuple[bytes, ...] | None:
    """The function and the work of the tasks, if there are some."""
    found = tasks_of(planned, session) if isinstance(planned, DividedCall) else None
    return None if found is None else (command(found[0], MESSAGE_TYPE), *found[1])


def _described_job(planned: PlannedSearch, request: SearchPlanRequest, num_tasks: int) -> SearchJob:
    assert isinstance(planned, DividedCall)
    name, names, num_rows = _described(request), request.columns.fieldNames(), planned.most_rows()
    described = f"{name} columns=[{', '.join(names)}] tasks={num_tasks}"
    if isinstance(planned, VectorCall):
        side = planned.vector_side()
        described += f" {searched_with(side.search, side.parts)}"
    size, metrics = num_rows * BYTES_PER_ROW, planned.metrics()
    return SearchJob(name, described, num_rows, size, planned.ordering(names), metrics)


def _described(request: SearchPlanRequest) -> str:
    return f"lance {request.search.function} {request.handle.display_name}"


def _scan_of_queries(planned: BatchSearch, request: SearchPlanRequest) -> Reply:
    names, tasks = request.columns.fieldNames(), planned.tasks()
    of_queries = request.queries.display_name if request.queries else ""
    columns = f"columns=[{', '.join(names)}]"
    described = f"{_described(request)} queries={of_queries} {columns} tasks={len(tasks)} {planned.explained()}"
    # The tasks count what they search.
    summary = ScanPlan(described, None, None, metrics=Probed().metrics())
    return Reply(summary, (planned.task_function(names, wire_schema(request.columns)), *tasks))


def _rows(planned: PlannedSearch, request: SearchPlanRequest, in_tasks: str = "") -> Reply:
    names, target = request.columns.fieldNames(), wire_schema(request.columns)
    rows = planned.rows(names)
    batches = [to_wire_batch(batch, target) for batch in rows.combine_chunks().to_batches()]
    described = f"{_described(request)} columns=[{', '.join(names)}]{in_tasks} {planned.explained()}".rstrip()
    summary = ScanPlan(described, rows.num_rows, rows.nbytes, metrics=planned.metrics(), is_inline=True)
    summary = replace(summary, ordering=planned.ordering(names))
    return Reply(summary, (b"", *([stream_of(batches)] if batches else [])))


def _queries(request: SearchRequest, call: Call) -> TableHandle:
    """The table that the argument `queries` names, in the catalog of the searched table."""
    text = request.search.named.get(QUERIES) or next(iter(request.search.positional[1:2]), "null")
    name = json.loads(text)
    if not isinstance(name, str):
        raise InvalidInputError(
            f"{request.search.function} takes the name of a table of queries, as in queries => 'db.t'"
        )
    parts = parse_path(name)
    table = request.table
    if len(parts) > 1 and parts[0] == table.catalog.name:
        parts = parts[1:]
    namespace = tuple(parts[:-1]) or table.namespace
    found = load(replace(table, namespace=namespace, name=parts[-1], options={}, by_path=False), call)
    if found.table is None:
        raise NotFoundError(f"{name}, the table of queries, cannot be found in the catalog {table.catalog.name}")
    return found.table.handle


def _planned(handle: TableHandle, call: SearchCall, queries: TableHandle | None) -> PlannedSearch | BatchSearch:
    if queries is not None:
        return plan_batch_search(handle.dataset(), queries.dataset(), call)
    plan_search = _FUNCTIONS.get(call.function)
    if plan_search is None:
        raise InvalidInputError(f"there is no search function {call.function}")
    return plan_search(handle.dataset(), call)
