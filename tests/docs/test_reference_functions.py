"""`docs/reference/functions.md` lists every function that sessions and catalogs have, as they describe it."""

from __future__ import annotations

import re
from types import ModuleType
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from tests.docs.generators import loaded, renewed

OWNER = "io.lancespark.LanceExtensions"
TABLE_FUNCTIONS = "## Table functions"
TRANSFORMS = "## Partition transforms"


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    return loaded("generate_functions")


@pytest.fixture(scope="module")
def page(generator: ModuleType) -> str:
    return str(generator.PAGE.read_text())


def section(page: str, heading: str) -> str:
    """The part of the page below a heading."""
    return page.partition(f"{heading}\n")[2].partition("\n## ")[0]


def rows(part: str) -> list[tuple[str, str]]:
    """(signatures, meaning) of each function in the tables of a part."""
    cells = [line.strip("|").split(" | ") for line in part.splitlines() if re.match(r"\| `\w+\(", line)]
    return [(row[0].strip(), row[-1].strip()) for row in cells]


def signatures(part: str) -> dict[str, str]:
    """The meaning of each signature."""
    return {text: meaning for cell, meaning in rows(part) for text in re.findall(r"`(\w+\(.*?\))`", cell)}


def registered(spark: Any, registry: str) -> set[str]:
    """The names of the functions of Lance in a registry of the session."""
    functions = getattr(spark._jsparkSession.sessionState(), registry)()
    every = spark._jvm.scala.jdk.javaapi.CollectionConverters.asJava(functions.listFunction())
    return {
        str(identifier.funcName())
        for identifier in every
        if functions.lookupFunction(identifier).get().getClassName() == OWNER
    }


def test_page_is_up_to_date(generator: ModuleType, page: str) -> None:
    assert renewed(page, "generate_functions.py", generator.table()) == page


def test_known_rows(generator: ModuleType) -> None:
    table = generator.table()
    assert "| `query_vector` |  | 2 |  | 2 |" in table
    assert "| `rrf_k` |  |  |  | yes | 60 if it is left out |" in table


@pytest.mark.since("4.1", "GEOMETRY")
def test_scalar_functions_are_described_as_the_session_describes_them(spark: SparkSession, page: str) -> None:
    scalar = page.partition("## Words\n")[2].partition(TRANSFORMS)[0]
    listed = {text.partition("(")[0]: (text, meaning) for text, meaning in signatures(scalar).items()}
    assert len(listed) > 25
    for name, (signature, meaning) in listed.items():
        described = [row[0] for row in spark.sql(f"DESCRIBE FUNCTION {name}").collect()]
        assert f"Usage: {signature} - {meaning}" in described


@pytest.mark.since("4.1", "GEOMETRY")
def test_every_function_of_the_session_is_listed(spark: SparkSession, page: str) -> None:
    scalar, tables = registered(spark, "functionRegistry"), registered(spark, "tableFunctionRegistry")
    listed = {text.partition("(")[0] for text in signatures(page.partition(TRANSFORMS)[0])}
    assert len(scalar) > 25
    assert len(tables) > 5
    assert scalar | tables == listed | {"lance_search"}


@pytest.mark.since("4.1", "GEOMETRY")
def test_every_function_of_the_catalog_is_listed(spark: SparkSession, page: str) -> None:
    in_catalog = {row[0] for row in spark.sql("SHOW FUNCTIONS IN lance").collect()}
    shown = {name.removeprefix("lance.") for name in in_catalog if name.startswith("lance.")}
    scalar = signatures(page.partition(TABLE_FUNCTIONS)[2].partition("\n## ")[2])
    listed = {text.partition("(")[0] for text in scalar} - {"lance_read_blob", "lance_json_array_length"}
    assert shown == listed | {"json_array_length"}


@pytest.mark.since("4.1", "GEOMETRY")
def test_functions_of_the_catalog_are_described_there(spark: SparkSession, page: str) -> None:
    scalar = page.partition("## Words\n")[2].partition(TRANSFORMS)[0]
    listed = {text.partition("(")[0]: (text, meaning) for text, meaning in signatures(scalar).items()}
    del listed["lance_read_blob"]
    listed["json_array_length"] = listed.pop("lance_json_array_length")
    assert len(listed) > 25
    for name, (signature, meaning) in listed.items():
        described = [row.function_desc for row in spark.sql(f"DESCRIBE FUNCTION lance.{name}").collect()]
        assert described[0] == f"Function: lance.{name}"
        assert described[-1] == f"Usage: {signature.replace('lance_json_', 'json_')} - {meaning}"


def test_partition_transforms_are_described_in_the_catalog(spark: SparkSession, page: str) -> None:
    listed = signatures(page.partition(TRANSFORMS)[2])
    assert len(listed) > 10
    for signature, meaning in listed.items():
        name = signature.partition("(")[0]
        (usage,) = (row[0] for row in spark.sql(f"DESCRIBE FUNCTION EXTENDED lance.{name}").collect()[2:3])
        assert usage.startswith(f"Usage: {signature} - ")
        if name in ("bucket", "multi_bucket", "truncate"):
            assert usage.partition(" - ")[2] == meaning.partition("; `truncate_<width>")[0]


def test_names_of_functions_follow_the_current_catalog(spark: SparkSession) -> None:
    other = spark.newSession()
    other.sql("USE lance")
    assert other.sql("DESCRIBE FUNCTION multi_bucket").first()[0] == "Function: multi_bucket"
    assert other.sql("DESCRIBE FUNCTION abs").collect()[1][0].endswith(".Abs")
    for name in ("lance.nothing", "lance.db.bucket", "nothing"):
        with pytest.raises(AnalysisException, match="UNRESOLVED_ROUTINE"):
            other.sql(f"DESCRIBE FUNCTION {name}")
