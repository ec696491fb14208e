"""A Spark Connect server: clients that have neither the jar nor Java."""

from __future__ import annotations

from pathlib import Path

import lance
import pytest
from pyspark.sql import SparkSession

import lance_spark
from integration.spark_servers import connect_server, run_driver
from integration.sparks import RELEASES, pyspark
from lance_spark.spark.jvm import build

# Several JVMs start in each; on a busy machine that takes minutes.
pytestmark = pytest.mark.timeout(1800)

SESSION = """
import sys
from pyspark.sql import SparkSession
import lance_spark

url, folder = sys.argv[1:3]
spark = SparkSession.builder.remote(url).getOrCreate()
"""

STATEMENTS = """
spark.sql("CREATE NAMESPACE lance.db")
spark.sql("CREATE TABLE lance.db.t AS SELECT id, concat('n', id) AS name FROM range(0, 3000, 1, 3)")
spark.sql("UPDATE lance.db.t SET name = 'x' WHERE id < 10")
spark.sql("DELETE FROM lance.db.t WHERE id >= 2000")
assert spark.table("lance.db.t").where("name = 'x'").count() == 10
assert spark.sql("SELECT count(*) AS n FROM lance.db.t VERSION AS OF 1").first().n == 3000
"""

PATHS = """
uri = folder + "/by_path"
spark.range(10).write.format("lance").mode("append").save(uri)
spark.range(5).write.format("lance").mode("append").save(uri)
read = spark.read.format("lance")
assert read.load(uri).count() == 15
assert spark.read.format("lance").option("version", 1).load(uri).count() == 10
"""


def test_the_server_is_configured(jar: Path, tmp_path: Path) -> None:
    settings = dict(lance_spark.configure(SparkSession.Builder(), root=str(tmp_path / "catalog"))._options)
    with connect_server(tmp_path, settings) as url:
        run_driver(SESSION + STATEMENTS + PATHS, url, str(tmp_path), folder=tmp_path)
    assert lance.dataset(str(tmp_path / "by_path")).version == 2


def test_a_client_brings_the_connector(jar: Path, tmp_path: Path) -> None:
    install = "lance_spark.install(spark, root=folder + '/catalog')\n"
    with connect_server(tmp_path, {}) as url:
        run_driver(SESSION + install + STATEMENTS + PATHS, url, str(tmp_path), folder=tmp_path)
    assert lance.dataset(str(tmp_path / "by_path")).version == 2


def test_client_without_jar_and_jdk_takes_the_jar_of_the_server(jar: Path, tmp_path: Path) -> None:
    install = """
from lance_spark.spark import session
def no_jar(version):
    raise lance_spark.NotFoundError("no JDK here")
session.jar_path = no_jar
lance_spark.install(spark, root=folder + '/catalog')
"""
    with connect_server(tmp_path, {}) as url:
        run_driver(SESSION + install + STATEMENTS, url, str(tmp_path), folder=tmp_path)


def test_the_plugin_alone(tmp_path: Path) -> None:
    with connect_server(tmp_path, {}) as url:
        run_driver(SESSION + PATHS, url, str(tmp_path), folder=tmp_path)
    assert lance.dataset(str(tmp_path / "by_path")).version == 2


@pytest.mark.parametrize(
    ("client", "server"),
    [("4.3", "4.0-last"), ("4.0-last", "4.3"), ("4.1-last", "4.2-last"), ("4.2-last", "4.1-last")],
)
def test_a_client_of_another_minor_brings_the_jar_of_the_server(client: str, server: str, tmp_path: Path) -> None:
    of_client, of_server = (pyspark(RELEASES[each]) if each in RELEASES else None for each in (client, server))
    build.package_jar(None if of_server is None else of_server / "pyspark" / "jars")
    version = f"assert spark.version.startswith('{server[:3]}.'), spark.version\n"
    install = "lance_spark.install(spark, root=folder + '/catalog')\n"
    with connect_server(tmp_path, {}, of_server) as url:
        script = SESSION + version + install + STATEMENTS + PATHS
        run_driver(script, url, str(tmp_path), folder=tmp_path, release=of_client)
    assert lance.dataset(str(tmp_path / "by_path")).version == 2
