"""The connector where driver and executors are processes of their own, and installed in a session that runs.

A Python process holds one Spark; so each case runs a script of its own. `test_connect.py` runs the same code in a
session of Spark Connect that `configure` made.
"""

from __future__ import annotations

from pathlib import Path

import lance
import pytest

from tests.support.connector.scripts import STREAMS_AND_ERRORS, TABLES
from tests.support.session_scripts import run_script

pytestmark = pytest.mark.slow

START = """
import pathlib
import sys
from pyspark.sql import SparkSession
import lance_spark

root = sys.argv[1]
builder = (
    SparkSession.builder.config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.sql.shuffle.partitions", "2")
    .config("spark.sql.warehouse.dir", root + "/warehouse")
    .config("spark.executor.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
)
{session}
spark.sql("CREATE NAMESPACE lance.db")
"""

END = """
spark.stop()
print("done")
"""

SESSIONS = {
    "local-cluster": """
spark = lance_spark.configure(builder.master("local-cluster[2,1,1024]"), root=root).getOrCreate()
""",
    "installed under connect": """
spark = builder.remote("local[2]").getOrCreate()
spark.range(3).count()
lance_spark.install(spark, root=root)
""",
    "installed in a cluster": """
spark = builder.master("local-cluster[2,1,1024]").getOrCreate()
spark.range(3).count()
rules = lambda: spark._jsparkSession.experimental().extraOptimizations().mkString(",")
assert "lancespark" not in rules()
lance_spark.install(spark, root=root)
lance_spark.install(spark, "second", root=root)
assert rules().count("LanceTaskCoalescing") == rules().count("LanceDynamicPruning") == 1, rules()
""",
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", SESSIONS)
def test_writes_and_reads(jar: Path, tmp_path: Path, kind: str) -> None:
    # What `install` adds to a session that runs does not differ in what follows.
    is_whole = not kind.startswith("installed")
    body = TABLES + STREAMS_AND_ERRORS if is_whole else TABLES
    run_script(START.replace("{session}", SESSIONS[kind]) + body + END, str(tmp_path), tmp_path)
    assert lance.dataset(str(tmp_path / "by_path")).version == 2
