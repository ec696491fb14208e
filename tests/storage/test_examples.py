from __future__ import annotations

import doctest
from types import ModuleType

import pytest

from lance_spark.storage import coalesce, faults, paths


@pytest.mark.parametrize("module", [coalesce, faults, paths], ids=lambda module: module.__name__)
def test_the_examples_in_the_docstrings_are_true(module: ModuleType) -> None:
    result = doctest.testmod(module)
    assert result.attempted
    assert not result.failed
