"""Adds the connector to a Spark session: `configure` before it starts, `install` into a running one.

Both make ordinary Spark settings, which can be set in ``spark-defaults.conf`` instead; each minor version of Spark
has a jar of its own::

    spark.driver.extraClassPath                 .../lance_spark/spark/jvm/lance-spark-4.3.jar
    spark.sql.extensions                        io.lancespark.LanceExtensions
    spark.sql.catalog.lance                     io.lancespark.LanceCatalog
    spark.sql.catalog.lance.root                s3://bucket/tables
    spark.sql.catalog.lance.storage.aws_region  eu-west-1
    spark.python.unix.domain.socket.enabled     true

The jar is on the class path of the driver because Spark's JDBC server closes the class loader of `spark.jars` with its
first client. The extension hands it to the executors, and adds statements such as OPTIMIZE, each of which is also a
procedure, for sessions without it. The last line is for speed. `redaction` hides credentials of stores and catalogs in
Spark's UI, event logs and plans. `JOIN_SETTINGS` let Spark join co-partitioned tables without a shuffle. They affect
all data sources of the session, so only `configure` sets them, and ``joins=False`` leaves them unchanged.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from lance_spark.errors import InvalidInputError, NotFoundError, UnsupportedFeatureError
from lance_spark.spark.jvm import build
from lance_spark.spark.jvm.jar import jar_bytes, jar_path, supported_minor
from lance_spark.spark.redaction import OF_OPTIONS, redactions, with_secrets
from lance_spark.spark.submitted import CLASS_PATH, add_to_arguments, running_jvm, submitted_settings, with_item
from lance_spark.storage.paths import UriOrPath, uri_text

CATALOG_CLASS = "io.lancespark.LanceCatalog"
SESSION_CATALOG = "spark_catalog"
SESSION_CATALOG_CLASS = "io.lancespark.LanceSessionCatalog"
EXTENSIONS_CLASS = "io.lancespark.LanceExtensions"
EXTENSIONS = "spark.sql.extensions"

JOIN_SETTINGS = {
    "spark.sql.sources.v2.bucketing.enabled": "true",
    "spark.sql.sources.v2.bucketing.pushPartValues.enabled": "true",
    "spark.sql.sources.v2.bucketing.allowCompatibleTransforms.enabled": "true",
    "spark.sql.sources.v2.bucketing.allowKeysSubsetOfPartitionKeys.enabled": "true",
    "spark.sql.requireAllClusterKeysForCoPartition": "false",
}
"""Storage-partitioned joins on compatible transforms, and on some of the partition columns.

Before Spark 4.3 `allowKeysSubsetOfPartitionKeys` is `allowJoinKeysSubsetOfPartitionKeys`.
"""

LOCAL_SOCKETS = "spark.python.unix.domain.socket.enabled"
"""Over TCP the first rows of a task wait up to 40 ms for an acknowledgement between Spark's JVM and its Python workers.
Spark reads this when its JVM starts."""

DEFAULT_PYTHON = "spark.sql.lance.defaultPython"
"""The Python that plans statements, and runs tasks on the same machine, where neither `spark.pyspark.python` nor
PYSPARK_PYTHON names one."""

_LAUNCHER_LOADERS = (
    "org.apache.spark.util.MutableURLClassLoader",
    "org.apache.spark.util.ChildFirstURLClassLoader",
)
"""The class loaders of what spark-submit runs; the second one with `spark.driver.userClassPathFirst`."""

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

    Call it once for each catalog, before the first session of the process starts, and after other calls that set
    `spark.sql.extensions`: what the builder, Spark's files and the arguments of spark-submit say stays, and ours is
    added. For a running session use `install`.

    Args:
        catalog: name of the catalog in SQL; "spark_catalog" for Lance tables in Spark's own catalog.
        root: folder of the catalog's tables, a URI or a local path as a string or a `pathlib.Path`; without it tables
            can only be named by their path.
        joins: whether to set `JOIN_SETTINGS`; if not, joins of partitioned tables shuffle their rows unless the session
            has such settings of its own.
        options: more settings of the catalog, such as ``**{"storage.aws_region": "eu-west-1"}``.

    Raises:
        InvalidInputError: an invalid name of a catalog, or a session catalog that cannot have Lance tables.
        NotFoundError: the package has no jar, and no JDK, Spark or Java sources to compile it.
        UnsupportedFeatureError: pyspark is not installed, or the connector does not support the version of Spark.
    """
    version = _spark_version()
    jar = jar_path(version)
    settings = {**_catalog_settings(catalog, root, options), **(_join_settings(version) if joins else {})}
    jvm = running_jvm()
    given = {**submitted_settings(jvm), **_builder_options(builder)}
    _check_session_catalog(settings, given.get(f"spark.sql.catalog.{SESSION_CATALOG}"))
    settings[EXTENSIONS] = with_item(given.get(EXTENSIONS) or "", EXTENSIONS_CLASS, ",")
    if jvm is None:
        settings[CLASS_PATH] = with_item(given.get(CLASS_PATH) or "", jar, os.pathsep)
        add_to_arguments(CLASS_PATH, jar, os.pathsep)
    elif not _add_to_class_path(jvm, jar):
        raise UnsupportedFeatureError(
            f"this JVM takes no more jars; start it with {CLASS_PATH} = {jar}", feature="configure in a running JVM"
        )
    is_of_server = _is_of_server(builder)
    if not is_of_server:  # What a server hides is not known here.
        settings.update(redactions(given))
    defaults = {LOCAL_SOCKETS: "true", **({} if is_of_server else {DEFAULT_PYTHON: sys.executable})}
    settings.update({name: value for name, value in defaults.items() if name not in given})
    any_builder: Any = builder
    for name, value in settings.items():
        any_builder.config(name, value)
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
    supported_minor(str(spark.version))
    settings = _catalog_settings(catalog, root, options)
    _check_running_session(spark, settings)
    if _is_connect(spark):
        _add_to_server(spark)
    else:
        jar = jar_path(str(spark.version))
        if Path(jar).name not in {Path(row[0]).name for row in spark.sql("LIST JARS").collect()}:
            # Spark's UI loads the classes of metrics from there; where it does not have them, it shows no values.
            _add_to_class_path(spark._jvm, jar)
            spark.sql(f"ADD JAR '{jar}'")
        _add_rules(spark)
        if spark.conf.get(DEFAULT_PYTHON, None) is None:
            settings[DEFAULT_PYTHON] = sys.executable
    settings[OF_OPTIONS] = with_secrets(spark.conf.get(OF_OPTIONS))
    for name, value in settings.items():
        spark.conf.set(name, value)


def _join_settings(version: str) -> dict[str, str]:
    """`JOIN_SETTINGS` by the names that a version of Spark has."""
    if build.MINORS.index(supported_minor(version)) >= build.MINORS.index("4.3"):
        return JOIN_SETTINGS
    return {name.replace(".allowKeysSubset", ".allowJoinKeysSubset"): value for name, value in JOIN_SETTINGS.items()}


def _add_to_class_path(jvm: Any, jar: str) -> bool:
    """Puts the jar on the class path of a running JVM; False if Spark's launcher has not made its class loader."""
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    if loader is not None and loader.getResource(f"{CATALOG_CLASS.replace('.', '/')}.class") is not None:
        return True
    # A thread that has run ADD JAR has the class loader of such jars, a child of that of all other threads.
    while loader is not None and loader.getClass().getName() not in _LAUNCHER_LOADERS:
        loader = loader.getParent()
    if loader is None:
        return False
    loader.addURL(jvm.java.io.File(jar).toURI().toURL())
    return True


def _add_rules(spark: Any) -> None:
    """Adds the optimizer rules to a running session; a new session gets them by the extension."""
    loader = spark._jsparkSession.sharedState().jarClassLoader()
    rules = loader.loadClass("io.lancespark.compat.optimizer.LanceRules")
    (add,) = [method for method in rules.getDeclaredMethods() if method.getName() == "addTo"]
    arguments = spark._jvm.java.util.ArrayList()
    arguments.add(spark._jsparkSession)
    add.invoke(None, arguments.toArray())


def _add_to_server(spark: Any) -> None:
    """Uploads the jar to a Connect server: the local one, or the server's own if the client has no JDK."""
    try:
        spark.addArtifacts(jar_path(str(spark.version)))
        return
    except (NotFoundError, UnsupportedFeatureError) as error:
        here = error
    try:
        (row,) = spark.range(0, 1, 1, 1).mapInArrow(_jar_rows, "jar binary").collect()
    except import_module("pyspark.errors").PySparkException as error:
        raise NotFoundError(f"{here}; the Connect server has none to give: {error}") from error
    with tempfile.TemporaryDirectory(prefix="lance-spark-") as folder:
        jar = Path(folder) / build.jar_of(supported_minor(str(spark.version))).name
        jar.write_bytes(row.jar)
        spark.addArtifacts(str(jar))


def _jar_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """One row with the content of the jar, for a task of the Connect server's Spark."""
    for batch in batches:
        if batch.num_rows:
            yield pa.RecordBatch.from_pydict({"jar": [jar_bytes()]})


def _spark_version() -> str:
    """The version of the Spark that sessions of this process start: SPARK_HOME's, or else pyspark's."""
    try:
        compat = import_module("lance_spark.spark.compat")
    except ModuleNotFoundError as error:
        raise UnsupportedFeatureError(
            "configure needs pyspark, which is not installed; pip install 'lance-spark[spark]'", feature="connector"
        ) from error
    try:
        return build.spark_version(build.spark_jars())
    except build.JarBuildError:
        return str(compat.VERSION)  # A client of Spark Connect alone has no jars.


def _catalog_settings(catalog: str, root: UriOrPath | None, options: dict[str, UriOrPath]) -> dict[str, str]:
    if not _NAME.match(catalog):
        raise InvalidInputError(f"{catalog!r} is no name of a catalog; letters, digits and _")
    prefix = f"spark.sql.catalog.{catalog}"
    kind = SESSION_CATALOG_CLASS if catalog == SESSION_CATALOG else CATALOG_CLASS
    settings = {prefix: kind, **{f"{prefix}.{name}": _text(value) for name, value in options.items()}}
    return settings if root is None else {**settings, f"{prefix}.root": uri_text(root)}


def _check_session_catalog(settings: dict[str, str], there: str | None) -> None:
    """Passes if the settings are not of the session catalog, or can be; `there` is its class so far.

    Raises:
        InvalidInputError: its Lance tables have no place, or another format has a class for it.
    """
    prefix = f"spark.sql.catalog.{SESSION_CATALOG}"
    if prefix not in settings:
        return
    if not {f"{prefix}.root", f"{prefix}.impl"} & set(settings):
        raise InvalidInputError(f"{SESSION_CATALOG} has no place for Lance tables; give root, or impl and uri")
    if there not in (None, "", "builtin", SESSION_CATALOG_CLASS):
        raise InvalidInputError(
            f"{SESSION_CATALOG} is {there}, and Spark takes one class for it; choose another name for the catalog"
        )


def _check_running_session(spark: Any, settings: dict[str, str]) -> None:
    """Passes if a running session can take the settings as those of its session catalog, if they are that.

    Raises:
        InvalidInputError: it lacks the extension, or has loaded the session catalog with other settings.
    """
    prefix = f"spark.sql.catalog.{SESSION_CATALOG}"
    _check_session_catalog(settings, spark.conf.get(prefix, None))
    if prefix not in settings:
        return
    if EXTENSIONS_CLASS not in (spark.conf.get(EXTENSIONS, None) or ""):
        raise InvalidInputError(
            f"{SESSION_CATALOG} takes Lance tables only in a session that starts with {EXTENSIONS} = "
            f"{EXTENSIONS_CLASS}; call configure before the session starts, or choose another name for the catalog"
        )
    for name, value in settings.items():
        if spark.conf.get(prefix, None) == SESSION_CATALOG_CLASS and spark.conf.get(name, None) != value:
            raise InvalidInputError(
                f"{SESSION_CATALOG} has {name} = {spark.conf.get(name, None)}, which Spark does not read again; start "
                "another session, or choose another name for the catalog"
            )


def _text(value: Any) -> Any:
    return uri_text(value) if isinstance(value, os.PathLike) else value


def _builder_options(builder: Any) -> dict[str, str]:
    return getattr(builder, "_options", {})


def _is_of_server(builder: Any) -> bool:
    """Whether sessions of the builder are those of a Connect server on another machine."""
    remote = _builder_options(builder).get("spark.remote") or os.environ.get("SPARK_REMOTE", "")
    return bool(remote) and not remote.startswith("local")


def _is_connect(spark: Any) -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect")
