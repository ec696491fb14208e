"""`docs/operate/support.md` and `SECURITY.md` say what the project's metadata and each other say."""

from __future__ import annotations

import re
from pathlib import Path

import tomllib

from lance_spark.spark.jvm.build import MINORS

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SUPPORT = (ROOT / "docs" / "operate" / "support.md").read_text()
FIXES = re.compile(r"The latest release and the main branch get fixes[^.]*; older releases get none\.")


def row(title: str) -> str:
    """The second cell of a row of the table of versions."""
    return next(line.split("|")[2] for line in SUPPORT.splitlines() if line.startswith(f"| {title} |"))


def test_versions_of_spark_and_python_are_those_of_the_package() -> None:
    assert re.findall(r"\b4\.\d+", row("Apache Spark")) == list(MINORS)
    assert row("Python").split()[0] == PROJECT["requires-python"].removeprefix(">=")


def test_reference_library_is_that_of_the_tests() -> None:
    pinned = next(line for line in PROJECT["optional-dependencies"]["dev"] if line.startswith("pylance"))
    assert row("reference library").strip().replace(" ", "==") == pinned


def test_dependencies_have_no_upper_bounds_but_one() -> None:
    assert [line.split(">")[0] for line in PROJECT["dependencies"] if "<" in line.partition(";")[0]] == ["protobuf"]
    assert "no upper ones but for `protobuf` below 8" in " ".join(SUPPORT.split())


def test_both_pages_name_the_same_versions_that_get_fixes() -> None:
    for text in (SUPPORT, (ROOT / "SECURITY.md").read_text()):
        assert len(FIXES.findall(text)) == 1
