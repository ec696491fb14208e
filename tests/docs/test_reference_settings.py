"""`docs/reference/settings.md` lists every setting with its default, and every environment variable of the package."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import lance_spark
from lance_spark.errors import InvalidInputError
from lance_spark.spark.connector.channel.registry import Session
from lance_spark.spark.connector.scan import settings
from lance_spark.spark.connector.scan.settings import SETTINGS
from lance_spark.spark.session import JOIN_SETTINGS

PACKAGE = Path(lance_spark.__file__).parent
PAGE = PACKAGE.parent / "docs" / "reference" / "settings.md"
PREFIX = "spark.sql.lance."


@pytest.fixture(scope="module")
def rows() -> dict[str, list[str]]:
    """The cells of the tables by the names in their first one."""
    lines = [line.strip("|").split("|") for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    return {name: cells for cells in lines for name in re.findall(r"`([\w.]+)`", cells[0])}


def test_every_setting_has_a_row(rows: dict[str, list[str]]) -> None:
    assert {name.removeprefix(PREFIX) for name in rows if name.startswith(PREFIX)} == SETTINGS


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("inlineBytes", settings.inline_bytes(Session())),
        ("vectorSearch.inlineBytes", settings.compared_inline_bytes(Session())),
        ("textSearch.inlineBytes", settings.analyzed_inline_bytes(Session())),
    ],
)
def test_defaults_are_those_of_the_code(rows: dict[str, list[str]], name: str, default: int) -> None:
    assert rows[PREFIX + name][1].strip() == str(default)


def test_every_environment_variable_has_a_row(rows: dict[str, list[str]]) -> None:
    sources = [path.read_text() for path in PACKAGE.rglob("*.py") if "environ" in path.read_text()]
    named = {name for text in sources for name in re.findall(r'= "(LANCE_[A-Z_]+)"', text)}
    assert named >= {"LANCE_SPARK_CACHE_BYTES", "LANCE_SPARK_JAR_DIR"}
    assert named == {name for name in rows if name.startswith("LANCE_")}


def test_settings_of_spark_that_configure_makes_have_a_row(rows: dict[str, list[str]]) -> None:
    listed = {name: cells[1].strip(" `") for name, cells in rows.items() if name in JOIN_SETTINGS}
    assert listed == JOIN_SETTINGS


def test_a_setting_without_a_row_is_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"unknown setting spark\.sql\.lance\.zoneMaps"):
        settings.check_settings(Session(setting_names=("zoneMaps",)))
