"""Sessions whose session catalog has Lance tables: how they get the class, and who is refused."""

from __future__ import annotations

from pathlib import Path

import lance
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import lance_spark
from lance_spark.errors import InvalidInputError
from lance_spark.namespace.directory.namespace import DirectoryNamespace
from lance_spark.spark import session
from lance_spark.spark.session import CATALOG_CLASS, EXTENSIONS_CLASS, SESSION_CATALOG_CLASS
from tests.support.connector.script_session import WITHOUT_CONNECTOR, printed

SETTING = "spark.sql.catalog.spark_catalog"
SESSION = 'spark = lance_spark.configure({builder}, "spark_catalog", root=root).getOrCreate()'


@pytest.fixture
def no_jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process in which no Spark has started, of a machine without settings."""
    monkeypatch.setattr(session, "running_jvm", lambda: None)
    monkeypatch.setenv("SPARK_CONF_DIR", "/none")


@pytest.mark.usefixtures("jar", "no_jvm")
def test_configure_sets_the_class_of_the_session_catalog() -> None:
    builder = lance_spark.configure(SparkSession.Builder(), root="/a")
    made = dict(lance_spark.configure(builder, "spark_catalog", root="/b", enable_stable_row_ids="true")._options)
    assert made[SETTING] == SESSION_CATALOG_CLASS == "io.lancespark.LanceSessionCatalog"
    assert (made[f"{SETTING}.root"], made[f"{SETTING}.enable_stable_row_ids"]) == ("/b", "true")
    assert made["spark.sql.catalog.lance"] == CATALOG_CLASS
    assert made["spark.sql.extensions"] == EXTENSIONS_CLASS


@pytest.mark.usefixtures("jar", "no_jvm")
def test_configure_refuses_what_the_session_catalog_cannot_be() -> None:
    with pytest.raises(InvalidInputError, match="spark_catalog has no place for Lance tables; give root, or impl and"):
        lance_spark.configure(SparkSession.Builder(), "spark_catalog")
    other = SparkSession.Builder().config(SETTING, "org.other.SessionCatalog")
    with pytest.raises(InvalidInputError, match=r"spark_catalog is org\.other\.SessionCatalog, and Spark takes one"):
        lance_spark.configure(other, "spark_catalog", root="/a")


def test_install_in_a_session_with_the_extension(spark: SparkSession, tmp_path: Path) -> None:
    running = spark.newSession()
    lance_spark.install(running, "spark_catalog", root=tmp_path)
    lance_spark.install(running, "spark_catalog", root=tmp_path)
    running.sql("CREATE TABLE spark_catalog.default.installed USING lance AS SELECT 1 AS id")
    assert lance.dataset(DirectoryNamespace(tmp_path).table_location(("default", "installed")).uri).count_rows() == 1
    running.sql("DROP TABLE spark_catalog.default.installed")
    with pytest.raises(InvalidInputError, match=rf"has {SETTING}\.root = {tmp_path}, which Spark does not read again"):
        lance_spark.install(running, "spark_catalog", root=tmp_path / "other")
    with pytest.raises(InvalidInputError, match="has no place for Lance tables"):
        lance_spark.install(spark.newSession(), "spark_catalog")
    taken = spark.newSession()
    taken.conf.set(SETTING, "org.other.SessionCatalog")
    with pytest.raises(InvalidInputError, match=r"spark_catalog is org\.other\.SessionCatalog"):
        lance_spark.install(taken, "spark_catalog", root=tmp_path)


def test_classes_are_for_their_names(spark: SparkSession, tmp_path: Path) -> None:
    wrong = spark.newSession()
    wrong.conf.set(SETTING, CATALOG_CLASS)
    wrong.conf.set(f"{SETTING}.root", str(tmp_path))
    for statement in ("CREATE TABLE spark_catalog.default.p (id INT) USING parquet", "USE spark_catalog"):
        with pytest.raises(
            AnalysisException, match=rf"cannot be spark_catalog.*; set {SETTING} to {SESSION_CATALOG_CLASS}"
        ):
            wrong.sql(statement)
    wrong.conf.set("spark.sql.catalog.other", SESSION_CATALOG_CLASS)
    wrong.conf.set("spark.sql.catalog.other.root", str(tmp_path))
    with pytest.raises(AnalysisException, match=rf"set spark\.sql\.catalog\.other to {CATALOG_CLASS}"):
        wrong.sql("SHOW TABLES IN other.default")


def test_class_without_a_root_has_no_lance_tables(spark: SparkSession) -> None:
    rootless = spark.newSession()
    rootless.conf.set(SETTING, SESSION_CATALOG_CLASS)
    rootless.sql("CREATE TABLE spark_catalog.default.rootless USING parquet AS SELECT 1 AS id")
    assert rootless.table("spark_catalog.default.rootless").count() == 1
    rootless.sql("DROP TABLE spark_catalog.default.rootless")
    with pytest.raises(AnalysisException, match=rf"no place for Lance tables; set {SETTING}\.root"):
        rootless.sql("CREATE TABLE spark_catalog.default.rootless (id INT) USING lance")


REFUSED = f"""
try:
    lance_spark.install(spark, "spark_catalog", root=root)
except lance_spark.errors.InvalidInputError as error:
    print("==== install:", error, file=sys.stderr)
spark.conf.set("{SETTING}", "{SESSION_CATALOG_CLASS}")
spark.conf.set("{SETTING}.root", root)
print("==== class:", attempt(lambda: spark.sql("SHOW TABLES").collect()), file=sys.stderr)
"""


@pytest.mark.slow
def test_session_without_the_extension_is_refused(jar: Path, tmp_path: Path) -> None:
    warehouse = f"spark.sql.warehouse.dir={tmp_path}/warehouse"
    log = printed(jar, tmp_path, REFUSED, warehouse, f"spark.driver.extraClassPath={jar}", start=WITHOUT_CONNECTOR)
    lines = [line for line in log.splitlines() if line.startswith("==== ")]
    assert [line.split(";")[0] for line in lines] == [
        "==== install: spark_catalog takes Lance tables only in a session that starts with spark.sql.extensions = "
        f"{EXTENSIONS_CLASS}",
        "==== class: [LANCE_INVALID_INPUT] the session catalog takes Lance tables only in a session with "
        f"spark.sql.extensions = {EXTENSIONS_CLASS}, which keeps Spark's tables from their names",
    ]


HIVE = """
spark.sql("CREATE DATABASE IF NOT EXISTS db")
spark.sql("USE db")
if sys.argv[2].endswith("first"):
    spark.sql("CREATE TABLE t USING lance AS SELECT id FROM range(3)")
    spark.sql("CREATE TABLE p USING parquet AS SELECT id FROM range(2)")
    spark.sql("CREATE TABLE h (id INT) STORED AS textfile")
    spark.sql("INSERT INTO h VALUES (1)")
    spark.sql("CREATE VIEW v AS SELECT id FROM t JOIN p USING (id) JOIN h USING (id)")
else:
    spark.sql("UPDATE t SET id = 1 WHERE id = 2")
    for statement in ("CREATE TABLE t (id INT) STORED AS textfile", "CREATE TABLE h USING lance AS SELECT 1 AS id"):
        assert "TABLE_OR_VIEW_ALREADY_EXISTS" in attempt(lambda: spark.sql(statement))
    assert "SCHEMA_NOT_EMPTY" in attempt(lambda: spark.sql("DROP DATABASE db"))
names = [row.tableName for row in spark.sql("SHOW TABLES").collect()]
print("====", sorted(names), spark.table("v").count(), file=sys.stderr)
"""


@pytest.mark.slow
def test_session_catalog_of_hive(jar: Path, tmp_path: Path) -> None:
    start = SESSION.format(builder="builder.enableHiveSupport()")
    metastore = f"spark.hadoop.javax.jdo.option.ConnectionURL=jdbc:derby:;databaseName={tmp_path}/metastore;create=true"
    warehouse = f"spark.sql.warehouse.dir={tmp_path}/warehouse"
    log = f"spark.driver.extraJavaOptions=-Dderby.stream.error.file={tmp_path}/derby.log"
    root = tmp_path / "root"
    shown = [
        printed(jar, root, HIVE, f"spark.app.name={run}", metastore, warehouse, log, start=start)
        .split("==== ")[1]
        .strip()
        for run in ("first", "second")
    ]
    assert shown[0].startswith("['h', 'p', 't', 'v'] 1")
    assert shown[1].startswith("['h', 'p', 't', 'v'] 2")
    uri = DirectoryNamespace(root).table_location(("db", "t")).uri
    assert sorted(lance.dataset(uri).to_table()["id"].to_pylist()) == [0, 1, 1]
