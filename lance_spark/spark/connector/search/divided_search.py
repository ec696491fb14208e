"""The nearest rows by tasks, where many vectors have to be compared.

A task finds the nearest rows in some fragments. The planner process merges what all tasks have found, and goes on as
if it had found these rows itself: filters, ranks, columns and order of the result are its own.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

import pyarrow as pa

from lance_spark.index.vector.segment import Probed
from lance_spark.spark.connector.channel.registry import Session
from lance_spark.spark.connector.channel.tasks import messages, work_of
from lance_spark.spark.connector.scan.settings import compared_inline_bytes
from lance_spark.spark.connector.search.hybrid_search import HybridCall
from lance_spark.spark.connector.search.vector_search import VectorSearch, VectorSide
from lance_spark.table.reading.pieces import Piece
from lance_spark.table.vector_search.divided import divided, of_piece
from lance_spark.table.vector_search.search import HitsOfParts, Search
from lance_spark.table.vector_search.vector_verbs import VectorVerbs

VectorCall = VectorSearch | HybridCall
"""A call that tasks can help with."""

Knowing = TypeVar("Knowing", VectorSearch, HybridCall)

_TASK_BYTES = 256 << 20
"""Vectors that a task compares."""


@dataclass(frozen=True)
class SearchTask:
    """Returns what it has found for each piece of the search in its rows."""

    dataset: VectorVerbs
    search: Search

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Pickled by the driver of this very query; it never was in a file or with a user.
        yield messages([pickle.dumps(self.found(pickle.loads(item))) for item in work_of(batches)])

    def found(self, piece: Piece) -> tuple[HitsOfParts, Probed]:
        """The nearest rows of a piece, and what was read for them."""
        pieces = {item.key: item for item in piece}
        search = replace(self.search, index=replace(self.search.index, probed=Probed()))
        parts = [of_piece(part, pieces[part.key]) for part in self.dataset.searched_parts(search, pieces.keys())]
        hits = search.nearest_of_parts(parts)
        return {part.key: found for part, found in zip(parts, hits, strict=True)}, search.index.probed


def vector_pieces(side: VectorSide, session: Session) -> tuple[Piece, ...]:
    """The pieces of a search for tasks, if more vectors have to be compared than the session has the planner process
    compare; else none.

    Raises:
        InvalidInputError: the setting of the session is not a number.
    """
    most = compared_inline_bytes(session)
    pieces = divided(side.search, side.parts, _TASK_BYTES)
    return tuple(pieces.pieces) if pieces.num_bytes > most else ()


def vector_tasks(planned: VectorSearch, session: Session) -> tuple[SearchTask, tuple[Piece, ...]]:
    """The function and the work of the tasks. Raises as `vector_pieces`."""
    side = planned.vector_side()
    return SearchTask(side.dataset, side.search), vector_pieces(side, session)


def after_tasks(planned: Knowing, results: Iterable[tuple[HitsOfParts, Probed]]) -> Knowing:
    """The search whose tasks have returned `results`."""
    found = list(results)
    for _, probed in found:
        planned.probed.add(probed)
    return planned.knowing(hits for hits, _ in found)
