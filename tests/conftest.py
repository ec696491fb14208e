"""How the tests are spread over the processes of `pytest -n`, and what all random tests have in common."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import settings

# A busy machine is no failure. Where the environment variable CI is set, hypothesis takes the same examples every time.
settings.register_profile("tests", deadline=None)
settings.load_profile("tests")

# Spark plans thousands of different small statements here. Compiling them for speed took half of the processor time,
# and the 48 MB that a JVM with one compiler has for compiled code were full soon.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keeps a file in one process, with its fixtures, and all of the plug-in's tests, which share one Spark."""
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            path = nodeid.partition("::")[0]
            return "tests/spark" if path.startswith("tests/spark/") else path

    return ByFile(config, log)
