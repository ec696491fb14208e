"""What Spark and its Python workers print: no tracebacks when a query ends early, names of tables in the log."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EARLY_ENDS = """
import sys, threading
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

QUERIES = """
rows = "SELECT id, id % 2 AS part, repeat('x', 200) AS word FROM range(0, 200000, 1, 2)"
spark.sql(f"CREATE TABLE lance.plain AS {rows}")
spark.sql(f"CREATE TABLE lance.partitioned PARTITIONED BY (part) AS {rows}")
for name in ("lance.plain", "lance.partitioned"):
    table = spark.table(name)
    assert len(table.limit(5).collect()) == 5
    assert len(table.where("hash(id) % 3 = 0").take(5)) == 5
    assert len(table.where("id % 3 = 0").head(2)) == 2
    assert len(table.where("rand() > 0.5").limit(4).collect()) == 4
    assert table.first() is not None
    table.select("word").show(2, truncate=5)
    found = spark.sql(f"SELECT 1 FROM range(3) WHERE EXISTS (SELECT 1 FROM {name} WHERE hash(id) < 0)").collect()
    assert len(found) == 3
    iterator = table.toLocalIterator()
    next(iterator)
    del iterator
    assert "on purpose" in attempt(lambda: table.selectExpr("raise_error('on purpose')").collect())
    spark.sparkContext.setJobGroup("slow", "slow", True)
    timer = threading.Timer(1.0, lambda: spark.sparkContext.cancelJobGroup("slow"))
    timer.start()
    pairs = table.crossJoin(spark.range(100000).toDF("n"))
    assert "cancelled" in attempt(lambda: pairs.where("hash(word, id, n) = 7").count())
    timer.join()
    spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)
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
        [sys.executable, "-c", EARLY_ENDS.replace("{body}", body), str(root), *settings],
        capture_output=True,
        text=True,
        env=environment,
        timeout=500,
        check=False,
    )
    assert result.stdout.strip().endswith("done"), result.stderr[-6000:]
    return result.stderr


@pytest.mark.parametrize(("sockets", "inline"), [("true", "0"), ("false", "0"), ("true", "8388608")])
def test_early_end_prints_no_traceback(jar: Path, tmp_path: Path, sockets: str, inline: str) -> None:
    text = printed(
        jar,
        tmp_path,
        QUERIES,
        f"spark.python.unix.domain.socket.enabled={sockets}",
        f"spark.sql.lance.inlineBytes={inline}",
    )
    assert "SparkRuntimeException" in text
    assert "BrokenPipeError" not in text, text[-6000:]
    assert "Traceback" not in text, text[-6000:]


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
