"""Tasks that fail, or are killed, once: their second attempt writes every row once, and the first leaves no file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import lance
import pytest

SCRIPT = """
import os, signal, sys
from pyspark import TaskContext
from pyspark.sql import SparkSession

def harmed_once(harm):
    def run(batches):
        for batch in batches:
            task = TaskContext.get()
            if task.partitionId() == 1 and task.attemptNumber() == 0:
                harm()
            yield batch
    return run

def raise_error():
    raise RuntimeError("on purpose")

def kill():
    os.kill(os.getpid(), signal.SIGKILL)

spark = (
    SparkSession.builder.master("local[2,3]")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.sql.execution.arrow.maxRecordsPerBatch", "100")
    .getOrCreate()
)
for harm in raise_error, kill:
    frame = spark.range(0, 4000, numPartitions=4).mapInArrow(harmed_once(harm), "id bigint")
    frame.write.format("lance").option("max_row_per_file", 300).mode("append").save(sys.argv[1] + "/" + harm.__name__)
spark.stop()
print("done")
"""


@pytest.mark.slow
def test_every_row_is_written_once(tmp_path: Path) -> None:
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
        check=False,
    )
    assert result.stdout.strip().endswith("done"), result.stderr[-4000:]
    for harm in ("raise_error", "kill"):
        table = tmp_path / harm
        dataset = lance.dataset(str(table))
        assert dataset.version == 1
        assert sorted(dataset.to_table()["id"].to_pylist()) == list(range(4000))
        named = {file.path for fragment in dataset.get_fragments() for file in fragment.metadata.files}
        assert {path.name for path in (table / "data").iterdir() if not path.name.startswith(".tmp_")} == named
