"""`docs/reference/format-support.md` says what the code says, and names tests that exist."""

from __future__ import annotations

import re
from types import ModuleType

import pytest

from tests.docs.generators import loaded, renewed


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    return loaded("generate_format_support")


def test_format_support_page_is_up_to_date(generator: ModuleType) -> None:
    text = generator.PAGE.read_text()
    assert renewed(text, "generate_format_support.py", generator.generated()) == text


def test_tables_list_known_facts(generator: ModuleType) -> None:
    assert "| 0.1 | yes | no |" in generator.versions()
    assert "| 2.0 | yes | yes |" in generator.versions()
    assert "| 2.3 | no | no |" in generator.versions()
    assert "| `fsst` | full-zip values | 2.1, 2.2 | yes | yes |" in generator.compressive_encodings()
    assert "| `bitpacked` | yes | no |" in generator.array_encodings()
    assert "| `mini_block_layout` | 2.1, 2.2 | yes | yes |" in generator.page_layouts()
    assert "| `blob_layout` | 2.1, 2.2 | yes | yes |" in generator.page_layouts()


def test_named_tests_exist(generator: ModuleType) -> None:
    named = set(re.findall(r"`(tests/[\w/.]+)`", generator.PAGE.read_text()))
    assert named
    assert [path for path in sorted(named) if not (generator.ROOT / path).exists()] == []
