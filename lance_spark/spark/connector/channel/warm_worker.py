"""Worker processes of Spark: what makes them cheap to use again, and how they report errors."""

from __future__ import annotations

import gc
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark import TaskContext

from lance_spark.errors import LanceError

_LOG = logging.getLogger(__name__)

_frozen_modules = 0


def keep_imports() -> None:
    """Excludes the existing objects from garbage collection, if modules were loaded since the last call.

    Spark's daemon collects garbage after each task and each request of its planner. A full collection visits every
    object created by imports, about 70 ms with pyarrow, pandas and numba, and delays the next task. Objects are still
    freed with their last reference; only cycles that exist at the time of the call remain, and those are few and their
    number does not grow with the tasks.
    """
    global _frozen_modules
    if len(sys.modules) != _frozen_modules:
        gc.freeze()
        _frozen_modules = len(sys.modules)


@contextmanager
def errors_without_traceback() -> Iterator[None]:
    """Shows users of the Python data source the message of a `LanceError` without the traceback of the worker.

    Spark's setting ``spark.sql.execution.pyspark.udf.hideTraceback.enabled`` does this for all errors of a session; a
    worker reads the setting's environment variable when it reports an error, and then ends.
    """
    try:
        yield
    except LanceError:
        _LOG.debug("a task failed", exc_info=True)
        # Only in a worker: the variable would hide the tracebacks of other errors of the driver's process.
        if TaskContext.get() is not None:
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise
