"""What is logged about indexes that are not used."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def index_warnings() -> Iterator[list[str]]:
    """The messages of `lance_spark.index` from now on."""
    messages: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages.append(record.getMessage())

    handler = Handler()
    logger = logging.getLogger("lance_spark.index")
    logger.addHandler(handler)
    yield messages
    logger.removeHandler(handler)
