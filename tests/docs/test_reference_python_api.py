"""The pages of `docs/reference/python` describe every public name once, and list all verbs."""

from __future__ import annotations

from types import ModuleType

import pytest

import lance_spark
from lance_spark import blobs
from tests.docs.generators import loaded, renewed


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    return loaded("generate_python_api")


def test_table_of_verbs_is_up_to_date(generator: ModuleType) -> None:
    text = generator.PAGE.read_text()
    assert renewed(text, "generate_python_api.py", generator.table()) == text


def test_every_name_of_the_package_is_on_one_page(generator: ModuleType) -> None:
    pages = generator.described()
    classes = {"Dataset", "PartitionedDataset", "__version__"}
    for name in lance_spark.__all__:
        if name not in classes:
            assert len(pages.get(f"lance_spark.{name}", [])) == 1, name
    assert "lance_spark.__version__" in generator.PAGE.read_text()
    for name in blobs.__all__:
        assert pages[f"lance_spark.blobs.{name}"] == ["blobs.md"]
    assert pages["lance_spark.torch.dataset"] == ["torch.md"]


def test_every_verb_of_a_dataset_is_on_one_page(generator: ModuleType) -> None:
    pages = generator.described()
    names = generator.public(lance_spark.Dataset)
    assert len(names) > 100
    for name in names:
        assert len(pages.get(f"lance_spark.Dataset.{name}", [])) == 1, name


def test_every_verb_of_a_partitioned_dataset_is_on_one_page(generator: ModuleType) -> None:
    pages = generator.described()
    for name in generator.public(lance_spark.PartitionedDataset):
        own = pages.get(f"lance_spark.PartitionedDataset.{name}", [])
        assert len(own) == (0 if generator.is_shared(name) else 1), name


def test_pages_describe_only_what_there_is(generator: ModuleType) -> None:
    pages = generator.described()
    for kind in ("Dataset", "PartitionedDataset"):
        named = {path.rpartition(".")[2] for path in pages if path.startswith(f"lance_spark.{kind}.")}
        assert named <= set(generator.public(getattr(lance_spark, kind)))


@pytest.mark.parametrize("name", ["index_statistics", "update_field_metadata", "cleanup_old_versions"])
def test_verbs_that_take_other_arguments_too_have_their_docstring(name: str) -> None:
    assert len(getattr(lance_spark.Dataset, name).__doc__) > 20


def test_known_rows(generator: ModuleType) -> None:
    table = generator.table()
    assert "| [`merge`][lance_spark.Dataset.merge] | The table with `source` merged into the rows" in table
    assert "| [`get_fragment`][lance_spark.Dataset.get_fragment] | The fragment with this id" in table
    assert "| [`compact`][lance_spark.PartitionedDataset.compact] |" in table
    assert "Dataset.write_target" not in table
