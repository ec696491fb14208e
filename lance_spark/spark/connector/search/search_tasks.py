"""The tasks of a search, and the search that goes on with what they have found: for table functions and procedures."""

from __future__ import annotations

import pickle
from collections.abc import Sequence

from lance_spark.spark.connector.channel.registry import Session
from lance_spark.spark.connector.search.divided_hybrid import HybridTask, after_hybrid_tasks, hybrid_tasks
from lance_spark.spark.connector.search.divided_search import SearchTask, after_tasks, vector_tasks
from lance_spark.spark.connector.search.divided_text import TextTask, after_text_tasks, text_tasks
from lance_spark.spark.connector.search.hybrid_search import HybridCall
from lance_spark.spark.connector.search.text_search import TextSearch
from lance_spark.spark.connector.search.vector_search import VectorSearch

DividedCall = TextSearch | VectorSearch | HybridCall
"""A call that tasks can help with."""

Task = TextTask | SearchTask | HybridTask


def tasks_of(planned: DividedCall, session: Session) -> tuple[Task, list[bytes]] | None:
    """The function and the work of the tasks; None if the session has the planner process do the search itself.

    Raises:
        InvalidInputError: a setting of the session is not a number.
    """
    if isinstance(planned, TextSearch):
        found: tuple[Task, Sequence[object]] = text_tasks(planned, session)
    elif isinstance(planned, HybridCall):
        found = hybrid_tasks(planned, session)
    else:
        found = vector_tasks(planned, session)
    task, pieces = found
    return (task, [pickle.dumps(piece) for piece in pieces]) if pieces else None


def after(planned: DividedCall, results: Sequence[bytes]) -> DividedCall:
    """The search whose tasks have returned `results`."""
    if isinstance(planned, TextSearch):
        return after_text_tasks(planned, results)
    if isinstance(planned, HybridCall):
        return after_hybrid_tasks(planned, results)
    # Pickled by tasks of this very query.
    return after_tasks(planned, map(pickle.loads, results))
