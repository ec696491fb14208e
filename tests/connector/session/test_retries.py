"""Tasks that fail, or are killed: rows are written once, and files that nobody names are removed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import lance
import pytest
from pyspark.sql import SparkSession

SCRIPT = """
import os, signal, sys
from pathlib import Path
from pyspark import TaskContext
from pyspark.sql import SparkSession
import lance_spark

def harm(attempts, how):
    def run(batches):
        for batch in batches:
            task = TaskContext.get()
            if task.partitionId() == 1 and task.attemptNumber() < attempts:
                how()
            yield batch
    return run

def raise_error():
    raise RuntimeError("on purpose")

def kill():
    os.kill(os.getpid(), signal.SIGKILL)

root = sys.argv[1]
builder = (
    SparkSession.builder.master("local[2,3]")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.sql.execution.arrow.maxRecordsPerBatch", "100")
)
spark = lance_spark.configure(builder, root=root).getOrCreate()
rows = spark.range(0, 4000, numPartitions=4)
spark.sql("CREATE NAMESPACE lance.db")

rows.mapInArrow(harm(1, raise_error), "id bigint").writeTo("lance.db.t").option("max_row_per_file", "300").create()
rows.mapInArrow(harm(1, kill), "id bigint").writeTo("lance.db.t").option("max_row_per_file", "300").append()
for write in (
    lambda: rows.mapInArrow(harm(9, raise_error), "id bigint").writeTo("lance.db.t").append(),
    lambda: rows.mapInArrow(harm(9, raise_error), "id bigint").writeTo("lance.db.never").create(),
):
    try:
        write()
        raise SystemExit("the write should have failed")
    except Exception as error:
        assert "on purpose" in str(error), error
assert [row.tableName for row in spark.sql("SHOW TABLES IN lance.db").collect()] == ["t"]
print(spark.sql("DESCRIBE EXTENDED lance.db.t").where("col_name = 'Location'").first().data_type)
spark.stop()
"""


@pytest.mark.slow
def test_every_row_is_written_once(jar: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=500,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-6000:]
    table = Path(result.stdout.strip().splitlines()[-1])
    dataset = lance.dataset(str(table))
    assert dataset.version == 2
    assert sorted(dataset.to_table()["id"].to_pylist()) == sorted([*range(4000), *range(4000)])
    named = {file.path for fragment in dataset.get_fragments() for file in fragment.metadata.files}
    assert {path.name for path in (table / "data").iterdir() if not path.name.startswith(".tmp_")} == named
    assert {path.name for path in tmp_path.rglob("*.lance") if path.is_file()} >= named


def test_a_corrupt_file_is_one_clear_error(spark: SparkSession, uri: str) -> None:
    spark.range(0, 1000, numPartitions=1).selectExpr("concat('n', id) AS name").write.format("lance").save(uri)
    (data,) = Path(uri, "data").glob("*.lance")
    data.write_bytes(data.read_bytes()[:-40] + bytes(40))
    with pytest.raises(Exception, match="LANCE_CORRUPT_FILE") as failed:
        spark.read.format("lance").load(uri).collect()
    assert "Traceback (most recent call last)" not in str(failed.value)
