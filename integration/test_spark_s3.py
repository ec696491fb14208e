"""A catalog whose root lies in SeaweedFS: SQL from one driver, and two drivers that write one table."""

from __future__ import annotations

import json
import subprocess
import uuid
from pathlib import Path

import lance
import pytest

import lance_spark
from integration.components import Seaweedfs
from integration.conftest import Service
from integration.spark_servers import finish_driver, run_driver, start_driver
from tests.docs.blocks import blocks

# Several JVMs start in each; on a busy machine that takes minutes.
pytestmark = pytest.mark.timeout(1800)

SESSION = """
import json, sys
from pyspark.sql import SparkSession
import lance_spark

root, storage, name = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]
builder = (
    SparkSession.builder.master("local[2]")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.driver.memory", "1g")
    .config("spark.sql.shuffle.partitions", "2")
)
options = {f"storage.{key}": value for key, value in storage.items()}
spark = lance_spark.configure(builder, root=root, **options).getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
"""

STATEMENTS = """
spark.sql("CREATE NAMESPACE lance.db")
spark.sql("CREATE TABLE lance.db.t (id BIGINT, name STRING) USING lance")
spark.sql("INSERT INTO lance.db.t SELECT id, 'a' FROM range(0, 1000, 1, 2)")
spark.sql("UPDATE lance.db.t SET name = 'b' WHERE id < 10")
spark.sql("DELETE FROM lance.db.t WHERE id >= 900")
spark.sql('''MERGE INTO lance.db.t AS t USING (SELECT id, 'c' AS name FROM range(890, 910)) AS s ON t.id = s.id
    WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *''')
rows = {row.name: row.n for row in spark.sql("SELECT name, count(*) AS n FROM lance.db.t GROUP BY name").collect()}
assert rows == {"a": 880, "b": 10, "c": 20}, rows
assert spark.sql("SELECT count(*) AS n FROM lance.db.t VERSION AS OF 2").first().n == 1000
print(spark.sql("DESCRIBE EXTENDED lance.db.t").where("col_name = 'Location'").first().data_type)
spark.stop()
"""

APPEND = """
first = int(sys.argv[4])
spark.sql("SELECT * FROM lance.db." + name).collect()
print("ready", flush=True)
sys.stdin.readline()
for number in range(first, first + 8):
    spark.sql(f"INSERT INTO lance.db.{name} SELECT {number} * 100 + id FROM range(0, 100, 1, 2)")
    print(number, flush=True)
    if number % 4 == 3:
        spark.sql(f"DELETE FROM lance.db.{name} WHERE id = {number} * 100 + 7")
        print(-number, flush=True)
spark.stop()
"""


GUIDE = Path(__file__).parents[1] / "docs" / "guides" / "stores.md"

AROUND_THE_EXAMPLE = """
from pyspark.sql import SparkSession
import lance_spark

builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
{example}
spark.sparkContext.setLogLevel("ERROR")
spark.sql("CREATE NAMESPACE lance.guide")
spark.sql("CREATE TABLE lance.guide.t (id BIGINT)")
spark.sql("INSERT INTO lance.guide.t VALUES (1), (2)")
spark.sql("DELETE FROM lance.guide.t WHERE id = 1")
print([row.id for row in spark.table("lance.guide.t").collect()])
spark.stop()
"""


@pytest.fixture
def place(seaweed_service: Service, jar: Path) -> tuple[str, str]:
    """Root of a new catalog, and how to reach it, as JSON."""
    return f"{seaweed_service.root}/{uuid.uuid4().hex}", json.dumps(seaweed_service.options)


def test_statements(seaweed_service: Service, place: tuple[str, str], tmp_path: Path) -> None:
    uri = run_driver(SESSION + STATEMENTS, *place, "t", folder=tmp_path).split()[-1]
    assert uri.startswith("s3://")
    dataset = lance.dataset(uri, storage_options=seaweed_service.reference_options)
    assert dataset.version == 5
    assert dataset.count_rows("name = 'c'") == 20
    assert dataset.count_rows() == 910


def test_example_of_the_guide(seaweed: Seaweedfs, jar: Path, tmp_path: Path) -> None:
    (example,) = (block.code for block in blocks(GUIDE.read_text(), ("py",)) if "aws_endpoint" in block.code)
    for shown, ours in (("http://127.0.0.1:8333", seaweed.endpoint), ("s3://tables/", f"{seaweed.bucket.uri}/")):
        assert shown in example
        example = example.replace(shown, ours)
    printed = run_driver(AROUND_THE_EXAMPLE.format(example=example), folder=tmp_path)
    assert printed.splitlines()[-1] == "[2]"


def test_two_drivers_write_one_table(seaweed_service: Service, place: tuple[str, str], tmp_path: Path) -> None:
    make = "spark.sql('CREATE NAMESPACE lance.db')\nspark.sql('CREATE TABLE lance.db.t (id BIGINT)')\n"
    where = "print(spark.sql('DESCRIBE EXTENDED lance.db.t').where(\"col_name = 'Location'\").first().data_type)\n"
    uri = run_driver(SESSION + make + where, *place, "t", folder=tmp_path).split()[-1]
    drivers = [start_driver(SESSION + APPEND, *place, "t", str(first), folder=tmp_path) for first in (0, 100)]
    for driver in drivers:
        wait_until_ready(driver)
    for driver in drivers:
        assert driver.stdin is not None
        driver.stdin.write("\n")
        driver.stdin.flush()
    acknowledged = [int(line) for driver in drivers for line in finish_driver(driver).split()]
    inserted = {number * 100 + row for number in acknowledged if number >= 0 for row in range(100)}
    deleted = {-number * 100 + 7 for number in acknowledged if number < 0}
    dataset = lance.dataset(uri, storage_options=seaweed_service.reference_options)
    assert len(inserted) == 1600
    assert sorted(dataset.to_table()["id"].to_pylist()) == sorted(inserted - deleted)
    assert dataset.version == 1 + len(acknowledged)
    ours = lance_spark.open(uri, storage_options=seaweed_service.options)
    assert sorted(ours.to_table()["id"].to_pylist()) == sorted(inserted - deleted)


def wait_until_ready(driver: subprocess.Popen[str]) -> None:
    assert driver.stdout is not None
    line = driver.stdout.readline()
    assert line == "ready\n", driver.stderr.read()[-6000:] if driver.stderr else line
