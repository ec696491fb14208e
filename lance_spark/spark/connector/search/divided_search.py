"""``vector_search`` in tasks, where many vectors have to be compared.

A task returns the nearest rows of its piece of the table; Spark sorts what all tasks return and takes the first rows.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from lance_spark.spark.connector.channel.registry import Session
from lance_spark.spark.connector.channel.tasks import command
from lance_spark.spark.connector.channel.wire_types import to_wire_batch
from lance_spark.spark.connector.scan.settings import compared_inline_bytes
from lance_spark.spark.connector.search.vector_search import VectorSearch, quoted_column
from lance_spark.spark.types import to_spark_schema
from lance_spark.table.reading.system_columns import ROW_ID
from lance_spark.table.vector_search.divided import DividedSearch, Piece, divided, of_piece
from lance_spark.table.vector_search.query import DISTANCE
from lance_spark.table.vector_search.search import Search
from lance_spark.table.vector_search.vector_verbs import VectorVerbs

PART = "_search_part"
"""The number of a row's partition, in the order of partitions."""

_TASK_BYTES = 256 << 20
"""Vectors that a task compares."""


@dataclass(frozen=True, slots=True)
class FirstRows:
    """The rows of a result, of those that the tasks return.

    Attributes:
        order: columns, all ascending.
        offset, limit: which rows in this order.
        columns: those of the result.
    """

    order: tuple[str, ...]
    offset: int
    limit: int
    columns: tuple[str, ...]


@dataclass(frozen=True)
class DividedVectorSearch:
    """A search in tasks.

    Attributes:
        dataset: the searched table.
        search: finds the rows of a piece; it has a metric, row ids, and no offset.
        first_rows: which of them are the result.
        pieces: one for each task.
    """

    dataset: VectorVerbs
    search: Search
    first_rows: FirstRows
    pieces: DividedSearch

    @classmethod
    def of(cls, planned: VectorSearch) -> DividedVectorSearch | None:
        """The search in tasks; None for several queries, for a filter after the search, which needs the nearest rows of
        the whole table first, and for tables whose columns have the names of those that are added here."""
        dataset, search = planned.dataset, planned.search
        filters_later = search.filter is not None and not search.prefilter
        if search.query.is_batch or filters_later or PART in dataset.schema.names:
            return None
        parts = dataset.searched_parts(search)
        offset = search.offset
        first = FirstRows((DISTANCE, PART, ROW_ID), offset, search.query.k - offset, tuple(planned.schema().names))
        whole = replace(search.with_metric(parts), with_row_id=True, offset=0)
        return cls(dataset, whole, first, divided(whole, parts, _TASK_BYTES))

    def schema(self) -> pa.Schema:
        """What the tasks return: the columns of the result and those of the order."""
        found = self.search.run([], self.dataset.unread(self.search)).schema
        return found.append(pa.field(PART, pa.int32(), False))

    def tasks(self) -> list[bytes]:
        """What each task searches: a pickled `Piece`."""
        return [pickle.dumps(piece) for piece in self.pieces.pieces]

    def task_function(self, names: Sequence[str], target: pa.Schema) -> bytes:
        """The code of the tasks, which return these columns."""
        returned = pa.schema([self.schema().field(name) for name in names])
        read = [quoted_column(name) for name in names if name != PART]
        task = DividedSearchTask(self.dataset, replace(self.search, columns=read), tuple(names), target)
        return command(task, to_spark_schema(returned))

    def explained(self) -> str:
        """How the search is divided."""
        segments, unindexed = len(self.pieces.segments), len(self.pieces.unindexed)
        return f"tasks={segments + unindexed} segments={segments} compared={self.pieces.num_bytes} bytes"


@dataclass(frozen=True)
class DividedSearchTask:
    """Returns the nearest rows of the piece that its only input row names."""

    dataset: VectorVerbs
    search: Search
    names: tuple[str, ...]
    target: pa.Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        work = [item.as_py() for batch in batches for item in batch.column(0)]
        for item in work:
            # Pickled by the driver of this very query; it never was in a file or with a user.
            piece: Piece = pickle.loads(item)
            for table in self._nearest(piece):
                for batch in table.select(list(self.names)).combine_chunks().to_batches():
                    yield to_wire_batch(batch, self.target)

    def _nearest(self, piece: Piece) -> Iterator[pa.Table]:
        pieces = {item.key: item for item in piece}
        parts = self.dataset.searched_parts(self.search, pieces.keys())
        searched = [of_piece(part, pieces[part.key]) for part in parts]
        for part, rows in zip(searched, self.search.rows_of_parts(searched), strict=True):
            if rows is not None:
                numbers = np.full(rows.num_rows, pieces[part.key].number, np.int32)
                yield rows.append_column(pa.field(PART, pa.int32(), False), pa.array(numbers))


def search_in_tasks(planned: object, session: Session) -> DividedVectorSearch | None:
    """The search in tasks, if more vectors have to be compared than the session has the planner process compare.

    Raises:
        InvalidInputError: the setting of the session is not a number.
    """
    most = compared_inline_bytes(session)
    if not isinstance(planned, VectorSearch):
        return None
    found = DividedVectorSearch.of(planned)
    return found if found is not None and found.pieces.num_bytes > most else None
