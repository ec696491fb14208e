"""``search`` by tasks, where many texts have no index.

A task analyzes some texts, and returns the documents that have a word of the query with the counts of all. The planner
process scores them, because a score needs the counts of all tasks, and goes on as if it had read the texts itself.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from lance_spark.spark.connector.channel.registry import Session
from lance_spark.spark.connector.channel.tasks import messages, work_of
from lance_spark.spark.connector.scan.settings import analyzed_inline_bytes
from lance_spark.spark.connector.search.text_search import TextSearch
from lance_spark.table.search.divided import FoundInPiece, TextPiece
from lance_spark.table.search.search_verbs import SearchVerbs
from lance_spark.table.search.text_search import SearchRequest

_TASK_BYTES = 64 << 20
"""Bytes of files that a task reads."""


@dataclass(frozen=True)
class TextTask:
    """Returns what it has found for each piece of the search in its rows."""

    dataset: SearchVerbs
    request: SearchRequest

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Pickled by the driver of this very query; it never was in a file or with a user.
        yield messages([pickle.dumps(self.found(pickle.loads(item))) for item in work_of(batches)])

    def found(self, piece: TextPiece) -> list[FoundInPiece]:
        """Matches in the rows of a piece."""
        return self.dataset.found_in(self.request, piece)


def text_pieces(dataset: SearchVerbs, request: SearchRequest, most: int) -> tuple[TextPiece, ...]:
    """The pieces of a search for tasks, if more than `most` bytes are to be read; else none."""
    found = dataset.divided_search(request, _TASK_BYTES)
    return found.pieces if found.num_bytes > most else ()


def text_tasks(planned: TextSearch, session: Session) -> tuple[TextTask, tuple[TextPiece, ...]]:
    """The function and the work of the tasks: none if the session has the planner process read as much.

    Raises:
        InvalidInputError: the setting of the session is not a number.
    """
    most = analyzed_inline_bytes(session)
    return TextTask(planned.dataset, planned.request), text_pieces(planned.dataset, planned.request, most)


def after_text_tasks(planned: TextSearch, results: Iterable[bytes]) -> TextSearch:
    """The search whose tasks have returned `results`."""
    # Pickled by tasks of this very query.
    return planned.knowing(found for result in results for found in pickle.loads(result))
