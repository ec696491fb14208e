"""``JOIN ... APPROX NEAREST``: the nearest rows of a table for each row of a relation, in the tasks of the relation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from pyspark.sql.types import ArrayType, StructType

from lance_spark.errors import InvalidInputError, LanceError
from lance_spark.expr.nodes import Expr, conjunction, quote_name
from lance_spark.index.vector.metrics import Vectors
from lance_spark.spark.connector.channel.handles import TableHandle
from lance_spark.spark.connector.channel.registry import Call, Reply, operation
from lance_spark.spark.connector.channel.tasks import command
from lance_spark.spark.connector.scan.settings import searches_approximately
from lance_spark.spark.connector.scan.text_searches import pushed_filter
from lance_spark.spark.connector.search.batch_search import AT_ONCE
from lance_spark.spark.jobs.compaction_job import AnyDataset
from lance_spark.spark.predicates import SparkExpression
from lance_spark.spark.types.schemas import exchanged_schema
from lance_spark.spark.types.values import convert_batch, to_spark_value
from lance_spark.table.search.text_filters import has_text_search
from lance_spark.table.vector_search.divided import searched_with
from lance_spark.table.vector_search.query import QUERY_INDEX
from lance_spark.table.vector_search.request import NearestRequest
from lance_spark.table.vector_search.search import Search, searched_column

_PLAIN_TYPES = {
    "boolean", "byte", "short", "integer", "long", "float", "double", "decimal", "string", "binary", "date",
    "timestamp", "timestamp_ntz",
}  # fmt: skip
"""Spark hands these from Python to the JVM as they are, as it does arrays and structs of them."""


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """A join with the `k` nearest rows of a table.

    Attributes:
        handle: the table that is searched.
        vector_column: its vectors, by name.
        predicates: conditions on the rows that are searched; None for one that cannot be asked about a scan.
        columns: of the found rows.
    """

    handle: TableHandle
    k: int
    metric: str
    vector_column: str
    predicates: tuple[SparkExpression | None, ...]
    columns: StructType

    def condition(self) -> Expr | None:
        """The filter of the rows that are searched; None for all.

        Raises:
            InvalidInputError: a scan cannot decide it.
        """
        names, terms = self.handle.filterable(), []
        for predicate in self.predicates:
            term = None if predicate is None else pushed_filter(predicate, names, self.handle)
            if term is None or has_text_search(term):
                raise InvalidInputError("a condition below the join is not one that a scan decides")
            terms.append(term)
        return conjunction(tuple(terms)) if terms else None

    def search(self) -> NearestSearch:
        """The search for the vectors of some rows.

        Raises:
            LanceError: there is no such search.
        """
        dataset, names = self.handle.dataset(), self.columns.fieldNames()
        if not all(_is_plain(field.dataType) for field in self.columns.fields):
            raise InvalidInputError("a column is of a type that Spark does not take from functions")
        column = quote_name(self.vector_column)
        dimension = searched_column(column, dataset.stored_schema).dimension
        request = NearestRequest(
            column,
            np.zeros((1, dimension), np.uint8),
            self.k,
            self.metric,
            self.condition(),
            columns=[*map(quote_name, names)],
        )
        search = dataset.plan_nearest(request)
        if not search.query.is_batch:
            raise InvalidInputError("lists of vectors are searched for one query at a time")
        search.run([], dataset.unread(search))
        return NearestSearch(dataset, search, tuple(names), exchanged_schema(self.columns))


@dataclass(frozen=True, slots=True)
class JoinReply:
    """Description of a join's search in plans; None: Spark joins."""

    description: str | None


@dataclass(frozen=True)
class NearestSearch:
    """Finds the nearest rows for each vector.

    Attributes:
        dataset: the searched table.
        search: its queries are a placeholder.
        names: the columns of a found row.
        target: these columns in the types of Spark.
    """

    dataset: AnyDataset
    search: Search
    names: tuple[str, ...]
    target: pa.Schema

    def __call__(self, arrays: Iterable[pa.Array]) -> Iterator[pa.Array]:
        for vectors in arrays:
            for start in range(0, len(vectors), AT_ONCE):
                yield self._found(vectors.slice(start, AT_ONCE))

    def _found(self, vectors: pa.Array) -> pa.Array:
        """For each vector a list of the nearest rows, nearest first; an empty one where it is null."""
        counts = np.zeros(len(vectors), np.int64)
        places = np.flatnonzero(vectors.is_valid().to_numpy(zero_copy_only=False))
        found = self.search.run([], self.dataset.unread(self.search))
        if len(places):
            query = replace(self.search.query, vectors=self._queries(vectors.drop_null()))
            found = self.dataset.searched(replace(self.search, query=query))
            counts[places] = np.bincount(found.column(QUERY_INDEX).to_numpy(), minlength=len(places))
        columns = [found.column(name).combine_chunks() for name in self.names]
        batch = pa.RecordBatch.from_arrays(columns, schema=found.select(list(self.names)).schema)
        rows = convert_batch(batch, self.target, to_spark_value)
        structs = pa.StructArray.from_arrays(rows.columns, fields=[*self.target])
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        return pa.ListArray.from_arrays(pa.array(offsets), structs)

    def _queries(self, vectors: pa.Array) -> Vectors:
        column = self.search.query.column
        lengths = vectors.value_lengths().to_numpy()
        wrong = np.flatnonzero(lengths != column.dimension)
        if len(wrong):
            raise InvalidInputError(
                f"lance_distance compares vectors of equal length; the vector has {column.dimension} values, the query "
                f"{lengths[wrong[0]]}"
            )
        # As lance_distance has it, a null item is 0.
        values = vectors.flatten().fill_null(0).to_numpy(zero_copy_only=False)
        return column.vectors(values.reshape(len(vectors), column.dimension))[0]


@operation("search.join")
def plan_join(request: JoinRequest, call: Call) -> Reply:
    """The function that searches for the vectors of the rows that are joined, if the user allows approximate answers
    and the search can be done; Spark can do every join."""
    if not searches_approximately(call.session):
        return Reply(JoinReply(None))
    try:
        search = request.search()
        parts = search.dataset.searched_parts(search.search)
        searched = searched_with(search.search, parts)
    except LanceError:
        return Reply(JoinReply(None))
    condition = "" if search.search.filter is None else f" filter=[{search.search.filter}]"
    description = (
        f"lance nearest {request.handle.display_name} k={request.k} metric={request.metric} {searched}{condition} "
        f"columns=[{', '.join(search.names)}]"
    )
    return Reply(JoinReply(description), (command(search, ArrayType(request.columns, False)),))


def _is_plain(kind: object) -> bool:
    if isinstance(kind, ArrayType):
        return _is_plain(kind.elementType)
    if isinstance(kind, StructType):
        return all(_is_plain(field.dataType) for field in kind.fields)
    name = getattr(type(kind), "typeName", lambda: "")()
    return name in _PLAIN_TYPES
