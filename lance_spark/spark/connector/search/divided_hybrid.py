"""Both sides of ``hybrid_search`` by the tasks of one job, where one of them has much to read."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from lance_spark.spark.connector.channel.registry import Session
from lance_spark.spark.connector.channel.tasks import messages, work_of
from lance_spark.spark.connector.scan.settings import analyzed_inline_bytes
from lance_spark.spark.connector.search.divided_search import SearchTask, after_tasks, vector_pieces
from lance_spark.spark.connector.search.divided_text import TextTask, text_pieces
from lance_spark.spark.connector.search.hybrid_search import HybridCall
from lance_spark.table.reading.pieces import Piece
from lance_spark.table.search.divided import TextPiece


@dataclass(frozen=True)
class HybridTask:
    """Returns what it has found for each piece, of either side, in its rows."""

    vectors: SearchTask
    texts: TextTask

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Pickled by the driver of this very query; it never was in a file or with a user.
        pieces = (pickle.loads(item) for item in work_of(batches))
        yield messages([pickle.dumps(self._side(piece).found(piece)) for piece in pieces])

    def _side(self, piece: object) -> SearchTask | TextTask:
        return self.texts if isinstance(piece, TextPiece) else self.vectors


def hybrid_tasks(planned: HybridCall, session: Session) -> tuple[HybridTask, tuple[Piece | TextPiece, ...]]:
    """The function and the work of the tasks, of each side that reads more than the session has the planner read.

    Raises:
        InvalidInputError: a setting of the session is not a number.
    """
    side, request = planned.vector_side(), planned.search.text_request()
    texts = text_pieces(planned.dataset, request, analyzed_inline_bytes(session))
    task = HybridTask(SearchTask(side.dataset, side.search), TextTask(planned.dataset, request))
    return task, (*vector_pieces(side, session), *texts)


def after_hybrid_tasks(planned: HybridCall, results: Iterable[bytes]) -> HybridCall:
    """The search whose tasks have returned `results`; a side without results does its work itself."""
    # Pickled by tasks of this very query: a list by the side of the texts.
    found = [pickle.loads(result) for result in results]
    vectors = [result for result in found if not isinstance(result, list)]
    texts = [item for result in found if isinstance(result, list) for item in result]
    known = after_tasks(planned, vectors) if vectors else planned
    return known.knowing_texts(texts) if texts else known
