"""Releases of PySpark for tests with other minor versions of Spark.

Each is a folder in ``integration/.cache`` (or where LANCE_INTEGRATION_CACHE says) with PySpark and its jars alone.
The first on Python's path replaces the PySpark of an environment, whose other packages stay.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from integration.components import CACHE

RELEASES = {
    "4.0-first": "4.0.0",
    "4.0-last": "4.0.5",
    "4.1-first": "4.1.0",
    "4.1-last": "4.1.4",
    "4.2-first": "4.2.0",
    "4.2-last": "4.2.1",
}
"""The first and the last release of each minor version but the newest, which the project's environment has."""


def pyspark(release: str) -> Path:
    """The folder with a release of PySpark, a download of 450 MB the first time.

    Raises:
        CalledProcessError: pip could not get it.
    """
    folder = CACHE / f"pyspark-{release}"
    if not folder.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        partial = CACHE / f"pyspark-{release}.{os.getpid()}"
        command = ["install", "--quiet", "--no-deps", "--no-cache-dir", "--target", str(partial), f"pyspark=={release}"]
        subprocess.run([sys.executable, "-m", "pip", *command], check=True)
        partial.rename(folder)
    return folder
