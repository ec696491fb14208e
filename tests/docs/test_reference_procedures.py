"""`docs/reference/procedures.md` lists every procedure, its parameters and results, and `sql.md` every statement."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest
from pyspark.sql import SparkSession

from lance_spark.table.cleanup.policy import DEFAULT_AGE, SAFETY_WINDOW, CleanupPolicy
from lance_spark.table.maintenance.compaction_plan import CompactionOptions
from lance_spark.table.reading.scan import DEFAULT_BATCH_ROWS
from lance_spark.table.writing.file_limits import DEFAULT_MAX_BYTES_PER_FILE
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
    days = (
        "| `days` | `DOUBLE` | NULL | removes older versions; 14 if it is left out and nothing else chooses versions |"
    )
    assert days in text
    assert "### optimize, compact\n" in text
    assert "Returns `location STRING`, `version BIGINT`, `partitioned BOOLEAN`." in text


def test_meanings_name_the_defaults(generator: ModuleType) -> None:
    """But for searches, whose arguments are those of the table functions."""
    parameters = {
        (procedure.name, item.name): item.comment
        for title, group in generator.groups()
        for alike in group
        for procedure in alike
        for item in procedure.parameters
        if not item.required and title != "Searches"
    }
    assert len(parameters) > 40
    assert {key for key, comment in parameters.items() if "left out" not in comment} == set()
    compaction = CompactionOptions()
    defaults = {
        ("optimize", "target_rows_per_fragment"): compaction.target_rows_per_fragment,
        ("optimize", "materialize_deletions"): str(compaction.materialize_deletions).lower(),
        ("optimize", "materialize_deletions_threshold"): compaction.materialize_deletions_threshold,
        ("optimize", "defer_index_remap"): str(compaction.defer_index_remap).lower(),
        ("optimize", "batch_size"): DEFAULT_BATCH_ROWS,
        ("optimize", "max_bytes_per_file"): f"{DEFAULT_MAX_BYTES_PER_FILE >> 30} GiB",
        ("vacuum", "days"): DEFAULT_AGE.days,
        ("vacuum", "error_if_tagged_old_versions"): str(CleanupPolicy().error_if_tagged_old_versions).lower(),
        ("remove_orphans", "days"): SAFETY_WINDOW.days,
    }
    for key, value in defaults.items():
        assert f"; {value} if it is left out" in parameters[key], key


def test_descriptions_are_sentences(generator: ModuleType) -> None:
    for _, group in generator.groups():
        for procedure, *_ in group:
            assert re.fullmatch(r"[A-Z].*\.", procedure.description), procedure.name


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
