"""Fixtures: one local Spark session with the connector, for the tests of the connector and of the documents."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lance_spark.spark.jvm import build

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


last_statement: list[str] = []
"""The last statement that a test gave to `SparkSession.sql`; reports of failures show it."""


@pytest.fixture(scope="session")
def jar() -> Path:
    """The connector's jar, built from the sources that are here."""
    try:
        return build.package_jar()
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
    from pyspark.sql import SparkSession

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
        .config("spark.python.daemon.module", "tests.support.connector.warm_daemon")
    )
    session = configure(builder, "lance", root=root).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SparkSession, "sql", _recorded(SparkSession.sql))
        yield session
    session.stop()


def _recorded(sql: Any) -> Any:
    @functools.wraps(sql)
    def run(session: SparkSession, text: str, *arguments: Any, **named: Any) -> Any:
        last_statement[:] = [text]
        return sql(session, text, *arguments, **named)

    return run
