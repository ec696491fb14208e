"""Every Python and SQL block of the README and of the documents is run, and prints what is shown below it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lance_spark.spark.options.catalog import CatalogOptions
from tests.docs.blocks import Block, blocks, run, statements

ROOT = Path(__file__).parents[2]
SETTINGS = ROOT / "docs" / "reference" / "plug-in-and-connector.md"
DESIGN = ROOT / "docs" / "design"
PAGES = [path for path in sorted((ROOT / "docs").rglob("*.md")) if path.parent != DESIGN]
DOCUMENTS = [ROOT / "README.md", *PAGES]
FOLLOWED = ROOT / "docs" / "get-started"
"""Pages that `integration/test_get_started.py` runs, in the environment that they make."""
EXECUTED = [path for path in DOCUMENTS if path.parent != FOLLOWED and blocks(path.read_text())]
LINKED = [*DOCUMENTS, *sorted(DESIGN.glob("*.md")), ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"]


def _name(document: Path) -> str:
    return document.relative_to(ROOT).as_posix()


@pytest.fixture
def empty_catalog(spark: SparkSession) -> Iterator[SparkSession]:
    """The session, its catalog without what the document before has made."""
    root = spark.conf.get("spark.sql.catalog.lance.root")
    for row in spark.sql("SHOW NAMESPACES IN lance").collect():
        spark.sql(f"DROP NAMESPACE lance.`{row.namespace}` CASCADE")
    spark.sql("USE spark_catalog.default")
    yield spark
    # A document that calls `configure` changes the setting of the live session. Its catalog keeps the root that it has,
    # but that of a streaming query, which runs in a copy of the session, would get the other one.
    spark.conf.set("spark.sql.catalog.lance.root", root)


@pytest.mark.parametrize("document", EXECUTED, ids=_name)
def test_blocks_run_and_print_what_is_shown(empty_catalog: SparkSession, tmp_path: Path, document: Path) -> None:
    run(document, document.read_text(), empty_catalog, tmp_path)


@pytest.mark.parametrize("document", LINKED, ids=_name)
def test_links_lead_somewhere(document: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", document.read_text())
    missing = [link for link in links if "://" not in link and not (document.parent / link).exists()]
    assert not missing


def test_settings_are_known() -> None:
    prefix = "spark.sql.catalog.lance."
    found = [
        line.split()
        for block in re.findall(r"```ini\n(.*?)```", SETTINGS.read_text(), re.DOTALL)
        for line in block.splitlines()
        if line.startswith(prefix)
    ]
    assert found
    for name, value in found:
        CatalogOptions.parse({name.removeprefix(prefix): value})


def test_a_block_and_the_output_below_it() -> None:
    code = "# x\n```python\nprint(1)\n```\n\n```text\n1\n```\nwords\n```sql\nSELECT 1\n```\n"
    document = f"{code}more\n```text\nno output\n```\n"
    assert blocks(document) == [Block(3, "python", "print(1)\n", "1\n"), Block(11, "sql", "SELECT 1\n", None)]


def test_statements_end_at_semicolons_outside_of_texts() -> None:
    script = "SELECT ';' AS a; -- one; comment\nSELECT `b;` /* ; */;\n-- the end\n"
    assert statements(script) == ["SELECT ';' AS a", "-- one; comment\nSELECT `b;` /* ; */"]
