"""What Spark logs of statements that fail: one line an attempt, with the name of the table."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = """
import sys
from pathlib import Path
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
spark = lance_spark.configure(builder, root=root).getOrCreate()
{body}
spark.stop()
print("done")
"""

FAILURES = """
spark.sql("CREATE TABLE lance.t (id BIGINT, half FLOAT) TBLPROPERTIES ('half.arrow.float16' = 'true')")
spark.sql("INSERT INTO lance.t VALUES (1, 1.0)")
print("==== insert", file=sys.stderr, flush=True)
attempt(lambda: spark.sql("INSERT INTO lance.t VALUES (2, 1e6)"))
print("==== update", file=sys.stderr, flush=True)
attempt(lambda: spark.sql("UPDATE lance.t SET half = 1e6"))
(data,) = Path(root).glob("t.lance/data/*.lance")
data.write_bytes(data.read_bytes()[:-20])
print("==== read", file=sys.stderr, flush=True)
attempt(lambda: spark.table("lance.t").collect())
print("==== end", file=sys.stderr, flush=True)
"""


def printed(jar: Path, root: Path, body: str, *settings: str) -> str:
    """What a session with the connector prints to stderr."""
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT.replace("{body}", body), str(root), *settings],
        capture_output=True,
        text=True,
        env=environment,
        timeout=500,
        check=False,
    )
    assert result.stdout.strip().endswith("done"), result.stderr[-6000:]
    return result.stderr


def test_log_of_failed_statements(jar: Path, tmp_path: Path) -> None:
    text = printed(jar, tmp_path, FAILURES, "spark.sql.lance.inlineBytes=0")
    parts = dict(part.split("\n", 1) for part in text.split("==== ")[1:])
    assert "Data source write support lance append " in parts["insert"]
    assert "Data source write support lance UPDATE " in parts["update"]
    assert "io.lancespark.Lance" not in "".join(line for line in text.splitlines() if "\tat " not in line)
    # One line an attempt, for executor and scheduler.
    assert "LANCE_CORRUPT_FILE" in parts["read"]
    for part in parts.values():
        assert "Traceback" not in part
    assert "\tat " not in parts["read"]
