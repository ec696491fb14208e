"""The plug-in and the connector work with the first and the last release of older minor versions of Spark.

`make check` runs the tests named `smoke` with the last release of each, `make integration` all of them.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from integration.spark_servers import environment_of
from integration.sparks import RELEASES, pyspark

TREE = Path(__file__).parents[1]
DIFFERENCES = ("tests/spark/test_compat.py", "tests/spark/test_capabilities.py", "tests/spark/test_types.py")
PLUGIN = ("tests/spark/test_datasource.py", "tests/spark/test_streams.py", "tests/spark/test_filters.py")
FEATURES = ("tests/connector/spark_versions", "tests/connector/session/test_connect.py")

# Downloads of 450 MB, and sessions of Spark.
pytestmark = pytest.mark.timeout(7200)


@pytest.fixture(scope="module", params=RELEASES)
def release(request: pytest.FixtureRequest) -> Path:
    """A folder with a release of PySpark and its jars alone; all else is that of this environment."""
    return pyspark(RELEASES[request.param])


@pytest.mark.parametrize("tests", [DIFFERENCES + PLUGIN, FEATURES], ids=["plug-in", "connector"])
def test_smoke(release: Path, tests: tuple[str, ...]) -> None:
    run_tests(release, *tests, tier="quick")


def test_all_tests_of_the_connector(release: Path) -> None:
    run_tests(release, "-n", "2", "tests/connector", tier="check")


def run_tests(release: Path, *arguments: str, tier: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--maxfail=20", "--tb=short", "-rs", *arguments],
        cwd=TREE,
        env={**environment_of(release), "LANCE_TIER": tier, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"{done.stdout[-8000:]}\n{done.stderr[-2000:]}"
