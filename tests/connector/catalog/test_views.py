"""Views of a catalog of Lance tables: made, read, changed, described and dropped; never in place of a table."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import lance_namespace as spec
import pytest
from lance.namespace import DirectoryNamespace as ReferenceNamespace
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Row, SparkSession

from lance_spark.namespace.directory.namespace import DirectoryNamespace
from lance_spark.spark.session import CATALOG_CLASS
from tests.support.threads import all_at_once

pytestmark = pytest.mark.since("4.3", "views of catalogs")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("views")


@pytest.fixture(scope="module")
def session(spark: SparkSession, folder: Path) -> SparkSession:
    """A session with the catalog `lv` and its table `lv.db.t`."""
    session = spark.newSession()
    session.conf.set("spark.sql.catalog.lv", CATALOG_CLASS)
    session.conf.set("spark.sql.catalog.lv.root", str(folder))
    session.sql("CREATE NAMESPACE lv.db")
    session.sql("CREATE TABLE lv.db.t AS SELECT id, concat('s', id) AS s FROM range(3)")
    return session


@pytest.fixture
def lv(session: SparkSession, folder: Path) -> Iterator[SparkSession]:
    """The session with the view `lv.db.v` too."""
    session.sql(
        "CREATE OR REPLACE VIEW lv.db.v (id COMMENT 'the id', name) COMMENT 'hello' TBLPROPERTIES ('k' = 'x') "
        "AS SELECT id, s FROM lv.db.t WHERE id > 0"
    )
    yield session
    names = DirectoryNamespace(folder)
    for name in names.list_views(("db",)):
        names.drop_view(("db", name))
    session.sql("USE spark_catalog.default")
    session.conf.unset("spark.sql.caseSensitive")


def rows(spark: SparkSession, query: str) -> list[tuple[object, ...]]:
    return [tuple(row) for row in spark.sql(query).collect()]


def refused(spark: SparkSession, statement: str, message: str) -> None:
    with pytest.raises(PySparkException, match=message):
        spark.sql(statement)


def test_a_view_is_read_from_anywhere(lv: SparkSession) -> None:
    expected = [(1, "s1"), (2, "s2")]
    assert rows(lv, "SELECT * FROM lv.db.v") == expected
    assert rows(lv, "SELECT v.id, t.s FROM lv.db.v JOIN lv.db.t ON v.id = t.id ORDER BY id") == expected
    lv.sql("USE lv.db")
    assert rows(lv, "SELECT * FROM v") == rows(lv, "SELECT * FROM V") == rows(lv, "SELECT * FROM lv.DB.V") == expected
    lv.sql("CREATE VIEW inner_name AS SELECT count(*) AS n FROM v JOIN t USING (id)")
    lv.sql("USE spark_catalog.default")
    assert rows(lv, "SELECT n FROM lv.db.inner_name") == [(2,)]
    assert lv.table("lv.db.v").filter("id = 2").collect() == [Row(id=2, name="s2")]
    lv.conf.set("spark.sql.caseSensitive", "true")
    refused(lv, "SELECT * FROM lv.db.V", "TABLE_OR_VIEW_NOT_FOUND")
    assert rows(lv, "SELECT * FROM lv.db.v") == expected


def test_a_view_reads_the_newest_rows(lv: SparkSession) -> None:
    lv.sql("CREATE TABLE lv.db.grows AS SELECT 1 AS id")
    lv.sql("CREATE VIEW lv.db.newest AS SELECT * FROM lv.db.grows")
    lv.sql("CREATE VIEW lv.db.oldest AS SELECT * FROM lv.db.grows VERSION AS OF 1")
    lv.sql("INSERT INTO lv.db.grows SELECT id + 1 FROM lv.db.newest")
    assert sorted(rows(lv, "SELECT * FROM lv.db.newest")) == [(1,), (2,)]
    assert rows(lv, "SELECT * FROM lv.db.oldest") == [(1,)]
    lv.sql("ALTER TABLE lv.db.grows ADD COLUMNS (more INT)")
    assert sorted(rows(lv, "SELECT * FROM lv.db.newest")) == [(1,), (2,)], "the columns are those of CREATE VIEW"
    lv.sql("DELETE FROM lv.db.grows WHERE id IN (SELECT max(id) FROM lv.db.newest)")
    assert rows(lv, "SELECT * FROM lv.db.newest") == [(1,)]
    lv.sql("DROP TABLE lv.db.grows")
    refused(lv, "SELECT * FROM lv.db.newest", "`lv`.`db`.`grows` cannot be found")


def test_a_view_is_described(lv: SparkSession) -> None:
    assert rows(lv, "DESCRIBE lv.db.v") == [("id", "bigint", "the id"), ("name", "string", None)]
    told = {row.col_name: row.data_type for row in lv.sql("DESCRIBE EXTENDED lv.db.v").collect()}
    assert (told["Type"], told["Comment"], told["Properties"]) == ("VIEW", "hello", "[k=x]")
    assert told["View Text"] == "SELECT id, s FROM lv.db.t WHERE id > 0"
    [(statement,)] = rows(lv, "SHOW CREATE TABLE lv.db.v")
    lv.sql("DROP VIEW lv.db.v")
    lv.sql(str(statement))
    assert rows(lv, "SHOW CREATE TABLE lv.db.v") == [(statement,)]
    assert rows(lv, "SELECT * FROM lv.db.v") == [(1, "s1"), (2, "s2")]
    assert rows(lv, "SHOW COLUMNS IN lv.db.v") == [("id",), ("name",)]


def test_listings(lv: SparkSession) -> None:
    assert rows(lv, "SHOW VIEWS IN lv.db") == [("db", "v", False)]
    assert rows(lv, "SHOW VIEWS IN lv.DB LIKE 'x*'") == rows(lv, "SHOW VIEWS IN lv") == []
    assert [name for _, name, _ in rows(lv, "SHOW TABLES IN lv.db LIKE 't|v'")] == ["t", "v"]
    assert {"db"} <= {name for (name,) in rows(lv, "SHOW NAMESPACES IN lv")}
    assert rows(lv, "SHOW NAMESPACES IN lv.db") == []
    refused(lv, "SHOW VIEWS IN lv.missing", "SCHEMA_NOT_FOUND")
    refused(lv, "SHOW TABLES IN lv.db.v", "SCHEMA_NOT_FOUND")
    refused(lv, "USE lv.db.v", "SCHEMA_NOT_FOUND")
    assert lv.catalog.tableExists("lv.db.v")
    catalog = lv._jsparkSession.sessionState().catalogManager().catalog("lv")
    strings = lv._jvm.java.lang.String
    namespace = lv._sc._gateway.new_array(strings, 1)
    namespace[0] = "db"
    requests = lv._jvm.io.lancespark.python.PythonChannel.requests
    loads = dict(requests()).get("table.load", 0)
    kinds = {each.identifier().name(): each.tableType() for each in catalog.listRelationSummaries(namespace)}
    assert (kinds["t"], kinds["v"]) == ("MANAGED", "VIEW")
    assert "v" not in {each.identifier().name() for each in catalog.listTableSummaries(namespace)}
    assert dict(requests()).get("table.load", 0) == loads, "a listing loads no table"


def test_a_table_is_found_by_one_request(lv: SparkSession) -> None:
    def asked() -> dict[str, int]:
        return {op: n for op, n in dict(lv._jvm.io.lancespark.python.PythonChannel.requests()).items() if "." in op}

    before = asked()
    lv.sql("SELECT * FROM lv.db.t").schema  # noqa: B018 - looks the table up
    after = asked()
    changed = {op: n - before.get(op, 0) for op, n in after.items() if n != before.get(op, 0)}
    assert changed.get("table.load") == 1
    assert not [op for op in changed if op.startswith(("catalog.", "metadata."))]


def test_a_view_is_changed(lv: SparkSession) -> None:
    lv.sql("ALTER VIEW lv.db.v SET TBLPROPERTIES ('a' = 'b')")
    assert rows(lv, "SHOW TBLPROPERTIES lv.db.v") == [("a", "b"), ("k", "x")]
    lv.sql("ALTER VIEW lv.db.v UNSET TBLPROPERTIES ('a', 'k')")
    assert rows(lv, "SHOW TBLPROPERTIES lv.db.v") == []
    lv.sql("ALTER VIEW lv.db.v AS SELECT max(id) AS most FROM lv.db.t")
    assert rows(lv, "SELECT most FROM lv.db.v") == [(2,)]
    lv.sql("CREATE VIEW IF NOT EXISTS lv.db.v AS SELECT 1")
    assert rows(lv, "SELECT most FROM lv.db.v") == [(2,)]
    refused(lv, "CREATE VIEW lv.db.v AS SELECT 1", "TABLE_OR_VIEW_ALREADY_EXISTS")
    refused(lv, "CREATE VIEW lv.DB.V AS SELECT 1", "TABLE_OR_VIEW_ALREADY_EXISTS")
    lv.sql("CREATE OR REPLACE VIEW lv.db.v AS SELECT 1 AS one")
    assert rows(lv, "SELECT one FROM lv.db.v") == [(1,)]
    lv.sql("ALTER VIEW lv.db.v RENAME TO lv.db.w")
    lv.sql("ALTER VIEW lv.db.w RENAME TO x")
    lv.sql("ALTER VIEW lv.db.x RENAME TO db.X")
    assert rows(lv, "SHOW VIEWS IN lv.db") == [("db", "X", False)]
    lv.sql("CREATE VIEW lv.db.other AS SELECT 1")
    refused(lv, "ALTER VIEW lv.db.other RENAME TO lv.db.x", "VIEW_ALREADY_EXISTS")
    refused(lv, "ALTER VIEW lv.db.other RENAME TO lv.missing.x", "there is no namespace missing")
    lv.sql("DROP VIEW lv.db.x")
    lv.sql("DROP VIEW IF EXISTS lv.db.x")
    refused(lv, "DROP VIEW lv.db.x", "VIEW_NOT_FOUND")
    refused(lv, "ALTER VIEW lv.db.x AS SELECT 1", "TABLE_OR_VIEW_NOT_FOUND")
    refused(lv, "CREATE VIEW lv.missing.v AS SELECT 1", "SCHEMA_NOT_FOUND")
    refused(lv, "CREATE VIEW lv.top AS SELECT 1", r"the view top needs a namespace, such as default\.top")


def test_neither_replaces_the_other(lv: SparkSession) -> None:
    for statement in ("TABLE lv.db.v (id INT)", "TABLE lv.db.v AS SELECT 1 AS id", "NAMESPACE lv.db.v"):
        refused(lv, f"CREATE {statement}", r"db\.v exists already; it is a view")
    refused(lv, "CREATE OR REPLACE TABLE lv.db.v AS SELECT 1 AS id", r"db\.v exists already; it is a view")
    refused(lv, "CREATE TABLE lv.db.V AS SELECT 1 AS id", "differs in case only")
    refused(lv, "ALTER TABLE lv.db.t RENAME TO db.v", r"db\.v exists already; it is a view")
    with pytest.raises(PySparkException, match="it is a view"):
        lv.range(1).writeTo("lv.db.v").createOrReplace()
    refused(lv, "CREATE VIEW lv.db.t AS SELECT 1", "TABLE_OR_VIEW_ALREADY_EXISTS")
    refused(lv, "CREATE OR REPLACE VIEW lv.db.t AS SELECT 1", "EXPECT_VIEW_NOT_TABLE")
    refused(lv, "ALTER VIEW lv.db.t AS SELECT 1", "EXPECT_VIEW_NOT_TABLE")
    refused(lv, "ALTER VIEW lv.db.v RENAME TO lv.db.t", "VIEW_ALREADY_EXISTS")
    refused(lv, "DROP TABLE lv.db.v", r"lv\.db\.v is a VIEW")
    refused(lv, "DROP TABLE lv.db.v PURGE", r"lv\.db\.v is a VIEW")
    refused(lv, "DROP VIEW lv.db.t", r"lv\.db\.t is a TABLE")
    refused(lv, "CREATE TABLE lv.db.v.inside (id INT)", "SCHEMA_NOT_FOUND")
    assert rows(lv, "SELECT * FROM lv.db.v") == [(1, "s1"), (2, "s2")]
    assert lv.table("lv.db.t").count() == 3


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("INSERT INTO lv.db.v VALUES (1, 'a')", r"lv\.db\.v is a view, which takes no INSERT"),
        ("INSERT INTO lv.db.V SELECT * FROM lv.db.t", r"lv\.db\.v is a view, which takes no INSERT"),
        ("INSERT OVERWRITE lv.db.v VALUES (1, 'a')", r"lv\.db\.v is a view"),
        ("UPDATE lv.db.v SET id = 1", r"lv\.db\.v is a view, which takes no UPDATE"),
        ("DELETE FROM lv.db.v WHERE id = 1", r"lv\.db\.v is a view, which takes no DELETE"),
        (
            "MERGE INTO lv.db.v USING lv.db.t ON v.id = t.id WHEN MATCHED THEN DELETE",
            r"lv\.db\.v is a view, which takes no",
        ),
        ("OPTIMIZE lv.db.v", r"lv\.db\.v is a view; name a table that it reads"),
        ("TRUNCATE TABLE lv.db.v", "EXPECT_TABLE_NOT_VIEW"),
        ("ALTER TABLE lv.db.v ADD COLUMNS (x INT)", "EXPECT_TABLE_NOT_VIEW"),
        ("SELECT * FROM lv.db.v VERSION AS OF 1", r"lv\.db\.v is a view, which has no versions"),
        ("SELECT * FROM lv.db.v WITH (branch = 'b')", r"lv\.db\.v is a view, which has no versions"),
        ("CREATE VIEW lv.db.e WITH SCHEMA EVOLUTION AS SELECT * FROM lv.db.t", "WITH SCHEMA EVOLUTION"),
    ],
)
def test_what_only_tables_do(lv: SparkSession, statement: str, message: str) -> None:
    refused(lv, statement, message)


def test_views_that_read_themselves_or_what_is_gone(lv: SparkSession, folder: Path) -> None:
    lv.sql("CREATE VIEW lv.db.w AS SELECT * FROM lv.db.v")
    refused(lv, "ALTER VIEW lv.db.v AS SELECT * FROM lv.db.v", "RECURSIVE_VIEW")
    refused(lv, "CREATE OR REPLACE VIEW lv.db.v AS SELECT * FROM lv.db.w", "RECURSIVE_VIEW")
    lv.sql("CREATE TEMPORARY VIEW passing AS SELECT 1 AS one")
    refused(lv, "CREATE VIEW lv.db.x AS SELECT * FROM passing", "INVALID_TEMP_OBJ_REFERENCE")
    names = DirectoryNamespace(folder)
    names.replace_view(("db", "v"), names.view(("db", "w")).replace("lv.db.v", "lv.db.w"))
    lv.conf.set("spark.sql.view.maxNestedViewDepth", "10")
    refused(lv, "SELECT * FROM lv.db.v", "VIEW_EXCEED_MAX_NESTED_DEPTH")
    lv.conf.unset("spark.sql.view.maxNestedViewDepth")
    names.replace_view(("db", "v"), json.dumps({**json.loads(names.view(("db", "v"))), "format": 9}))
    refused(lv, "SELECT * FROM lv.db.v", r"the view lv\.db\.v is stored in format 9")
    lv.sql("CREATE OR REPLACE VIEW lv.db.v AS SELECT 1 AS one")
    assert rows(lv, "SELECT * FROM lv.db.v") == [(1,)]


def test_a_view_is_kept_by_the_reference_library(lv: SparkSession, folder: Path) -> None:
    reference = ReferenceNamespace(root=str(folder))
    reference.create_namespace(spec.CreateNamespaceRequest(id=["beside"]))
    reference.declare_table(spec.DeclareTableRequest(id=["db", "beside"]))
    assert rows(lv, "SELECT * FROM lv.db.v") == [(1, "s1"), (2, "s2")]
    tables = reference.list_tables(spec.ListTablesRequest(id=["db"], include_declared=True)).tables
    assert "v" not in tables
    assert "beside" in tables


def test_one_of_a_view_and_a_table_wins_a_name(lv: SparkSession, folder: Path) -> None:
    statements = ("CREATE OR REPLACE VIEW lv.db.race AS SELECT 1 AS one", "CREATE TABLE lv.db.race AS SELECT 2 AS two")

    def work(number: int) -> str:
        try:
            lv.sql(statements[number])
        except PySparkException as error:
            is_of_name = re.search("exist|EXPECT_VIEW_NOT_TABLE", str(error))
            return "refused" if is_of_name else str(error)
        return "made"

    assert sorted(all_at_once(work, 2)) == ["made", "refused"]
    names = DirectoryNamespace(folder)
    assert names.table_exists(("db", "race")) != names.view_exists(("db", "race"))
    assert lv.table("lv.db.race").columns == (["one"] if names.view_exists(("db", "race")) else ["two"])


def test_the_settings_of_a_view_are_those_of_its_making(lv: SparkSession) -> None:
    lv.conf.set("spark.sql.ansi.enabled", "false")
    lv.sql("CREATE VIEW lv.db.lenient AS SELECT CAST('x' AS INT) AS n")
    lv.conf.set("spark.sql.ansi.enabled", "true")
    try:
        assert rows(lv, "SELECT n FROM lv.db.lenient") == [(None,)]
    finally:
        lv.conf.unset("spark.sql.ansi.enabled")


def test_types_of_columns(lv: SparkSession) -> None:
    query = (
        "SELECT CAST('b' AS VARCHAR(3)) AS v, parse_json('{\"a\":1}') AS j, named_struct('a', array(1)) AS st, "
        "X'01' AS b, DATE'2020-01-01' AS d, 1.5BD AS n, 'x' COLLATE UTF8_LCASE AS c, INTERVAL '1' DAY AS i"
    )
    lv.sql(f"CREATE VIEW lv.db.types AS {query}")
    assert lv.table("lv.db.types").schema == lv.sql(query).schema
    assert str(rows(lv, "SELECT * FROM lv.db.types")) == str(rows(lv, query))


def test_dropping_the_namespace_of_a_view(lv: SparkSession, folder: Path) -> None:
    lv.sql("CREATE NAMESPACE lv.goes")
    lv.sql("CREATE VIEW lv.goes.v AS SELECT 1 AS one")
    refused(lv, "DROP NAMESPACE lv.goes", "SCHEMA_NOT_EMPTY")
    lv.sql("DROP NAMESPACE lv.goes CASCADE")
    assert not DirectoryNamespace(folder).view_exists(("goes", "v"))
    lv.sql("CREATE VIEW lv.default.v AS SELECT 1 AS one")
    assert rows(lv, "SELECT * FROM lv.default.v") == [(1,)]
    lv.sql("DROP NAMESPACE lv.default CASCADE")
    refused(lv, "SELECT * FROM lv.default.v", "TABLE_OR_VIEW_NOT_FOUND")


def test_catalogs_of_others_have_no_views(spark: SparkSession, tmp_path: Path) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.catalog.foreign.impl", "lance.namespace.DirectoryNamespace")
    session.conf.set("spark.sql.catalog.foreign.root", str(tmp_path))
    session.conf.set("spark.sql.catalog.foreign", CATALOG_CLASS)
    session.sql("CREATE NAMESPACE foreign.db")
    session.sql("CREATE TABLE foreign.db.t AS SELECT 1 AS id")
    for statement in ("CREATE VIEW", "CREATE OR REPLACE VIEW", "CREATE VIEW IF NOT EXISTS"):
        refused(
            session, f"{statement} foreign.db.v AS SELECT 1", "keeps no views for Lance; make db.v in a catalog with"
        )
    assert rows(session, "SHOW VIEWS IN foreign.db") == []
    assert rows(session, "SHOW TABLES IN foreign.db") == [("db", "t", False)]
    for missing in ("SELECT * FROM foreign.db.v", "DESCRIBE foreign.db.v"):
        with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
            session.sql(missing)
    session.sql("DROP VIEW IF EXISTS foreign.db.v")
    refused(session, "DROP VIEW foreign.db.v", "VIEW_NOT_FOUND")
    refused(session, "DROP VIEW foreign.db.t", "is a TABLE")
