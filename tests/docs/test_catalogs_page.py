"""The page about catalogs says what each of them can do."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from lance_spark.namespace.external.catalog import ExternalCatalog
from lance_spark.namespace.opening import ADDRESSES, KINDS

PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "catalogs.md").read_text()
COLUMNS = {"Glue": "glue", "Hive": "hive2", "Iceberg REST": "iceberg", "Polaris": "polaris", "Unity": "unity"}
VERBS = {"RENAME TABLE": "move_table", "ALTER NAMESPACE": "alter_namespace"}


def class_of(kind: str) -> type:
    module, _, name = KINDS[kind].rpartition(".")
    found: type = getattr(import_module(f"lance_spark.namespace.{module}"), name)
    return found


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def rows() -> dict[str, dict[str, str]]:
    """The table of statements, by statement and catalog."""
    lines = PAGE[PAGE.index("| | `dir` |") :].split("\n\n")[0].splitlines()
    head, _, *body = (cells(line) for line in lines)
    return {row[0]: dict(zip(head[1:], row[1:], strict=True)) for row in body}


@pytest.mark.parametrize("statement", VERBS)
def test_statements_are_refused_where_the_page_says_so(statement: str) -> None:
    said = rows()[statement]
    for column, kind in COLUMNS.items():
        is_refused = getattr(class_of(kind), VERBS[statement]) is getattr(ExternalCatalog, VERBS[statement])
        assert (said[column] == "no") == is_refused, column


def test_every_kind_has_its_row() -> None:
    listed = PAGE[PAGE.index("| `impl` |") :].split("\n\n")[0]
    for kind in ("dir", *KINDS):
        assert f"`{kind}`" in listed
    assert set(ADDRESSES) == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_every_setting_is_on_the_page(kind: str) -> None:
    modules = (import_module(base.__module__) for base in class_of(kind).__mro__)
    for name in next(module.SETTINGS for module in modules if hasattr(module, "SETTINGS")):
        plain = name.removeprefix(f"{kind}.")
        assert f"`{plain}`" in PAGE or f".{plain} " in PAGE, name
