"""The plug-in and each feature of the connector work with the first and the last release of older minor versions."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from integration.components import CACHE

TREE = Path(__file__).parents[1]
RELEASES = ("4.0.0", "4.0.5", "4.1.0", "4.1.4", "4.2.0", "4.2.1")
DIFFERENCES = ("tests/spark/test_compat.py", "tests/spark/test_capabilities.py", "tests/spark/test_types.py")
FEATURES = ("tests/connector/spark_versions",)
PLUGIN = ("tests/spark/test_datasource.py", "tests/spark/test_streams.py", "tests/spark/test_filters.py")

# Downloads of 450 MB, and sessions of Spark.
pytestmark = pytest.mark.timeout(3600)


@pytest.fixture(scope="module", params=RELEASES)
def pyspark(request: pytest.FixtureRequest) -> Path:
    """A folder with a release of PySpark and its jars alone; all else is that of this environment."""
    folder = CACHE / f"pyspark-{request.param}"
    if not folder.exists():
        partial = CACHE / f"pyspark-{request.param}.partial"
        command = ["install", "--quiet", "--no-deps", "--upgrade", "--target", partial, f"pyspark=={request.param}"]
        subprocess.run([sys.executable, "-m", "pip", *command], check=True)
        partial.rename(folder)
    return folder


@pytest.mark.parametrize("tests", [DIFFERENCES, PLUGIN, FEATURES], ids=["differences", "plug-in", "features"])
def test_release_passes(pyspark: Path, tests: tuple[str, ...]) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "SPARK_HOME"}
    environment |= {"PYTHONPATH": f"{pyspark}{os.pathsep}{TREE}", "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--maxfail=10", "--tb=short", "-rs", *tests],
        cwd=TREE,
        env={**environment, "PYSPARK_DRIVER_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"{done.stdout[-6000:]}\n{done.stderr[-2000:]}"
