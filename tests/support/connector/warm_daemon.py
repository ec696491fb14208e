"""Spark's daemon of Python workers with the modules of tasks imported, so that forked workers start at once.

A task that raises an error ends its worker, and many tests raise errors: each next worker would import pyarrow, pandas,
numba and the connector again. `tests/connector/session/test_first_minutes.py` starts workers without this module.
"""

from __future__ import annotations

import importlib
import pkgutil

import numba  # noqa: F401
import pandas as pd  # noqa: F401
import pyarrow.compute
import pyarrow.dataset  # noqa: F401
from pyspark import daemon

from lance_spark.spark.connector.channel.readiness import import_verbs


def main() -> None:
    """Imports the modules of the connector, and waits for requests of Spark."""
    for package in ("jobs", "connector.write", "connector.scan", "connector.search", "streaming", "blobs"):
        module = importlib.import_module(f"lance_spark.spark.{package}")
        for info in pkgutil.walk_packages(module.__path__, f"{module.__name__}."):
            importlib.import_module(info.name)
    import_verbs()
    daemon.manager()


if __name__ == "__main__":
    main()
