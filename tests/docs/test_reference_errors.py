"""`docs/reference/errors.md` lists every error condition, says what it means and what to do."""

from __future__ import annotations

import re
from types import ModuleType

import pytest

from lance_spark import errors
from tests.docs.generators import loaded, renewed


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    return loaded("generate_errors")


def test_page_is_up_to_date(generator: ModuleType) -> None:
    text = generator.PAGE.read_text()
    assert renewed(text, "generate_errors.py", generator.table()) == text


def test_every_condition_that_the_java_sources_name_is_in_the_table(generator: ModuleType) -> None:
    named = {
        name for path in generator.JAVA.rglob("*.java") for name in re.findall(r'"(LANCE_[A-Z_]+)"', path.read_text())
    }
    assert named >= {"LANCE_UNUSABLE_PYTHON", "LANCE_OUT_OF_MEMORY"}
    assert named <= set(generator.states())


def test_every_condition_has_a_section_with_what_to_do(generator: ModuleType) -> None:
    sections = generator.sections()
    assert list(sections) == sorted(generator.states())
    for condition, text in sections.items():
        assert "**What to do:**" in text, condition


def test_every_error_of_the_package_has_a_condition(generator: ModuleType) -> None:
    kinds = {name for name, kind in vars(errors).items() if isinstance(kind, type) and name.endswith("Error")}
    assert {name for names in generator.classes().values() for name in names} == kinds | {"MemoryError"}


def test_known_rows(generator: ModuleType) -> None:
    table = generator.table()
    assert "| [`LANCE_NOT_FOUND`](#lance_not_found) | 42704 | `NotFoundError` |" in table
    assert "| [`LANCE_OUT_OF_MEMORY`](#lance_out_of_memory) | 53200 | `MemoryError` |" in table
    assert "| [`LANCE_UNUSABLE_PYTHON`](#lance_unusable_python) | 58000 |  |" in table
