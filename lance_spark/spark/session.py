"""Adds the connector to a Spark session: `configure` before it starts, `install` into a running one.

Both make ordinary Spark settings, which can be set in ``spark-defaults.conf`` instead::

    spark.jars                                  .../lance_spark/spark/jvm/lance-spark.jar
    spark.sql.extensions                        io.lancespark.LanceExtensions
    spark.sql.catalog.lance                     io.lancespark.LanceCatalog
    spark.sql.catalog.lance.root                s3://bucket/tables
    spark.sql.catalog.lance.storage.aws_region  eu-west-1
    spark.python.unix.domain.socket.enabled     true

The extension adds statements such as OPTIMIZE, each of which is also a procedure, for sessions without it. The last
line is for speed. `JOIN_SETTINGS` let Spark join co-partitioned tables without a shuffle. They affect all data sources
of the session, so only `configure` sets them, and ``joins=False`` leaves them unchanged.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from lance_spark.errors import InvalidInputError, NotFoundError, UnsupportedFeatureError
from lance_spark.spark.jvm.build import SPARK
from lance_spark.spark.jvm.jar import jar_bytes, jar_path
from lance_spark.storage.paths import UriOrPath, uri_text

CATALOG_CLASS = "io.lancespark.LanceCatalog"
EXTENSIONS_CLASS = "io.lancespark.LanceExtensions"

JOIN_SETTINGS = {
    "spark.sql.sources.v2.bucketing.enabled": "true",
    "spark.sql.sources.v2.bucketing.pushPartValues.enabled": "true",
    "spark.sql.sources.v2.bucketing.allowCompatibleTransforms.enabled": "true",
    "spark.sql.sources.v2.bucketing.allowKeysSubsetOfPartitionKeys.enabled": "true",
    "spark.sql.requireAllClusterKeysForCoPartition": "false",
}
"""Storage-partitioned joins on compatible transforms, and on some of the partition columns."""

LOCAL_SOCKETS = "spark.python.unix.domain.socket.enabled"
"""Over TCP the first rows of a task wait up to 40 ms for an acknowledgement between Spark's JVM and its Python workers.
Spark reads this when its JVM starts."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")

BuilderT = TypeVar("BuilderT")


def configure(
    builder: BuilderT,
    catalog: str = "lance",
    *,
    root: UriOrPath | None = None,
    joins: bool = True,
    **options: UriOrPath,
) -> BuilderT:
    """`builder` (a ``SparkSession.builder``) with the connector's jar, a catalog and the settings for joins.

    Call it once for each catalog, before the first session of the process starts: Spark reads ``spark.jars`` only when
    its JVM starts. For a running session use `install`.

    Args:
        catalog: name of the catalog in SQL.
        root: folder of the catalog's tables, a URI or a local path as a string or a `pathlib.Path`; without it tables
            can only be named by their path.
        joins: whether to set `JOIN_SETTINGS`; if not, joins of partitioned tables shuffle their rows unless the session
            has such settings of its own.
        options: more settings of the catalog, such as ``**{"storage.aws_region": "eu-west-1"}``.

    Raises:
        InvalidInputError: an invalid name of a catalog.
        NotFoundError: the package has no jar, and no JDK, Spark or Java sources to compile it.
        UnsupportedFeatureError: the connector does not support this version of pyspark.
    """
    _check_spark(str(import_module("pyspark").__version__))
    settings = {**_catalog_settings(catalog, root, options), **(JOIN_SETTINGS if joins else {})}
    any_builder: Any = builder
    for name, value in (("spark.jars", jar_path()), ("spark.sql.extensions", EXTENSIONS_CLASS)):
        there = [item for item in _builder_options(any_builder).get(name, "").split(",") if item]
        if value not in there:
            any_builder.config(name, ",".join([*there, value]))
    for name, value in settings.items():
        any_builder.config(name, value)
    if LOCAL_SOCKETS not in _builder_options(any_builder):
        any_builder.config(LOCAL_SOCKETS, "true")
    return builder


def install(spark: Any, catalog: str = "lance", *, root: UriOrPath | None = None, **options: UriOrPath) -> None:
    """Adds the connector to `spark`, a running session, also with Spark Connect; arguments and errors as `configure`.

    A running session cannot get new statements: use ``CALL lance.system.optimize`` instead of OPTIMIZE. Settings that
    concern other data sources of the session stay as they are: set `JOIN_SETTINGS` yourself to join partitioned tables
    without a shuffle.

    The Python package must be installed on the driver and the executors.
    """
    if "joins" in options:
        raise InvalidInputError(
            "install has no argument joins: it leaves the join settings of a running session as they are. To join "
            "partitioned tables without a shuffle, set each of lance_spark.spark.session.JOIN_SETTINGS with "
            "spark.conf.set"
        )
    _check_spark(str(spark.version))
    settings = _catalog_settings(catalog, root, options)
    if _is_connect(spark):
        _add_to_server(spark)
    else:
        spark.sql(f"ADD JAR '{jar_path()}'")
        _add_rules(spark)
    for name, value in settings.items():
        spark.conf.set(name, value)


def _add_rules(spark: Any) -> None:
    """Adds the optimizer rules to a running session; a new session gets them by the extension."""
    loader = spark._jsparkSession.sharedState().jarClassLoader()
    rules = loader.loadClass("io.lancespark.optimizer.LanceRules")
    (add,) = [method for method in rules.getDeclaredMethods() if method.getName() == "addTo"]
    arguments = spark._jvm.java.util.ArrayList()
    arguments.add(spark._jsparkSession)
    add.invoke(None, arguments.toArray())


def _add_to_server(spark: Any) -> None:
    """Uploads the jar to a Connect server: the local one, or the server's own if the client has no JDK."""
    try:
        spark.addArtifacts(jar_path())
        return
    except (NotFoundError, UnsupportedFeatureError) as error:
        here = error
    try:
        (row,) = spark.range(0, 1, 1, 1).mapInArrow(_jar_rows, "jar binary").collect()
    except import_module("pyspark.errors").PySparkException as error:
        raise NotFoundError(f"{here}; the Connect server has none to give: {error}") from error
    with tempfile.TemporaryDirectory(prefix="lance-spark-") as folder:
        jar = Path(folder) / "lance-spark.jar"
        jar.write_bytes(row.jar)
        spark.addArtifacts(str(jar))


def _jar_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """One row with the content of the jar, for a task of the Connect server's Spark."""
    for batch in batches:
        if batch.num_rows:
            yield pa.RecordBatch.from_pydict({"jar": [jar_bytes()]})


def _check_spark(version: str) -> None:
    if not version.startswith(f"{SPARK}."):
        raise UnsupportedFeatureError(
            f'the connector is for Spark {SPARK}, this is {version}; spark.read.format("lance") works without it',
            feature="connector",
            version=version,
        )


def _catalog_settings(catalog: str, root: UriOrPath | None, options: dict[str, UriOrPath]) -> dict[str, str]:
    if not _NAME.match(catalog):
        raise InvalidInputError(f"{catalog!r} is no name of a catalog; letters, digits and _")
    prefix = f"spark.sql.catalog.{catalog}"
    settings = {prefix: CATALOG_CLASS, **{f"{prefix}.{name}": _text(value) for name, value in options.items()}}
    return settings if root is None else {**settings, f"{prefix}.root": uri_text(root)}


def _text(value: Any) -> Any:
    return uri_text(value) if isinstance(value, os.PathLike) else value


def _builder_options(builder: Any) -> dict[str, str]:
    return getattr(builder, "_options", {})


def _is_connect(spark: Any) -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect")
