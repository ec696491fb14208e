"""Virtual environments that hold what a user installs, and nothing of the environment that runs the tests."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

_OWN = ("PYTHONPATH", "PYTHONHOME", "SPARK_HOME", "VIRTUAL_ENV", "LANCE_SPARK_JAR_DIR", "PYSPARK_DRIVER_PYTHON")


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    """What a program prints, in an environment without what this process has set for its own Python and Spark."""
    clean = {name: value for name, value in os.environ.items() if name not in _OWN}
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env={**clean, **environment}, text=True, capture_output=True
    )
    assert done.returncode == 0, f"{command} failed:\n{done.stdout[-3000:]}\n{done.stderr[-6000:]}"
    return done.stdout


def pip(environment: Path, *arguments: str | Path, cwd: Path) -> None:
    run(environment / "bin" / "python", "-m", "pip", "--quiet", *arguments, cwd=cwd)
