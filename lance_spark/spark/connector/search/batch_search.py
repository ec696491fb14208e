"""``vector_search_batch``: for each row of one table the nearest rows of another, in tasks over the queries."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from lance_spark.errors import InvalidInputError, NotFoundError
from lance_spark.expr.columns import resolve_names
from lance_spark.expr.nodes import quote_name
from lance_spark.layouts.arrow_take import take_chunked
from lance_spark.spark.connector.channel.task_metrics import MeteredTask
from lance_spark.spark.connector.channel.tasks import command, work_of
from lance_spark.spark.connector.channel.wire_types import to_wire_batch
from lance_spark.spark.connector.search.arguments import Arguments, SearchCall
from lance_spark.spark.connector.search.vector_search import (
    OF_DISTANCE,
    OF_NEAREST,
    plan_with,
    searched_vector_column,
)
from lance_spark.spark.jobs.compaction_job import AnyDataset
from lance_spark.spark.types.schemas import to_spark_schema
from lance_spark.table.vector_search.divided import searched_with
from lance_spark.table.vector_search.query import QUERY_INDEX, VectorColumn
from lance_spark.table.vector_search.search import Search, searched_column

NAMES = ("vector_search_batch",)
QUERIES = "queries"
_POSITIONAL = ("table", QUERIES, "k")
_OF_NEAREST = tuple(name for name in OF_NEAREST if name != "offset")
_KNOWN = (*_POSITIONAL, *_OF_NEAREST, *OF_DISTANCE, "query_column", "query_columns")
_TASK_QUERIES = 1024
AT_ONCE = 256
"""Queries that are searched together: their results are in memory at the same time."""


@dataclass(frozen=True)
class BatchSearch:
    """A call of ``vector_search_batch``, checked.

    Attributes:
        dataset: the searched table.
        queries: the table of queries.
        search: the search of each query; its own query is a placeholder.
        query_column: the vectors of the queries.
        query_columns: other columns of the queries in the result.
    """

    dataset: AnyDataset
    queries: AnyDataset
    search: Search
    query_column: str
    query_columns: tuple[str, ...]

    def schema(self) -> pa.Schema:
        """The columns of the result: the query's, then the matched row's."""
        found = self.search.run([], self.dataset.unread(self.search)).schema
        asked = [self.queries.stored_schema.field(name) for name in self.query_columns]
        twice = sorted({field.name for field in asked} & set(found.names))
        if twice:
            raise InvalidInputError(
                f"the queries and the table both have a column {twice[0]}; choose with columns and query_columns"
            )
        return pa.schema([*asked, *found])

    def tasks(self) -> list[bytes]:
        """Work of each task: pickled (first query, number of queries)."""
        total = self.queries.count_rows()
        starts = range(0, total, _TASK_QUERIES)
        return [pickle.dumps((start, min(_TASK_QUERIES, total - start))) for start in starts]

    def task_function(self, names: Sequence[str], target: pa.Schema) -> bytes:
        """The code of the tasks, which return these columns."""
        returned = pa.schema([self.schema().field(name) for name in names])
        task = MeteredTask(BatchSearchTask(self, tuple(names), target), self.search.index.probed)
        return command(task, to_spark_schema(returned))

    def explained(self) -> str:
        """The number of queries, and a description of the search of each."""
        searched = searched_with(self.search, self.dataset.searched_parts(self.search))
        return f"num_queries={self.queries.count_rows()} k={self.search.query.k} {searched}"

    def results(self, first: int, count: int) -> Iterator[pa.Table]:
        """The results of some queries, in the order of the queries. Raises as `VectorVerbs.nearest`."""
        names = [*self.query_columns, self.query_column]
        columns = [quote_name(name) for name in dict.fromkeys(names)]
        for start in range(first, first + count, AT_ONCE):
            schema, batches = self.queries.stored_rows(columns, min(AT_ONCE, first + count - start), start)
            rows = pa.Table.from_batches(batches, schema=schema)
            rows = rows.filter(rows.column(self.query_column).is_valid())
            if rows.num_rows:
                yield self._nearest(rows)

    def _nearest(self, rows: pa.Table) -> pa.Table:
        vectors, _ = self.search.query.column.vectors(rows.column(self.query_column).combine_chunks())
        query = replace(self.search.query, vectors=vectors, is_batch=True)
        found = self.dataset.searched(replace(self.search, query=query))
        owners = found.column(QUERY_INDEX).to_numpy().astype(np.int64)
        asked = [take_chunked(rows.column(name), owners) for name in self.query_columns]
        return pa.table([*asked, *found.drop_columns([QUERY_INDEX]).columns], schema=self.schema())


@dataclass(frozen=True)
class BatchSearchTask:
    """Searches for the queries that its only input row names."""

    search: BatchSearch
    names: tuple[str, ...]
    target: pa.Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for item in work_of(batches):
            # Pickled by the driver of this very query; it never was in a file or with a user.
            first, count = pickle.loads(item)
            for table in self.search.results(first, count):
                for batch in table.select(list(self.names)).combine_chunks().to_batches():
                    yield to_wire_batch(batch, self.target)


def plan_batch_search(dataset: AnyDataset, queries: AnyDataset, call: SearchCall) -> BatchSearch:
    """The search of a call.

    Raises:
        NotFoundError: no such column.
        InvalidInputError: an argument is unknown, missing or invalid.
    """
    arguments = Arguments(call, _POSITIONAL, _KNOWN)
    where = searched_vector_column(arguments, dataset.stored_schema)
    column = searched_column(where, dataset.stored_schema)
    if column.is_multivector:
        raise InvalidInputError(f"column {column.name} has lists of vectors, which are searched by one query at a time")
    placeholder = np.zeros(column.dimension, np.uint8)
    search = plan_with(dataset, arguments, where, placeholder)
    known = queries.stored_schema
    named = arguments.text("query_column")
    name = _only_vectors(queries) if named is None else _of_queries(named, known)
    asked = VectorColumn.of(name, queries.stored_schema.field(name).type)
    if asked.dimension != column.dimension or asked.is_multivector:
        raise InvalidInputError(
            f"the queries have {asked.dimension} values, the vectors of column {column.name} have {column.dimension}"
        )
    chosen = arguments.names("query_columns")
    others = known.names if chosen is None else [_of_queries(other, known) for other in chosen]
    others = [other for other in others if chosen is not None or other != name]
    planned = BatchSearch(dataset, queries, search, name, tuple(others))
    planned.schema()
    return planned


def _of_queries(name: str, schema: pa.Schema) -> str:
    """A column of the queries, in any case."""
    try:
        return resolve_names(schema, (name,))[0]
    except NotFoundError:
        raise NotFoundError(f"the queries have no column {name!r}") from None


def _only_vectors(queries: AnyDataset) -> str:
    found = [field.name for field in queries.stored_schema if pa.types.is_fixed_size_list(field.type)]
    if len(found) != 1:
        known = ", ".join(found) or "none"
        raise InvalidInputError(f"vector_search_batch needs the argument query_column; columns of vectors are: {known}")
    return str(found[0])
