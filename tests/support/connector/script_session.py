"""A session with the connector in a process of its own, for what must not happen in the session that tests share."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.session_scripts import spark_environment

SCRIPT = """
import sys
from pathlib import Path

from tests.support.session_scripts import spark_environment
from pyspark.sql import SparkSession
import lance_spark

def attempt(run):
    try:
        run()
    except Exception as error:
        print(type(error).__name__, file=sys.stderr)
        return str(error)

builder = (
    SparkSession.builder.master("local[2]")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.sql.shuffle.partitions", "2")
)
root, *settings = sys.argv[1:]
for setting in settings:
    builder = builder.config(*setting.split("=", 1))
{start}
{body}
spark.stop()
print("done")
"""


CONFIGURED = "spark = lance_spark.configure(builder, root=root).getOrCreate()"
WITHOUT_CONNECTOR = "spark = builder.getOrCreate()"


def printed(jar: Path, root: Path, body: str, *settings: str, start: str = CONFIGURED) -> str:
    """Text that a session with the connector prints to stderr.

    Args:
        start: `CONFIGURED` or `WITHOUT_CONNECTOR`.
    """
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT.replace("{start}", start).replace("{body}", body), str(root), *settings],
        capture_output=True,
        text=True,
        env=spark_environment(),
        timeout=500,
        check=False,
    )
    assert result.stdout.strip().endswith("done"), result.stderr[-6000:]
    return result.stderr
