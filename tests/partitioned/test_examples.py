"""The examples in docstrings are right."""

from __future__ import annotations

import doctest
from types import ModuleType

import pytest

from lance_spark.namespace import json_arrow_schema
from lance_spark.partitioned.transforms import calendar, hierarchy, truncate
from lance_spark.partitioned.values import filter_values, hashing, key_space, value_set


@pytest.mark.parametrize(
    "module",
    [calendar, filter_values, hashing, hierarchy, json_arrow_schema, key_space, truncate, value_set],
    ids=lambda module: module.__name__,
)
def test_the_examples_in_the_docstrings_are_true(module: ModuleType) -> None:
    result = doctest.testmod(module)
    assert result.attempted
    assert not result.failed
