"""The nearest rows by tasks, where many vectors have to be compared.

A task finds the nearest rows in some fragments. The planner process merges what all tasks have found, and goes on as
if it had found these rows itself: filters, ranks, columns and order of the result are its own.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from lance_spark.index.vector.segment import Probed
from lance_spark.spark.connector.channel.registry import Session
from lance_spark.spark.connector.channel.tasks import MESSAGE_TYPE, command, messages, work_of
from lance_spark.spark.connector.scan.settings import compared_inline_bytes
from lance_spark.spark.connector.search.hybrid_search import HybridCall
from lance_spark.spark.connector.search.vector_search import VectorSearch, VectorSide
from lance_spark.table.reading.pieces import Piece
from lance_spark.table.vector_search.divided import divided, of_piece
from lance_spark.table.vector_search.search import HitsOfParts, Search
from lance_spark.table.vector_search.vector_verbs import VectorVerbs

VectorCall = VectorSearch | HybridCall
"""A call that tasks can help with."""

_TASK_BYTES = 256 << 20
"""Vectors that a task compares."""


@dataclass(frozen=True)
class SearchTask:
    """Returns what it has found for each piece of the search in its rows."""

    dataset: VectorVerbs
    search: Search

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Pickled by the driver of this very query; it never was in a file or with a user.
        yield messages([pickle.dumps(self._found(pickle.loads(item))) for item in work_of(batches)])

    def _found(self, piece: Piece) -> tuple[HitsOfParts, Probed]:
        pieces = {item.key: item for item in piece}
        search = replace(self.search, index=replace(self.search.index, probed=Probed()))
        parts = [of_piece(part, pieces[part.key]) for part in self.dataset.searched_parts(search, pieces.keys())]
        hits = search.nearest_of_parts(parts)
        return {part.key: found for part, found in zip(parts, hits, strict=True)}, search.index.probed


def search_job(planned: VectorCall, session: Session) -> tuple[bytes, ...] | None:
    """The function and the work of the tasks, if more vectors have to be compared than the session has the planner
    process compare.

    Raises:
        InvalidInputError: the setting of the session is not a number.
    """
    most = compared_inline_bytes(session)
    side = planned.vector_side()
    pieces = divided(side.search, side.parts, _TASK_BYTES)
    if pieces.num_bytes <= most:
        return None
    return (_function(side), *map(pickle.dumps, pieces.pieces))


def _function(side: VectorSide) -> bytes:
    return command(SearchTask(side.dataset, side.search), MESSAGE_TYPE)


def after_tasks(planned: VectorCall, results: Iterable[bytes]) -> VectorCall:
    """The search whose tasks have returned `results`."""
    # Pickled by tasks of this very query.
    found: list[tuple[HitsOfParts, Probed]] = [pickle.loads(result) for result in results]
    for _, probed in found:
        planned.probed.add(probed)
    return planned.knowing(hits for hits, _ in found)
