"""The page about catalogs says what each of them can do."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from lance_spark.namespace.opening import ADDRESSES, KINDS
from tests.docs.generators import loaded, renewed

PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "catalogs.md").read_text()


def class_of(kind: str) -> type:
    module, _, name = KINDS[kind].rpartition(".")
    found: type = getattr(import_module(f"lance_spark.namespace.{module}"), name)
    return found


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    return loaded("generate_catalogs")


@pytest.mark.slow
def test_tables_are_up_to_date(generator: ModuleType) -> None:
    assert renewed(PAGE, "generate_catalogs.py", generator.generated()) == PAGE


def test_the_table_says_what_is_refused() -> None:
    """Refusals written by hand: a trial may not take one for a success."""
    lines = PAGE[PAGE.index("generate_catalogs.py") :].split("\n\n")[1].splitlines()
    head, _, *body = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    said = {row[0]: dict(zip(head[1:], row[1:], strict=True)) for row in body}
    assert (
        said["`ALTER TABLE ... RENAME TO`"]["Unity"]
        == said["`ALTER TABLE ... RENAME TO`"]["Polaris"]
        == "no: RENAME TABLE"
    )
    assert said["`ALTER NAMESPACE`"]["Unity"] == "no: ALTER NAMESPACE"
    views = said["[views](../reference/sql.md#views)"]
    assert {column for column, cell in views.items() if cell != "yes"} == {"`rest`", "a class", "Unity"}
    assert {cell for column, cell in said["CASCADE deletes files of tables"].items() if column != "`dir`"} == {"no"}
    assert all(cell == "yes" for name in ("commits, time travel", "partitioned tables") for cell in said[name].values())


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
