"""Tables with scalar indexes that the reference library has written."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.index_warnings import index_warnings


@pytest.fixture(autouse=True)
def warnings(caplog: pytest.LogCaptureFixture) -> Iterator[list[str]]:
    """The messages of `lance_spark.index` so far."""
    with index_warnings() as messages:
        yield messages
