"""How the tests are spread over the processes of `pytest -n`."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keeps a file in one process, with its fixtures, and all of the plug-in's tests, which share one Spark."""
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            path = nodeid.partition("::")[0]
            return "tests/spark" if path.startswith("tests/spark/") else path

    return ByFile(config, log)
