"""`docs/how-it-works/protocol.md` lists every request of the connector, as the sources have it."""

from __future__ import annotations

from types import ModuleType

import pytest

from tests.docs.generators import loaded, renewed


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    return loaded("generate_protocol")


def test_protocol_page_is_up_to_date(generator: ModuleType) -> None:
    text = generator.PAGE.read_text()

    assert renewed(text, "generate_protocol.py", generator.table()) == text


def test_every_request_has_a_java_caller(generator: ModuleType) -> None:
    known = generator.known_operations()

    assert len(known) > 40
    assert set(generator.callers()) == set(known)


def test_callers_are_methods_of_java_classes(generator: ModuleType) -> None:
    # The generator finds declarations by their indentation; these two are known from reading the sources.
    assert generator.callers()["row_level.commit"] == ["LanceDeltaWrite.commit"]
    assert "LanceScanBuilder.pushPredicates" in generator.callers()["scan.push"]
