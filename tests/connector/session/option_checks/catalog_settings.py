"""Settings of catalogs, and options of the other connector that are refused."""

from __future__ import annotations

from datetime import timedelta

import pytest
from lance.namespace import RestAdapter
from pyspark.errors import AnalysisException

from lance_spark.spark.session import CATALOG_CLASS
from tests.connector.session.option_checks.registry import (
    KNOWN,
    ONE,
    Tables,
    datasets,
    location,
    proves,
)


def catalog(tables: Tables, suffix: str, **settings: str) -> str:
    name = f"{tables.new.partition('.')[0]}_{suffix}"
    tables.spark.conf.set(f"spark.sql.catalog.{name}", CATALOG_CLASS)
    for key, value in settings.items():
        tables.spark.conf.set(f"spark.sql.catalog.{name}.{key}", value)
    return name


@proves("catalog", "root")
def _root(tables: Tables, name: str) -> None:
    made = catalog(tables, "here", root=tables.path)
    tables.spark.sql(f"CREATE TABLE {made}.t {tables.by} AS {ONE}")
    assert location(tables.spark, f"{made}.t").startswith(tables.path)


@proves("catalog", "impl")
def _server(tables: Tables, name: str) -> None:
    with RestAdapter("dir", {"root": tables.path}, host="127.0.0.1", port=0) as server:
        made = catalog(tables, "remote", impl="rest", uri=f"http://127.0.0.1:{server.port}")
        tables.spark.sql(f"CREATE TABLE {made}.t AS {ONE}")
        assert location(tables.spark, f"{made}.t").removeprefix("file://").startswith(tables.path)
    for number, (settings, message) in enumerate(
        (
            ({"impl": "rest"}, "needs the setting uri"),
            ({"impl": "rest", "url": "http://127.0.0.1:1"}, "has no setting url; did you mean uri"),
            ({"impl": "other"}, "not one of dir, .*rest.*, or the package.Class"),
            ({"uri": "http://127.0.0.1:1"}, "uri is for catalogs with another impl than dir"),
        )
    ):
        wrong = catalog(tables, f"wrong_{number}", **settings)
        with pytest.raises(AnalysisException, match=message):
            tables.spark.sql(f"SHOW TABLES IN {wrong}").collect()


@proves("catalog", "parent", "parent_delimiter")
def _parent(tables: Tables, name: str) -> None:
    """The catalog's root is below levels of the namespace, whose names may have dots."""
    with RestAdapter("dir", {"root": tables.path}, host="127.0.0.1", port=0) as server:
        at = {"impl": "rest", "uri": f"http://127.0.0.1:{server.port}"}
        whole = catalog(tables, "whole", **at)
        for namespace in ("`a.b`", "`a.b`.c", "d", "d.e"):
            tables.spark.sql(f"CREATE NAMESPACE {whole}.{namespace}")
        for suffix, levels, settings in (
            ("below", "`a.b`.c", {"parent": "a.b/c", "parent_delimiter": "/"}),
            ("dotted", "d.e", {"parent": "d.e"}),
        ):
            made = catalog(tables, suffix, **at, **settings)
            tables.spark.sql(f"CREATE TABLE {made}.t AS {ONE}")
            assert tables.spark.table(f"{whole}.{levels}.t").count() == 1
    wrong = catalog(tables, "refused_parent", root=tables.path, parent="a")
    with pytest.raises(AnalysisException, match="parent is for catalogs with another impl than dir"):
        tables.spark.sql(f"SHOW TABLES IN {wrong}").collect()


@proves("catalog", "single_level_ns")
def _single_level(tables: Tables, name: str) -> None:
    whole, flat = catalog(tables, "all", root=tables.path), catalog(tables, "flat", root=tables.path, **{name: "true"})
    spark = tables.spark
    spark.sql(f"CREATE TABLE {whole}.t AS {ONE}")
    assert [row.namespace for row in spark.sql(f"SHOW NAMESPACES IN {flat}").collect()] == ["default"]
    assert spark.table(f"{flat}.default.t").count() == 1
    spark.sql(f"CREATE TABLE {flat}.default.u {tables.by} AS {ONE}")
    assert spark.table(f"{whole}.u").count() == 1
    assert sorted(row.tableName for row in spark.sql(f"SHOW TABLES IN {flat}.default").collect()) == ["t", "u"]
    spark.sql(f"ALTER TABLE {flat}.default.u RENAME TO default.v")
    spark.sql(f"DROP TABLE {flat}.default.t")
    assert [row.tableName for row in spark.sql(f"SHOW TABLES IN {whole}").collect()] == ["v"]
    for statement in (f"CREATE NAMESPACE {flat}.x", f"DROP NAMESPACE {flat}.default CASCADE"):
        with pytest.raises(AnalysisException, match="has one namespace, default"):
            spark.sql(statement)
    with pytest.raises(AnalysisException, match=r"NOT_FOUND|no namespace"):
        spark.sql(f"CREATE TABLE {flat}.other.t AS {ONE}")


@proves("catalog", "enable_stable_row_ids")
def _stable_row_ids_of_a_catalog(tables: Tables, name: str) -> None:
    made = catalog(tables, "stable", root=tables.path, enable_stable_row_ids="true")
    tables.spark.sql(f"CREATE TABLE {made}.made (id BIGINT, k STRING) {tables.by}")
    tables.spark.sql(f"INSERT INTO {made}.made {ONE}")
    tables.spark.sql(f"CREATE TABLE {made}.queried {tables.by} AS {ONE}")
    without = "TBLPROPERTIES ('enable_stable_row_ids' = 'false')"
    tables.spark.sql(f"CREATE TABLE {made}.without {tables.by} {without} AS {ONE}")
    found = {
        table: [part.has_stable_row_ids for part in datasets(location(tables.spark, f"{made}.{table}"))]
        for table in ("made", "queried", "without")
    }
    assert found == {"made": [True], "queried": [True], "without": [False]}


@proves("catalog", "dropped_table_retention")
def _retention_of_dropped_tables(tables: Tables, name: str) -> None:
    """Drops remove the tables that were dropped before, if these are kept no longer; what is kept says so."""
    left = {}
    for suffix, retention in (("short", "0s"), ("kept", "forever"), ("week", None)):
        settings = {} if retention is None else {name: retention}
        made = catalog(tables, suffix, root=f"{tables.path}/{suffix}", **settings)
        for table in ("a", "b"):
            tables.spark.sql(f"CREATE TABLE {made}.{table} {tables.by} AS {ONE}")
            tables.spark.sql(f"DROP TABLE {made}.{table}")
        rows = tables.spark.sql(f"CALL {made}.system.dropped_tables()").collect()
        left[suffix] = [(row.name, row.kept_until and row.kept_until - row.dropped_at) for row in rows]
    assert left == {
        "short": [],
        "kept": [("a", None), ("b", None)],
        "week": [("a", timedelta(days=7)), ("b", timedelta(days=7))],
    }
    for settings, message in (
        ({name: "soon"}, "soon"),
        ({name: "1 day", "impl": "rest", "uri": "http://127.0.0.1:1"}, "is for catalogs with impl = dir"),
    ):
        wrong = catalog(tables, f"refused_{len(message)}", **settings)
        with pytest.raises(AnalysisException, match=message):
            tables.spark.sql(f"SHOW TABLES IN {wrong}").collect()


@proves("refused", *KNOWN["refused"])
def _refused(tables: Tables, name: str) -> None:
    message = f"there is no option {name}[:;] |option {name} is not supported here"
    with pytest.raises(AnalysisException, match=message):
        tables.frames(**{name: "1"})[0].collect()
    with pytest.raises(AnalysisException, match=message):
        tables.frames()[1].sparkSession.read.option(name, "1").table(tables.read).collect()
    with pytest.raises(AnalysisException, match=message):
        tables.save(ONE, **{name: "1"})
