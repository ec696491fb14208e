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
from lance_spark.spark.connector.channel.tasks import MESSAGE_TYPE, command, messages, work_of
from lance_spark.spark.connector.scan.settings import analyzed_inline_bytes
from lance_spark.spark.connector.search.text_search import TextSearch
from lance_spark.table.search.search_verbs import SearchVerbs
from lance_spark.table.search.text_search import SearchRequest

_TASK_BYTES = 64 << 20
"""Of files that a task reads."""


@dataclass(frozen=True)
class TextTask:
    """Returns what it has found for each piece of the search in its rows."""

    dataset: SearchVerbs
    request: SearchRequest

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Pickled by the driver of this very query; it never was in a file or with a user.
        yield messages(
            [pickle.dumps(self.dataset.found_in(self.request, pickle.loads(item))) for item in work_of(batches)]
        )


def text_search_job(planned: TextSearch, session: Session) -> tuple[bytes, ...] | None:
    """The function and the work of the tasks, if more is to be read than the session has the planner process read.

    Raises:
        InvalidInputError: the setting of the session is not a number.
    """
    most = analyzed_inline_bytes(session)
    found = planned.dataset.divided_search(planned.request, _TASK_BYTES)
    if found.num_bytes <= most or not found.pieces:
        return None
    task = TextTask(planned.dataset, planned.request)
    return (command(task, MESSAGE_TYPE), *map(pickle.dumps, found.pieces))


def after_text_tasks(planned: TextSearch, results: Iterable[bytes]) -> TextSearch:
    """The search whose tasks have returned `results`."""
    # Pickled by tasks of this very query.
    return planned.knowing(found for result in results for found in pickle.loads(result))
