"""`docs/reference/spark-versions.md` lists the features that have a test, and says which Spark has them."""

from __future__ import annotations

from types import ModuleType

import pytest

from tests.docs.generators import loaded, renewed


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    return loaded("generate_spark_versions")


def test_page_is_up_to_date(generator: ModuleType) -> None:
    text = generator.PAGE.read_text()
    assert renewed(text, "generate_spark_versions.py", generator.generated()) == text


def test_all_tests_of_features_have_a_row(generator: ModuleType) -> None:
    tests = [name for name in vars(generator.test_features) if name.startswith("test_")]
    titles = [feature.title for feature in generator.features()]
    assert len(set(titles)) == len(titles) == len(tests)


def test_known_rows(generator: ModuleType) -> None:
    table = generator.generated()
    assert "| VARIANT columns | yes | yes | yes | yes |  |" in table
    assert "| MERGE WITH SCHEMA EVOLUTION | - | yes | yes | yes | refused;" in table
