"""`docs/protocol.md` lists every request of the connector, as the sources have it."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_protocol", DOCS / "generate_protocol.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_protocol_page_is_up_to_date(generator: ModuleType) -> None:
    text = generator.PAGE.read_text()

    assert generator.page(text) == text


def test_every_request_has_a_java_caller(generator: ModuleType) -> None:
    known = generator.known_operations()

    assert len(known) > 40
    assert set(generator.callers()) == set(known)


def test_callers_are_methods_of_java_classes(generator: ModuleType) -> None:
    # The generator finds declarations by their indentation; these two are known from reading the sources.
    assert generator.callers()["row_level.commit"] == ["LanceDeltaWrite.commit"]
    assert "LanceScanBuilder.pushPredicates" in generator.callers()["scan.push"]
