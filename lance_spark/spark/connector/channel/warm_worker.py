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
    """Takes the objects that are there out of the reach of the garbage collector, if modules were loaded since the last
    call.

    Spark's daemon collects garbage after each task and each request of its planner. A full collection walks every
    object that imports have made, about 70 ms with pyarrow, pandas and numba, and the next one waits for it. Objects
    still go with their last reference; only cycles that exist at the time of the call stay, and those are few and do
    not grow in number with the tasks.
    """
    global _frozen_modules
    if len(sys.modules) != _frozen_modules:
        gc.freeze()
        _frozen_modules = len(sys.modules)


@contextmanager
def errors_without_traceback() -> Iterator[None]:
    """Lets users of the Python data source see the sentence of a `LanceError` without the traceback of the worker.

    Spark's setting ``spark.sql.execution.pyspark.udf.hideTraceback.enabled`` does that for all errors of a session; a
    worker looks at the variable that carries it when it reports an error, and ends then.
    """
    try:
        yield
    except LanceError:
        _LOG.debug("a task failed", exc_info=True)
        # Only in a worker: the variable would hide the tracebacks of other errors of the driver's process.
        if TaskContext.get() is not None:
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise
