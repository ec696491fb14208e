"""`docs/reference/types.md` says what the conversions do."""

from __future__ import annotations

from types import ModuleType

import pytest

from tests.docs.generators import loaded, renewed


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    return loaded("generate_types")


def test_types_page_is_up_to_date(generator: ModuleType) -> None:
    text = generator.PAGE.read_text()
    assert renewed(text, "generate_types.py", generator.generated()) == text


def test_tables_list_known_facts(generator: ModuleType) -> None:
    assert "| `uint64` | DECIMAL(20,0) |" in generator.read_types()
    assert "| `string`, `large_string` | STRING |" in generator.read_types()
    assert "| CHAR(5) | `string` | `lance-spark:char-varchar`: `char(5)` |" in generator.written_types()
    assert "| INTERVAL YEAR TO MONTH | `int32` |" in generator.written_types()
    assert generator.refused_types() == "Refused: INTERVAL."
