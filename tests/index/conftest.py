"""Tables with scalar indexes that the reference library has written."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def warnings(caplog: pytest.LogCaptureFixture) -> Iterator[list[str]]:
    """The messages of `lance_spark.index` so far."""
    messages: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages.append(record.getMessage())

    handler = Handler()
    logger = logging.getLogger("lance_spark.index")
    logger.addHandler(handler)
    yield messages
    logger.removeHandler(handler)
