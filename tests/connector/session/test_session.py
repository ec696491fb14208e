"""What `configure` and `install` set, and the jar that they hand to Spark."""

from __future__ import annotations

import re
import sys
import zipfile
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

import lance_spark
from lance_spark.errors import InvalidInputError, UnsupportedFeatureError
from lance_spark.spark import session
from lance_spark.spark.jvm import build
from tests.support.connector.script_session import WITHOUT_CONNECTOR, printed

PATH_CATALOG = "spark.sql.catalog.lance_path"


@pytest.fixture
def no_jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process in which no Spark has started, of a machine without settings."""
    monkeypatch.setattr(session, "running_jvm", lambda: None)
    monkeypatch.setenv("SPARK_CONF_DIR", "/none")


def options(builder: SparkSession.Builder) -> dict[str, str]:
    return dict(builder._options)


@pytest.mark.usefixtures("no_jvm")
def test_configure_can_be_called_for_several_catalogs(jar: Path) -> None:
    builder = SparkSession.builder.config("spark.jars", "/other.jar")
    lance_spark.configure(builder, root="/a")
    lance_spark.configure(builder, "second", root="s3://b/c", **{"storage.aws_region": "eu-west-1"})
    made = options(builder)
    assert made["spark.jars"] == "/other.jar"
    assert made["spark.driver.extraClassPath"] == str(jar)
    assert made["spark.sql.catalog.lance"] == made["spark.sql.catalog.second"] == "io.lancespark.LanceCatalog"
    assert made["spark.sql.catalog.lance.root"] == "/a"
    assert made["spark.sql.catalog.second.root"] == "s3://b/c"
    assert made["spark.sql.catalog.second.storage.aws_region"] == "eu-west-1"
    assert made["spark.sql.requireAllClusterKeysForCoPartition"] == "false"
    assert made["spark.python.unix.domain.socket.enabled"] == "true"


def test_configure_sets_join_settings_unless_told_not_to(jar: Path) -> None:
    made = options(lance_spark.configure(SparkSession.Builder(), root="/a", joins=False))
    assert not set(session.JOIN_SETTINGS) & set(made)
    assert "spark.sql.catalog.lance.joins" not in made


def test_install_leaves_join_settings_of_the_session(spark: SparkSession, tmp_path: Path) -> None:
    running = spark.newSession()
    for name in session.JOIN_SETTINGS:
        running.conf.unset(name)
    before = dict(running.conf.getAll)
    lance_spark.install(running, "installed", root=tmp_path, **{"storage.aws_region": "eu-west-1"})
    changed = {name: value for name, value in running.conf.getAll.items() if before.get(name) != value}
    assert changed == {
        "spark.sql.catalog.installed": "io.lancespark.LanceCatalog",
        "spark.sql.catalog.installed.root": str(tmp_path),
        "spark.sql.catalog.installed.storage.aws_region": "eu-west-1",
    }
    with pytest.raises(InvalidInputError, match=r"no argument joins.*JOIN_SETTINGS"):
        lance_spark.install(running, "other", **{"joins": True})  # type: ignore[arg-type]
    assert "spark.sql.catalog.other" not in running.conf.getAll


@pytest.mark.slow
def test_loading_a_table_changes_no_settings_or_rules(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(3).write.format("lance").save(str(tmp_path / "t"))
    fresh = spark.newSession()
    before = dict(fresh.conf.getAll)
    assert fresh.read.format("lance").load(str(tmp_path / "t")).count() == 3
    # A path needs a catalog to be loaded from; nothing else may change for other queries.
    assert {name for name, value in fresh.conf.getAll.items() if before.get(name) != value} <= {PATH_CATALOG}
    rules = fresh._jsparkSession.experimental().extraOptimizations().mkString(",")
    assert rules.count("LanceTaskCoalescing") == rules.count("LanceDynamicPruning") == 1


def test_what_the_user_says_of_sockets_stays(jar: Path) -> None:
    builder = SparkSession.Builder().config("spark.python.unix.domain.socket.enabled", "false")
    assert options(lance_spark.configure(builder))["spark.python.unix.domain.socket.enabled"] == "false"


def test_a_name_that_no_catalog_can_have(jar: Path) -> None:
    with pytest.raises(InvalidInputError, match="no name of a catalog"):
        lance_spark.configure(SparkSession.builder, "a.b")


@pytest.mark.slow
def test_the_same_sources_give_the_same_jar(jar: Path, tmp_path: Path) -> None:
    again = build.build(tmp_path / "again.jar")
    assert again.read_bytes() == jar.read_bytes()
    with zipfile.ZipFile(again) as archive:
        assert "io/lancespark/LanceCatalog.class" in archive.namelist()
        services = "META-INF/services/org.apache.spark.sql.sources.DataSourceRegister"
        assert archive.read(services) == b"io.lancespark.LanceSource\n"
        services = "META-INF/services/org.apache.spark.sql.SparkSessionExtensionsProvider"
        assert archive.read(services) == b"io.lancespark.LanceVersionCheck\n"


HERE = build.minor_of(pyspark.__version__)

OTHER_JAR = """
for name, run in {
    "names": lambda: spark.sql("SHOW TABLES IN lance").collect(),
    "table": lambda: spark.table("lance.t").collect(),
    "load": lambda: spark.read.format("lance").load(f"{root}/t").collect(),
    "save": lambda: spark.range(2).write.format("lance").save(f"{root}/t"),
    "stream": lambda: spark.readStream.format("lance").load(f"{root}/t"),
    "session catalog": lambda: spark.sql(f"CREATE TABLE t (id INT) USING lance LOCATION '{root}/t'"),
}.items():
    print("====", name, attempt(run), file=sys.stderr)
"""


@pytest.mark.slow
@pytest.mark.parametrize("minor", sorted({build.MINORS[0], build.MINORS[-1]} - {HERE}))
def test_jar_of_another_minor_in_a_session_without_the_extension(jar: Path, tmp_path: Path, minor: str) -> None:
    other = build.jar_of(minor)
    if not build.is_current(minor):
        pytest.skip(f"there is no jar for Spark {minor} here; make wheel builds all and tries them")
    log = printed(
        jar,
        tmp_path,
        OTHER_JAR,
        f"spark.driver.extraClassPath={other}",
        f"spark.sql.catalog.lance={session.CATALOG_CLASS}",
        f"spark.sql.catalog.lance.root={tmp_path}",
        f"spark.sql.warehouse.dir={tmp_path}/warehouse",
        start=WITHOUT_CONNECTOR,
    )
    lines = [line for line in log.splitlines() if line.startswith("==== ")]
    assert len(lines) == 6
    sentence = (
        rf"this jar of the Lance connector is for Spark {minor}, this is Spark {HERE}\.\d+; put lance-spark-{HERE}"
    )
    assert [line for line in lines if not re.match(rf"==== [a-z ]+ {sentence}", line)] == []


def test_another_spark_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "spark_version", lambda jars: "5.0.0")
    with pytest.raises(UnsupportedFeatureError, match=r"supports Spark 4\.\d to 4\.3, this is 5\.0\.0; install one of"):
        session.configure(SparkSession.Builder())


def test_client_without_jars_is_of_the_version_of_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setattr(build, "find_spec", lambda name: None)
    monkeypatch.setattr("lance_spark.spark.compat.VERSION", "3.5.1")
    with pytest.raises(UnsupportedFeatureError, match=r"this is 3\.5\.1"):
        session.configure(SparkSession.Builder())


def test_missing_pyspark_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.delitem(sys.modules, "lance_spark.spark.compat")
    with pytest.raises(UnsupportedFeatureError, match=r"pip install 'lance-spark\[spark\]'"):
        session.configure(object())


def test_functions_of_spark_stay(spark: SparkSession) -> None:
    catalog = spark._jsparkSession.sessionState().catalog()
    names = spark._jvm.org.apache.spark.sql.catalyst.analysis.FunctionRegistry.functionSet().iterator()
    replaced = []
    while names.hasNext():
        name = names.next().funcName()
        if not catalog.lookupBuiltinOrTempFunction(name).get().getClassName().startswith("org.apache.spark."):
            replaced.append(name)
    assert replaced == []


def test_the_session_says_what_is_wrong_with_a_catalog(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.catalog.rootless", session.CATALOG_CLASS)
    with pytest.raises(Exception, match=r"set spark\.sql\.catalog\.rootless\.root"):
        spark.sql("SHOW TABLES IN rootless.db").collect()
    spark.conf.set("spark.sql.catalog.misspelt", session.CATALOG_CLASS)
    spark.conf.set("spark.sql.catalog.misspelt.rooot", "/x")
    with pytest.raises(Exception, match="did you mean root"):
        spark.sql("SHOW TABLES IN misspelt.db").collect()
