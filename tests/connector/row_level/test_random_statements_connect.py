"""The random statements of `test_random_statements` under Spark Connect."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.session_scripts import run_script

SCRIPT = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession
import lance_spark

sys.path.insert(0, {repository!r})
from tests.support.connector.random_statements import test_rows_are_those_of_the_model

root = sys.argv[1]
builder = (
    SparkSession.builder.config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.sql.shuffle.partitions", "2")
    .config("spark.sql.session.timeZone", "UTC")
    .config("spark.sql.warehouse.dir", root + "/warehouse")
)
spark = lance_spark.configure(builder.remote("local[2]"), root=root).getOrCreate()
test_rows_are_those_of_the_model(spark, Path(root), root, {partitioned!r}, {seed})
spark.stop()
print("done")
"""


@pytest.mark.parametrize(("partitioned", "seed"), [("", 2), ("PARTITIONED BY (bucket(3, id), k)", 3)])
def test_rows_are_those_of_the_model(jar: Path, tmp_path: Path, partitioned: str, seed: int) -> None:
    repository = str(Path(__file__).parents[3])
    script = SCRIPT.format(repository=repository, partitioned=partitioned, seed=seed)
    run_script(script, str(tmp_path), tmp_path)
