"""One local Spark session with the connector for all tests of this folder."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lance_spark.spark.jvm import build
from tests.support.moto import s3_bucket

__all__ = ["s3_bucket"]

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


@pytest.fixture(scope="session")
def jar() -> Path:
    """The connector's jar, built from the sources that are here."""
    try:
        return build.JAR if build.is_current() else build.build()
    except build.JarBuildError as error:
        if os.environ.get("CI"):
            raise  # A run that counts must not pass without the connector.
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of the catalog `lance`."""
    return str(tmp_path_factory.mktemp("catalog"))


@pytest.fixture(scope="session")
def spark(jar: Path, root: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    from lance_spark import configure

    builder = (
        SparkSession.builder.master("local[2]")
        .appName("lance-spark-connector-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "2g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .config("spark.sql.session.timeZone", "UTC")
        # The tables of tests are small, and tasks are what is tested.
        .config("spark.sql.lance.inlineBytes", "0")
    )
    session = configure(builder, "lance", root=root).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A path without a table."""
    return str(tmp_path / "table")
