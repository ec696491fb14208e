"""Fixtures of the tests of the session catalog."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from lance.namespace import RestAdapter
from pyspark.sql import SparkSession

import lance_spark


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """The folder of the Lance tables of `mixed`."""
    return tmp_path / "root"


@pytest.fixture
def mixed(spark: SparkSession, tables: Path) -> Iterator[SparkSession]:
    """A session in the database `mixed` of its session catalog, which has the Lance tables of `tables`."""
    with installed(spark, root=tables) as session:
        yield session


@pytest.fixture
def served(spark: SparkSession, tables: Path) -> Iterator[SparkSession]:
    """A session as `mixed`, whose Lance tables have their names on a REST server."""
    with (
        RestAdapter("dir", {"root": str(tables)}, host="127.0.0.1", port=0) as server,
        installed(spark, impl="rest", uri=f"http://127.0.0.1:{server.port}") as session,
    ):
        yield session


@contextmanager
def installed(spark: SparkSession, **settings: str | Path) -> Iterator[SparkSession]:
    session = spark.newSession()
    lance_spark.install(session, "spark_catalog", **settings)
    sessions = session._jvm.org.apache.spark.sql.classic.SparkSession
    sessions.setActiveSession(session._jsparkSession)  # Writers take the class from the settings of the active session.
    session.sql("CREATE DATABASE spark_catalog.mixed")
    session.sql("USE spark_catalog.mixed")
    yield session
    session.sql("DROP DATABASE IF EXISTS spark_catalog.mixed CASCADE")
    sessions.setActiveSession(spark._jsparkSession)


@pytest.fixture
def both(mixed: SparkSession) -> SparkSession:
    """The session with a Lance table `t`, a Parquet table `p` and a view `v` over both."""
    mixed.sql("CREATE TABLE t USING lance AS SELECT id, id * 10 AS x FROM range(3)")
    mixed.sql("CREATE TABLE p USING parquet AS SELECT id, 'p' AS s FROM range(1, 4)")
    mixed.sql("CREATE VIEW v AS SELECT t.id, x, s FROM t JOIN p USING (id)")
    return mixed
