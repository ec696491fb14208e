"""What makes a worker process of Spark cheap to use again."""

from __future__ import annotations

import gc
import sys

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
