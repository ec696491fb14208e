"""The connector where driver and executors are processes of their own, under Spark Connect, and in a session that runs.

A Python process holds one Spark; so each case runs a script of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import lance
import pytest

SCRIPT = """
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
)
{session}
spark.sql("CREATE NAMESPACE lance.db")
spark.sql("CREATE TABLE lance.db.t AS SELECT id, concat('n', id) AS name FROM range(0, 3000, 1, 3)")
spark.sql("INSERT INTO lance.db.t SELECT id, 'x' FROM range(3000, 3010)")
assert spark.sql("SELECT count(*) AS n FROM lance.db.t WHERE id >= 2990").first().n == 20
assert spark.table("lance.db.t").where("name = 'x'").count() == 10
path = root + "/by_path"
spark.range(10).write.format("lance").save(path)
spark.range(5).write.format("lance").mode("append").save(path)
assert spark.read.format("lance").option("version", 1).load(path).count() == 10
assert spark.sql("SELECT sum(id) AS s FROM lance.`" + path + "`").first().s == 55
try:
    spark.table("lance.db.t").where("nope = 1").count()
    raise SystemExit("the column is not there")
except Exception as error:
    assert "UNRESOLVED_COLUMN" in str(error), error
try:
    spark.sql("SELECT * FROM lance.db.t VERSION AS OF 99").count()
    raise SystemExit("the version is not there")
except Exception as error:
    assert "has no version 99" in str(error) and "Traceback" not in str(error), error
spark.sql("CACHE TABLE lance.db.t")
spark.sql("CALL lance.system.restore('db.t', 1)").collect()
assert spark.table("lance.db.t").count() == 3000
spark.sql("UNCACHE TABLE lance.db.t")
for file in pathlib.Path(root).rglob("data/*.lance"):
    if "__manifest" not in file.parts:
        file.unlink()
for statement in (
    "SELECT count(name) FROM lance.db.t WHERE hash(id) % 3 = 0",
    "DELETE FROM lance.db.t WHERE hash(name) % 3 = 0",
    "INSERT INTO lance.db.t SELECT id, name FROM lance.db.t",
):
    try:
        spark.sql(statement).collect()
        raise SystemExit("the files are not there")
    except Exception as error:
        assert (error.getCondition(), error.getSqlState()) == ("LANCE_NOT_FOUND", "42704"), error
        # Under Spark Connect, Spark appends its own stack trace to the text of every error.
        sentence = str(error).splitlines()[0]
        assert sentence.startswith("[LANCE_NOT_FOUND] ") and sentence.endswith(" SQLSTATE: 42704"), error
        assert "Error" not in sentence and "Traceback" not in str(error), error
spark.stop()
print("done")
"""

SESSIONS = {
    "local-cluster": """
spark = lance_spark.configure(builder.master("local-cluster[2,1,1024]"), root=root).getOrCreate()
""",
    "connect": 'spark = lance_spark.configure(builder.remote("local[2]"), root=root).getOrCreate()',
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


@pytest.mark.parametrize("kind", SESSIONS)
def test_writes_and_reads(jar: Path, tmp_path: Path, kind: str) -> None:
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT.replace("{session}", SESSIONS[kind]), str(tmp_path)],
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
        timeout=500,
        check=False,
    )
    assert result.stdout.strip().endswith("done"), result.stderr[-6000:]
    assert lance.dataset(str(tmp_path / "by_path")).version == 2
