"""Fixtures of tests that count what is kept between searches."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lance_spark.storage.cache import shared


@pytest.fixture
def empty_cache() -> Iterator[None]:
    """Nothing of other tests is in the cache, nor of this one afterwards."""
    shared.clear()
    yield
    shared.clear()
