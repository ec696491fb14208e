"""Maps our errors to Spark's: an error condition and an SQLSTATE for each class of the error tree."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from lance_spark.errors import (
    CommitConflictError,
    CommitStateUnknownError,
    CorruptFileError,
    InvalidInputError,
    LanceError,
    NotFoundError,
    StorageError,
    StreamBehindError,
    UnsupportedFeatureError,
)

_CONDITIONS: dict[type[LanceError], tuple[str, str]] = {
    CorruptFileError: ("LANCE_CORRUPT_FILE", "XXKD0"),
    UnsupportedFeatureError: ("LANCE_UNSUPPORTED_FEATURE", "0A000"),
    StreamBehindError: ("LANCE_STREAM_BEHIND", "55000"),
    InvalidInputError: ("LANCE_INVALID_INPUT", "22023"),
    NotFoundError: ("LANCE_NOT_FOUND", "42704"),
    CommitConflictError: ("LANCE_COMMIT_CONFLICT", "40001"),
    CommitStateUnknownError: ("LANCE_COMMIT_STATE_UNKNOWN", "40003"),
    StorageError: ("LANCE_STORAGE_FAILED", "58030"),
    LanceError: ("LANCE_ERROR", "XX000"),
}

_OUT_OF_MEMORY = ("LANCE_OUT_OF_MEMORY", "53200")


@dataclass(frozen=True, slots=True)
class ErrorDescription:
    """An error for the JVM to raise."""

    kind: str
    condition: str
    sql_state: str
    message: str


@dataclass(frozen=True, slots=True)
class ErrorReply:
    """The reply to a request that failed."""

    error: ErrorDescription


def describe(error: LanceError) -> ErrorDescription:
    """The condition of the nearest class of the error tree, and the error's text in one line."""
    known = next(_CONDITIONS[kind] for kind in type(error).__mro__ if kind in _CONDITIONS)
    return ErrorDescription(type(error).__name__, *known, _one_line(error))


def describe_planner_memory(error: MemoryError) -> ErrorDescription:
    """Says that the driver's Python process has too little memory, and what to do."""
    text = (
        f"the Python process that plans statements lacks memory: {_one_line(error) or 'MemoryError'}. Raise "
        "spark.sql.planner.pythonExecution.memory if it is set, or give the driver's machine more. If the statement "
        "writes, what it changes may be there or not: look at the table before you run it again"
    )
    return ErrorDescription("MemoryError", *_OUT_OF_MEMORY, text)


def _describe_task_memory(error: MemoryError) -> ErrorDescription:
    text = (
        f"the Python process of a task lacks memory: {_one_line(error) or 'MemoryError'}. Raise "
        "spark.executor.pyspark.memory if it is set, at least 1.5 GB for each task that an executor runs at a time, "
        "or spark.executor.memoryOverhead, or let executors run fewer tasks at a time"
    )
    return ErrorDescription("MemoryError", *_OUT_OF_MEMORY, text)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).splitlines())


class TaskError(Exception):
    """Carries an error from a task's Python worker to the JVM, which raises it with condition and SQLSTATE.

    Spark transfers only the text of an exception; here it is a JSON object with the fields of `ErrorDescription`, on
    one line.
    """

    def __init__(self, error: LanceError | MemoryError) -> None:
        described = _describe_task_memory(error) if isinstance(error, MemoryError) else describe(error)
        super().__init__(json.dumps(asdict(described)))
