"""`docs/format-support.md` says what the code says, and names tests that exist."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_format_support", DOCS / "generate_format_support.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_format_support_page_is_up_to_date(generator: ModuleType) -> None:
    text = generator.PAGE.read_text()
    assert generator.page(text) == text


def test_tables_list_known_facts(generator: ModuleType) -> None:
    assert "| 0.1 | yes | no |" in generator.versions()
    assert "| 2.0 | yes | yes |" in generator.versions()
    assert "| 2.3 | no | no |" in generator.versions()
    assert "| `fsst` | full-zip values | 2.1, 2.2 | yes | yes |" in generator.compressive_encodings()
    assert "| `bitpacked` | yes | no |" in generator.array_encodings()
    assert "| `mini_block_layout` | 2.1, 2.2 | yes | yes |" in generator.page_layouts()
    assert "| `blob_layout` | 2.1, 2.2 | yes | no |" in generator.page_layouts()


def test_named_tests_exist(generator: ModuleType) -> None:
    named = set(re.findall(r"`(tests/[\w/.]+)`", generator.PAGE.read_text()))
    assert named
    assert [path for path in sorted(named) if not (generator.ROOT / path).exists()] == []
