"""`docs/reference/procedures.md` lists every procedure, its parameters and results, and `sql.md` every statement."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest
from pyspark.sql import SparkSession

from tests.docs.generators import loaded, renewed

ROOT = Path(__file__).parents[2]
STATEMENTS = ROOT / "lance_spark/spark/jvm/io/lancespark/sql/LanceStatements.java"
SQL = ROOT / "docs/reference/sql.md"


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    return loaded("generate_procedures")


def test_page_is_up_to_date(generator: ModuleType) -> None:
    text = generator.PAGE.read_text()
    assert renewed(text, "generate_procedures.py", generator.generated()) == text


@pytest.mark.since("4.1", "SHOW PROCEDURES")
def test_every_procedure_that_spark_shows_is_listed_once(spark: SparkSession, generator: ModuleType) -> None:
    shown = [row.procedure_name for row in spark.sql("SHOW PROCEDURES IN lance.system").collect()]
    listed = [item.name for _, group in generator.groups() for alike in group for item in alike]
    assert sorted(listed) == sorted(shown)


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("optimize", "optimize(table => 'listed.t', dry_run => true)"),
        ("history", "history(table => 'listed.t')"),
        ("create_tag", "create_tag(table => 'listed.t', tag => 'one')"),
        ("vacuum", "vacuum(table => 'listed.t', dry_run => true)"),
        ("analyze", "analyze(table => 'listed.t')"),
        ("create_index", "create_index(table => 'listed.t', name => 'i', kind => 'btree', columns => array('id'))"),
        ("dropped_tables", "dropped_tables()"),
    ],
)
def test_results_have_the_columns_that_are_listed(
    spark: SparkSession, generator: ModuleType, name: str, call: str
) -> None:
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lance.listed")
    spark.sql("CREATE OR REPLACE TABLE lance.listed.t AS SELECT id FROM range(3)")
    (procedure,) = (item for _, group in generator.groups() for alike in group for item in alike if item.name == name)
    assert (
        generator.result_columns(procedure).simpleString()
        == spark.sql(f"CALL lance.system.{call}").schema.simpleString()
    )
    spark.sql("DROP NAMESPACE lance.listed CASCADE")


def test_results_of_searches_are_described(generator: ModuleType) -> None:
    unknown = {
        item.name
        for _, group in generator.groups()
        for alike in group
        for item in alike
        if generator.result_columns(item) is None
    }
    assert unknown == set(generator.SEARCH_RESULTS) == {"search", "vector_search", "hybrid_search"}


def test_known_rows(generator: ModuleType) -> None:
    text = generator.generated()
    assert "| `days` | `DOUBLE` | NULL | removes older versions; 14 by default |" in text
    assert "### optimize, compact\n" in text
    assert "Returns `location STRING`, `version BIGINT`, `partitioned BOOLEAN`." in text


def test_every_statement_of_the_extension_is_in_the_table_of_statements() -> None:
    procedures = set(re.findall(r'\? "([a-z_]+)" : null', STATEMENTS.read_text())) | {"replace_partition_field"}
    table = SQL.read_text().partition("\n## ")[0]
    marked = [line for line in table.splitlines() if "| yes |" in line]
    listed = {name for line in marked for name in re.findall(r"`([a-z_]+)`", line.split("|")[3])}
    assert len(procedures) > 20
    assert procedures <= listed


def test_every_procedure_is_in_the_table_of_statements(generator: ModuleType) -> None:
    rows = [line.split("|") for line in SQL.read_text().partition("\n## ")[0].splitlines() if line.startswith("|")]
    listed = {name for row in rows[2:] for name in re.findall(r"`([a-z_]+)`", row[3])}
    assert listed == {item.name for _, group in generator.groups() for alike in group for item in alike}
